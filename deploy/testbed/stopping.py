"""Bringing a testbed down, whatever state it is in; doing it twice does no harm."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agentd.errors import AgentdError
from deploy.containers import containers
from deploy.containers.docker import require_docker
from deploy.containers.swarm import remove_stack
from deploy.local.children import ENVIRONMENT
from deploy.testbed import control, registry
from deploy.testbed.lifecycle import ENVIRONMENT_GRACE_S, GRACE_S, grace_for
from deploy.testbed.processes import ProcessMark, send, stop, wait_for
from deploy.testbed.registry import State, Testbed

SUPERVISOR_EXTRA_S = ENVIRONMENT_GRACE_S + 4 * GRACE_S
"""After the agents the environment may take its grace; killing those that are late and the summary take the rest."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What bringing one testbed down came to."""

    run_dir: str
    did: str
    killed: tuple[str, ...] = ()
    """Processes without a supervisor that were ended one by one."""


def bring_down(testbed: Testbed) -> Stopped:
    """Let the supervisor end its testbed; where there is none, end exactly the processes that it wrote down."""
    place = str(testbed.run_dir)
    if testbed.project and testbed.state is not State.ENDED:
        require_docker()  # else what it left would be taken for nothing
    if not testbed.is_running():
        if testbed.state is not State.ENDED:
            registry.mark_ended(testbed)
            return Stopped(place, "nothing of it was running any more")
        return Stopped(place, "it had ended already")
    if testbed.is_supervised():
        _ask_to_stop(testbed)
        if not wait_for([testbed.supervisor], _grace(testbed) + SUPERVISOR_EXTRA_S):
            return Stopped(place, f"stopped {testbed.agents} agents and the environment")
        send(testbed.supervisor, signal.SIGKILL)
        wait_for([testbed.supervisor], GRACE_S)
    return _end_orphans(registry.read(testbed.run_dir))


def _grace(testbed: Testbed) -> float:
    return grace_for(testbed.agents, containers=bool(testbed.project))


def _ask_to_stop(testbed: Testbed) -> None:
    """Through its socket, which takes the wish twice; by signal, where the socket does not answer."""
    try:
        control.ask(testbed.run_dir, "stop", timeout_s=GRACE_S)
    except AgentdError:
        send(testbed.supervisor, signal.SIGTERM)


def _end_orphans(testbed: Testbed) -> Stopped:
    if testbed.project:
        return _end_containers(testbed)
    names = {mark: name for name, mark in testbed.running().items() if isinstance(mark, ProcessMark)}
    ended = tuple(sorted(names[mark] for mark in stop(names, GRACE_S)))
    (testbed.run_dir / control.SOCKET).unlink(missing_ok=True)
    registry.mark_ended(testbed)
    return Stopped(str(testbed.run_dir), f"its supervisor was gone; ended {len(ended)} processes it had left", ended)


def _end_containers(testbed: Testbed) -> Stopped:
    """The agents first, so that the environment hears their last words and writes down what came of the run."""
    docker = require_docker()
    ended = tuple(sorted(testbed.running()))
    containers.stop(docker, testbed.project, "agent", int(_grace(testbed)))
    containers.stop(docker, testbed.project, ENVIRONMENT, int(ENVIRONMENT_GRACE_S))
    (remove_stack if testbed.runtime == "swarm" else containers.remove)(docker, testbed.project)
    containers.take_back(testbed.run_dir)
    (testbed.run_dir / control.SOCKET).unlink(missing_ok=True)
    registry.mark_ended(testbed)
    return Stopped(str(testbed.run_dir), f"its supervisor was gone; removed {len(ended)} containers it had left", ended)
