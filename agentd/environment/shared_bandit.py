"""What the environment answers: every decision, no socket, no file, no clock.

A request goes in, a reply comes out. Pulls that were new are kept in `fresh` until whoever carries the replies has
written them down: a reply that leaves before its pull is on disk would be forgotten by a crash.

Trials of an agent are pulled in order, so its ledger is gapless: trial t is either known, or the next one, or refused.
That makes PULL idempotent under any repetition and reordering of requests, until the agent says that it is committed:
from then on nobody is answered again, so that whoever takes over a seat learns nothing about its past.

Whoever shows no token that holds the seat is told nothing about it. `seating` knows who does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hmac import compare_digest

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import MAX_TRIAL, TOKEN_BYTES
from agentd.core.terms import Clock
from agentd.environment.lives_spent import NO_LIFE, LivesSpent
from agentd.environment.run_round import RunRound
from agentd.environment.run_terms import RunTerms
from agentd.environment.seating import SeatChange, SeatEvent, Seating
from agentd.real_arms.shared_arms import RealDealer
from agentd.runs.arms import Arms, uniforms
from agentd.runs.regret import LEDGER_LIMIT_PULLS, NO_REWARD, NOT_PULLED, RegretLedger
from agentd.wire.environment_messages import (
    Hello,
    Noted,
    Ping,
    Pong,
    Pull,
    Refusal,
    Refused,
    Release,
    Released,
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
    """One agent's place in the run: what it pulled, what it last reported."""

    ledger: RegretLedger
    committed: int = 0
    """The last trial that is never answered again."""
    report: Report | None = None
    life: int = 0
    """The incarnation that has reported this."""
    before: LivesSpent = NO_LIFE
    """What the lives before it have spent."""
    seen_s: float | None = None
    """When the agent last asked something, on the caller's clock."""
    ahead: int = 0
    """How many rounds the agent was ahead of its trials when it last reported: those that it missed."""
    pause_s: float = 0.0
    """Between its last two reports."""
    noted_s: float | None = None
    """When it last reported."""

    @property
    def reached(self) -> int:
        """The round that the agent is in, as far as it said."""
        return self.ledger.rounds_seen + self.ahead

    @property
    def next_trial(self) -> int:
        """The first trial that was not pulled yet."""
        return self.ledger.rounds_seen + 1

    @property
    def spent(self) -> LivesSpent:
        """What all its lives have spent, as far as they said."""
        return self.before.with_present(self.report)

    def take(self, report: Report, life: int) -> None:
        """What the agent says of itself in this incarnation; what it says to be committed is."""
        if self.report is not None and life != self.life:
            self.before = self.before.and_one(self.report)
        self.report, self.life = report, life
        self.ahead = max(0, report.round - report.trial)
        self.commit(report.trial)

    def commit(self, trial: int) -> None:
        """Answer this trial and those before it never again."""
        self.committed = max(self.committed, min(trial, self.ledger.rounds_seen))

    @property
    def done(self) -> bool:
        """Whether the agent said that it has finished."""
        return self.report is not None and self.report.done


