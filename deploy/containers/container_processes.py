"""The containers of a testbed as `Processes`: Docker's own events tell what happens to them.

Which program starts containers differs (`Launcher`: compose, or a swarm); watching, signalling and removing them does
not. Whatever takes long runs beside the supervisor, in a session of its own, so that Ctrl-C is always answered.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import IO, Any, Protocol

from agentd.files import append_text, open_own
from agentd.settings import AgentSettings
from agentd.untrusted import printable, printable_lines, read_in
from deploy.containers import containers, lent_directories
from deploy.containers.compose_document import LABEL_PROJECT
from deploy.containers.containers import ContainerMark, Inspected
from deploy.containers.docker import Docker, last_words
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.names import ENVIRONMENT, STDERR, agent_name, agent_of, host_name
from deploy.testbed.processes import Observer, ending_text

LOG = "logs/docker.log"
"""What the programs said that started the containers."""
_SAYS = "error: "
_LAST_LINES = "40"
_LONGEST_WORDS = 2_000


class Launcher(Protocol):
    """A program that makes containers of a document."""

    batch: int
    """How many services it is asked for at once."""
    environment: Mapping[str, str]
    """Variables it needs."""

    def start(self, names: Sequence[str]) -> list[str]:
        """The command that starts these services."""
        ...

    def start_again(self, name: str, container: str) -> list[str]:
        """The command that starts one anew whose container has ended."""
        ...

    def returns(self, ended: Inspected | None, code: int, crashes: int) -> bool:
        """Whether one that ended so will be started again without being asked."""
        ...

    def patience_s(self, names: int) -> float:
        """How long it may take to start so many."""
        ...

    def remove(self) -> None:
        """Remove everything that it made; doing it twice does no harm."""
        ...


@dataclass(slots=True, eq=False)
class Container:
    """One container of the testbed."""

    name: str
    mark: ContainerMark
    exit_code: int | None = None
    returns: bool = False
    """It ended, and Docker will start it again."""
    crashes: int = 0

    @property
    def is_up(self) -> bool:
        """Whether it runs, as far as has been noticed."""
        return self.exit_code is None

    @property
    def pid(self) -> int | None:
        """The number of its first process on this machine."""
        return self.mark.pid or None


@dataclass(slots=True, eq=False)
class BackgroundCommand:
    """A command that runs beside the supervisor."""

    process: subprocess.Popen[bytes]
    descriptor: int
    """Readable when it has ended."""
    then: Callable[[int], None]
    timer: threading.Timer | None = None
    late: bool = False

    def kill(self) -> None:
        """End it and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def expires_in(self, seconds: float) -> None:
        """Give it so much time and no more."""
        self.timer = threading.Timer(seconds, self._expire)
        self.timer.daemon = True
        self.timer.start()

    def forget(self) -> int:
        """Clean up after it; its exit code."""
        if self.timer is not None:
            self.timer.cancel()
        os.close(self.descriptor)
        return self.process.wait()

    def _expire(self) -> None:
        self.late = True
        self.kill()


