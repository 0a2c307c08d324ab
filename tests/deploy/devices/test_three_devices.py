"""Three devices with keys, each installed from its bundle: they find each other, come back, let in by roster only."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from device_world import HUB, PORT, DeviceWorld, address
from evidence import until
from skips import no_namespaces

from agentd.keys.key_files import read_keys

GATES = [f"gate-{number}" for number in range(4)]
PEERS = {0: [1, 2], 1: [0, 2, 3], 2: [0, 1], 3: [1]}
"""Agent 1 knows where a fourth would be, should a roster ever name it."""


def inventory() -> str:
    run = '[run]\nready-timeout = "15s"\nround-timeout = "8s"\n'
    gates = "".join(
        f'[devices.{name}]\nid = {own}\naddress = "tcp://{address(name)}:{PORT}"\nkeys = "keys/agent-{own}.key"\n'
        f"peers = {PEERS[own]}\n"
        for own, name in enumerate(GATES)
    )
    hub = (
        f'[devices.{HUB}]\nenvironment = true\naddress = "tcp://{address(HUB)}:{PORT}"\nkeys = "keys/environment.key"\n'
    )
    return f'terms = "terms.json"\n{run}{gates}{hub}settings = {{ arms = "0.9,0.5" }}\n'


def prepare(world: DeviceWorld) -> str:
    """Keys, terms, two rosters and the bundles of all; the operator's fingerprint."""
    fingerprint = world.agentd("keygen", "--operator", "--out", "operator").split()[-1]
    world.agentd("keygen", "--ids", "0-3", "--environment", "--out", "keys")
    world.agentd(
        "terms", "make", "--agents", "4", "--arms", "2", "--gamma", "2", "--epsilon", "1", "--out", "terms.json"
    )
    (world.place / "hosts.toml").write_text(inventory(), encoding="utf-8")
    operator = ("--operator", "operator/operator.key")
    for version, ids in ((1, (0, 1, 2)), (2, (0, 1, 3))):
        public = [f"keys/{name}.pub" for name in ("environment", *(f"agent-{own}" for own in ids))]
        world.agentd("roster", "make", *public, *operator, "--version", str(version), "--out", f"r{version}.json")
        made = ("--inventory", "hosts.toml", "--roster", f"r{version}.json", "--out", f"out{version}")
        world.agentd("bundle", *made, *operator)
    for device in (*GATES[:3], HUB):
        world.install(device, world.place / f"out1/{device}.bundle", fingerprint)
    world.install(GATES[3], world.place / f"out2/{GATES[3]}.bundle", fingerprint)
    return fingerprint


def all_go_on(world: DeviceWorld, devices: list[str]) -> None:
    """Every one of them pulls more than it had when we began to look."""
    before = {device: world.trials(device) for device in devices}
    until(lambda: all(world.trials(device) > before[device] + 5 for device in devices), within_s=180.0)


@pytest.mark.long
@pytest.mark.system
@pytest.mark.timeout(1200)
def test_three_devices_with_keys_find_each_other_come_back_and_let_a_fourth_in_by_roster_only(tmp_path: Path) -> None:
    if no_namespaces():
        pytest.skip("making network namespaces needs root")
    three = GATES[:3]
    with DeviceWorld(tmp_path, [*GATES, HUB]) as world:
        prepare(world)
        for order in ((GATES[2], GATES[0], HUB, GATES[1]), (HUB, GATES[1], GATES[2], GATES[0])):
            for device in order:
                world.start(device)
            all_go_on(world, three)
            if order[0] != HUB:
                world.ask_to_end(*three)  # all at once, so that nobody goes on alone
                for device in (*three, HUB):
                    assert world.end(device) == 0, (tmp_path / f"{device}.out").read_text()
        for device, how in zip(three, (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), strict=True):
            world.end(device, how)
            world.start(device)
            all_go_on(world, three)

        world.start(GATES[3])  # with a key that no roster in force names
        until(lambda: [line for line in world.log(HUB, "connection refused") if line.get("whose") is not None])
        all_go_on(world, three)
        assert world.trials(GATES[3]) == 0

        rounds = {device: len(world.log(device, "neighbour down")) for device in three[:2]}
        for device in (*three, HUB):
            world.renew(device, tmp_path / "r2.json")
        assert world.running[GATES[2]].wait(60) == 0
        all_go_on(world, [*three[:2], GATES[3]])
        for device in three[:2]:
            lost = {line["neighbour"] for line in world.log(device, "neighbour down")[rounds[device] :]}
            assert lost <= {2}, "the others have lost no round"
        for device in (*three[:2], GATES[3], HUB):
            assert world.end(device) == 0
    said = b"".join(path.read_bytes() for path in tmp_path.glob("*.out")) + b"".join(
        path.read_bytes()
        for path in [*tmp_path.glob("*.jsonl"), *tmp_path.glob("roots/*/var/lib/agentd/**/*")]
        if path.is_file()
    )
    for path in (tmp_path / "keys").glob("*.key"):
        keys = read_keys(path)
        for secret in (keys.curve_secret, keys.sign_secret):
            assert secret not in said
            assert secret.hex().encode() not in said
    assert json.loads((tmp_path / "roots/hub/var/lib/agentd/hub/run/status.json").read_text())
