"""The runtime `local`: processes of this machine, side by side, each with a socket file or a port of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.directory import RunDirectory
from agentd.runs.scenario import Scenario
from deploy.local import preflight, socket_directory
from deploy.local.children import Target, agent_target
from deploy.local.host_processes import HostProcesses
from deploy.local.local_control import LocalControl, running_in
from deploy.local.local_processes import LocalProcesses
from deploy.local.ports import Reservation, reserve
from deploy.local.socket_files import SocketFiles
from deploy.local.throwaway_keys import Opened, keyed
from deploy.plan.hosts import per_process_of
from deploy.plan.plan import Plan, Sockets, lay_out
from deploy.plan.written_plan import laid_out_again
from deploy.testbed.launch import fresh_run, new_directory, write_plan
from deploy.testbed.lifecycle import GRACE_S
from deploy.testbed.process_marks import ProcessMark, stop
from deploy.testbed.registry import Testbed
from deploy.testbed.runtime import DEFAULT_RUNTIME, Prepared, Wanted


class LocalRuntime:
    """Forks of this machine; which of them run, the kernel tells. What agents run can be replaced."""

    grace_per_agent_s = 0.05
    revivals = 1
    clears_up = ("ended", "process", "processes")

    def __init__(self, name: str = DEFAULT_RUNTIME, agent: Target = agent_target) -> None:
        self.name = name
        self._agent = agent

    def prepare(self, scenario: Scenario, wanted: Wanted) -> Prepared:
        """Check the machine, open the sockets and write down the plan."""
        wanted.refuse(self.name, "image", "subnet")
        speaks_ipc = _speaks_ipc(wanted)
        laid_out = partial(lay_out, scenario, run=fresh_run(), pace=wanted.pace, keep=wanted.keep)
        agents = scenario.settings.agents
        per_process = _per_process(wanted, agents, speaks_ipc=speaks_ipc)
        draft = laid_out(places=Sockets("/", Path())).hosted(per_process)
        preflight.check(draft)
        opened: Opened = SocketFiles(agents, len(draft.hosts)) if speaks_ipc else reserve(agents, wanted.base_port)
        try:
            directory = new_directory(scenario, wanted.run_dir)
            plan = laid_out(places=opened.places(directory.path)).hosted(per_process)
            if wanted.keys:
                opened, plan = keyed(opened, plan)
            write_plan(directory, scenario, plan, self.name)
        except BaseException:
            opened.release()
            raise
        return self._prepared(scenario, plan, directory, opened)

    def take_up(self, testbed: Testbed, scenario: Scenario, plan: Plan, directory: RunDirectory) -> Prepared:
        """With new sockets; or on the ports that it had, or on others where somebody has taken these."""
        self.end_left_over(testbed)
        preflight.check(plan)
        agents = len(plan.agents)
        opened: Opened
        if plan.base_port is None:
            opened = SocketFiles(agents, len(plan.hosts))
        else:
            opened = _reserve_again(agents, plan.base_port)
        try:
            again = laid_out_again(plan, opened.places(directory.path))
            if plan.keys is not None:
                opened, again = keyed(opened, again)
            directory.write_json("plan.json", again.to_json())
        except BaseException:
            opened.release()
            raise
        return self._prepared(scenario, again, directory, opened)

    def _prepared(self, scenario: Scenario, plan: Plan, directory: RunDirectory, opened: Opened) -> Prepared:
        def processes() -> LocalProcesses:
            if plan.hosts:
                return HostProcesses(directory.path, opened.listeners, plan)
            return LocalProcesses(directory.path, opened.listeners, agent=self._agent, keyed=plan.keys is not None)

        return Prepared(scenario, plan, directory, self, processes, release=opened.release)

    def require(self) -> None:
        """Nothing: the kernel is always there."""

    def read_mark(self, data: Any) -> ProcessMark:
        """The mark of a process."""
        return ProcessMark.from_json(data)

    def running(self, testbed: Testbed) -> Mapping[str, ProcessMark]:
        """Those that were written down, run, and are surely of this testbed."""
        return running_in(testbed)

    def has_left_over(self, testbed: Testbed) -> bool:
        """A process that has ended leaves nothing."""
        return bool(self.running(testbed))

    def end_left_over(self, testbed: Testbed) -> Sequence[str]:
        """Exactly the processes that were written down, and the directory of their sockets."""
        names = {mark: name for name, mark in self.running(testbed).items()}
        ended = [names[mark] for mark in stop(names, GRACE_S)]
        self.tidy(testbed)
        return ended

    def tidy(self, testbed: Testbed) -> None:
        """The directory of its sockets."""
        socket_directory.remove(testbed.sockets)

    def control(self, testbed: Testbed) -> LocalControl:
        """Signals, and the supervisor."""
        return LocalControl(testbed)


def _speaks_ipc(wanted: Wanted) -> bool:
    """Ports are named by those who want TCP; all others get sockets that no other user of the machine can reach."""
    if wanted.transport == "ipc" and wanted.base_port is not None:
        raise SettingsError("--base-port names TCP ports, and --transport ipc has none; leave one of them out")
    return wanted.transport != "tcp" and wanted.base_port is None


def _per_process(wanted: Wanted, agents: int, *, speaks_ipc: bool) -> int:
    """How many agents share a process, as far as that can be had here."""
    asked = wanted.hosting.per_process
    if asked == "1":
        return 1
    if not speaks_ipc:
        raise SettingsError(
            f"--per-process {asked}: processes of many agents speak ipc; leave out --transport tcp and --base-port"
        )
    if wanted.keys:
        raise SettingsError(
            f"--per-process {asked}: a key is for one agent's links, and agents that share a process have none; leave "
            "out --keys, or --per-process"
        )
    files = preflight.room_left().files_hard
    return per_process_of(asked, agents, cores=len(os.sched_getaffinity(0)), files=files, state=wanted.keep.state)


def _reserve_again(agents: int, base_port: int) -> Reservation:
    try:
        return reserve(agents, base_port)
    except ConfigurationError:
        return reserve(agents)


LOCAL = LocalRuntime()
