"""What lies in the bundle of one device: settings, its own keys, roster, terms, and how it is installed.

Paths in the settings begin with ROOT, which the installer replaces by where it installs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentd.settings import as_typed
from deploy.devices.install import CONFIG, ENVIRONMENT_FILE, INSTALLER, KEYS, MANIFEST, ROOT, ROSTER, TERMS, UNIT, USERS
from deploy.devices.inventory import Device, Inventory
from deploy.plan.toml_values import to_toml

RECIPE = Path(__file__).parent / "recipe"


def settings_of(device: Device, inventory: Inventory, operator_fingerprint: str) -> dict[str, Any]:
    """One key per flag."""
    own = f"{ROOT}/etc/agentd/{device.name}"
    kept = f"{ROOT}/var/lib/agentd/{device.name}"
    common = {
        "listen": device.listen,
        "keys": f"{own}/{KEYS}",
        "roster": f"{own}/{ROSTER}",
        "operator-fingerprint": operator_fingerprint,
        "roster-note": f"{kept}/roster.taken-up",
        "terms": f"{own}/{TERMS}" if inventory.terms is not None else None,
    }
    if device.id is None:
        return {**common, "run-dir": f"{kept}/run", **device.settings}
    hub = inventory.environment
    return {
        "id": device.id,
        **common,
        "peers": as_typed(inventory.peers_of(device)),
        "environment": None if hub is None else hub.address,
        "state": f"{kept}/state",
        **inventory.run,
        **device.settings,
    }


def files_of(
    device: Device, inventory: Inventory, operator_fingerprint: str, about: dict[str, Any]
) -> dict[str, bytes]:
    """All but keys, roster, terms and wheels, which are bytes of somebody else's."""
    manifest = {"format": 1, "name": device.name, "id": device.id, **about}
    files = {
        MANIFEST: json.dumps(manifest, indent=1).encode(),
        CONFIG: to_toml(settings_of(device, inventory, operator_fingerprint)).encode(),
        UNIT: (RECIPE / UNIT).read_bytes(),
        USERS: (RECIPE / USERS).read_bytes(),
        INSTALLER: (Path(__file__).parent / INSTALLER).read_bytes(),
    }
    return files if device.id is not None else {**files, ENVIRONMENT_FILE: b"VERB=env\n"}
