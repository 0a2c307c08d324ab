"""The life of a testbed, without a process: events in, orders out."""

from __future__ import annotations

import signal

import pytest

from deploy.local.local_runtime import LOCAL
from deploy.plan.names import ENVIRONMENT, agent_name
from deploy.testbed.lifecycle import Lifecycle, Lost, Order, Phase, Send, StartAgain, StartAgents, grace_for

TERM, KILL = signal.SIGTERM, signal.SIGKILL
READY_S, GRACE_S, LONG_S = 30.0, 5.0, 60.0


def new_life(revivals: int = 0) -> Lifecycle:
    return Lifecycle(0.0, ready_timeout_s=READY_S, grace_s=GRACE_S, environment_grace_s=LONG_S, revivals=revivals)


def started_life(agents: int = 2, revivals: int = 0) -> Lifecycle:
    life = new_life(revivals)
    life.started(ENVIRONMENT)
    assert life.listens(1.0) == [StartAgents()]
    for agent in range(agents):
        life.started(agent_name(agent))
    return life


def running_life(agents: int = 2, revivals: int = 0) -> Lifecycle:
    life = started_life(agents, revivals)
    life.all_pulled()
    assert life.phase is Phase.RUNNING
    return life


def sent(orders: list[Order]) -> list[tuple[signal.Signals, tuple[str, ...]]]:
    return [(order.number, order.names) for order in orders if isinstance(order, Send)]


def test_agents_start_once_the_environment_listens_and_only_once() -> None:
    life = new_life()
    life.started(ENVIRONMENT)
    assert life.tick(0.5) == []
    assert life.listens(1.0) == [StartAgents()]
    assert life.listens(2.0) == []


def test_a_run_is_over_when_the_agents_and_then_the_environment_end_by_themselves() -> None:
    life = running_life()
    assert life.ended("agent-0", 0, "", 10.0) == []
    assert life.ended("agent-1", 0, "", 11.0) == []
    assert life.deadline == 11.0 + LONG_S, "it may still be writing"
    assert life.ended(ENVIRONMENT, 0, "", 12.0) == []
    assert life.phase is Phase.OVER
    assert (life.failure, life.lost, life.stopped_by) == ("", {}, None)


def test_a_run_is_over_too_when_the_environment_ends_before_the_last_agent() -> None:
    life = running_life()
    life.ended("agent-0", 0, "", 10.0)
    assert life.ended(ENVIRONMENT, 0, "", 11.0) == []
    assert life.phase is Phase.RUNNING
    assert life.ended("agent-1", 0, "", 12.0) == []
    assert life.phase is Phase.OVER


def test_agents_that_stay_after_the_environment_left_are_told_to_go() -> None:
    life = running_life()
    life.ended(ENVIRONMENT, 0, "", 10.0)
    assert life.tick(10.0 + GRACE_S - 0.1) == []
    assert sent(life.tick(10.0 + GRACE_S)) == [(TERM, ("agent-0", "agent-1"))]


def test_an_environment_that_stays_after_the_agents_left_is_told_to_go() -> None:
    life = running_life()
    life.ended("agent-0", 0, "", 10.0)
    life.ended("agent-1", 0, "", 10.0)
    assert life.tick(10.0 + LONG_S - 0.1) == []
    assert sent(life.tick(10.0 + LONG_S)) == [(TERM, (ENVIRONMENT,))]
    assert life.phase is Phase.STOPPING_ENVIRONMENT


def test_with_an_agent_lost_the_environment_is_not_waited_for() -> None:
    life = running_life()
    assert life.ended("agent-0", -9, "killed by SIGKILL", 10.0) == []
    assert life.lost == {"agent-0": Lost(0, -9, "killed by SIGKILL")}
    assert sent(life.ended("agent-1", 0, "", 11.0)) == [(TERM, (ENVIRONMENT,))]
    life.ended(ENVIRONMENT, 0, "", 12.0)
    assert life.phase is Phase.OVER
    assert life.failure == ""


def test_an_agent_that_fails_while_starting_fails_the_run_and_names_why() -> None:
    life = started_life()
    orders = life.ended("agent-1", 78, "cannot bind tcp://127.0.0.1:17002", 2.0)
    assert sent(orders) == [(TERM, ("agent-0",))]
    assert life.failure == "agent-1 failed before the testbed was ready: cannot bind tcp://127.0.0.1:17002"
    assert sent(life.ended("agent-0", 0, "", 3.0)) == [(TERM, (ENVIRONMENT,))]
    life.ended(ENVIRONMENT, 0, "", 3.0)
    assert life.phase is Phase.OVER


