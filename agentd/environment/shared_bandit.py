"""What the environment answers: every decision, no socket, no file, no clock.

A request goes in, a reply comes out. Pulls that were new are kept in `fresh` until whoever carries the replies has
written them down: a reply that leaves before its pull is on disk would be forgotten by a crash.

Trials of an agent are pulled in order, so its ledger is gapless: trial t is either known, or the next one, or refused.
That makes PULL idempotent under any repetition and reordering of requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentd.environment.run_terms import RunTerms
from agentd.run.arms import Arms, uniforms
from agentd.run.regret import LEDGER_LIMIT_PULLS, NO_REWARD, NOT_PULLED, RegretLedger
from agentd.wire.environment_messages import (
    Hello,
    Noted,
    Ping,
    Pong,
    Pull,
    Refusal,
    Refused,
    Reply,
    Report,
    Request,
    Reward,
    Wait,
    Welcome,
)

Counted = tuple[int, int, int, int]
"""A pull that counts: agent, trial, arm, reward on the grid."""

GATE_S = 60.0
"""How long the first trial waits for agents that have not asked for theirs; then the run begins without them."""

_BLOCK = 256  # uniforms drawn at once: opening a stream costs as much as drawing hundreds from it
_BLOCKS_LIMIT = 4096  # 8 MB


class Dealer:
    """Rewards by (agent, trial, arm); they depend on nothing else but the seed."""

    def __init__(self, arms: Arms, seed: int) -> None:
        self._arms = arms
        self._seed = seed
        self._blocks: dict[int, tuple[int, NDArray[np.float64]]] = {}

    def deal(self, agent: int, trial: int, arm: int) -> int:
        """The reward of this pull, on the grid."""
        number, place = divmod(trial - 1, _BLOCK)
        held = self._blocks.get(agent)
        if held is None or held[0] != number:
            held = self._draw(agent, number)
        return self._arms.deal_one(arm, float(held[1][place]))

    def deal_all(self, agent: int, arm: NDArray[np.uint16]) -> NDArray[np.int64]:
        """The rewards of an agent's trials from 1 on."""
        return self._arms.deal(arm, uniforms(self._seed, agent, 1, len(arm)))

    def _draw(self, agent: int, number: int) -> tuple[int, NDArray[np.float64]]:
        if len(self._blocks) >= _BLOCKS_LIMIT:
            self._blocks.clear()  # what is still needed is drawn again; more would only cost memory
        held = self._blocks[agent] = (number, uniforms(self._seed, agent, number * _BLOCK + 1, _BLOCK))
        return held


@dataclass(slots=True)
class Seat:
    """One agent's place in the run: who speaks for it, what it pulled, what it last reported."""

    ledger: RegretLedger
    connection: bytes | None = None
    """The routing identity that speaks for the agent; None: nobody has asked since the service started."""
    incarnation: int | None = None
    report: Report | None = None
    seen_s: float | None = None
    """When the agent last asked something, on the caller's clock."""

    @property
    def next_trial(self) -> int:
        """The first trial that was not pulled yet."""
        return self.ledger.rounds_seen + 1

    @property
    def done(self) -> bool:
        """Whether the agent said that it has finished."""
        return self.report is not None and self.report.done


