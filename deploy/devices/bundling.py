"""Bundles for all devices of an inventory: wheels are gathered once per platform, each device gets its own keys."""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentd import __version__
from agentd.errors import ConfigurationError, SettingsError
from agentd.files import make_directory, replacing
from agentd.keys import accepted
from agentd.keys.key_files import Keys, read_keys, secret_text
from agentd.keys.roster import LONGEST_FILE, Roster
from agentd.keys.signing import fingerprint
from agentd.untrusted import read_named
from deploy.containers import installed_wheel, wheelhouse
from deploy.containers.wheelhouse import Target
from deploy.devices import archive
from deploy.devices.contents import files_of
from deploy.devices.install import CONFIG, KEYS, ROSTER, TERMS, WHEELS
from deploy.devices.inventory import Device, Inventory

PLATFORMS = ("x86_64", "aarch64")
"""What there are wheels for; there are none for 32 bits (armv7l, armv6l)."""
EXTRAS = "keys"
_GLIBC_MINOR = 28
"""Of the devices: 2.28 is that of Debian 10."""
_LONGEST_TERMS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What bundles are made with."""

    inventory: Inventory
    place: Path
    """Where the inventory lies: its files are named from there."""
    operator: Keys
    roster_file: str
    roster: Roster
    platform: str | None
    python: tuple[int, int]
    wheels: Path | None
    """The only directory that wheels are taken from; None: a cache, then the package index."""
    source: Path | None


def means(
    *,
    inventory: Inventory,
    place: Path,
    operator: str,
    roster_file: str,
    platform_: str | None,
    python: tuple[int, int],
    wheels: Path | None,
    source: Path | None,
) -> Means:
    """Read and check the operator's key and the roster that it signed."""
    keys = read_keys(operator)
    if keys.kind != "operator":
        raise ConfigurationError(f"{operator} holds the keys of {keys.name}; name the operator's own")
    roster = accepted.verified(roster_file, fingerprint(keys.sign_public), time.time())
    return Means(
        inventory=inventory,
        place=place,
        operator=keys,
        roster_file=roster_file,
        roster=roster,
        platform=platform_,
        python=python,
        wheels=wheels,
        source=source,
    )


def this_python() -> tuple[int, int]:
    """Of this process."""
    return sys.version_info[0], sys.version_info[1]


def make_bundles(by: Means, out: Path, check: Callable[[Device, str], None]) -> Iterator[tuple[Device, Path | None]]:
    """Write NAME.bundle for each device; None for one that the roster does not name: it would be let in by nobody.

    `check` is shown the settings of each device before anything of it is written.
    """
    make_directory(out)
    gathered: dict[str, dict[str, bytes]] = {}
    for device in by.inventory.devices:
        entry = by.roster.environment if device.id is None else by.roster.agents.get(device.id)
        if entry is None:
            yield device, None
            continue
        own = read_keys(by.place / device.keys)
        if own.id != device.id or (own.curve_public, own.sign_public) != (entry.curve, entry.sign):
            raise ConfigurationError(
                f"{device.keys} holds other keys than the roster has for {device.name}; name its own"
            )
        machine = require_platform(device.platform or by.platform or platform.machine())
        if machine not in gathered:
            gathered[machine] = _wheels(by, machine)
        files = _files(by, device, own, machine, check)
        path = out / f"{device.name}.bundle"
        with replacing(path) as file:
            file.write(archive.packed({**files, **gathered[machine]}, by.operator))
        yield device, path


def require_platform(name: str) -> str:
    """Refuse what there are no wheels for."""
    if name not in PLATFORMS:
        raise SettingsError(
            f"--platform must be one of {', '.join(PLATFORMS)}: there are no wheels of pyzmq, numpy and PyNaCl for "
            f"{name!r} (none for 32-bit ARM)"
        )
    return name


def _files(
    by: Means, device: Device, own: Keys, machine: str, check: Callable[[Device, str], None]
) -> dict[str, bytes]:
    """All but the wheels."""
    about = {
        "platform": machine,
        "python": f"{by.python[0]}.{by.python[1]}",
        "version": __version__,
        "roster": by.roster.version,
    }
    files = files_of(device, by.inventory, fingerprint(by.operator.sign_public), about)
    check(device, files[CONFIG].decode())
    files |= {KEYS: secret_text(own).encode(), ROSTER: read_named(by.roster_file, LONGEST_FILE)}
    if by.inventory.terms is not None:
        files[TERMS] = _read_terms(by.place / by.inventory.terms)
    return files


def _read_terms(path: Path) -> bytes:
    try:
        return read_named(path, _LONGEST_TERMS)
    except (OSError, ValueError) as fault:
        raise ConfigurationError(f"cannot read the terms {path}: {fault}; make them with agentd terms make") from None


def _wheels(by: Means, machine: str) -> dict[str, bytes]:
    target = Target(by.python, machine, _GLIBC_MINOR)
    with tempfile.TemporaryDirectory(prefix="agentd-bundle-") as scratch:
        own, house = Path(scratch) / "own", Path(scratch) / "house"
        own.mkdir()
        house.mkdir()
        wheel = wheelhouse.build_wheel(by.source, own, Path(scratch)) if by.source else installed_wheel.pack(own)
        cache = wheelhouse.default_cache(target)
        wheelhouse.fill(house, wheel, target, extras=EXTRAS, cache=cache, only=by.wheels, fresh=False)
        return {f"{WHEELS}/{file.name}": file.read_bytes() for file in sorted(house.glob("*.whl"))}
