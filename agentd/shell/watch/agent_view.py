"""What others may see of an agent.

The rule: what is shown follows from frames that were sent, from what was received, from settings and from time; from
a raw reward only through these. What follows from an agent's arms (which arm it
favours, what exactly it has spent) is shown only where arms may be known: with an algorithm whose whole transcript is
proven private. Of others that add noise, the ε that is shown is what the fixed schedule allows by then, which follows
from the trial alone. Where rewards may be durations (arms of the agent's own) no time is shown, and no trial before its
frame has left. See docs/watching.md.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentd.core.agent import Agent
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.beliefs import as_figures
from agentd.core.rounds import Standing
from agentd.core.saved_state import SavedState
from agentd.settings import AgentSettings
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper
from agentd.shell.watch.schedule_bound import ScheduleBound
from agentd.shell.watch.snapshot import Figure, Observed, counter, counters, gauge, gauges

_SHARED = ("tcp://", "ipc://", "inproc://")
"""Where an environment answers; all else are arms of the agent's own."""
_STALE_ROUNDS = 3
_LEAST_STALE_S = 5.0
TIMES = ("rounds_per_s", "round_s", "journal_s")
"""What is told of how long things take."""
_MOST_DISTRUSTED = 16
_HEARD = (Standing.SPEAKING, Standing.LIVE)


def has_own_arms(settings: AgentSettings) -> bool:
    """Whether a reward may be a duration: then times tell rewards."""
    return not settings.environment.startswith(_SHARED)


def _lost_rounds(saved: SavedState | None, trial: int) -> bool:
    """Whether a life before this one may have released what its state does not know of."""
    return saved is not None and (saved.trial != trial or any(each.value is None for each in saved.releases))


@dataclass(slots=True)
class _Heard:
    """Of one neighbour: the last frame, and when it was there for the first time."""

    mark: tuple[int, int]
    at_s: float


