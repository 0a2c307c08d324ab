"""What a process of many agents is told comes back as it was, and whatever else is in its place is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentd.cli import cli
from agentd.errors import ConfigurationError
from agentd.runs.scenario import make_scenario
from agentd.settings import Pace, TestbedSettings
from deploy.plan.host_file import HostFile, host_files, read_host_file
from deploy.plan.plan import Plan, make_plan


def plan() -> Plan:
    scenario = make_scenario(TestbedSettings(agents=5, edge_probability=0.6, rounds=40, seed=3))
    made = make_plan(scenario, run=bytes(8), base_port=7000, run_dir=Path("/run"), pace=Pace())
    return made.hosted_at(2, ("tcp://10.0.0.3:7001", "tcp://10.0.0.4:7001", "tcp://10.0.0.5:7001"))


def files() -> list[HostFile]:
    return host_files(plan(), "tcp://0.0.0.0:7001", ("10.0.0.0/8",))


def test_a_file_says_again_what_it_was_made_of() -> None:
    assert [read_host_file(each.text().encode()) for each in files()] == files()
    assert [[agent.id for agent in each.agents] for each in files()] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"number": 3},
        {"number": 0},
        {"number": True},
        {"per_process": 0},
        {"agents": []},
        {"agents": [{}]},
        {"addresses": []},
        {"admit": None},
    ],
)
def test_what_is_no_such_file_is_refused(change: dict[str, Any]) -> None:
    data = {**json.loads(files()[1].text()), **change}
    with pytest.raises(ConfigurationError, match="cannot be used"):
        read_host_file(json.dumps(data).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_json_of_ours_are_refused(text: bytes) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        read_host_file(text)


def test_the_verb_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["host", str(tmp_path / "nothing.json")])
    assert isinstance(done.exception, ConfigurationError)
    assert "agentd up writes such files" in str(done.exception)
