"""What the files of a state hold, byte by byte: one state, of a length that tells nothing, and no reward by itself.

And what a disk may hold after the machine died: any part of what was written since the last time it was waited for.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import struct
from pathlib import Path
from typing import Any

import pytest

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import state_identity
from agentd.shell.state.reader import found, read_state
from agentd.shell.state.storage import Memory

PRIVATE = ("private-ucb", "dp-ucb-int", "sealed")
ARMS = 2
SECRET = {"private-ucb": ("sums", "told"), "dp-ucb-int": ("sums",), "sealed": ("open_sums",)}
"""What others must not know of the state of each algorithm."""


def settings(algorithm: str) -> AgentSettings:
    return AgentSettings(
        id=3, listen="tcp://127.0.0.1:7003", environment="tcp://127.0.0.1:7000", algorithm=algorithm, epsilon=1.0
    )


def new_agent(algorithm: str, **changes: Any) -> Agent:
    noise, knobs = ExactLaplace(secrets.token_bytes), PolicySettings(arms=ARMS, epsilon=1.0)
    policy = make_policy(algorithm, knobs, 3, KeyedCoins(1, 3))
    return Agent(3, policy, terms=Terms(ARMS, 2), noise=noise, **changes)


def joined(journal: StateJournal, agent: Agent) -> StateJournal:
    journal.join(agent.turn, run="00" * 8, arms=ARMS, incarnation=agent.incarnation)
    return journal


def everything(place: Path) -> bytes:
    """The raw bytes of all files."""
    return b"".join(path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file())


def is_in(number: int, data: bytes) -> bool:
    """Whether a number can be read, in the ways in which one might be written."""
    forms = (struct.pack("<q", number), struct.pack(">q", number), str(number).encode())
    return any(form in data for form in forms)


def left_over(algorithm: str, place: Path, made: type[StateJournal] = StateJournal) -> list[tuple[int, int]]:
    """What can be read after each commit of a run though it was overwritten: trial and number.

    Rewards are told apart by nearly all their bits.
    """
    chance, agent = random.Random(7), new_agent(algorithm)
    journal = joined(made.open(place, state_identity(settings(algorithm))), agent)
    old, found_again = set[int](), []
    for trial in range(1, 61):
        intent = agent.choose()
        journal.intend(intent.trial, intent.arm)
        reward = chance.randrange(1 << 16, UNIT)
        turn = agent.advance(reward)
        journal.commit(turn)
        now, data = {number for name in SECRET[algorithm] for number in turn.state[name]}, everything(place)
        assert all(is_in(number, data) for number in now), "the test does not see what is there"
        gone = (old | {reward}) - now - {value for _, value in read_state(place).releases} - set(range(1000))
        found_again += [(trial, number) for number in gone if is_in(number, data)]
        old |= now | {reward}
    journal.close()
    return found_again


class KeepsTheOlder(StateJournal):
    """What must not be: the slot of the state before stays as it was."""

    def _write_slot(self, number: int, packed: bytes) -> None:
        if number == self._slot.sequence:
            super()._write_slot(number, packed)


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_after_a_commit_no_file_holds_a_reward_or_a_sum_of_before(algorithm: str, tmp_path: Path) -> None:
    assert left_over(algorithm, tmp_path) == []


def test_a_journal_that_keeps_the_state_before_would_be_caught(tmp_path: Path) -> None:
    assert len(left_over("private-ucb", tmp_path, KeepsTheOlder)) > 50


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_the_length_of_the_files_and_the_place_of_every_number_follow_from_counts_alone(
    algorithm: str, tmp_path: Path
) -> None:
    shapes = []
    for name, rewards in (("low", 0), ("high", UNIT)):
        place, agent = tmp_path / name, new_agent(algorithm)
        journal = joined(StateJournal.open(place, state_identity(settings(algorithm))), agent)
        for _ in range(9):
            agent.choose()
            journal.commit(agent.advance(rewards))
        held = found((place / "ledger.db").read_bytes(), place)
        assert held is not None
        shapes.append((held.layout, {path.name: path.stat().st_size for path in place.iterdir()}))
        journal.close()
    assert shapes[0] == shapes[1]


class Cut(Exception):
    """The power is gone."""


class Fragile(Memory):
    """Memory as a disk: what was not waited for may be there, or not, or in part, sector by sector."""

    sector = 512

    def __init__(self) -> None:
        super().__init__()
        self._safe, self._unsafe = b"", list[tuple[int, bytes]]()
        self.steps = 1 << 30
        """So many times something can be written or waited for before the power is gone."""

    def _step(self) -> None:
        self.steps -= 1
        if self.steps <= 0:
            raise Cut

    def write(self, offset: int, data: bytes) -> None:
        self._step()
        super().write(offset, data)
        start = offset
        while start < offset + len(data):
            end = min((start // self.sector + 1) * self.sector, offset + len(data))
            self._unsafe.append((start, data[start - offset : end - offset]))
            start = end

    def sync(self) -> None:
        self._step()
        self._safe, self._unsafe = self.read(), []

    def replace(self, data: bytes) -> None:
        super().replace(data)
        self.sync()

    def left_by_power_loss(self, chance: random.Random) -> Memory:
        """What the disk has: everything that was waited for, and a part of the rest in any order."""
        left = Memory()
        left.replace(self._safe)
        for offset, data in chance.sample(self._unsafe, chance.randint(0, len(self._unsafe))):
            left.write(offset, data)
        return left


def pulled(agent: Agent, journal: StateJournal) -> None:
    intent = agent.choose()
    journal.intend(intent.trial, intent.arm)
    journal.commit(agent.advance(UNIT * (intent.trial % 2)))


def kept(storage: Memory) -> tuple[Any, ...]:
    """What is written, whether it is safe or not."""
    held = found(storage.read(), Path("there"))
    assert held is not None
    return held.saved.trial, held.saved.policy, held.saved.releases


@pytest.mark.parametrize("algorithm", PRIVATE)
@pytest.mark.parametrize("steps", range(1, 9))
def test_whenever_the_power_is_lost_the_disk_has_the_last_round_or_one_under_way(algorithm: str, steps: int) -> None:
    chance = random.Random(steps)
    for rounds in (0, 1, 2, 7, 8, 15, 16) * 4:
        storage, agent = Fragile(), new_agent(algorithm)
        journal = joined(StateJournal.over(storage, state_identity(settings(algorithm))), agent)
        for _ in range(rounds):
            pulled(agent, journal)
        safe, storage.steps = kept(storage), steps
        with contextlib.suppress(Cut):
            while True:
                pulled(agent, journal)
                safe = kept(storage)
        saved = StateJournal.over(storage.left_by_power_loss(chance), state_identity(settings(algorithm))).saved
        assert saved is not None
        assert (saved.trial, saved.policy, saved.releases) in (safe, kept(storage))
        assert saved.intent is None or saved.intent[0] == saved.trial + 1