class ContainerProcesses:
    """Starts, signals and watches the containers of one testbed."""

    def __init__(self, docker: Docker, launcher: Launcher, project: str, run_dir: Path, per_process: int = 1) -> None:
        """With more than one agent in a process, each container holds so many; they begin and end with it."""
        self._docker = docker
        self._launcher = launcher
        self._project = project
        self._run_dir = run_dir
        self._per_process = per_process
        self._asked: set[str] = set()
        """Services that are started again because the supervisor wants it."""
        self._selector: selectors.BaseSelector
        self._observer: Observer
        self._events: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._command: BackgroundCommand | None = None
        self._waiting: deque[list[str]] = deque()
        self.children: dict[str, Container] = {}
        """The newest container of each name."""

    def attend(self, selector: selectors.BaseSelector, observer: Observer) -> None:
        """Listen to Docker's events, from now on."""
        self._selector, self._observer = selector, observer
        events = ("--filter", "type=container", "--filter", "event=start", "--filter", "event=die")
        label = ("--filter", f"label={LABEL_PROJECT}={self._project}")
        since = ("--since", f"{time.time() - 1:.3f}")  # what happens before it listens is told too
        command = [self._docker.client, "events", *since, *label, *events, "--format", "{{json .}}"]
        self._events = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stream = self._stream
        os.set_blocking(stream.fileno(), False)
        selector.register(stream, selectors.EVENT_READ, self._read_events)

    def start_environment(self, environment: EnvironmentPlan) -> None:  # noqa: ARG002 - it is in the document
        """The container of the environment, of which the document says everything."""
        self._start([ENVIRONMENT])

    def start_agents(self, agents: Sequence[AgentSettings], interrupted: Callable[[], bool]) -> None:
        """The agents' containers, a batch at a time."""
        if interrupted():
            return
        names = list(dict.fromkeys(self._service(agent_name(settings.id)) for settings in agents))
        size = self._launcher.batch
        self._waiting.extend(names[first : first + size] for first in range(0, len(names), size))
        self._next_batch()

    def start_again(self, name: str, settings: AgentSettings | EnvironmentPlan) -> None:  # noqa: ARG002
        container = self.children[name].mark.id
        for each in self.children.values():
            each.returns = each.returns or each.mark.id == container
        service = self._service(name)
        self._asked.add(service)
        command = self._launcher.start_again(service, container)
        self._run(command, 1, lambda code: self._has_started([service], code))

    def _service(self, name: str) -> str:
        """What the document calls the container of an agent."""
        if name == ENVIRONMENT or self._per_process == 1:
            return name
        return host_name(agent_of(name) // self._per_process)

    def signal(self, names: Sequence[str], number: Signals) -> None:
        """Send a signal to containers; SIGTERM is the end of all starting, too."""
        if number is signal.SIGTERM:
            self._abandon()
        ids = [child.mark.id for name in names if (child := self.children.get(name)) is not None and child.is_up]
        if ids:
            if number is signal.SIGTERM:  # who is paused hears it only when it goes on; the others refuse
                self._docker.run(["unpause", *dict.fromkeys(ids)], check=False, timeout_s=containers.QUERY_S)
            command = ["kill", f"--signal={number.name}", *dict.fromkeys(ids)]
            self._docker.run(command, check=False, timeout_s=containers.QUERY_S)

    def close(self) -> None:
        """Remove every container and network, and own the run directory again."""
        self._abandon()
        if self._events is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._stream)
            self._events.kill()
            self._events.wait()
            self._stream.close()
            self._events = None
        try:
            self._launcher.remove()
        finally:
            lent_directories.take_back(self._run_dir)

    # Starting

    def _start(self, names: list[str]) -> None:
        self._run(self._launcher.start(names), len(names), lambda code: self._has_started(names, code))

    def _next_batch(self) -> None:
        if self._waiting:
            self._start(self._waiting.popleft())

    def _has_started(self, names: list[str], code: int) -> None:
        if code == 0:
            self._next_batch()
            return
        what = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        self._waiting.clear()
        self._observer.failed(f"the containers of {what} did not start: {self._why()} (see {LOG})")

    def _why(self) -> str:
        try:
            said = read_in(self._run_dir, LOG).decode(errors="replace")
            return printable(last_words(said)) or "no reason given"
        except (OSError, ValueError):
            return "no reason given"

    def _run(self, words: list[str], names: int, then: Callable[[int], None]) -> None:
        with os.fdopen(open_own(self._run_dir / LOG, os.O_WRONLY | os.O_APPEND), "ab") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self._launcher.environment},
            )
        limit_s = self._launcher.patience_s(names)
        self._command = command = BackgroundCommand(process, os.pidfd_open(process.pid), then)
        command.expires_in(limit_s)
        self._selector.register(command.descriptor, selectors.EVENT_READ, lambda: self._done(command))

    def _done(self, command: BackgroundCommand) -> None:
        code = self._forget(command)
        if command.late:
            with contextlib.suppress(OSError):
                append_text(self._run_dir / LOG, "it took too long and was ended\n")
        command.then(code)

    def _forget(self, command: BackgroundCommand) -> int:
        self._selector.unregister(command.descriptor)
        self._command = None
        return command.forget()

    def _abandon(self) -> None:
        self._waiting.clear()
        if self._command is not None:
            self._command.kill()
            self._forget(self._command)

    # Watching

    @property
    def _stream(self) -> IO[bytes]:
        stream = self._events.stdout if self._events is not None else None
        assert stream is not None  # noqa: S101
        return stream

    def _read_events(self) -> None:
        """All that Docker has told since; one question about all containers in it."""
        received: bytes | None = self._stream.read()
        if received is None:  # nothing yet after all
            return
        if not received:
            self._selector.unregister(self._stream)
            self._observer.failed("lost contact with Docker; its engine has stopped or was restarted")
            return
        *lines, self._unread = (self._unread + received).split(b"\n")
        events = [json.loads(line) for line in lines if line]
        ids = list(dict.fromkeys(str(event["Actor"]["ID"]) for event in events))
        known = {one.mark.id: one for one in containers.inspect(self._docker, ids)}
        for event in events:
            self._hear(event["Action"], event["Actor"], known.get(str(event["Actor"]["ID"])))

    def _hear(self, action: str, actor: Mapping[str, Any], known: Inspected | None) -> None:
        names = containers.names_of(actor["Attributes"])
        if action == "start":
            mark = known.mark if known is not None else ContainerMark(str(actor["ID"]), 0)
            self._started(names, mark)
            return
        ended = [child for name in names if (child := self.children.get(name)) is not None]
        ended = [child for child in ended if child.mark.id == actor["ID"]]
        if not ended:
            return
        status = int(actor["Attributes"]["exitCode"])
        # A shell's way to say that a signal ended it; ours is the one of the processes of this machine.
        code = -(status - 128) if status > 128 else status
        why = self._last_words_of(ended[0], known, code) if code else ""
        for child in ended:
            self._ended(child, code, why, known)

    def _started(self, names: Sequence[str], mark: ContainerMark) -> None:
        by_itself = False
        for name in names:
            before = self.children.get(name)
            crashes = before.crashes if before is not None else 0
            self.children[name] = Container(name, mark, crashes=crashes)
            # Asked just after a crash, Docker may not say yet that it starts the container again; that it has is proof.
            by_itself = by_itself or (before is not None and (before.returns or bool(before.exit_code)))
        if len(names) > 1:  # told once of all, and by whoever asked for it
            by_itself = by_itself and self._service(names[0]) not in self._asked
        if names:
            self._asked.discard(self._service(names[0]))
        for name in names:
            self._observer.started(name, by_itself=by_itself and name == names[0])

    def _ended(self, child: Container, code: int, why: str, known: Inspected | None) -> None:
        child.exit_code = code
        child.crashes += code != 0
        # Whoever shares a container with one that the supervisor has just started again comes back with it.
        child.returns = bool(code) and (child.returns or self._launcher.returns(known, code, child.crashes))
        self._observer.ended(child.name, code, why, returns=child.returns)

    def _last_words_of(self, child: Container, known: Inspected | None, code: int) -> str:
        said = self._docker.run(
            ["logs", "--tail", _LAST_LINES, child.mark.id], check=False, timeout_s=containers.QUERY_S
        )
        with contextlib.suppress(OSError):  # what a container says may be meant for the terminal of who reads it
            append_text(self._run_dir / STDERR, f"--- {child.name}\n{printable_lines(said.stderr)}")
        if known is not None and known.out_of_memory:
            return "killed because it needed more memory than its container may have"
        lines = said.stderr.splitlines()
        errors = [printable(line.removeprefix(_SAYS))[:_LONGEST_WORDS] for line in lines if line.startswith(_SAYS)]
        return errors[-1] if errors and code > 0 else ending_text(code)
