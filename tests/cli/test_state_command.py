"""What a state holds is told, but for what was never released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from loopback import RUN
from loopback_fixtures import log, log_file
from structlog.typing import FilteringBoundLogger

from agentd.cli import cli
from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.attendance.agent_making import agent_of
from agentd.shell.state.keeper import StateKeeper
from agentd.wire.environment_messages import Welcome

__all__ = ["log", "log_file"]

REWARD = 777_777
"""An unlikely one: where it shows, it shows."""


def kept(place: Path, algorithm: str, log: FilteringBoundLogger, trials: int = 60) -> Agent:
    """An agent that has kept its state."""
    settings = AgentSettings(
        id=3,
        listen="tcp://127.0.0.1:7003",
        environment="tcp://127.0.0.1:7000",
        algorithm=algorithm,
        state=str(place),
        rounds=100,
    )
    welcome = Welcome(Terms(3, None, run=RUN), 0.0, 1.0, 1, 0, 0)
    keeper = StateKeeper.open(settings, log)
    agent = agent_of(settings, welcome, noise=SeededLaplace(1, 3))
    keeper.join(agent, welcome, rounds=100)
    for _ in range(trials):
        keeper.choose(agent)
        agent.draw()
        keeper.commit(agent.advance(REWARD))
    keeper.close()
    return agent


def told(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["state", *arguments])


@pytest.mark.parametrize("algorithm", ["sealed", "private-ucb", "dp-ucb-int"])
def test_what_was_released_and_spent_is_shown_and_exported(
    algorithm: str, tmp_path: Path, log: FilteringBoundLogger
) -> None:
    agent = kept(tmp_path / "state", algorithm, log)
    ledger = agent.policy.ledger
    assert ledger is not None
    shown = json.loads(told("show", str(tmp_path / "state"), "--json").stdout)
    assert (shown["agent"], shown["run"], shown["trial"], shown["rounds"]) == (3, RUN.hex(), 60, 100)
    assert (shown["releases"], shown["spent"]) == (ledger.releases(), ledger.epsilon_one_reward())
    text = told("show", str(tmp_path / "state")).stdout
    assert f"releases        {ledger.releases()}\n" in text
    exported = json.loads(told("export", str(tmp_path / "state")).stdout)
    assert len(exported.pop("released")) == ledger.releases() > 2
    assert exported == shown


@pytest.mark.parametrize("algorithm", ["sealed", "private-ucb", "dp-ucb-int"])
def test_nothing_raw_is_in_it(algorithm: str, tmp_path: Path, log: FilteringBoundLogger) -> None:
    """Neither a sum that the state keeps, nor which arm is next."""
    agent = kept(tmp_path / "state", algorithm, log)
    texts = [told(*words, str(tmp_path / "state")).stdout for words in (["show"], ["show", "--json"], ["export"])]
    sums = {number for row in agent.turn.state.values() for number in row if number >= REWARD}
    released = {number for number in sums if _was_released(number, json.loads(texts[2])["released"])}
    assert sums - released
    for secret in sums - released:
        for form in (str(secret), f"{secret:,}", str(secret / UNIT)):
            assert not any(form in text for text in texts)
    assert not any("intent" in text for text in texts)


def _was_released(number: int, releases: list[dict[str, Any]]) -> bool:
    return any(number in (round(each["value"] * UNIT), each["pulls"]) for each in releases)


def test_an_export_is_a_file_of_ones_own(tmp_path: Path, log: FilteringBoundLogger) -> None:
    kept(tmp_path / "state", "sealed", log)
    out = tmp_path / "out.json"
    assert told("export", str(tmp_path / "state"), "--out", str(out)).exit_code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert json.loads(out.read_text())["agent"] == 3
    failed = told("export", str(tmp_path / "state"), "--out", str(tmp_path / "no" / "out.json"))
    assert getattr(failed.exception, "exit_code", None) == 78


@pytest.mark.parametrize("verb", ["show", "export"])
def test_what_is_no_state_is_told(verb: str, tmp_path: Path) -> None:
    failed = told(verb, str(tmp_path))
    assert "holds no agent's state" in str(failed.exception)
    assert getattr(failed.exception, "exit_code", None) == 78
