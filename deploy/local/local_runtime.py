"""The runtime `local`: processes of this machine, side by side on ports in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentd.run.scenario import Scenario
from deploy.local import preflight
from deploy.local.local_control import LocalControl
from deploy.local.local_processes import LocalProcesses
from deploy.plan.plan import make_plan
from deploy.plan.ports import reserve
from deploy.testbed.launch import new_directory, run_of, write_plan
from deploy.testbed.lifecycle import GRACE_S
from deploy.testbed.process_marks import ProcessMark, boot_id, stop
from deploy.testbed.registry import Testbed
from deploy.testbed.runtime import DEFAULT_RUNTIME, Prepared, Wanted


class LocalRuntime:
    """Forks of this machine; which of them run, the kernel tells."""

    grace_per_agent_s = 0.05
    clears_up = "ended {} processes"

    def __init__(self, name: str = DEFAULT_RUNTIME) -> None:
        self.name = name

    def prepare(self, scenario: Scenario, wanted: Wanted) -> Prepared:
        """Reserve ports, check the machine and write down the plan."""
        wanted.refuse(self.name, "image", "subnet")
        run = run_of(scenario)
        reservation = reserve(scenario.settings.agents, wanted.base_port)
        about: dict[str, Any] = {"base_port": reservation.base_port, "pace": wanted.pace, "keep": wanted.keep}
        try:
            preflight.check(make_plan(scenario, run=run, run_dir=Path(), **about))
            directory = new_directory(scenario, wanted.run_dir)
            plan = make_plan(scenario, run=run, run_dir=directory.path, **about)
            write_plan(directory, scenario, plan, self.name)
        except BaseException:
            reservation.release()
            raise
        place = directory.path
        return Prepared(scenario, plan, directory, self, lambda: LocalProcesses(place), release=reservation.release)

    def require(self) -> None:
        """Nothing: the kernel is always there."""

    def read_mark(self, data: Any) -> ProcessMark:
        """The mark of a process."""
        return ProcessMark.from_json(data)

    def running(self, testbed: Testbed) -> Mapping[str, ProcessMark]:
        """Those that were written down and run."""
        if testbed.boot != boot_id():  # start times of another boot mean nothing now
            return {}
        marks = {name: mark for name, mark in testbed.children.items() if isinstance(mark, ProcessMark)}
        return {name: mark for name, mark in marks.items() if mark.is_running()}

    def has_left_over(self, testbed: Testbed) -> bool:
        """A process that has ended leaves nothing."""
        return bool(self.running(testbed))

    def end_left_over(self, testbed: Testbed) -> Sequence[str]:
        """Exactly the processes that were written down."""
        names = {mark: name for name, mark in self.running(testbed).items()}
        return [names[mark] for mark in stop(names, GRACE_S)]

    def control(self, testbed: Testbed) -> LocalControl:
        """Signals, and the supervisor."""
        return LocalControl(testbed)


LOCAL = LocalRuntime()
