"""An agent on arm64, installed from its bundle, beside one on this machine: both pull what the simulation pulls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from arm64_root import entering, fresh_root
from device_world import AGENTD
from loopback import free_address

RUN = ("--arms", "0.9,0.5,0.2", "--rounds", "60", "--seed", "11")
PATIENCE_S = 600


def agentd(place: Path, *words: str) -> str:
    done = subprocess.run([*AGENTD, *words], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def inventory(places: list[str]) -> str:
    gates = "".join(
        f'[devices.gate-{own}]\nid = {own}\naddress = "{places[own]}"\nkeys = "keys/agent-{own}.key"\n'
        for own in (0, 1)
    )
    hub = f'[devices.hub]\nenvironment = true\naddress = "{places[2]}"\nkeys = "keys/environment.key"\n'
    told = (
        'settings = { arms = "0.9,0.5,0.2", rounds = 60, seed = 11, agents = 2, together = true, until-done = true }\n'
    )
    patient = 'seed = 11\ngamma = 1\nready-timeout = "300s"\nround-timeout = "120s"\n'
    return f'[run]\n{patient}{gates}platform = "aarch64"\n{hub}{told}'


def pulls(run_dir: Path) -> np.ndarray:  # type: ignore[type-arg]
    with np.load(run_dir / "pulls.npz") as file:
        arms: np.ndarray = file["arm"]  # type: ignore[type-arg]
        return arms


@pytest.mark.long
@pytest.mark.system
@pytest.mark.timeout(1800)
def test_an_arm64_agent_from_its_bundle_pulls_what_the_simulation_pulls(tmp_path: Path) -> None:
    arm64 = fresh_root(tmp_path / "arm64")
    fingerprint = agentd(tmp_path, "keygen", "--operator", "--out", "operator").split()[-1]
    agentd(tmp_path, "keygen", "--ids", "0-1", "--environment", "--out", "keys")
    public = [f"keys/{name}.pub" for name in ("agent-0", "agent-1", "environment")]
    operator = ("--operator", "operator/operator.key")
    agentd(tmp_path, "roster", "make", *public, *operator, "--out", "roster.json")
    (tmp_path / "hosts.toml").write_text(inventory([free_address() for _ in range(3)]), encoding="utf-8")
    made = ("--inventory", "hosts.toml", "--roster", "roster.json", "--python", "3.11", "--out", "out")
    agentd(tmp_path, "bundle", *made, *operator)
    for name in ("gate-0", "gate-1", "hub"):
        agentd(tmp_path, "bundle", "open", f"out/{name}.bundle", "--operator-fingerprint", fingerprint, "--into", name)
    for name in ("gate-0", "hub"):
        here = [sys.executable, f"{name}/install.py", "--root", str(tmp_path / "root")]
        subprocess.run(here, cwd=tmp_path, check=True, capture_output=True)
    shutil.copytree(tmp_path / "gate-1", arm64 / "root/bundle")
    installed = subprocess.run(
        entering(arm64, "python3", "/root/bundle/install.py", "--user", "0:0", "--no-compile"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    root = tmp_path / "root"
    commands = {
        name: [str(root / "opt/agentd/bin/agentd"), verb, "--config", str(root / f"etc/agentd/{name}.toml")]
        for name, verb in (("hub", "env"), ("gate-0", "agent"))
    }
    commands["gate-1"] = entering(arm64, "/opt/agentd/bin/agentd", "agent", "--config", "/etc/agentd/gate-1.toml")
    running = []
    try:
        for name, words in commands.items():
            with (tmp_path / f"{name}.out").open("wb") as output:
                running.append(subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL))
        for name, process in zip(commands, running, strict=True):
            assert process.wait(PATIENCE_S) == 0, (tmp_path / f"{name}.out").read_text()
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    agentd(
        tmp_path, "simulate", "--agents", "2", "--edge-probability", "1", "--gamma", "1", *RUN, "--run-dir", "simulated"
    )
    np.testing.assert_array_equal(pulls(root / "var/lib/agentd/hub/run"), pulls(tmp_path / "simulated"))
