"""What a supervisor needs of a runtime: processes with names, started, signalled and watched, wherever they are.

A crew is one testbed's processes: forks of this machine (`local`), containers of a compose project or of a stack. It
watches them through the supervisor's own selector and tells what happens to a `Hearer`; it decides nothing.
"""

from __future__ import annotations

import selectors
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from agentd.settings import AgentSettings
from deploy.containers.containers import ContainerMark
from deploy.local.children import EnvironmentPart
from deploy.testbed.processes import ProcessMark

RUNTIMES = ("local", "compose", "swarm")


class Member(Protocol):
    """One process of a crew, as far as has been noticed."""

    name: str
    exit_code: int | None

    @property
    def mark(self) -> ProcessMark | ContainerMark | None:
        """None: it ended before anybody could look."""
        ...

    @property
    def pid(self) -> int | None:
        """Its number on this machine."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        ...


class Hearer(Protocol):
    """Who is told what happens to the processes."""

    def started(self, name: str, *, by_itself: bool = False) -> None:
        """A process runs; `by_itself`: after a crash, because the runtime saw to it."""
        ...

    def listens(self) -> None:
        """The environment takes requests."""
        ...

    def ended(self, name: str, code: int, why: str, *, returns: bool = False) -> None:
        """A process ended; `returns`: the runtime will start it again by itself. A negative code is a signal's."""
        ...

    def failed(self, why: str) -> None:
        """The runtime itself failed."""
        ...


class Crew(Protocol):
    """Starts, signals and watches the processes of one testbed."""

    @property
    def children(self) -> Mapping[str, Member]:
        """The newest process of each name."""
        ...

    def attend(self, selector: selectors.BaseSelector, hearer: Hearer) -> None:
        """Begin to watch; everything that happens from now on is told."""
        ...

    def start_environment(self, part: EnvironmentPart) -> None:
        """Start the environment."""
        ...

    def start_agents(self, agents: Sequence[AgentSettings], interrupted: Callable[[], bool]) -> None:
        """Start all agents; those that have not started when `interrupted` says so are left."""
        ...

    def start_again(self, name: str, settings: AgentSettings | EnvironmentPart) -> None:
        """Start one process anew that has ended."""
        ...

    def signal(self, names: Sequence[str], number: signal.Signals) -> None:
        """Send a signal to processes by their names; those that have ended are passed over."""
        ...

    def close(self) -> None:
        """Leave nobody behind, whatever happened."""
        ...


def ending_text(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
