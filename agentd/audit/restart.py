"""The same run with deaths: an agent that loses its process between choosing, drawing, committing and sending.

The journal, its file, its digests and the way back from it are the daemon's own. What differs by how an agent dies:

- `record_restarts` here, for the bulk. The state is in memory, and a death is simulated: an exception at a random edge
  drops the agent and its journal, perhaps in the middle of a write, and a new agent takes up what is there. That tests
  the order of draw, commit and send and the way back, twenty thousand times. It does not test that a disk keeps what it
  was told to keep.
- `record_killed` in `killed.py`, for some hundreds. Each life is a process of its own that ends by SIGKILL, on a real
  state directory that waits for the disk.

An agent that comes back after a pull that is not in its state gives that trial up, with the open batch, and goes on
under a new incarnation: so what is released later holds less than without a death, and nothing is released twice.

The adversary chooses when the agent dies: at its first release or at the trial that follows the flipped one, and in
half of the runs once more, there or at a random trial, unless it has passed that place already.
"""

from __future__ import annotations

import logging
import random
from functools import lru_cache

import structlog
from structlog.typing import FilteringBoundLogger

from agentd.audit.case import TARGET, Case
from agentd.audit.planted_faults import noise_of
from agentd.audit.transcript import Stage, Transcript, make_agent
from agentd.core.agent import Agent, Turn
from agentd.core.privacy.laplace import Noise
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import StateKeeper, require_up_to_date, state_identity
from agentd.shell.state.storage import Memory
from agentd.wire.environment_messages import Welcome

EDGES = (
    "before the intent",
    "after the intent",
    "after the draw",
    "after the pull",
    "before the commit",
    "within the commit",
    "after the commit",
    "after the send",
)
"""Where an agent may die. Where messages are sent before they are committed, "before the commit" is after the send."""


_SILENT: FilteringBoundLogger = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)
"""What thousands of lives have to say is what is counted here."""


class Killed(Exception):
    """The simulated process is gone."""


class Reaper:
    """Ends the agent when it passes the edge that comes next in a plan of (trial, edge)."""

    def __init__(self, plan: list[tuple[int, str]]) -> None:
        self.plan = plan
        self.trial = 0

    def at(self, edge: str) -> None:
        """Pass an edge, or die there."""
        while self.plan and self.plan[0][0] < self.trial:
            self.plan.pop(0)
        if self.plan and self.plan[0] == (self.trial, edge):
            self.plan.pop(0)
            self.kill()

    def kill(self) -> None:
        raise Killed


class DeadlyJournal(StateJournal):
    """The journal, with a death within its commit."""

    reaper: Reaper | None = None

    def _write_slot(self, number: int, packed: bytes) -> None:
        if self.reaper is not None:
            super()._write_slot(number, packed[: len(packed) // 2])
            self.reaper.at("within the commit")
        super()._write_slot(number, packed)

    def commit(self, turn: Turn) -> None:
        """As ever, with deaths before and after."""
        assert self.reaper is not None  # noqa: S101 - joining is over
        self.reaper.at("before the commit")
        super().commit(turn)
        self.reaper.at("after the commit")


def deaths(case: Case, side: int, number: int, release: int) -> list[tuple[int, str]]:
    """When the agent of one run dies; `release` is the trial of its first release."""
    chance = random.Random(f"{case.seed}/{side}/{number}")
    trials = [release if chance.random() < 0.7 else min(case.trials, case.input_of(number).flipped + 1)]
    if chance.random() < 0.5:
        trials.append(release if chance.random() < 0.5 else chance.randint(1, case.trials))
    return [(trial, chance.choice(EDGES)) for trial in sorted(trials)]


def record_restarts(case: Case, side: int, number: int, release: int) -> Transcript:
    """One run with simulated deaths."""
    chance, stage = noise_of(case, side, number), Stage(case, side, number)
    reaper = Reaper(deaths(case, side, number, release))
    storage = Memory()
    while True:
        try:
            journal = DeadlyJournal.over(storage, state_identity(settings_of(case)))
            return stage.transcript(live(stage, journal, reaper, chance.target), chance.twin)
        except Killed:
            stage.reconnect()


def live(stage: Stage, journal: DeadlyJournal, reaper: Reaper, noise: Noise) -> Agent:
    """One life: take up the state, go on to the last trial, or die on the way."""
    case = stage.case
    counted = len(stage.pulled)
    if (saved := journal.saved) is not None:
        require_up_to_date(saved, counted, "the audit")
        if case.fault == "redrawn-noise":
            counted = saved.trial  # it is not: a pull that was lost would not be asked for again
    agent = make_agent(case, noise, saved, counted)
    keeper = StateKeeper(settings_of(case), journal, _SILENT)
    keeper.join(agent, Welcome(Terms(case.arms, None), 0.0, 1.0, counted + 1, agent.incarnation, 0))
    journal.reaper = reaper
    while agent.trial < case.trials:
        _trial(stage, agent, keeper, reaper)
    if left := agent.turn.outbox():  # back after its last commit: that message may not have left
        stage.publish(agent, left)
    return agent


def _trial(stage: Stage, agent: Agent, keeper: StateKeeper, reaper: Reaper) -> None:
    reaper.trial = agent.trial + 1
    stage.deliver(agent)
    reaper.at("before the intent")
    intent = keeper.choose(agent)
    reaper.at("after the intent")
    agent.draw()
    reaper.at("after the draw")
    reward = stage.pull(intent.trial, intent.arm)
    reaper.at("after the pull")
    turn = agent.advance(reward)
    if stage.case.fault == "redrawn-noise":
        turn.committed()  # it is not
        stage.publish(agent, turn.outbox())
    keeper.commit(turn)
    stage.publish(agent, turn.outbox())
    reaper.at("after the send")


@lru_cache(maxsize=8)
def settings_of(case: Case) -> AgentSettings:
    """What the daemon of such an agent would have been told; the addresses are never used."""
    return AgentSettings(
        id=TARGET,
        listen="tcp://127.0.0.1:1",
        environment="tcp://127.0.0.1:2",
        algorithm=case.algorithm,
        epsilon=case.epsilon,
    )
