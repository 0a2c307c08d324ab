"""The life of a testbed whose runtime starts processes late, and again by itself."""

from __future__ import annotations

import signal

import pytest

from deploy.plan.names import ENVIRONMENT, agent_name
from deploy.testbed.lifecycle import RETURN_S, Lifecycle, Phase, Send

TERM = signal.SIGTERM
READY_S, GRACE_S, LONG_S = 30.0, 5.0, 60.0


def running_life(agents: int = 2) -> Lifecycle:
    life = Lifecycle(0.0, ready_timeout_s=READY_S, grace_s=GRACE_S, environment_grace_s=LONG_S)
    for name in (ENVIRONMENT, *map(agent_name, range(agents))):
        life.started(name)
    life.listens(1.0)
    life.all_pulled()
    return life


def test_an_environment_whose_container_takes_its_time_is_waited_for() -> None:
    life = Lifecycle(0.0, ready_timeout_s=READY_S, grace_s=GRACE_S, environment_grace_s=LONG_S)
    assert life.tick(20.0) == []
    assert life.phase is Phase.STARTING
    life.tick(READY_S)
    assert life.phase is Phase.OVER
    assert "did not get ready in time" in life.failure


def test_an_agent_that_its_runtime_brings_back_is_down_and_then_not_lost() -> None:
    life = running_life()
    assert life.ended("agent-1", -9, "killed by SIGKILL", 5.0, returns=True) == []
    assert list(life.lost) == ["agent-1"]
    assert life.started("agent-1") == []
    assert life.lost == {}
    assert life.phase is Phase.RUNNING


def test_a_crash_at_the_start_is_forgiven_to_whoever_comes_back() -> None:
    life = Lifecycle(0.0, ready_timeout_s=READY_S, grace_s=GRACE_S, environment_grace_s=LONG_S)
    life.started(ENVIRONMENT)
    life.listens(1.0)
    life.started("agent-0")
    life.ended("agent-0", 1, "stumbled", 2.0, returns=True)
    assert (life.phase, life.failure) == (Phase.STARTING, "")
    life.started("agent-0")
    life.ended("agent-0", 1, "stumbled", 3.0)
    assert life.failure == "agent-0 failed before the testbed was ready: stumbled"


def test_the_last_agent_is_waited_for_if_it_returns_but_not_for_ever() -> None:
    life = running_life(1)
    assert life.ended("agent-0", -9, "killed by SIGKILL", 10.0, returns=True) == []
    assert life.tick(10.0 + RETURN_S - 0.1) == []
    assert life.tick(10.0 + RETURN_S) == [Send(TERM, (ENVIRONMENT,))]
    life.ended(ENVIRONMENT, 0, "", 50.0)
    assert life.phase is Phase.OVER
    assert list(life.lost) == ["agent-0"]


def test_an_environment_that_returns_is_waited_for() -> None:
    life = running_life()
    assert life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 5.0, returns=True) == []
    assert life.tick(50.0) == []
    life.started(ENVIRONMENT)
    assert (life.phase, life.failure) == (Phase.RUNNING, "")


@pytest.mark.parametrize("name", ["agent-1", "agent-2"])
def test_whoever_comes_back_into_a_testbed_that_stops_is_stopped_too(name: str) -> None:
    life = running_life(3)
    life.ended("agent-2", -9, "killed by SIGKILL", 5.0, returns=True)
    life.asked_to_stop(signal.SIGINT, 6.0)
    assert life.started(name) == [Send(TERM, (name,))]


def test_a_runtime_that_fails_ends_the_testbed_with_its_reason() -> None:
    life = running_life()
    assert life.failed("lost contact with Docker", 5.0) == [Send(TERM, ("agent-0", "agent-1"))]
    assert life.failure == "lost contact with Docker"
