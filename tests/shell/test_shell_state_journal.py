"""State on disk: what is written comes back, what is somebody else's or not whole is refused, one process at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
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
from agentd.shell.state.reader import DATABASE, ledger_of, read_state
from agentd.shell.state.state_file import BLOCK, found_in

PRIVATE = ("private-ucb", "dp-ucb-int", "sealed")


def settings(**changes: Any) -> AgentSettings:
    usual = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000"}
    return AgentSettings(**({"algorithm": "private-ucb"} | usual | changes))


def new_agent(algorithm: str = "private-ucb", trial: int = 0, incarnation: int = 0, **changes: Any) -> Agent:
    policy = make_policy(algorithm, PolicySettings(arms=3, **changes), 3, KeyedCoins(1, 3))
    noise = ExactLaplace(secrets.token_bytes)
    return Agent(3, policy, terms=Terms(3, 2), noise=noise, trial=trial, incarnation=incarnation)


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
    saved = journal.saved
    assert saved is not None
    counted = saved.trial if counted is None else counted
    agent = new_agent(algorithm, incarnation=counted if saved.in_doubt(counted) else saved.incarnation)
    resume(agent, saved, counted, ExactLaplace(secrets.token_bytes))
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


def test_the_pull_that_was_intended_and_not_made_is_made(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 5)
    journal.intend(6, 2)
    journal.close()
    journal = opened(tmp_path)
    agent = returned(journal)
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


@pytest.mark.parametrize("algorithm", PRIVATE)
@pytest.mark.parametrize("intended", [True, False])
def test_a_round_that_may_be_lost_is_charged_before_anything_is_sent(
    tmp_path: Path, algorithm: str, intended: bool
) -> None:
    journal = opened(tmp_path, algorithm=algorithm)
    play(new_agent(algorithm), journal, 5)
    if intended:
        journal.intend(6, 2)
    journal.close()
    before = read_state(tmp_path)
    for _ in range(2):  # the second time after a crash right behind it: nothing is charged again
        journal = StateJournal.open(tmp_path, state_identity(settings(algorithm=algorithm)))
        agent = returned(journal, algorithm, counted=6)
        journal.join(agent.turn, run=RUN.hex(), arms=3, incarnation=6)
        journal.close()
        after = read_state(tmp_path)
        assert (after.trial, after.incarnation, after.said, after.intent) == (6, 6, None, None)
        assert after.releases[: len(before.releases)] == before.releases
        charged = after.releases[len(before.releases) :]
        assert [(release.trial, value) for release, value in charged] == [(6, None)] * (1 if intended else 3)
        assert ledger_of(after).releases() == len(after.releases)
    assert agent.choose().trial == 7
    assert agent.turn.outbox() == []


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
    assert sorted(files) == [DATABASE, "lock"]
    assert set(files.values()) == {0o600}


def cut_out(data: bytearray, number: int) -> None:
    """Take a release out of the ledger; those after it move up."""
    layout = found_in(bytes(data)).layout
    del data[layout.record(number) : layout.record(number + 1)]


def altered(data: bytearray, number: int, place: int) -> None:
    data[found_in(bytes(data)).layout.record(number) + place] ^= 1


def in_both_slots(data: bytearray, place: int) -> None:
    layout = found_in(bytes(data)).layout
    for number in (0, 1):
        data[layout.slot(number) + place] ^= 1


HARM: dict[str, Callable[[bytearray], None]] = {
    "a release is missing": lambda data: cut_out(data, 7),
    "the last release is missing": lambda data: cut_out(data, 12),
    "another scale": lambda data: altered(data, 3, 4 * 8),
    "another value": lambda data: altered(data, 3, 5 * 8),
    "no longer a possible release": lambda data: altered(data, 3, 6 * 8),
    "another trial": lambda data: in_both_slots(data, 8),
    "another sum": lambda data: in_both_slots(data, 10 * 8),
    "no state": lambda data: data.__setitem__(slice(BLOCK, 3 * BLOCK), bytes(2 * BLOCK)),
    "the end is missing": lambda data: data.__delitem__(slice(3 * BLOCK, None)),
    "another header": lambda data: data.__setitem__(40, data[40] ^ 1),
    "another magic": lambda data: data.__setitem__(0, data[0] ^ 1),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_rows_that_are_missing_or_altered_are_noticed(tmp_path: Path, harm: Callable[[bytearray], None]) -> None:
    journal = opened(tmp_path)
    play(new_agent(), journal, 12)
    journal.close()
    data = bytearray((tmp_path / DATABASE).read_bytes())
    harm(data)
    (tmp_path / DATABASE).write_bytes(data)
    with pytest.raises(StateUnusable, match=r"is damaged .* nothing is sent"):
        opened(tmp_path)
    with pytest.raises(StateUnusable, match="is damaged"):
        read_state(tmp_path)
    assert (tmp_path / DATABASE).read_bytes() == data


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
    with (tmp_path / DATABASE).open("rb") as file:  # from now on it may only be read
        os.dup2(file.fileno(), journal._storage._file)
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
    (crashed / DATABASE).write_bytes((tmp_path / DATABASE).read_bytes())
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