def test_agents_that_finish_before_anybody_looked_are_no_failure() -> None:
    life = started_life(1)
    life.ended("agent-0", 0, "", 1.1)
    life.ended(ENVIRONMENT, 0, "", 1.2)
    assert life.phase is Phase.OVER
    assert life.failure == ""


def test_an_environment_that_fails_takes_the_agents_along() -> None:
    life = running_life()
    assert sent(life.ended(ENVIRONMENT, 1, "disk full", 10.0)) == [(TERM, ("agent-0", "agent-1"))]
    assert life.failure == "the environment failed: disk full"
    life.ended("agent-0", 69, "unreachable", 11.0)
    life.ended("agent-1", 69, "unreachable", 11.0)
    assert life.phase is Phase.OVER
    assert life.lost == {}, "agents that fail because they are being stopped are not lost"


def test_an_environment_that_may_be_revived_is_started_again_once_and_its_second_death_fails_the_run() -> None:
    life = running_life(revivals=1)
    assert life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 10.0) == [StartAgain(ENVIRONMENT, "killed by SIGKILL")]
    assert (life.phase, life.failure) == (Phase.RUNNING, "")
    assert life.started(ENVIRONMENT) == []
    assert life.listens(10.5) == [], "the agents run already"
    assert sent(life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 11.0)) == [(TERM, ("agent-0", "agent-1"))]
    assert life.failure == "the environment failed: killed by SIGKILL"


def test_an_environment_that_dies_while_agents_start_is_revived_too() -> None:
    life = started_life(revivals=1)
    assert life.ended(ENVIRONMENT, 1, "disk full", 2.0) == [StartAgain(ENVIRONMENT, "disk full")]
    assert life.phase is Phase.STARTING


def test_an_environment_that_dies_over_its_results_is_revived_to_write_them() -> None:
    life = running_life(1, revivals=1)
    life.ended("agent-0", 0, "", 10.0)
    assert life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 11.0) == [StartAgain(ENVIRONMENT, "killed by SIGKILL")]
    life.started(ENVIRONMENT)
    life.ended(ENVIRONMENT, 0, "", 12.0)
    assert (life.phase, life.failure) == (Phase.OVER, "")


def test_an_end_that_an_operator_wanted_is_no_death() -> None:
    life = running_life(revivals=1)
    life.asked_to_kill(ENVIRONMENT)
    assert life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 10.0) == []
    life.asked_to_restart(ENVIRONMENT)
    life.started(ENVIRONMENT)
    assert life.ended(ENVIRONMENT, -9, "killed", 11.0) == [StartAgain(ENVIRONMENT, "killed")], "only now it died"
    stopping = running_life(revivals=1)
    stopping.asked_to_stop(signal.SIGTERM, 10.0)
    assert stopping.ended(ENVIRONMENT, -15, "killed by SIGTERM", 10.1) == []
    assert stopping.failure == ""


def test_an_environment_that_never_listened_is_not_revived() -> None:
    life = new_life(revivals=1)
    life.started(ENVIRONMENT)
    assert life.ended(ENVIRONMENT, 78, "cannot listen", 1.0) == []
    assert life.failure == "the environment failed: cannot listen"


@pytest.mark.parametrize(("code", "failure"), [(78, "the environment failed: bad"), (0, "ended before any agent")])
def test_an_environment_that_ends_before_it_listens_fails_the_run(code: int, failure: str) -> None:
    life = new_life()
    life.started(ENVIRONMENT)
    assert life.ended(ENVIRONMENT, code, "bad", 1.0) == []
    assert life.phase is Phase.OVER
    assert failure in life.failure


def test_an_environment_that_never_listens_is_given_up_at_the_ready_timeout() -> None:
    life = new_life()
    life.started(ENVIRONMENT)
    assert life.deadline == READY_S
    assert sent(life.tick(READY_S)) == [(TERM, (ENVIRONMENT,))]
    assert "did not get ready in time" in life.failure


def test_a_signal_stops_agents_first_and_the_environment_when_they_are_gone() -> None:
    life = running_life()
    assert sent(life.asked_to_stop(signal.SIGINT, 10.0)) == [(TERM, ("agent-0", "agent-1"))]
    assert life.ended("agent-0", 0, "", 10.5) == []
    assert sent(life.ended("agent-1", -15, "killed by SIGTERM", 11.0)) == [(TERM, (ENVIRONMENT,))]
    life.ended(ENVIRONMENT, 0, "", 11.5)
    assert life.phase is Phase.OVER
    assert life.stopped_by == signal.SIGINT
    assert life.lost == {}


