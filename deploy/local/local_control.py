"""What can be done to agents of this machine: signals, and the supervisor where it must know."""

from __future__ import annotations

import signal
from collections.abc import Collection

from agentd.errors import AgentdError, SettingsError
from deploy.plan.names import STDERR, agent_name
from deploy.testbed import control, registry
from deploy.testbed.process_marks import ProcessMark, boot_id, send
from deploy.testbed.registry import Testbed


def running_in(testbed: Testbed) -> dict[str, ProcessMark]:
    """The processes of a testbed that run, by name: those that were written down and print to its directory."""
    if testbed.boot != boot_id():  # start times of another boot mean nothing now
        return {}
    place = testbed.run_dir / STDERR
    marks = {name: mark for name, mark in testbed.children.items() if isinstance(mark, ProcessMark)}
    running = {mark for mark in set(marks.values()) if mark.is_running() and mark.writes_to(place)}
    return {name: mark for name, mark in marks.items() if mark in running}


class LocalControl:
    """Processes of this machine: the supervisor kills and restarts, because it must know what it misses."""

    writes_down: Collection[str] = ("kill", "restart")

    def __init__(self, testbed: Testbed) -> None:
        self._run_dir = testbed.run_dir

    def kill(self, agent: int) -> None:
        """SIGKILL, through the supervisor."""
        control.kill_agent(self._run_dir, agent)

    def restart(self, agent: int) -> None:
        control.restart_agent(self._run_dir, agent)

    def pause(self, agent: int) -> None:
        self._signal(agent, signal.SIGSTOP)

    def resume(self, agent: int) -> None:
        self._signal(agent, signal.SIGCONT)

    def disconnect(self, agent: int) -> None:
        """Processes of one machine have no network of their own."""
        raise SettingsError(
            f"agent {agent} is a process of this machine, without a network of its own; "
            f"agentd chaos partition cuts it off just as well"
        )

    reconnect = disconnect

    def _signal(self, agent: int, number: signal.Signals) -> None:
        mark = running_in(registry.read(self._run_dir)).get(agent_name(agent))
        if mark is None or not send(mark, number):
            raise AgentdError(f"agent {agent} is not running, so there is nothing to send {number.name} to")