@dataclass(slots=True)
class SharedBandit:
    """The shared bandit: decides on every request and remembers every pull."""

    terms: RunTerms
    reachable: Callable[[bytes], bool]
    """Whether a connection is still there."""
    together: bool = False
    """Whether first trials wait until every agent of a known number asks for its own."""
    seats: dict[int, Seat] = field(default_factory=dict)
    fresh: list[Counted] = field(default_factory=list)
    """Pulls that were counted and not yet taken by `take_fresh`."""
    pulls: int = 0
    _dealer: Dealer = field(init=False)
    _at_gate: set[int] = field(default_factory=set)
    """Agents that asked for their first trial while others were still missing."""
    _gate_opens_s: float = math.inf

    def __post_init__(self) -> None:
        self._dealer = Dealer(self.terms.arms, self.terms.seed)

    def answer(self, connection: bytes, request: Request, now_s: float) -> Reply:
        if isinstance(request, Ping):
            return Pong()
        seat = self._seat(request.agent)
        if seat is None:
            return Refused(Refusal.UNKNOWN_AGENT, self._who_may_join(request.agent))
        if not self._speaks_for(connection, seat):
            return Refused(
                Refusal.DUPLICATE_AGENT, f"agent {request.agent} is already connected; stop it or choose another --id"
            )
        seat.seen_s = now_s
        if isinstance(request, Pull):
            return self._held_at_gate(request, now_s) or self._pull(seat, request)
        if isinstance(request, Report):
            seat.report = request
            return Noted(request.trial)
        return self._welcome(seat, request)

    def take_fresh(self) -> list[Counted]:
        """The pulls counted since the last call."""
        taken, self.fresh = self.fresh, []
        return taken

    def restore(self, agent: int, arm: NDArray[np.uint16], reward: NDArray[np.int64]) -> None:
        """Take back an agent's pulls from trial 1 on; ValueError where they cannot have been made under these terms."""
        if not self.terms.admits(agent, len(self.seats)):
            raise ValueError(f"it holds pulls of agent {agent}, who may not join this run")
        if self.terms.rounds is not None and len(arm) > self.terms.rounds:
            raise ValueError(f"agent {agent} has more pulls than the {self.terms.rounds} rounds of this run")
        if (arm >= self.terms.arms.count).any():
            raise ValueError(f"agent {agent} pulled an arm beyond the {self.terms.arms.count} that exist")
        if not np.array_equal(self._dealer.deal_all(agent, arm), reward):
            raise ValueError(f"the rewards of agent {agent} are not those of this run's seed")
        ledger = self.seats.setdefault(agent, self._new_seat()).ledger
        for trial, (a, r) in enumerate(zip(arm.tolist(), reward.tolist(), strict=True), start=1):
            ledger.count(0, trial, a, r)
        self.pulls += len(arm)

    def restore_reports(self, reports: Iterable[Report]) -> None:
        """Take back what agents had reported; ValueError where one may not join."""
        for report in reports:
            if (seat := self._seat(report.agent)) is None:
                raise ValueError(f"agent {report.agent} may not join this run")
            seat.report = report

    @property
    def all_done(self) -> bool:
        """Whether every agent of a known number has reported that it is done."""
        agents = self.terms.agents
        return agents is not None and len(self.seats) == agents and all(seat.done for seat in self.seats.values())

    @property
    def group_regret(self) -> float:
        """Group regret of all pulls so far."""
        return math.fsum(seat.ledger.group_regret for seat in self.seats.values())

    @property
    def rows(self) -> list[int]:
        """The agents in the order of the rows of `matrix`: all of a known number, else those who came."""
        return list(range(self.terms.agents)) if self.terms.agents is not None else sorted(self.seats)

    def matrix(self) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
        """Arms and rewards by agent and trial, up to the horizon; ValueError if memory should not hold that."""
        rows = self.rows
        seen = max((seat.ledger.rounds_seen for seat in self.seats.values()), default=0)
        columns = self.terms.rounds or 0
        if len(rows) * columns > LEDGER_LIMIT_PULLS or not columns:
            columns = max(seen, 1)
        if len(rows) * columns > max(2 * LEDGER_LIMIT_PULLS, 4 * self.pulls):
            raise ValueError(f"{len(rows)} agents × {columns} trials are too sparse for a table")
        arm = np.full((len(rows), columns), NOT_PULLED, dtype=np.uint16)
        reward = np.full((len(rows), columns), NO_REWARD, dtype=np.int32)
        for row, agent in enumerate(rows):
            if (seat := self.seats.get(agent)) is not None:
                arm[row, : seat.ledger.rounds_seen] = seat.ledger.arm[0]
                reward[row, : seat.ledger.rounds_seen] = seat.ledger.reward[0]
        return arm, reward

    def _new_seat(self) -> Seat:
        return Seat(RegretLedger(self.terms.arms.means, 1, self.terms.rounds))

    def _seat(self, agent: int) -> Seat | None:
        seat = self.seats.get(agent)
        if seat is None and self.terms.admits(agent, len(self.seats)):
            seat = self.seats[agent] = self._new_seat()
        return seat

    def _speaks_for(self, connection: bytes, seat: Seat) -> bool:
        """Whether a connection may speak for the agent: it does already, or nobody does any more."""
        if seat.connection != connection:
            if seat.connection is not None and self.reachable(seat.connection):
                return False
            seat.connection = connection
        return True

    def _welcome(self, seat: Seat, hello: Hello) -> Welcome:
        seat.incarnation = hello.incarnation
        terms = self.terms
        return Welcome(terms.run, terms.arms.count, terms.arms.low, terms.arms.high, terms.rounds or 0, seat.next_trial)

    def _held_at_gate(self, pull: Pull, now_s: float) -> Wait | None:
        """Hold first trials back until every agent of a known number asks for its own.

        An agent asks when its neighbours are there, but theirs may not be: without the gate, agents that are up early
        would take those that still start for dead.
        """
        if not self.together or self.pulls or pull.trial > 1 or self.terms.agents is None:
            return None
        self._at_gate.add(pull.agent)
        self._gate_opens_s = min(self._gate_opens_s, now_s + GATE_S)
        missing = self.terms.agents - len(self._at_gate)
        return Wait(pull.trial, missing) if missing and now_s < self._gate_opens_s else None

    def _pull(self, seat: Seat, pull: Pull) -> Reply:
        agent, trial, arm = pull.agent, pull.trial, pull.arm
        if arm >= self.terms.arms.count:
            return Refused(Refusal.ARM_OUT_OF_RANGE, f"arms are numbered 0…{self.terms.arms.count - 1}, not {arm}")
        if trial < seat.next_trial:
            return _again(seat, pull)
        if self.terms.rounds is not None and trial > self.terms.rounds:
            return Refused(Refusal.RUN_OVER, f"the run ends with trial {self.terms.rounds}")
        if trial > seat.next_trial:
            return Refused(Refusal.TRIAL_OUT_OF_ORDER, f"the next trial of agent {agent} is {seat.next_trial}")
        if self.terms.rounds is None and self.pulls >= LEDGER_LIMIT_PULLS:
            return Refused(Refusal.RUN_OVER, f"the environment has room for {LEDGER_LIMIT_PULLS} pulls")
        reward = self._dealer.deal(agent, trial, arm)
        seat.ledger.count(0, trial, arm, reward)
        self.pulls += 1
        self.fresh.append((agent, trial, arm, reward))
        return Reward(trial, arm, reward)

    def _who_may_join(self, agent: int) -> str:
        if self.terms.agents is not None:
            return f"agents are numbered 0…{self.terms.agents - 1}, not {agent}"
        return f"there is room for {len(self.seats)} agents; start the environment with --agents for more"


def _again(seat: Seat, pull: Pull) -> Reply:
    """The reply to a trial that was pulled before: the same reward, or a refusal of another arm."""
    known = seat.ledger.pulled(0, pull.trial)
    assert known is not None  # noqa: S101  # ledgers have no gaps
    arm, reward = known
    if arm != pull.arm:
        return Refused(Refusal.TRIAL_CONFLICT, f"trial {pull.trial} of agent {pull.agent} was arm {arm}")
    return Reward(pull.trial, arm, reward)
