"""The processes of a running testbed as a supervisor sees them, wherever they are: started, signalled and watched.

They are watched through the supervisor's own selector, and what happens to them is told to an `Observer`; whoever runs
them decides nothing.
"""

from __future__ import annotations

import selectors
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agentd.settings import AgentSettings
from deploy.plan.environment import EnvironmentPlan


class Mark(Protocol):
    """What a process is recognised by, never mistaken for another one's."""

    @property
    def pid(self) -> int:
        """Its number on this machine; 0: it has none."""
        ...

    def more(self) -> Mapping[str, str]:
        """What a list of processes shows of it beside its number."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """As testbed.json keeps it; `Runtime.read_mark` reads it back."""
        ...


class Process(Protocol):
    """One process of a testbed, as far as has been noticed."""

    name: str
    exit_code: int | None

    @property
    def mark(self) -> Mark | None:
        """None: it ended before anybody could look."""
        ...

    @property
    def pid(self) -> int | None:
        """Its number on this machine."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether nobody has told of its end."""
        ...


class Observer(Protocol):
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


class Processes(Protocol):
    """Starts, signals and watches the processes of one testbed."""

    @property
    def children(self) -> Mapping[str, Process]:
        """The newest process of each name."""
        ...

    def attend(self, selector: selectors.BaseSelector, observer: Observer) -> None:
        """Begin to watch; everything that happens from now on is told."""
        ...

    def start_environment(self, environment: EnvironmentPlan) -> None:
        """Start the environment; the observer hears when it listens."""
        ...

    def start_agents(self, agents: Sequence[AgentSettings], interrupted: Callable[[], bool]) -> None:
        """Start all agents; those that have not started when `interrupted` says so are left."""
        ...

    def start_again(self, name: str, settings: AgentSettings | EnvironmentPlan) -> None:
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