@dataclass(slots=True)
class SharedBandit:
    """The shared bandit: decides on every request and remembers every pull."""

    terms: RunTerms
    together: bool = False
    """Whether first trials wait until every agent of a known number asks for its own."""
    began_s: float | None = None
    """When the first agent was welcome, on the caller's clock; nobody can have pulled before."""
    operator: bytes | None = None
    """The secret of whoever may release seats; None: nobody may."""
    seats: dict[int, Seat] = field(default_factory=dict)
    fresh: list[Counted] = field(default_factory=list)
    """Pulls that were counted and not yet taken by `take_fresh`."""
    pulls: int = 0
    seating: Seating = field(init=False)
    real: RealDealer | None = None
    """Who has real arms pulled; None: rewards are dealt from the seed."""
    _dealer: Dealer = field(init=False)
    _arms: int = field(init=False)
    _most: int = field(init=False)
    """Trials of an agent that may be dealt and not committed."""
    _last: int = field(init=False)
    _room: float = field(init=False)
    """For pulls, where the run has no end."""
    _at_gate: set[int] = field(default_factory=set)
    """Agents that asked for their first trial while others were still missing."""
    _gate_opens_s: float = math.inf
    _run_round: RunRound = field(init=False)

    def __post_init__(self) -> None:
        terms = self.terms
        self._dealer = Dealer(terms.arms, terms.seed)
        self.seating = Seating(terms.run)
        self._arms, self._most, self._last = terms.arms.count, terms.max_outstanding, terms.rounds or MAX_TRIAL
        self._room = LEDGER_LIMIT_PULLS if terms.rounds is None else math.inf
        self._run_round = RunRound(self._last)

    def answer(self, request: Request, now_s: float) -> Reply | None:
        """The reply to a request; None: a real arm is being pulled, ask again soon."""
        if isinstance(request, (Pull, Report)):
            seat = self.seats.get(request.agent)
            if not self.seating.holds(request.agent, request.token):
                return self._stranger(request.agent)
            if seat is None:  # it was taken before this process began, and nothing was pulled
                seat = self.seats[request.agent] = self._new_seat()
            seat.seen_s = now_s
            if not isinstance(request, Pull):
                return self._note(seat, request, now_s)
            return (self.together and self._held_at_gate(request, now_s)) or self._pull(seat, request)
        if isinstance(request, Hello):
            return self._hello(request, now_s)
        return Pong() if isinstance(request, Ping) else self._release(request)

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
        if self.real is None and not np.array_equal(self._dealer.deal_all(agent, arm), reward):
            raise ValueError(f"the rewards of agent {agent} are not those of this run's seed")
        seat = self.seats.setdefault(agent, self._new_seat())
        for trial, (a, r) in enumerate(zip(arm.tolist(), reward.tolist(), strict=True), start=1):
            seat.ledger.count(0, trial, a, r)
        seat.commit(len(arm) - self.terms.max_outstanding)  # or the last of them would not have been dealt
        self.pulls += len(arm)

    def restore_seat(self, event: SeatEvent) -> None:
        """Take back a change of a seat, after all pulls; ValueError where it cannot have happened under these terms."""
        if not self.terms.admits(event.agent, 0):
            raise ValueError(f"it holds the seat of agent {event.agent}, who may not join this run")
        self.seating.restore(event)
        if event.change is not SeatChange.TAKEN and (seat := self.seats.get(event.agent)) is not None:
            seat.commit(event.trials)

    def require_holders(self) -> None:
        """ValueError where an agent has pulled who never took a seat: that was written down first, and is lost."""
        for agent in self.seats:
            if not self.seating.was_taken(agent):
                raise ValueError(f"agent {agent} has pulled, and who took its seat is missing")

    def commit_all(self) -> None:
        """Answer nothing that was pulled again: nobody knows by now who it was."""
        for seat in self.seats.values():
            seat.commit(seat.ledger.rounds_seen)

    def least_age_s(self) -> float:
        """How old the run is at least, by what was pulled: no clock that is set back makes it younger."""
        furthest = max((seat.ledger.rounds_seen for seat in self.seats.values()), default=0)
        return max(0, furthest - 1) * self.terms.agreed.interval_us / 1e6

    def restore_reports(self, reports: Iterable[tuple[Report, int | None, LivesSpent]]) -> None:
        """Take back what agents had reported, in which life and after which; ValueError where one may not join."""
        for report, life, before in reports:
            if (seat := self._seat(report.agent)) is None:
                raise ValueError(f"agent {report.agent} may not join this run")
            seat.take(report, self.seating.incarnation_of(report.agent) if life is None else life)
            seat.before = before

    @property
    def all_done(self) -> bool:
        """Whether every agent of a known number has reported that it is done."""
        agents = self.terms.agents
        return agents is not None and len(self.seats) == agents and all(seat.done for seat in self.seats.values())

    @property
    def group_regret(self) -> float:
        """Group regret of all pulls so far."""
        if self.real is not None:
            return math.nan  # nobody knows what real arms would have paid
        return math.fsum(seat.ledger.group_regret for seat in self.seats.values())

    @property
    def rows(self) -> list[int]:
        """The agents in the order of the rows of `matrix`: all of a known number, else those who came."""
        members = self.terms.members
        return members if members is not None else sorted(self.seats)

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

    def _stranger(self, agent: int) -> Refused:
        """The answer to whoever shows no token of the seat: the same, whatever happened in it."""
        if not self.terms.admits(agent, 0):
            return Refused(Refusal.UNKNOWN_AGENT, self._who_may_join(agent))
        return Refused(
            Refusal.WRONG_TOKEN,
            f"the seat of agent {agent} is held with another token; choose another --id, "
            f"or free it with `agentd env release {agent}` if its token is lost",
        )

    def _hello(self, hello: Hello, now_s: float) -> Reply:
        agent = hello.agent
        if agent not in self.seats and not self.terms.admits(agent, len(self.seats)):
            return Refused(Refusal.UNKNOWN_AGENT, self._who_may_join(agent))
        if not self.seating.may_take(agent, hello.token):
            return self._stranger(agent)
        newest = self.seating.incarnation_of(agent)
        if hello.incarnation not in (None, newest):
            return Refused(
                Refusal.OLD_INCARNATION,
                f"agent {agent} is in incarnation {newest} by now, not in {hello.incarnation}: this state is old",
            )
        seat = self.seats.setdefault(agent, self._new_seat())
        seat.seen_s = now_s
        pulled = seat.ledger.rounds_seen
        self.seating.take(agent, hello.token, pulled)
        if hello.incarnation is None:  # whatever was under way is lost with the state
            newest = self.seating.renew(agent, pulled)
            seat.commit(pulled)
        return self._welcome(seat, newest, now_s)

    def _welcome(self, seat: Seat, incarnation: int, now_s: float) -> Welcome:
        arms = self.terms.arms
        if self.began_s is None:
            self.began_s = now_s
        age_ms = max(0, int(1000 * (now_s - self.began_s)))
        round_ = self._round_told_to(seat, now_s)
        return Welcome(self.terms.agreed, arms.low, arms.high, seat.next_trial, incarnation, age_ms, round_)

    def _note(self, seat: Seat, report: Report, now_s: float) -> Noted:
        # It is written down, and the token never is.
        seat.take(replace(report, token=bytes(TOKEN_BYTES)), self.seating.incarnation_of(report.agent))
        if seat.noted_s is not None:
            seat.pause_s = now_s - seat.noted_s
        seat.noted_s = now_s
        returns, lives = self.seating.lives_since(report.returns)
        return Noted(report.trial, returns, lives, self._round_told_to(seat, now_s))

    def _round_told_to(self, seat: Seat, now_s: float) -> int:
        if self.terms.agreed.clock is Clock.FREE:
            return 0
        return self._run_round.told_to(seat, self.seats.values(), now_s)

    def _release(self, release: Release) -> Reply:
        agent = release.agent
        if self.operator is None or not compare_digest(self.operator, release.secret):
            return Refused(
                Refusal.WRONG_TOKEN, "only whoever can read the run directory of the environment may do this"
            )
        if not self.terms.admits(agent, 0):
            return Refused(Refusal.UNKNOWN_AGENT, self._who_may_join(agent))
        return Released(agent, self.free(agent))

    def free(self, agent: int) -> int:
        """Release a seat: the next token takes it, and learns nothing of what was; returns the next trial."""
        seat = self.seats.get(agent)
        pulled = seat.ledger.rounds_seen if seat is not None else 0
        self.seating.release(agent, pulled)
        if seat is not None:
            seat.commit(pulled)
            seat.ahead = 0  # what the next holder missed, it will say
        return pulled + 1

    def _held_at_gate(self, pull: Pull, now_s: float) -> Wait | None:
        """Hold first trials back until every agent of a known number asks for its own.

        An agent asks when its neighbours are there, but theirs may not be: without the gate, agents that are up early
        would take those that still start for dead.
        """
        if self.pulls or pull.trial > 1 or self.terms.agents is None:
            return None
        self._at_gate.add(pull.agent)
        self._gate_opens_s = min(self._gate_opens_s, now_s + GATE_S)
        missing = self.terms.agents - len(self._at_gate)
        return Wait(pull.trial, missing) if missing and now_s < self._gate_opens_s else None

    def _pull(self, seat: Seat, pull: Pull) -> Reply | None:
        agent, _, trial, arm, committed = pull
        pulled = seat.ledger.rounds_seen
        if committed > seat.committed:
            seat.committed = min(committed, pulled)
        uncommitted = trial - seat.committed
        if not (trial == pulled + 1 <= self._last and committed < trial and uncommitted <= self._most):
            return self._out_of_turn(seat, pull)
        if arm >= self._arms or self.pulls >= self._room:
            return self._out_of_turn(seat, pull)
        if self.real is None:
            reward = self._dealer.deal(agent, trial, arm)
        elif (paid := self.real.deal(agent, trial, arm)) is None:
            return _another_arm(pull) if self.real.conflicts(agent, trial, arm) else None
        else:
            reward = paid
        seat.ledger.count(0, trial, arm, reward)
        self.pulls += 1
        self.fresh.append((agent, trial, arm, reward))
        return Reward(trial, arm, reward)

    def _out_of_turn(self, seat: Seat, pull: Pull) -> Reply:
        """The answer to a pull that is not the next one of its agent, or cannot be made."""
        agent, trial, rounds = pull.agent, pull.trial, self.terms.rounds
        if pull.arm >= self._arms:
            return Refused(Refusal.ARM_OUT_OF_RANGE, f"arms are numbered 0…{self._arms - 1}, not {pull.arm}")
        if trial < seat.next_trial:
            return _again(seat, pull)
        if trial > self._last:
            return Refused(Refusal.RUN_OVER, f"the run ends with trial {rounds}")
        if trial == seat.next_trial and self.pulls >= self._room and trial > pull.committed:
            return Refused(Refusal.RUN_OVER, f"the environment has room for {LEDGER_LIMIT_PULLS} pulls")
        why = f"the next trial of agent {agent} is {seat.next_trial}"
        if trial == seat.next_trial:
            why += f", trials up to {seat.committed} are committed, and {self._most} more may be asked for"
        return Refused(Refusal.TRIAL_OUT_OF_ORDER, why)

    def _who_may_join(self, agent: int) -> str:
        if self.terms.agents is not None:
            return f"agents are numbered {self.terms.members_text:.100}, not {agent}"
        return f"there is room for {len(self.seats)} agents; start the environment with --agents for more"


def _again(seat: Seat, pull: Pull) -> Reply:
    """The reply to a trial that was pulled before: the same reward, or a refusal that does not tell the arm."""
    if pull.trial <= seat.committed:
        return Refused(
            Refusal.TRIAL_OUT_OF_ORDER,
            f"trial {pull.trial} of agent {pull.agent} is committed, the next one is {seat.next_trial}",
        )
    known = seat.ledger.pulled(0, pull.trial)
    assert known is not None  # noqa: S101  # ledgers have no gaps
    arm, reward = known
    if arm != pull.arm:
        return _another_arm(pull)
    return Reward(pull.trial, arm, reward)


def _another_arm(pull: Pull) -> Refused:
    return Refused(Refusal.TRIAL_CONFLICT, f"trial {pull.trial} of agent {pull.agent} was another arm")
