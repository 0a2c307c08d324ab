"""State on disk: what is written comes back, what is somebody else's or not whole is refused, one process at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from loopback import RUN

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.base import Restorable
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.privacy.ledger import Ledger
from agentd.core.saved_state import resume
from agentd.core.terms import Terms
from agentd.errors import LedgerInDoubt, StateUnusable
from agentd.settings import AgentSettings
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import require_up_to_date, state_identity
from agentd.shell.state.reader import DATABASE, read_state

PRIVATE = ("private-ucb", "dp-ucb-int", "sealed")


def settings(**changes: Any) -> AgentSettings:
    usual = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000"}
    return AgentSettings(**(usual | changes))


def new_agent(algorithm: str = "private-ucb", trial: int = 0, **changes: Any) -> Agent:
    policy = make_policy(
        algorithm, PolicySettings(arms=3, **changes), 3, ExactLaplace(secrets.token_bytes), KeyedCoins(1, 3)
    )
    return Agent(3, policy, terms=Terms(3, 2), trial=trial)


def opened(place: Path, **changes: Any) -> StateJournal:
    journal = StateJournal.open(place, state_identity(settings(**changes)))
    joined(journal, settings(**changes).algorithm)
    return journal


def joined(journal: StateJournal, algorithm: str = "private-ucb", trial: int = 0, **about: Any) -> None:
    journal.join(new_agent(algorithm, trial).turn, **({"run": RUN.hex(), "arms": 3, "incarnation": trial} | about))


def play(agent: Agent, journal: StateJournal, trials: int) -> list[list[int]]:
    """Some trials as the daemon makes them; what was said in each."""
    said = []
    for _ in range(trials):
        intent = agent.choose()
        journal.intend(intent.trial, intent.arm)
        turn = agent.advance(UNIT * (agent.trial % 2))
        journal.commit(turn)
        said += [batch.body.ravel().tolist() for batch in turn.outbox()]
    return said


def returned(journal: StateJournal, algorithm: str = "private-ucb", counted: int | None = None) -> Agent:
    assert journal.saved is not None
    agent = new_agent(algorithm)
    resume(agent, journal.saved, journal.saved.trial if counted is None else counted, ExactLaplace(secrets.token_bytes))
    return agent


def spent(ledger: Ledger) -> list[tuple[object, ...]]:
    return [(arm, ledger.releases(arm), ledger.spent(arm), ledger.advanced_epsilon(1e-5, arm)) for arm in ledger.arms]


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_what_is_written_comes_back(tmp_path: Path, algorithm: str) -> None:
    journal, agent = opened(tmp_path, algorithm=algorithm), new_agent(algorithm)
    play(agent, journal, 40)
    journal.close()
    journal = opened(tmp_path, algorithm=algorithm)
    again = returned(journal, algorithm)
    journal.close()
    assert again.trial == agent.trial == 40
    assert isinstance(agent.policy, Restorable)
    assert isinstance(again.policy, Restorable)
    assert again.policy.snapshot() == agent.policy.snapshot()
    assert agent.policy.ledger is not None
    assert again.policy.ledger is not None
    assert spent(again.policy.ledger) == spent(agent.policy.ledger)
    assert again.policy.ledger.releases() == (40 if algorithm != "sealed" else agent.policy.ledger.releases()) > 0


def test_the_stored_bytes_are_said_again(tmp_path: Path) -> None:
    journal, agent = opened(tmp_path), new_agent()
    last = play(agent, journal, 12)[-1]
    journal.close()
    journal = opened(tmp_path)
    (batch,) = returned(journal).turn.outbox()
    journal.close()
    (message,) = batch.messages()
    assert (message.trial, message.life, message.lifetime, list(message.body)) == (12, 2, 2, last)


def test_the_pull_under_way_is_made_again(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 5)
    journal.intend(6, 2)
    journal.close()
    journal = opened(tmp_path)
    for counted in (5, 6):  # the environment has it, or has it not
        agent = returned(journal, counted=counted)
        assert (agent.trial, agent.choose()[:2]) == (5, (6, 2))
    journal.close()


def test_an_agent_that_died_in_its_first_round_begins_again_where_it_began(tmp_path: Path) -> None:
    """It had lost an older state, so it begins with trial 41; this was once taken for an older copy of itself."""
    journal = StateJournal.open(tmp_path, state_identity(settings()))
    joined(journal, trial=40)
    journal.close()
    journal = opened(tmp_path)
    assert journal.saved is not None
    require_up_to_date(journal.saved, 40, "there")
    agent = returned(journal)
    journal.close()
    assert (agent.trial, journal.saved.incarnation, agent.turn.outbox()) == (40, 40, [])


def test_a_pull_that_was_lost_with_the_machine_is_skipped(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 5)
    journal.close()
    journal = opened(tmp_path)
    agent = returned(journal, counted=6)
    assert agent.trial == 6
    journal.skip_to(6)
    journal.close()
    assert read_state(tmp_path).trial == 6


@pytest.mark.parametrize(
    ("counted", "complaint"), [(3, "the environment has counted 3 trials"), (7, "this is an older copy")]
)
def test_a_state_that_the_environment_contradicts_is_refused(tmp_path: Path, counted: int, complaint: str) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 5)
    journal.close()
    with pytest.raises(StateUnusable, match=complaint):
        require_up_to_date(read_state(tmp_path), counted, "there")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"id": 4}, "agent 3, not 4"),
        ({"algorithm": "dp-ucb-int"}, "algorithm private-ucb, not dp-ucb-int"),
        ({"epsilon": 0.5}, "epsilon 1.0, not 0.5"),
        ({"v": 1.2}, "v 1.1, not 1.2"),
        ({"seed": 1}, "seeded False, not True"),
    ],
)
def test_the_state_of_another_agent_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    opened(tmp_path).close()
    with pytest.raises(StateUnusable, match=named) as refused:
        opened(tmp_path, **changes)
    assert refused.value.exit_code == 78


@pytest.mark.parametrize(("about", "named"), [({"run": "ff" * 8}, "run 0011"), ({"arms": 4}, "arms 3, not 4")])
def test_the_state_of_another_run_is_refused(tmp_path: Path, about: dict[str, Any], named: str) -> None:
    opened(tmp_path).close()
    journal = StateJournal.open(tmp_path, state_identity(settings()))
    with pytest.raises(StateUnusable, match=named):
        joined(journal, **about)
    journal.close()


def test_only_one_process_may_use_it(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(StateUnusable, match="another process uses the state"):
        opened(tmp_path)
    journal.close()
    opened(tmp_path).close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    place = tmp_path / "new"
    journal = opened(place)
    play(new_agent(), journal, 3)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}
    journal.close()
    assert len(files) == 4
    assert set(files.values()) == {0o600}


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM releases WHERE number = 7",
        "DELETE FROM releases WHERE number = 12",
        "UPDATE releases SET scale = scale + 1 WHERE number = 3",
        "UPDATE releases SET value = 0 WHERE number = 3",
        "UPDATE state SET trial = 11",
        "UPDATE state SET policy = '{}'",
        "DELETE FROM state",
        "DROP TABLE state",
    ],
)
def test_rows_that_are_missing_or_altered_are_noticed(tmp_path: Path, harm: str) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 12)
    journal.close()
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute(harm)
    database.close()
    with pytest.raises(StateUnusable, match=r"is damaged .* nothing is sent"):
        opened(tmp_path)
    with pytest.raises(StateUnusable, match="is damaged"):
        read_state(tmp_path)


@pytest.mark.parametrize("where", range(0, 24, 3))
def test_a_file_with_a_page_of_rubbish_is_refused_or_is_still_whole(tmp_path: Path, where: int) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 80)
    journal.close()
    before = read_state(tmp_path)
    pages = (tmp_path / DATABASE).stat().st_size // 4096
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(where % pages * 4096)
        file.write(os.urandom(4096))
    with contextlib.suppress(StateUnusable):
        journal = opened(tmp_path)  # where it opens, nothing used that page
        assert journal.saved is not None
        assert journal.saved.releases == before.releases
        journal.close()


def test_a_write_that_fails_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    journal, agent = opened(tmp_path), new_agent()
    play(agent, journal, 3)
    journal._database.execute("PRAGMA query_only = 1")
    with pytest.raises(LedgerInDoubt, match="nothing of trial 4 was sent"):
        journal.intend(4, 0)
    journal.close()
    assert read_state(tmp_path).trial == 3


def test_reading_beside_a_running_agent_or_after_a_crash_changes_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 6)
    assert read_state(tmp_path).trial == 6
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in (DATABASE, f"{DATABASE}-wal"):
        (crashed / name).write_bytes((tmp_path / name).read_bytes())
    before = {path.name: path.read_bytes() for path in crashed.iterdir()}
    assert read_state(crashed).trial == 6
    assert {path.name: path.read_bytes() for path in crashed.iterdir()} == before
    journal.close()


def test_a_place_without_state_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match=r"there is no ledger\.db in it"):
        read_state(tmp_path)
    StateJournal.open(tmp_path, state_identity(settings())).close()
    with pytest.raises(StateUnusable, match="has not joined a run yet"):
        read_state(tmp_path)
