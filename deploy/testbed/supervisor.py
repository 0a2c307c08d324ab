"""The process that answers for a testbed: it waits for events, asks `Lifecycle` what they mean, and does as told.

Events are children that ended (their sentinels), signals (a wakeup descriptor), requests on the control socket and the
environment's word that it listens: one selector waits for all of them. Only the status file is looked at by the clock.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from agentd.errors import AgentdError
from agentd.files import append_text
from agentd.quantities import counted
from agentd.runs import fault_log
from agentd.runs.status import Status, read_status
from agentd.untrusted import printable
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.names import ENVIRONMENT, SUPERVISOR_LOG, agent_name, agent_of
from deploy.plan.plan import Plan
from deploy.testbed import registry
from deploy.testbed.control import ControlSocket, Reply, Request
from deploy.testbed.lifecycle import (
    ENVIRONMENT_GRACE_S,
    Lifecycle,
    Lost,
    Order,
    Phase,
    Send,
    StartAgain,
    StartAgents,
)
from deploy.testbed.processes import Processes
from deploy.testbed.registry import State, Testbed

LOG = SUPERVISOR_LOG
_START_TICK_S = 0.2
_RECORD_EVERY = 20
_RECORDS = 10
"""How often testbed.json is written while a large testbed starts."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STATES = {Phase.STARTING: State.STARTING, Phase.RUNNING: State.RUNNING}


@dataclass(frozen=True, slots=True)
class View:
    """What there is to show of a running testbed."""

    phase: Phase
    elapsed_s: float
    agents: int
    rounds: int
    down: tuple[int, ...]
    status: Status | None
    notices: tuple[str, ...] = ()
    """What an operator should hear of, from the beginning on: a new one is at the end."""