class AgentView:
    """Looks at an agent between its rounds."""

    def __init__(
        self,
        settings: AgentSettings,
        agent: Agent,
        link: Link,
        keeper: StateKeeper,
        *,
        arms: int,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._agent, self._link, self._keeper = settings, agent, link, keeper
        self._algorithm = ALGORITHMS[settings.algorithm]
        self._bound = ScheduleBound(self._algorithm, settings.policy(arms))
        self._lost_rounds = _lost_rounds(keeper.saved, agent.trial)
        self._now_s = now_s
        self._timed = not has_own_arms(settings)
        self._chosen: deque[tuple[int, int]] = deque()
        if self._algorithm.proven:  # else nobody may know which arms are pulled
            keeper.on_choice = lambda trial, arm: self._chosen.append((trial, arm))
        self._pulled: Counter[int] = Counter()
        self._heard: dict[int, _Heard] = {}
        self._round, self._round_at_s = -1, now_s()
        self._before = (agent.trial, keeper.journal_s, keeper.commits, now_s())
        self._speeds: dict[str, float | None] = {}

    def __call__(self, state: str) -> Observed:
        """What there is to see now."""
        now_s = self._now_s()
        self._look_at_speed(now_s)
        neighbours = list(self._neighbours(now_s))
        trial = self._agent.trial if self._timed else min(self._agent.trial, self._link.round)
        epsilon, favoured = self._epsilon(trial), self._favoured(trial)
        verdicts, dropped = self._verdicts(), self._dropped()
        status = {
            "trial": trial,
            "round": self._link.round,
            "rounds": self._settings.rounds,
            **self._speeds,
            "messages": verdicts,
            "bytes": self._link.bytes,
            "dropped": dropped,
            "neighbours": neighbours,
            "epsilon": epsilon,
            "favoured": favoured,
            "distrusted": self._distrusted(),
        }
        figures = (
            gauge("trial", "The agent's last trial.", trial),
            gauge("round", "The round that it is in.", self._link.round),
            *self._speed_figures(),
            counters("messages", "Messages by what became of them; sent once per neighbour.", "verdict", verdicts),
            counter("sent_bytes", "Bytes of frames, once per neighbour.", self._link.bytes),
            counters("dropped", "What was refused or lost, by reason.", "reason", dropped),
            *_neighbour_figures(neighbours),
            *_epsilon_figures(epsilon),
            *_favoured_figures(favoured),
        )
        return Observed(figures, status, self._unready(state, neighbours, now_s))

    def _look_at_speed(self, now_s: float) -> None:
        """Speeds since the last look, at least half a second and a round ago; a long while without one is slow, too."""
        trial, journal_s, commits, at_s = self._before
        passed_s, closed = now_s - at_s, self._agent.trial - trial  # a round closes a trial, and may jump
        if passed_s < 0.5 or not self._timed or (closed == 0 and passed_s < self._stale_s()):
            return
        committed = self._keeper.commits - commits
        self._speeds = {
            "rounds_per_s": round(closed / passed_s, 2),
            "round_s": round(passed_s / closed, 4) if closed > 0 else None,
            "journal_s": round((self._keeper.journal_s - journal_s) / committed, 4) if committed else None,
        }
        self._before = (self._agent.trial, self._keeper.journal_s, self._keeper.commits, now_s)

    def _speed_figures(self) -> Iterator[Figure]:
        about = {
            "rounds_per_s": ("rounds_per_second", "Rounds closed per second."),
            "round_s": ("round_seconds", "What a round took, on average since the last look."),
            "journal_s": ("journal_seconds", "What writing a round to disk took, on average since the last look."),
        }
        for name, value in self._speeds.items():
            if value is not None:
                yield gauge(*about[name], value)

    def _neighbours(self, now_s: float) -> Iterator[dict[str, Any]]:
        for neighbour in self._link.rounds.everybody:
            mark = (neighbour.incarnation, neighbour.sequence)
            heard = self._heard.get(neighbour.id)
            if heard is None or heard.mark != mark:
                heard = self._heard[neighbour.id] = _Heard(mark, now_s)
            yield {
                "id": neighbour.id,
                "standing": neighbour.standing.name.lower(),
                "up": self._is_up(neighbour.standing, now_s - heard.at_s),
                "silent_s": round(now_s - heard.at_s, 1),
                "round": neighbour.round,
            }

    def _is_up(self, standing: Standing, silent_s: float) -> bool:
        """In lockstep the rounds know; on its own clock an agent waits for nobody, and time must tell."""
        in_time = self._settings.clock == "lockstep" or silent_s <= self._stale_s()
        return standing is Standing.LEFT or (standing in _HEARD and in_time)

    def _stale_s(self) -> float:
        lockstep = self._settings.clock == "lockstep"
        longest_s = self._settings.round_timeout_s if lockstep else self._settings.interval_s
        return max(_LEAST_STALE_S, _STALE_ROUNDS * longest_s)

    def _unready(self, state: str, neighbours: list[dict[str, Any]], now_s: float) -> str:
        if self._link.round != self._round:
            self._round, self._round_at_s = self._link.round, now_s
        if state != "running":
            return f"it is {state}"
        if down := [str(each["id"]) for each in neighbours if not each["up"]]:
            return f"neighbours down: {', '.join(down)}"
        stalled = now_s - self._round_at_s > self._stale_s()
        return "no round was closed for a while; the environment may be silent" if stalled else ""

    def _distrusted(self) -> list[dict[str, Any]]:
        """Those whom the algorithm trusts least, and which claim speaks against them; it goes by released values."""
        told = getattr(self._agent.policy, "trust_in_others", None)
        doubts = told() if told is not None and self._algorithm.proven else ()
        return [as_figures(doubt) for doubt in doubts[:_MOST_DISTRUSTED] if doubt.arm is not None]

    def _verdicts(self) -> dict[str, int]:
        agent = self._agent
        return {"sent": self._link.messages, "counted": agent.heard, **dict(sorted(agent.redundant.items()))}

    def _dropped(self) -> dict[str, int]:
        """By reason; how often the budget refused something follows from arms."""
        dropped = self._agent.dropped + self._link.dropped
        ledger = self._agent.policy.ledger if self._algorithm.proven and self._timed else None
        if ledger is not None and ledger.refused:
            dropped["budget"] = ledger.refused
        return dict(sorted(dropped.items()))

    def _epsilon(self, trial: int) -> dict[str, Any] | None:
        """Of one reward: what was spent (or at most), what may be, and what is left; None: nobody can tell."""
        spent = self._spent(trial)
        if spent is None:
            return None
        budget = self._settings.epsilon_budget
        left = None if budget is None else max(0.0, budget - spent)
        exact = self._algorithm.proven and self._timed
        return {"spent": spent, "exact": exact, "budget": budget, "left": left}

    def _spent(self, trial: int) -> float | None:
        ledger = self._agent.policy.ledger
        if ledger is None or (self._lost_rounds and not self._algorithm.disjoint):
            return None  # each lost round may have made one more release, and of which arm follows from arms
        if self._algorithm.proven and self._timed:
            return ledger.epsilon_one_reward()
        bound = self._bound.at(trial)
        return self._settings.epsilon_budget if bound is None else bound

    def _favoured(self, trial: int) -> dict[str, Any] | None:
        """Of the pulls up to this trial."""
        while self._chosen and self._chosen[0][0] <= trial:
            self._pulled[self._chosen.popleft()[1]] += 1
        if not self._pulled:
            return None
        arm, times = min(self._pulled.items(), key=lambda each: (-each[1], each[0]))
        return {"arm": arm, "share": round(times / self._pulled.total(), 4)}


def _neighbour_figures(neighbours: list[dict[str, Any]]) -> Iterator[Figure]:
    about = {
        "up": ("neighbour_up", "1 if it is heard, or said goodbye."),
        "silent_s": ("neighbour_silent_seconds", "Since its last frame was noticed, to about a second."),
        "round": ("neighbour_round", "The newest round that it is known to have reached."),
    }
    for key, (name, said) in about.items():
        yield gauges(name, said, "neighbour", ((each["id"], each[key]) for each in neighbours))


def _epsilon_figures(epsilon: dict[str, Any] | None) -> Iterator[Figure]:
    about = {
        "spent": "The ε that one reward was exposed to, or at most (status tells which).",
        "budget": "What it may be at most, by --epsilon-budget.",
        "left": "What is left of that.",
    }
    for key, said in about.items():
        if epsilon is not None and (value := epsilon[key]) is not None and math.isfinite(value):
            yield gauge(f"epsilon_{key}", said, value)


def _favoured_figures(favoured: dict[str, Any] | None) -> Iterator[Figure]:
    if favoured is not None:
        yield gauge("favoured_arm", "The arm that was pulled most since it started.", favoured["arm"])
        yield gauge("favoured_share", "Its share of these pulls.", favoured["share"])
