"""The life of a testbed as a machine without processes: events go in, orders come out.

    STARTING ──every agent has pulled──▶ RUNNING ──all done──▶ OVER
        │ an agent fails (only while starting), the environment fails once too often, somebody asks to stop
        ▼
    STOPPING_AGENTS ──none left──▶ STOPPING_ENVIRONMENT ──it wrote its files──▶ OVER

The environment is stopped last, so that it hears the agents' last reports. An agent that is lost once the testbed runs
is counted and the others go on; one that is lost before fails the run, because nobody would notice later. Nothing is
started again unless somebody asks for it, or the runtime does so by itself and says so (`returns`): until it is back,
such a process is down, and nothing more. The environment alone is started again unasked, as often as `revivals` says:
every pull is in its journal, so nothing is lost with it, and the agents ask again until it answers. Times are seconds
on the caller's clock.
"""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from deploy.plan.names import ENVIRONMENT, agent_of

RETURN_S = 30.0
"""How long to wait for a process that its runtime said it would start again."""
GRACE_S = 5.0
"""How long a process may take to end after SIGTERM."""
ENVIRONMENT_GRACE_S = 60.0
"""How long the environment may take: it writes the results of the whole run, and to kill it then would lose them."""


def grace_for(agents: int, per_agent_s: float) -> float:
    """How long the processes of a testbed may take to end after SIGTERM: they all end at once, on few processors."""
    return GRACE_S + per_agent_s * agents