def test_a_second_signal_kills_everybody_at_once() -> None:
    life = running_life()
    life.asked_to_stop(signal.SIGINT, 10.0)
    assert sent(life.asked_to_stop(signal.SIGINT, 10.1)) == [(KILL, ("agent-0", "agent-1", ENVIRONMENT))]


def test_a_signal_before_the_environment_listens_stops_it() -> None:
    life = new_life()
    life.started(ENVIRONMENT)
    assert sent(life.asked_to_stop(signal.SIGTERM, 0.1)) == [(TERM, (ENVIRONMENT,))]
    assert life.listens(0.2) == [], "no agent starts in a testbed that stops"


def test_an_agent_that_does_not_stop_is_killed_after_its_grace_and_counted_as_lost() -> None:
    life = running_life()
    life.asked_to_stop(signal.SIGTERM, 10.0)
    life.ended("agent-0", 0, "", 10.1)
    assert life.tick(14.9) == []
    assert sent(life.tick(15.0)) == [(KILL, ("agent-1",))]
    assert life.lost["agent-1"].why == "did not stop within 5 s and was killed"
    assert sent(life.ended("agent-1", -9, "killed by SIGKILL", 15.1)) == [(TERM, (ENVIRONMENT,))]


def test_an_environment_that_does_not_stop_is_killed_and_that_is_a_failure() -> None:
    life = running_life(1)
    life.asked_to_stop(signal.SIGTERM, 10.0)
    life.ended("agent-0", 0, "", 11.0)
    assert life.tick(11.0 + LONG_S - 0.1) == []
    assert sent(life.tick(11.0 + LONG_S)) == [(KILL, (ENVIRONMENT,))]
    life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 80.0)
    assert life.phase is Phase.OVER
    assert life.failure == "the environment did not stop within 60 s and was killed"


def test_a_killed_agent_is_lost_until_it_is_restarted() -> None:
    life = running_life()
    assert life.asked_to_kill("agent-0") == [Send(KILL, ("agent-0",))]
    life.ended("agent-0", -9, "killed by SIGKILL", 10.0)
    assert "agent-0" in life.lost
    assert life.asked_to_restart("agent-0") == [StartAgain("agent-0")]
    life.started("agent-0")
    assert life.lost == {}


def test_a_running_agent_that_is_to_restart_is_killed_first_and_not_counted_as_lost() -> None:
    life = running_life(1)
    assert life.asked_to_restart("agent-0") == [Send(KILL, ("agent-0",))]
    assert life.tick(10.0) == []
    assert life.ended("agent-0", -9, "killed by SIGKILL", 10.1) == [StartAgain("agent-0")]
    assert life.lost == {}
    assert life.phase is Phase.RUNNING


def test_nothing_restarts_in_a_testbed_that_stops() -> None:
    life = running_life()
    life.asked_to_stop(signal.SIGTERM, 10.0)
    assert life.asked_to_restart("agent-0") == []


def test_an_environment_killed_on_demand_is_waited_for_until_it_is_restarted() -> None:
    life = running_life()
    life.asked_to_kill(ENVIRONMENT)
    assert life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 10.0) == []
    assert life.tick(1000.0) == []
    assert life.phase is Phase.RUNNING
    assert life.asked_to_restart(ENVIRONMENT) == [StartAgain(ENVIRONMENT)]
    life.started(ENVIRONMENT)
    assert sent(life.ended(ENVIRONMENT, 1, "again", 1001.0)) == [(TERM, ("agent-0", "agent-1"))]


def test_a_testbed_whose_environment_was_killed_on_demand_is_over_when_the_agents_gave_up() -> None:
    life = running_life(1)
    life.asked_to_kill(ENVIRONMENT)
    life.ended(ENVIRONMENT, -9, "killed by SIGKILL", 10.0)
    assert life.ended("agent-0", 69, "unreachable", 20.0) == []
    assert life.phase is Phase.OVER
    assert "agent-0" in life.lost


def test_an_agent_that_comes_back_stops_the_clock_that_ran_because_none_was_left() -> None:
    life = running_life(1)
    life.ended("agent-0", 0, "", 10.0)
    assert life.deadline is not None
    life.started("agent-0")
    assert life.tick(10.0 + LONG_S) == []
    assert life.deadline is None


def test_the_more_agents_end_at_once_the_longer_they_may_take() -> None:
    assert grace_for(0, LOCAL.grace_per_agent_s) == 5.0
    assert grace_for(200, LOCAL.grace_per_agent_s) == 15.0


def test_phases_read_as_words() -> None:
    assert str(Phase.STOPPING_AGENTS) == "stopping agents"
