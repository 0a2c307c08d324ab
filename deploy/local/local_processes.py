"""The processes of a testbed on this machine, forked from one warm interpreter.

A fork server imports what agents need once; each agent is then a fork of a few milliseconds and a few megabytes
instead of an interpreter of its own. Nothing that must not be shared (ZeroMQ contexts, generators, descriptors of the
supervisor) exists in the fork server, because it is started before any of it and hears only of what it must pass on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from signal import Signals
from types import ModuleType
from typing import Any

from agentd import fork_server
from agentd.errors import AgentdError
from agentd.settings import AgentSettings
from deploy.local.children import GROUP_SIGNALS, Target, agent_target, child_main, environment_target, failures
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.names import ENVIRONMENT, STDERR, agent_name
from deploy.testbed.process_marks import ProcessMark, send
from deploy.testbed.processes import Observer, ending_text

PRELOADED = (
    "asyncio",
    "click",
    "ctypes",
    "msgpack",
    "numpy",
    "numpy.random",
    "structlog",
    "zmq",
    "zmq.asyncio",
    "agentd.cli",
    "agentd.environment.service",
    "agentd.shell.daemon",
    "agentd.shell.fault_injection",
    "agentd.shell.state.journal",
    "deploy.local.children",
    "deploy.local.warm_up",
)
"""What the fork server imports, so that no child has to."""
PRELOADED_WITH_KEYS = ("nacl.signing", "agentd.shell.doors.key_admission", "agentd.shell.signing.key_notary")
"""What it imports before that where links have keys; it holds no key."""


@dataclass(slots=True, eq=False)
class Child:
    """One process of the testbed."""

    name: str
    process: ForkServerProcess
    mark: ProcessMark | None
    """None: it ended before anybody could look."""
    exit_code: int | None = None

    @property
    def is_up(self) -> bool:
        """Whether it runs, as far as has been noticed."""
        return self.exit_code is None

    @property
    def pid(self) -> int | None:
        return self.mark.pid if self.mark is not None else None


class LocalProcesses:
    """Starts, signals and reaps the processes of one testbed, each with its socket; what they run can be replaced."""

    def __init__(
        self,
        run_dir: Path,
        listeners: Mapping[str, socket.socket] | None = None,
        *,
        agent: Target = agent_target,
        environment: Target = environment_target,
        keyed: bool = False,
    ) -> None:
        self._run_dir = run_dir
        self._listeners = listeners or {}
        self._agent = agent
        self._environment = environment
        self._context = _warm_context((*PRELOADED_WITH_KEYS, *PRELOADED) if keyed else PRELOADED)
        self._selector: selectors.BaseSelector
        self._observer: Observer
        self.children: dict[str, Child] = {}
        """The newest process of each name."""

    def attend(self, selector: selectors.BaseSelector, observer: Observer) -> None:
        """Watch children through this selector."""
        self._selector, self._observer = selector, observer

    def start_environment(self, environment: EnvironmentPlan) -> None:
        """The environment; it says through a pipe that it listens."""
        hears, says = self._context.Pipe(duplex=False)
        self._start(ENVIRONMENT, environment.listen, self._environment, environment, says)
        says.close()
        self._selector.register(hears, selectors.EVENT_READ, lambda: self._environment_spoke(hears))

    def start_agents(self, agents: Sequence[AgentSettings], interrupted: Callable[[], bool]) -> None:
        """All agents, one after the other."""
        for settings in agents:
            if interrupted():
                return
            self._start(agent_name(settings.id), settings.listen, self._agent, settings)

    def start_again(self, name: str, settings: AgentSettings | EnvironmentPlan) -> None:
        if isinstance(settings, EnvironmentPlan):
            self.start_environment(settings)
        else:
            self._start(name, settings.listen, self._agent, settings)

    def signal(self, names: Sequence[str], number: Signals) -> None:
        """Send a signal to processes by their names; nobody else can get it."""
        for name in names:
            self._send(self.children[name], number)

    def close(self) -> None:
        """Leave nobody behind, not even when the supervisor ends by a bug."""
        for child in self.children.values():
            if self._send(child, signal.SIGKILL):
                self._reap(child)

    def _environment_spoke(self, hears: Connection) -> None:
        self._selector.unregister(hears)
        with hears, contextlib.suppress(EOFError, OSError):  # it ended without a word; its sentinel tells that better
            hears.recv()
            self._observer.listens()

    def _ended(self, child: Child) -> None:
        self._selector.unregister(child.process.sentinel)
        code = self._reap(child)
        # Whom a signal ended has no last words; what stands there is of an earlier life.
        why = failures(self._run_dir).get(child.name, ending_text(code)) if code > 0 else ending_text(code)
        self._observer.ended(child.name, code, why if code else "")

    def _reap(self, child: Child) -> int:
        """Take the exit code of a child whose sentinel says that it ended; negative: the signal that ended it."""
        child.process.join()
        code = child.process.exitcode
        child.exit_code = code if code is not None else 1
        child.process.close()
        return child.exit_code

    def _send(self, child: Child, number: Signals) -> bool:
        return child.is_up and child.mark is not None and send(child.mark, number)

    def _start(self, name: str, listen: str, target: Target, *arguments: Any) -> None:
        child = self._fork(name, listen, target, *arguments)
        self.children[name] = child
        self._selector.register(child.process.sentinel, selectors.EVENT_READ, lambda: self._ended(child))
        self._observer.started(name)

    def _fork(self, name: str, listen: str, target: Target, *arguments: Any) -> Child:
        """A process that runs the target, with the socket that was opened for it."""
        listener = (listen, self._listeners[listen]) if listen in self._listeners else None
        process = self._context.Process(
            target=child_main, args=(name, str(self._run_dir), listener, target, *arguments), name=name, daemon=True
        )
        try:
            with _main_left_out():
                process.start()
        except (OSError, EOFError) as fault:
            raise AgentdError(
                f"cannot start {name}: {fault or 'the fork server ended'}; see {STDERR}, and the limits on processes"
            ) from None
        return Child(name, process, ProcessMark.of(process.pid) if process.pid else None)


@contextlib.contextmanager
def _main_left_out() -> Iterator[None]:
    """Start processes that do not run our `__main__` again, as multiprocessing would have them do.

    They need nothing of it, and running it would copy two megabytes of what the fork server shares into each of them.
    """
    ours = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = ours


def _warm_context(preloaded: Sequence[str]) -> ForkServerContext:
    """The fork server, running, deaf to signals that are meant for the supervisor.

    Ctrl-C, a closed terminal and `timeout` reach the whole process group. A mask is inherited, so what is blocked here
    is blocked in the fork server and in all it will fork, until they have left the group (`children.child_main`).
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    fork_server.end_at_exit()
    # The tracker comes first and by itself: starting it unblocks signals.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context