class Phase(IntEnum):
    """Where a testbed is in its life."""

    STARTING = 0
    RUNNING = 1
    STOPPING_AGENTS = 2
    STOPPING_ENVIRONMENT = 3
    OVER = 4

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class StartAgents:
    """Order: start every agent."""


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Order: start this one process anew."""

    name: str
    after: str = ""
    """How it died; empty: somebody asked for it."""


@dataclass(frozen=True, slots=True)
class Send:
    """Order: send a signal to these processes."""

    number: signal.Signals
    names: tuple[str, ...]


Order = StartAgents | StartAgain | Send


@dataclass(frozen=True, slots=True)
class Lost:
    """An agent that ended before it was done."""

    agent: int
    exit_code: int
    """Negative: the signal that ended it."""
    why: str

    def to_json(self) -> dict[str, Any]:
        """Plain values for the summary."""
        return {"agent": self.agent, "exit_code": self.exit_code, "why": self.why}


class Lifecycle:
    """Decides what a supervisor does next."""

    def __init__(
        self, now: float, *, ready_timeout_s: float, grace_s: float, environment_grace_s: float, revivals: int = 0
    ) -> None:
        self.phase = Phase.STARTING
        self.failure = ""
        """What went wrong with the testbed as a whole."""
        self.stopped_by: int | None = None
        """The signal that ended it before it was done."""
        self.lost: dict[str, Lost] = {}
        self.deadline: float | None = now + ready_timeout_s if math.isfinite(ready_timeout_s) else None
        """When `tick` must be called, whatever happens or does not happen until then."""
        self.up: set[str] = set()
        self._grace_s = grace_s
        self._environment_grace_s = environment_grace_s
        self._revivals = revivals
        self._listens = False
        self._environment_came = False
        self._absent_on_demand = False  # the environment, because somebody wants to see what happens then
        self._restarting: set[str] = set()
        self._returning: set[str] = set()

    # Events

    def started(self, name: str) -> list[Order]:
        """A process was started; one that comes back into a testbed that is stopping is stopped too."""
        self.up.add(name)
        self.lost.pop(name, None)
        self._returning.discard(name)
        if name == ENVIRONMENT:
            self._absent_on_demand, self._environment_came = False, True
        return [Send(signal.SIGTERM, (name,))] if self.phase in _STOPS.get(name == ENVIRONMENT, ()) else []

    def listens(self, now: float) -> list[Order]:
        """The environment is ready for agents."""
        if self._listens or self.phase is not Phase.STARTING:
            return []
        self._listens, self.deadline = True, None
        return [StartAgents(), *self.tick(now)]

    def all_pulled(self) -> None:
        """Every agent has made its first pull."""
        if self.phase is Phase.STARTING:
            self._enter(Phase.RUNNING)

    def failed(self, why: str, now: float) -> list[Order]:
        """The runtime cannot carry the testbed any further."""
        self._fail(why)
        return self.tick(now)

    def ended(self, name: str, code: int, why: str, now: float, *, returns: bool = False) -> list[Order]:
        """A process ended; `returns`: the runtime will start it again by itself."""
        self.up.discard(name)
        if name in self._restarting:
            self._restarting.remove(name)
            return [StartAgain(name)]
        if returns and not self._is_stopping:
            self._await_return(name, code, why)
        elif name == ENVIRONMENT:
            if code and not self._absent_on_demand and not self._is_stopping:
                if self._may_revive():
                    return [StartAgain(name, after=why)]
                self._fail(f"the environment failed: {why}")
        elif code and not self._is_stopping:
            self.lost[name] = Lost(agent_of(name), code, why)
            if self.phase is Phase.STARTING:
                self._fail(f"{name} failed before the testbed was ready: {why}")
        return self.tick(now)

    def asked_to_stop(self, number: int, now: float) -> list[Order]:
        """Somebody wants the end: in order, or at once where that was asked before."""
        if self._is_stopping:
            return [Send(signal.SIGKILL, tuple(sorted(self.up)))]
        self.stopped_by = number
        return [*self._stop_agents(now), *self.tick(now)]

    def asked_to_kill(self, name: str) -> list[Order]:
        """Somebody wants to see a crash; what it ends with counts as one."""
        self._absent_on_demand = self._absent_on_demand or name == ENVIRONMENT
        return [Send(signal.SIGKILL, (name,))]

    def asked_to_restart(self, name: str) -> list[Order]:
        """Somebody wants a process started anew, after its end if it still runs; nothing restarts in a stopping one."""
        if self._is_stopping:
            return []
        if name not in self.up:
            return [StartAgain(name)]
        self._restarting.add(name)
        return [Send(signal.SIGKILL, (name,))]

    def tick(self, now: float) -> list[Order]:
        """Time has passed, or something happened that may have consequences."""
        orders: list[Order] = []
        if not self._is_stopping:
            orders += self._look_for_the_end(now)
        if self.phase is Phase.STOPPING_AGENTS and not self.agents_up():
            orders += self._stop_environment(now)
        if self.phase is Phase.STOPPING_ENVIRONMENT and ENVIRONMENT not in self.up:
            self._enter(Phase.OVER)
        if self._is_stopping and self._is_late(now):
            orders += self._kill_late(now)
        return orders

    # State

    def agents_up(self) -> tuple[str, ...]:
        """The agents that run."""
        return tuple(sorted(self.up - {ENVIRONMENT}))

    @property
    def _is_stopping(self) -> bool:
        return self.phase >= Phase.STOPPING_AGENTS

    def _may_revive(self) -> bool:
        """Whether an environment that died is started again; one that never listened would only die again."""
        revives = self._listens and self._revivals > 0
        self._revivals -= revives
        return revives

    def _await_return(self, name: str, code: int, why: str) -> None:
        self._returning.add(name)
        if name == ENVIRONMENT:
            self._absent_on_demand = True
        else:
            self.lost[name] = Lost(agent_of(name), code, why)

    def _look_for_the_end(self, now: float) -> list[Order]:
        if self.failure:
            return self._stop_agents(now)
        if ENVIRONMENT not in self.up and self._environment_came:
            return self._without_environment(now)
        if not self._listens:
            if self._is_late(now):
                self._fail("the environment did not get ready in time; see logs/environment.jsonl")
                return self._stop_agents(now)
            return []
        if self.agents_up() or self._restarting:
            self.deadline = None
            return []
        return self._stop_environment(now) if self._is_given_up(now) else []

    def _is_given_up(self, now: float) -> bool:
        """Whether nobody is left to wait for: with an agent lost the environment would wait for ever for its report."""
        if self._returning:
            return self._patience_ends(now, RETURN_S)
        return bool(self.lost) or self._patience_ends(now, self._environment_grace_s)

    def _without_environment(self, now: float) -> list[Order]:
        """The environment ended: on demand, or because it heard the last report of every agent."""
        if not self.agents_up() and not self._restarting:
            if not self._listens:
                self._fail("the environment ended before any agent started")
            self._enter(Phase.OVER)
            return []
        if not self._absent_on_demand and self._patience_ends(now, self._grace_s):
            return self._stop_agents(now)
        return []

    def _patience_ends(self, now: float, patience_s: float) -> bool:
        """Whether those that should end by themselves had their time for it; the first call starts the clock."""
        if self.deadline is None:
            self.deadline = now + patience_s
        return self._is_late(now)

    def _is_late(self, now: float) -> bool:
        return self.deadline is not None and now >= self.deadline

    def _stop_agents(self, now: float) -> list[Order]:
        self._enter(Phase.STOPPING_AGENTS)
        self.deadline = now + self._grace_s
        return _send(signal.SIGTERM, self.agents_up())

    def _stop_environment(self, now: float) -> list[Order]:
        self._enter(Phase.STOPPING_ENVIRONMENT)
        self.deadline = now + self._environment_grace_s
        return _send(signal.SIGTERM, tuple(self.up & {ENVIRONMENT}))

    def _kill_late(self, now: float) -> list[Order]:
        """Kill whoever had its grace: agents, and when they are gone the environment."""
        self.deadline = now + self._grace_s
        if self.phase is Phase.STOPPING_ENVIRONMENT:
            self._fail(f"the environment {_late(self._environment_grace_s)}")
            return _send(signal.SIGKILL, tuple(self.up))
        for name in self.agents_up():
            self.lost[name] = Lost(agent_of(name), -signal.SIGKILL, _late(self._grace_s))
        return _send(signal.SIGKILL, self.agents_up())

    def _fail(self, failure: str) -> None:
        self.failure = self.failure or failure

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.deadline = None


_STOPS = {
    False: (Phase.STOPPING_AGENTS, Phase.STOPPING_ENVIRONMENT),
    True: (Phase.STOPPING_ENVIRONMENT,),
}
"""When a process is no longer wanted: an agent, and the environment."""


def _send(number: signal.Signals, names: tuple[str, ...]) -> list[Order]:
    return [Send(number, names)] if names else []


def _late(grace_s: float) -> str:
    return f"did not stop within {grace_s:g} s and was killed"
