"""What a runtime is: where the processes of a testbed run, and all that differs with it.

A runtime prepares a testbed, starts and watches its processes (`Processes`), finds them again later, kills and pauses
single agents (`AgentControl`), and clears up after a supervisor that is gone. All else is the same whatever a testbed
runs in. A further runtime is one module and its line in `RUNTIMES`, or a call of `register_runtime` in a module that
AGENTD_PLUGINS names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import Scenario
from agentd.settings import Hosting, Pace
from deploy.plan.environment import EnvironmentPlan, plan_environment
from deploy.plan.plan import Keep, Plan
from deploy.testbed.processes import Mark, Processes

if TYPE_CHECKING:
    from deploy.testbed.registry import Testbed

DEFAULT_RUNTIME = "local"
RUNTIMES = {
    DEFAULT_RUNTIME: "deploy.local.local_runtime:LOCAL",
    "compose": "deploy.containers.compose:COMPOSE",
    "swarm": "deploy.containers.swarm:SWARM",
}
"""Where each runtime is defined; loaded when it is asked for, so that nobody needs Docker who does not use it."""


TRANSPORTS = ("ipc", "tcp")
"""How processes of one machine speak: through socket files that only their user can reach, or ports of loopback."""


def register_runtime(name: str, place: str) -> None:
    """Add a runtime under the name that --runtime takes; `place` is module:object."""
    if RUNTIMES.setdefault(name, place) != place:
        raise ConfigurationError(f"there is a runtime {name} already: {RUNTIMES[name]}")


def find_runtime(name: str) -> Runtime:
    """The runtime of this name."""
    if name not in RUNTIMES:
        raise ConfigurationError(f"there is no runtime {name}, only {', '.join(RUNTIMES)}; is a plugin missing?")
    module, _, attribute = RUNTIMES[name].partition(":")
    runtime: Runtime = getattr(importlib.import_module(module), attribute)
    return runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an operator asked for besides the scenario."""

    run_dir: str | Path | None = None
    pace: Pace = field(default_factory=Pace)
    keep: Keep = field(default_factory=Keep)
    transport: str | None = None
    """One of TRANSPORTS; None: as is usual there."""
    base_port: int | None = None
    image: str | None = None
    subnet: str | None = None
    keys: bool | None = None
    """Whether links have keys, made for this testbed and thrown away with it."""
    hosting: Hosting = field(default_factory=Hosting)
    """How many agents share a process."""

    def refuse(self, runtime: str, *names: str) -> None:
        """Refuse what would change nothing there."""
        for name in names:
            if getattr(self, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise SettingsError(f"{flag} means nothing with --runtime {runtime}; leave it out")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A testbed of which everything is decided and nothing runs."""

    scenario: Scenario
    plan: Plan
    directory: RunDirectory
    runtime: Runtime
    processes: Callable[[], Processes]
    """Makes whoever starts and watches its processes."""
    project: str = ""
    """What its containers and networks carry as label; empty: it has none."""
    release: Callable[[], None] = lambda: None
    """Gives back what was reserved for it on this machine."""

    @property
    def environment(self) -> EnvironmentPlan:
        """What the environment is told."""
        return plan_environment(self.scenario, self.plan, str(self.directory.path))


class Runtime(Protocol):
    """All that differs between the places where testbeds run."""

    @property
    def name(self) -> str:
        """What --runtime, the run directory and the summary call it."""
        ...

    @property
    def grace_per_agent_s(self) -> float:
        """How much longer its processes may take to end for every agent."""
        ...

    @property
    def revivals(self) -> int:
        """How often the supervisor starts an environment again that died; 0: the runtime itself does, or nobody."""
        ...

    @property
    def clears_up(self) -> tuple[str, str, str]:
        """What `end_left_over` does, to one of what, to several of what."""
        ...

    def prepare(self, scenario: Scenario, wanted: Wanted) -> Prepared:
        """Decide everything and write it down; whatever is missing is refused here, in one line."""
        ...

    def take_up(self, testbed: Testbed, scenario: Scenario, plan: Plan, directory: RunDirectory) -> Prepared:
        """End what is left of a testbed whose supervisor died, and prepare the rest of its run."""
        ...

    def require(self) -> None:
        """Refuse where nobody could tell whether something runs."""
        ...

    def read_mark(self, data: Any) -> Mark:
        """The mark of one of its processes, as `Mark.to_json` wrote it; raises ValueError for anything else."""
        ...

    def running(self, testbed: Testbed) -> Mapping[str, Mark]:
        """The processes of a testbed that run, by their names."""
        ...

    def has_left_over(self, testbed: Testbed) -> bool:
        """Whether anything of a testbed runs, or is left of it and wants to be removed."""
        ...

    def end_left_over(self, testbed: Testbed) -> Sequence[str]:
        """End all that runs of a testbed without its supervisor, and remove it; the names of what there was."""
        ...

    def tidy(self, testbed: Testbed) -> None:
        """Remove the files that a testbed of which nothing runs has left outside of its run directory."""
        ...

    def control(self, testbed: Testbed) -> AgentControl:
        """What can be done to its agents."""
        ...


class AgentControl(Protocol):
    """Kills, restarts and pauses the agents of a running testbed; each method raises AgentdError where it could not."""

    writes_down: Collection[str]
    """What it does that somebody else writes down already."""

    def kill(self, agent: int) -> None:
        """Let it crash."""
        ...

    def restart(self, agent: int) -> None:
        """Start it anew, after a crash if it runs."""
        ...

    def pause(self, agent: int) -> None:
        """Stop it in its tracks."""
        ...

    def resume(self, agent: int) -> None:
        """Let it go on."""
        ...

    def disconnect(self, agent: int) -> None:
        """Take its network away."""
        ...

    def reconnect(self, agent: int) -> None:
        """Give its network back."""
        ...
