"""Stand-ins for agents and the environment: processes that behave, crash, hang or refuse as a test wants it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from agentd.errors import ConfigurationError
from agentd.settings import AgentSettings
from deploy.plan.environment import EnvironmentPlan

LOOK_EVERY_S = 0.01
GO = "go"
"""Once this file is in the run directory, agents that wait for it act."""
CRASHED = "crashed"
"""Once this file is in the run directory, an environment has crashed, and agents that wait for its return act."""


def run_dir_of(settings: AgentSettings) -> Path:
    assert settings.log_file is not None
    return Path(settings.log_file).parent.parent


def wait_until(happened: Callable[[], bool]) -> bool:
    """Wait for something or for SIGTERM; True: it happened."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    while not happened():
        if signal.sigtimedwait([signal.SIGTERM], LOOK_EVERY_S) is not None:
            return False
    return True


def agent(behaviours: dict[int, str], settings: AgentSettings) -> int:
    """An agent that does what the test says; finishes at once where it says nothing."""
    place = run_dir_of(settings)
    behaviour = behaviours.get(settings.id, "finish")
    if behaviour == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # before the testbed is said to run, and may be stopped
    if behaviour not in ("refuse", "stumble", "exit 69"):
        (place / f"up-{settings.id}").touch()
    match behaviour:
        case "wait":
            wait_until(lambda: False)
        case "finish on go":
            wait_until((place / GO).exists)
        case "finish after a crash":
            wait_until((place / CRASHED).exists)
        case "crash on go":
            if wait_until((place / GO).exists):
                os._exit(3)
        case "hang":
            (place / f"hangs-{settings.id}").touch()  # from here on SIGTERM has no effect
            while True:
                signal.pause()
        case "refuse":
            raise ConfigurationError(f"cannot listen on {settings.listen}: address already in use")
        case "stumble":
            raise RuntimeError("a bug")
        case "exit 69":
            return 69
    (place / f"done-{settings.id}").touch()
    return 0


def environment(behaviour: str, part: EnvironmentPlan, ready: Connection) -> int:
    """An environment that says it listens, shows all agents in step, and ends when all are done."""
    place = Path(part.run_dir)
    if behaviour == "refuse":
        raise ConfigurationError(f"cannot listen on {part.listen}: address already in use")
    if behaviour == "silent":
        wait_until(lambda: False)
        return 0
    ready.send(part.listen)
    ready.close()
    if behaviour == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            write_status(place, part.agents, part.rounds)
            signal.sigtimedwait([], LOOK_EVERY_S)
    crashes = behaviour == "crash on go" or (behaviour == "crash once" and not (place / CRASHED).exists())
    ends = (place / GO).exists if crashes else partial(all_done, place, part.agents)

    def shown_and_over() -> bool:
        write_status(place, part.agents, part.rounds)
        return ends()

    if not (wait_until(shown_and_over) and crashes):
        return 0
    (place / CRASHED).touch()
    return 5


def all_done(place: Path, agents: int) -> bool:
    return all((place / f"done-{agent}").exists() for agent in range(agents))


def write_status(place: Path, agents: int, rounds: int) -> None:
    """What the environment would write, with every agent in its first trial that has said it is up."""
    up = [(place / f"up-{i}").exists() for i in range(agents)]
    counts = {"messages": 10, "dropped": 1, "done": False}
    listed = [
        {"id": i, "trial": int(up[i]), "last_seen_s_ago": 0.0 if up[i] else None, **counts} for i in range(agents)
    ]
    status = {"rounds": rounds, "group_regret": 1.5, "pulls": agents, "pulls_per_s": 4.0, "agents": listed}
    (place / "status.json.new").write_text(json.dumps(status), encoding="utf-8")
    (place / "status.json.new").replace(place / "status.json")
