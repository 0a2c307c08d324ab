"""States that agents of an earlier version left on disk: they are read, and the agents go on as they would have.

`old_states/` was made by commit 49aef1d, the last before turns: an agent with id 3, two arms, γ = 2, ε = 3, a budget of
3.5 and seed 1 played twelve trials, each rewarded by the parity of the trial before it, and died with its thirteenth
pull intended. The .sql is what was on disk; the .json is what that version did in eight trials more.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentd.core.agent import Agent
from agentd.core.assembly import assemble
from agentd.core.grid import UNIT
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import state_identity
from agentd.shell.state.reader import DATABASE, FORMAT, read_state

STATES = Path(__file__).parent / "old_states"
ALGORITHMS = ("private-ucb", "dp-ucb-int", "sealed")


def settings(algorithm: str) -> AgentSettings:
    return AgentSettings(
        id=3,
        listen="tcp://127.0.0.1:7003",
        environment="tcp://127.0.0.1:7000",
        algorithm=algorithm,
        epsilon=3.0,
        epsilon_budget=3.5,
        seed=1,
    )


def agent_from(journal: StateJournal, algorithm: str) -> Agent:
    return assemble(
        3,
        algorithm,
        settings(algorithm).policy(2),
        Terms(2, 2, 3.0),
        noise=SeededLaplace(1, 3),
        coins=KeyedCoins(1, 3),
        trial=journal.saved.trial if journal.saved else 0,
        saved=journal.saved,
    )


def play(agent: Agent, journal: StateJournal) -> Any:
    """One trial: the arm, and what was sent."""
    intent = agent.choose()
    journal.intend(intent.trial, intent.arm)
    turn = agent.advance(UNIT * ((intent.trial - 1) % 2))
    journal.commit(turn)
    return [intent.arm, [[batch.head.tolist(), batch.body.tolist()] for batch in turn.outbox()]]


def left_behind(place: Path, algorithm: str) -> None:
    """Put the earlier agent's state into a directory."""
    database = sqlite3.connect(place / DATABASE)
    database.executescript((STATES / f"{algorithm}.sql").read_text() + f"PRAGMA user_version = {FORMAT};")
    database.close()


def rows(place: Path) -> list[str]:
    """Everything that is on disk."""
    database = sqlite3.connect(place / DATABASE)
    dumped = list(database.iterdump())
    database.close()
    return dumped


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_state_of_an_earlier_version_is_read_and_its_agent_goes_on_as_it_would_have(
    algorithm: str, tmp_path: Path
) -> None:
    left_behind(tmp_path, algorithm)
    journal = StateJournal.open(tmp_path, state_identity(settings(algorithm)))
    assert journal.saved is not None
    agent, refused = agent_from(journal, algorithm), journal.saved.refused
    expected = json.loads((STATES / f"{algorithm}.json").read_text())
    assert [play(agent, journal) for _ in range(8)] == expected["then"]
    assert agent.turn.state == expected["policy"]
    journal.close()
    saved = read_state(tmp_path)
    assert (saved.trial, len(saved.releases), saved.refused) == (
        20,
        expected["releases"],
        refused + expected["refused"],
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_written_is_what_the_earlier_version_wrote(algorithm: str, tmp_path: Path) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    before.mkdir()
    left_behind(before, algorithm)
    journal = StateJournal.open(now, state_identity(settings(algorithm)))
    agent = agent_from(journal, algorithm)
    journal.join(agent.turn, run="ab" * 8, arms=2, incarnation=0)
    for _ in range(12):
        play(agent, journal)
    journal.intend(13, agent.choose().arm)
    journal.close()
    assert rows(now) == rows(before)
