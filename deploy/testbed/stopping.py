"""Bringing a testbed down, whatever state it is in; doing it twice does no harm."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agentd.errors import AgentdError
from agentd.quantities import counted
from deploy.testbed import control, registry
from deploy.testbed.lifecycle import ENVIRONMENT_GRACE_S, GRACE_S, grace_for
from deploy.testbed.process_marks import send, wait_for
from deploy.testbed.registry import State, Testbed
from deploy.testbed.runtime import find_runtime

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
    if testbed.state is not State.ENDED:
        find_runtime(testbed.runtime).require()  # else what it left would be taken for nothing
    if not testbed.is_running():
        registry.tidy(testbed)
        if testbed.state is not State.ENDED:
            registry.mark_ended(testbed)
            return Stopped(place, "nothing of it was running any more")
        return Stopped(place, "it had ended already")
    if testbed.is_supervised():
        _ask_to_stop(testbed)
        if not wait_for([testbed.supervisor], _grace(testbed) + SUPERVISOR_EXTRA_S):
            return Stopped(place, f"stopped {counted(testbed.agents, 'agent')} and the environment")
        send(testbed.supervisor, signal.SIGKILL)
        wait_for([testbed.supervisor], GRACE_S)
    return _end_orphans(registry.read(testbed.run_dir))


def _grace(testbed: Testbed) -> float:
    return grace_for(testbed.agents, find_runtime(testbed.runtime).grace_per_agent_s)


def _ask_to_stop(testbed: Testbed) -> None:
    """Through its socket, which takes the wish twice; by signal, where the socket does not answer."""
    try:
        control.ask(testbed.run_dir, "stop", timeout_s=GRACE_S)
    except AgentdError:
        send(testbed.supervisor, signal.SIGTERM)


def _end_orphans(testbed: Testbed) -> Stopped:
    runtime = find_runtime(testbed.runtime)
    ended = tuple(sorted(runtime.end_left_over(testbed)))
    (testbed.run_dir / control.SOCKET).unlink(missing_ok=True)
    registry.mark_ended(testbed)
    verb, thing, things = runtime.clears_up
    did = f"its supervisor was gone; {verb} {counted(len(ended), thing, things)} it had left"
    return Stopped(str(testbed.run_dir), did, ended)
