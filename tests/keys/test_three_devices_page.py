"""docs/three-devices.md: its commands make bundles for its inventory; wheels are gathered elsewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentd.cli import cli
from deploy.devices import bundling
from deploy.devices.archive import verified

PAGE = (Path(__file__).parents[2] / "docs/three-devices.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_make_a_bundle_for_each_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machines: list[str] = []
    monkeypatch.setattr(bundling, "_wheels", lambda _by, machine: machines.append(machine) or {})
    (inventory,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    Path("hosts.toml").write_text(inventory, encoding="utf-8")
    commands = re.findall(r"^\$ agentd (.*)$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 8
    told = ""
    for command in commands:
        done = CliRunner().invoke(cli, shlex.split(command))
        assert done.exit_code == 0, (command, done.output, done.exception)
        told += done.output
    assert "aarch64" in machines
    fingerprint = re.findall(r"fingerprint ([0-9a-f]{64})", told)[0]
    for name in ("gate-0", "gate-1", "gate-2", "hub"):
        assert "own.key" in verified(f"bundles/{name}.bundle", fingerprint)
    assert not Path("bundles/gate-3.bundle").exists()
    assert "own.key" in verified("bundles-2/gate-3.bundle", fingerprint)
    assert not Path("bundles-2/gate-2.bundle").exists()
