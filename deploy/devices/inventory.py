"""hosts.toml: which devices there are, where each is found, and with which keys and settings it runs. Pure.

terms = "terms.json"                     # optional

[run]                                    # settings of every agent, one key per flag
epsilon = 1.0

[devices.gate-0]
id = 0
address = "tcp://10.0.0.10:7000"
keys = "keys/agent-0.key"
peers = [1, 2]                           # everybody, unless it says so
platform = "aarch64"                     # as --platform, unless it says so

[devices.hub]
environment = true
address = "tcp://10.0.0.1:7000"
keys = "keys/environment.key"
settings = { arms = "0.9,0.5" }          # for this device only
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentd.addresses import address_fault
from agentd.core.message import MAX_AGENT_ID

LONGEST_FILE = 1 << 20
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_DEVICE = {"id", "environment", "address", "listen", "keys", "peers", "platform", "settings"}
_OURS = {"id", "listen", "peers", "environment", "keys", "roster", "operator-fingerprint", "state", "run-dir", "terms"}
"""Settings that follow from the inventory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One machine with one agent, or with the environment."""

    name: str
    id: int | None
    """None: it has the environment."""
    address: str
    listen: str
    keys: str
    peers: tuple[int, ...] | None
    """None: everybody."""
    platform: str | None
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices of a run."""

    devices: tuple[Device, ...]
    run: Mapping[str, Any]
    terms: str | None

    @property
    def environment(self) -> Device | None:
        """The one with the environment, if there is one."""
        return next((each for each in self.devices if each.id is None), None)

    def peers_of(self, device: Device) -> dict[int, str]:
        """Where an agent finds its neighbours."""
        known = {each.id: each.address for each in self.devices if each.id is not None and each.id != device.id}
        return {peer: known[peer] for peer in (sorted(known) if device.peers is None else device.peers)}


def read_inventory(text: str) -> Inventory:
    """What a hosts.toml says; ValueError, in few words, where it says nothing that can be."""
    data = tomllib.loads(text)
    _require_known(data, {"terms", "run", "devices"}, "the inventory")
    devices = _table(data.get("devices"), "devices")
    made = tuple(_device(name, _table(about, name)) for name, about in devices.items())
    inventory = Inventory(made, _settings(data.get("run", {}), "run"), _text_or_none(data.get("terms"), "terms"))
    for fault in _faults(inventory):
        raise ValueError(fault)
    return inventory


def _device(name: str, about: Mapping[str, Any]) -> Device:
    if not _NAME.fullmatch(name):
        raise ValueError(f"a device is named by 1…40 small letters, digits and dashes, not {name!r}")
    _require_known(about, _DEVICE, name)
    has_environment = about.get("environment", False)
    number = about.get("id")
    if type(has_environment) is not bool or (number is None) != has_environment:
        raise ValueError(f"{name} must have an id, or environment = true")
    if number is not None and (type(number) is not int or not 0 <= number <= MAX_AGENT_ID):
        raise ValueError(f"the id of {name} must be in 0…{MAX_AGENT_ID}")
    address = _text(about.get("address"), f"the address of {name}")
    listen = _text(about.get("listen", address), f"listen of {name}")
    for fault in (address_fault(address), address_fault(listen, listening=True)):
        if fault:
            raise ValueError(f"{name}: {fault}")
    return Device(
        name=name,
        id=number,
        address=address,
        listen=listen,
        keys=_text(about.get("keys"), f"keys of {name}"),
        peers=None if about.get("peers") is None else _ids(about["peers"], name),
        platform=_text_or_none(about.get("platform"), f"platform of {name}"),
        settings=_settings(about.get("settings", {}), name),
    )


def _faults(inventory: Inventory) -> list[str]:
    ids = [each.id for each in inventory.devices]
    faults = [] if ids else ["it has no devices"]
    if len(set(ids)) < len(ids):
        faults.append("two devices have the same id, or both have the environment")
    for each in inventory.devices:
        if unknown := set(each.peers or ()) - (set(ids) - {None, each.id}):
            faults.append(f"{each.name} has the neighbours {sorted(unknown)}, who are no other devices")
    return faults


def _require_known(data: Mapping[str, Any], known: set[str], what: str) -> None:
    if unknown := sorted(set(data) - known):
        raise ValueError(f"{what} has {unknown[0]!r}, which is none of {', '.join(sorted(known))}")


def _settings(data: Any, what: str) -> Mapping[str, Any]:
    table = _table(data, f"the settings of {what}")
    if ours := sorted(set(table) & _OURS):
        raise ValueError(f"{ours[0]} of {what} follows from the inventory; leave it out of the settings")
    return table


def _table(data: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{what} must be a table")
    return data


def _ids(data: Any, name: str) -> tuple[int, ...]:
    if not isinstance(data, list) or not all(type(each) is int for each in data) or len(set(data)) < len(data):
        raise ValueError(f"peers of {name} must be a list of ids, each once")
    return tuple(sorted(data))


def _text_or_none(data: Any, what: str) -> str | None:
    return None if data is None else _text(data, what)


def _text(data: Any, what: str) -> str:
    if type(data) is not str or not data:
        raise ValueError(f"{what} must be a text")
    return data
