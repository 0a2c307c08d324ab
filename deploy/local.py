"""The processes of a testbed on this machine, forked from one warm interpreter.

A fork server imports what agents need once; each agent is then a fork of a few milliseconds and a few megabytes
instead of an interpreter of its own. Nothing that must not be shared (ZeroMQ contexts, generators, descriptors of the
supervisor) exists in the fork server, because it is started before any of it and hears only of what it must pass on.
"""

from __future__ import annotations

import atexit
import multiprocessing
import signal
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from agentd.errors import AgentdError
from agentd.settings import AgentSettings
from deploy.children import (
    ENVIRONMENT,
    GROUP_SIGNALS,
    STDERR,
    EnvironmentPart,
    Target,
    agent_name,
    agent_target,
    child_main,
    environment_target,
)
from deploy.processes import ProcessMark, send

PRELOADED = (
    "asyncio",
    "click",
    "ctypes",
    "msgpack",
    "numpy",
    "structlog",
    "zmq",
    "zmq.asyncio",
    "agentd.cli",
    "agentd.environment.service",
    "agentd.shell.daemon",
    "agentd.shell.faulty",
    "deploy.children",
)
"""What the fork server imports, so that no child has to."""


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


class Crew:
    """Starts, signals and reaps the processes of one testbed; what they run can be replaced, for tests."""

    def __init__(
        self, run_dir: Path, *, agent: Target = agent_target, environment: Target = environment_target
    ) -> None:
        self._run_dir = run_dir
        self._agent = agent
        self._environment = environment
        self._context = _warm_context()
        self.children: dict[str, Child] = {}
        """The newest process of each name."""

    def start_environment(self, part: EnvironmentPart) -> tuple[Child, Connection]:
        """The environment, and where it will say that it listens."""
        hears, says = self._context.Pipe(duplex=False)
        child = self._start(ENVIRONMENT, self._environment, part, says)
        says.close()
        return child, hears

    def start_agent(self, settings: AgentSettings) -> Child:
        """One agent."""
        return self._start(agent_name(settings.id), self._agent, settings)

    def reap(self, child: Child) -> int:
        """Take the exit code of a child whose sentinel says that it ended; negative: the signal that ended it."""
        child.process.join()
        code = child.process.exitcode
        child.exit_code = code if code is not None else 1
        child.process.close()
        return child.exit_code

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Send a signal to a process by its name; False where there was nobody to send it to."""
        child = self.children[name]
        return child.is_up and child.mark is not None and send(child.mark, number)

    def kill_all(self) -> None:
        """Leave nobody behind, not even when the supervisor ends by a bug."""
        for name, child in self.children.items():
            if self.signal(name, signal.SIGKILL):
                self.reap(child)

    def _start(self, name: str, target: Target, *arguments: Any) -> Child:
        process = self._context.Process(
            target=child_main, args=(name, str(self._run_dir), target, *arguments), name=name, daemon=True
        )
        try:
            process.start()
        except (OSError, EOFError) as fault:
            raise AgentdError(
                f"cannot start {name}: {fault or 'the fork server ended'}; see {STDERR}, and the limits on processes"
            ) from None
        child = Child(name, process, ProcessMark.of(process.pid) if process.pid else None)
        self.children[name] = child
        return child


def _warm_context() -> ForkServerContext:
    """The fork server, running, deaf to signals that are meant for the supervisor.

    Ctrl-C, a closed terminal and `timeout` reach the whole process group. A mask is inherited, so what is blocked here
    is blocked in the fork server and in all it will fork, until they have left the group (`children.child_main`).
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    atexit.register(_end_fork_server)
    # The tracker comes first and by itself: starting it unblocks signals.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _end_fork_server() -> None:
    """Wait for the fork server to end, so that nothing of ours is left when we are gone.

    It would end by itself, moments after us; a caller that looks at once would still see it.
    """
    stop = getattr(getattr(forkserver, "_forkserver", None), "_stop", None)
    if stop is not None:  # not a public function, so only where it exists
        stop()