class Display(Protocol):
    """Somebody who shows how the testbed is doing."""

    tick_s: float | None
    """How often to be told; None: never."""

    def update(self, view: View) -> None:
        """Told every `tick_s`, and while starting more often."""
        ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a testbed ended."""

    wall_s: float
    stopped_by: int | None = None
    """The signal that ended it before it was done."""
    failure: str = ""
    """What went wrong with the testbed as a whole; empty: nothing."""
    lost: tuple[Lost, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 done, 1 failed, 128 + n ended by signal n."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return 1 if self.failure or self.lost else 0


class Supervisor:
    """Carries one plan out, in the process and the main thread that call `run`."""

    def __init__(
        self,
        plan: Plan,
        environment: EnvironmentPlan,
        testbed: Testbed,
        processes: Processes,
        display: Display,
        *,
        grace_s: float,
        environment_grace_s: float = ENVIRONMENT_GRACE_S,
        revivals: int = 0,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.testbed = testbed
        self._plan = plan
        self._environment = environment
        self._processes = processes
        self._display = display
        self._on_ready = on_ready
        self._run_dir: Path = testbed.run_dir
        self._selector = selectors.DefaultSelector()
        self._began = time.monotonic()
        self._lifecycle = Lifecycle(
            self._began,
            ready_timeout_s=plan.agents[0].ready_s,
            grace_s=grace_s,
            environment_grace_s=environment_grace_s,
            revivals=revivals,
        )
        self._next_look = self._began
        self._signals: list[int] = []
        self._waiting: dict[str, list[Reply]] = {}
        """Who is to be told when a process has started again."""
        self._recorded: tuple[State, int] | None = None
        self._died: dict[str, str] = {}
        """How processes died that are being started again unasked."""
        self._notices: list[str] = []

    def run(self) -> Ending:
        """Carry the testbed through its life."""
        names = {ENVIRONMENT, *(agent_name(agent.id) for agent in self._plan.agents)}
        with self._signals_heard():
            control = ControlSocket(self._run_dir, names, self._answer, self._selector)
            try:
                self._processes.attend(self._selector, self)
                self._processes.start_environment(self._environment)
                while self._lifecycle.phase is not Phase.OVER:
                    self._turn()
            finally:
                control.close()
                self._processes.close()
        self._selector.close()
        lost = tuple(sorted(self._lifecycle.lost.values(), key=lambda lost: lost.agent))
        return Ending(time.monotonic() - self._began, self._lifecycle.stopped_by, self._lifecycle.failure, lost)

    def _turn(self) -> None:
        """Wait for something to happen, and see it through."""
        for key, _ in self._selector.select(self._timeout()):
            key.data()
        while self._signals:
            self._do(self._lifecycle.asked_to_stop(self._signals.pop(0), time.monotonic()))
        self._do(self._lifecycle.tick(time.monotonic()))
        self._look()
        self._record()

    def _do(self, orders: Iterable[Order]) -> None:
        for order in orders:
            match order:
                case StartAgents():
                    self._start_agents()
                case StartAgain(name, after):
                    self._start_again(name, after)
                case Send(number, names):
                    self._note(f"{number.name} to {_named(names)}")
                    self._processes.signal(names, number)

    # What the processes' runtime tells

    def started(self, name: str, *, by_itself: bool = False) -> None:
        """A process runs, for the first time or again."""
        self._do(self._lifecycle.started(name))
        waiting = self._waiting.pop(name, [])
        died = self._died.pop(name, "")
        if died:
            self._write_fault("restart", name, f"died ({died}) and was started again from its journal")
            self._notice(f"the {name} died ({died}) and was started again from its journal; the run goes on")
        elif waiting or by_itself:
            self._write_fault("restart", name, "restarted")
            if by_itself and not waiting and name == ENVIRONMENT:
                self._notice(f"the {name} died and its runtime started it again; the run goes on")
        if died or waiting or by_itself:
            self._recorded = None  # the same number of processes, but another one among them
        for reply in waiting:
            reply({"ok": True, "pid": self._processes.children[name].pid})
        self._record(every=max(_RECORD_EVERY, len(self._plan.agents) // _RECORDS))

    def listens(self) -> None:
        """The environment takes requests."""
        self._do(self._lifecycle.listens(time.monotonic()))

    def ended(self, name: str, code: int, why: str, *, returns: bool = False) -> None:
        """A process ended, and only the lifecycle knows what that means."""
        if code:
            self._note(f"{name}: {why}{', and will be started again' if returns else ''}")
            self._next_look = 0.0
            self._look()  # whether all agents run already decides what this death means
        self._do(self._lifecycle.ended(name, code, why, time.monotonic(), returns=returns))

    def failed(self, why: str) -> None:
        """The runtime cannot go on."""
        self._note(why)
        self._do(self._lifecycle.failed(why, time.monotonic()))

    # Starting

    def _start_agents(self) -> None:
        self._processes.start_agents(self._plan.agents, lambda: bool(self._signals))
        self._note(f"starting {counted(len(self._plan.agents), 'agent')}")

    def _start_again(self, name: str, after: str) -> None:
        settings = self._environment if name == ENVIRONMENT else self._plan.agents[agent_of(name)]
        if after:
            self._died[name] = after
        try:
            self._processes.start_again(name, settings)
        except AgentdError as fault:
            self.failed(str(fault))

    # Waiting

    def _timeout(self) -> float | None:
        due = [moment for moment in (self._lifecycle.deadline, self._next_look if self._tick_s else None) if moment]
        return max(0.0, min(due) - time.monotonic()) if due else None

    @property
    def _tick_s(self) -> float | None:
        """How often to look at the status: while starting, to notice that all agents run; later for who watches."""
        shown = self._display.tick_s
        return min(_START_TICK_S, shown or _START_TICK_S) if self._lifecycle.phase is Phase.STARTING else shown

    def _look(self) -> None:
        if self._tick_s is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + self._tick_s
        status = read_status(self._run_dir)
        if status is not None:  # the first one is written when requests are taken
            self.listens()
        if self._lifecycle.phase is Phase.STARTING and status and self._all_pulled(status):
            self._lifecycle.all_pulled()
            self._record()
            self._on_ready()
        if self._display.tick_s is not None:
            self._display.update(self._view(status))

    def _all_pulled(self, status: Status) -> bool:
        """Whether every agent takes part; one that did so before its run was taken up again must have come back."""
        return len(status.seen() & status.awake()) == len(self._plan.agents)

    def _view(self, status: Status | None) -> View:
        return View(
            phase=self._lifecycle.phase,
            elapsed_s=time.monotonic() - self._began,
            agents=len(self._plan.agents),
            rounds=self._environment.rounds,
            down=tuple(sorted(lost.agent for lost in self._lifecycle.lost.values())),
            status=status,
            notices=tuple(self._notices),
        )

    # Requests

    def _answer(self, request: Request, reply: Reply) -> None:
        match request.do:
            case "status":
                reply({"ok": True, **self._describe()})
            case "stop":
                if self._lifecycle.phase in _STATES and not self._signals:  # asking twice is no second Ctrl-C
                    self._signals.append(signal.SIGTERM)
                reply({"ok": True})
            case "kill" if request.name in self._lifecycle.up:
                self._write_fault("kill", request.name, "killed")
                self._do(self._lifecycle.asked_to_kill(request.name))
                reply({"ok": True})
            case "restart" if self._lifecycle.phase in _STATES and request.name in self._processes.children:
                self._restart(request.name, reply)
            case _:
                reply(
                    {"ok": False, "error": f"{request.name} is not running and the testbed is {self._lifecycle.phase}"}
                )

    def _restart(self, name: str, reply: Reply) -> None:
        if name in self._lifecycle.up:
            self._write_fault("kill", name, "killed")
        self._waiting.setdefault(name, []).append(reply)  # answered when it has started again
        self._do(self._lifecycle.asked_to_restart(name))

    def _describe(self) -> dict[str, Any]:
        children = [
            {"name": child.name, "pid": child.pid if child.is_up else None, "exit_code": child.exit_code}
            for child in self._processes.children.values()
        ]
        return {"phase": str(self._lifecycle.phase), "run": self._plan.run.hex(), "children": children}

    # Writing down

    def _record(self, every: int = 1) -> None:
        """Write down which processes there are, where that has changed; that it ended is written after its summary."""
        now = (_STATES.get(self._lifecycle.phase, State.STOPPING), len(self._processes.children))
        if self._recorded and now[0] is self._recorded[0] and now[1] - self._recorded[1] < every:
            return
        self._recorded = now
        marks = {name: child.mark for name, child in self._processes.children.items() if child.mark is not None}
        self.testbed = replace(self.testbed, state=now[0], children=marks)
        registry.record(self.testbed)

    def _write_fault(self, verb: str, name: str, done: str) -> None:
        agents = () if name == ENVIRONMENT else self._plan.companions(agent_of(name))
        what = f"{name} {done}" + (f", with all {len(agents)} agents of its process" if len(agents) > 1 else "")
        round_ = fault_log.current_round(read_status(self._run_dir))
        fault_log.append(self._run_dir, round_, fault_log.Fault(verb, what, agents))
        self._note(what)

    def _notice(self, text: str) -> None:
        """Tell whoever watches, now."""
        self._notices.append(text)
        if self._display.tick_s is not None:
            self._display.update(self._view(read_status(self._run_dir)))

    def _note(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with contextlib.suppress(OSError):
            append_text(self._run_dir / LOG, f"{stamp} {printable(text)}\n")

    @contextlib.contextmanager
    def _signals_heard(self) -> Iterator[None]:
        """Signals become readable bytes, so that waiting for them is waiting for a file like all the rest."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._selector.register(reading, selectors.EVENT_READ, lambda: os.read(reading, 4096))
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, self._hear) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            self._selector.unregister(reading)
            os.close(reading)
            os.close(writing)

    def _hear(self, number: int, _frame: object) -> None:
        self._signals.append(number)


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
