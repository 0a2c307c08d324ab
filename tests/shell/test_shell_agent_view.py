"""What others may see of an agent: nothing that follows from a raw reward, unless it is proven that it may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evidence import until
from loopback import RUN
from loopback_fixtures import MakeVirtual
from structlog.typing import FilteringBoundLogger
from virtual_transport import VirtualTransport

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, schedule_of
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.privacy.ledger import Release
from agentd.core.saved_state import Charged, SavedState
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.attendance.agent_making import agent_of
from agentd.shell.link import Link
from agentd.shell.state.keeper import StateKeeper
from agentd.shell.watch import agent_view
from agentd.shell.watch.agent_view import AgentView, _lost_rounds, has_own_arms
from agentd.shell.watch.schedule_bound import AT_ONCE, LONGEST, ScheduleBound
from agentd.shell.watch.snapshot import Observed, taken
from agentd.wire.environment_messages import Welcome

TRIALS = 300


def settings(algorithm: str, **changes: Any) -> AgentSettings:
    usual = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000", "seed": 1}
    return AgentSettings(**(usual | {"algorithm": algorithm} | changes))


class Watched:
    """An agent that learns which arm pays, and what is seen of it."""

    def __init__(self, algorithm: str, log: FilteringBoundLogger, **changes: Any) -> None:
        self.settings = settings(algorithm, **changes)
        self.agent: Agent = agent_of(
            self.settings, Welcome(Terms(3, None, run=RUN), 0.0, 1.0, 1, 0, 0), noise=SeededLaplace(1, 3)
        )
        self.link = Link(VirtualTransport(3, ()), own=3, log=log)
        self.link.introduce(run=RUN, arms=3, incarnation=0, round_=0)
        self.now_s = 0.0
        self.keeper = StateKeeper(self.settings, None, log)
        self.view = AgentView(self.settings, self.agent, self.link, self.keeper, arms=3, now_s=lambda: self.now_s)

    def play(self, best: int, trials: int = TRIALS) -> None:
        for _ in range(trials):
            self.pull(best)
            self.link.publish(self.agent.trial, self.agent.turn.outbox())
            self.now_s += 0.01

    def pull(self, best: int) -> None:
        intent = self.keeper.choose(self.agent)
        self.agent.draw()
        self.keeper.commit(self.agent.advance(UNIT if intent.arm == best else 0))

    def seen(self) -> Observed:
        return self.view("running")


def state_of(trial: int, value: int | None) -> SavedState:
    return SavedState({}, trial, {}, None, (Charged(Release(0, 1, 1, 9), value),), 0, None)


def ledger_of(agent: Agent) -> tuple[float, int]:
    assert agent.policy.ledger is not None
    return epsilon_of(agent), agent.policy.ledger.refused


def epsilon_of(agent: Agent) -> float:
    assert agent.policy.ledger is not None
    return agent.policy.ledger.epsilon_one_reward()


@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int"])
@pytest.mark.parametrize("changes", [{}, {"epsilon": 0.5, "epsilon_budget": 2.0}])
def test_what_is_seen_of_an_agent_whose_arms_leak_does_not_depend_on_what_they_paid(
    algorithm: str, changes: dict[str, float], log: FilteringBoundLogger
) -> None:
    """Its ledger does: whoever showed that would show which rewards it saw."""
    rich, poor = (Watched(algorithm, log, **changes) for _ in range(2))
    rich.play(best=0)
    poor.play(best=-1)
    assert rich.seen() == poor.seen()
    assert ledger_of(rich.agent) != ledger_of(poor.agent)
    assert rich.seen().status["favoured"] is None
    assert "favoured" not in json.dumps(rich.seen().figures)


@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int"])
def test_what_is_told_as_spent_is_never_less_than_what_was(algorithm: str, log: FilteringBoundLogger) -> None:
    watched = Watched(algorithm, log)
    for _ in range(40):
        watched.play(best=0, trials=7)
        spent = watched.seen().status["epsilon"]
        assert spent["spent"] >= epsilon_of(watched.agent)
        assert spent["exact"] is False


def test_of_sealed_the_favoured_arm_and_the_exact_price_are_shown(log: FilteringBoundLogger) -> None:
    watched = Watched("sealed", log, epsilon=0.5, epsilon_budget=2.0)
    watched.play(best=2)
    status = watched.seen().status
    assert status["favoured"]["arm"] == 2
    assert status["favoured"]["share"] > 0.5
    assert status["epsilon"] == {"spent": 0.5, "exact": True, "budget": 2.0, "left": 1.5}


def test_a_plug_in_that_claims_to_be_private_is_not_believed(
    log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.core.policy._PROVEN", frozenset())
    assert ALGORITHMS["sealed"].transcript_private
    watched = Watched("sealed", log)
    watched.play(best=2)
    assert watched.seen().status["favoured"] is None
    assert watched.seen().status["epsilon"]["exact"] is False


def test_after_a_round_was_lost_nobody_can_tell_what_was_spent(log: FilteringBoundLogger) -> None:
    for algorithm, known in (("private-ucb", False), ("sealed", True)):
        watched = Watched(algorithm, log)
        watched.view._lost_rounds = _lost_rounds(state_of(trial=5, value=None), 5)
        watched.play(best=0)
        assert (watched.seen().status["epsilon"] is not None) is known


def test_a_round_is_lost_where_one_was_counted_more_or_one_may_have_been_released() -> None:
    assert not _lost_rounds(None, 0)
    assert not _lost_rounds(state_of(trial=5, value=3), 5)
    assert _lost_rounds(state_of(trial=5, value=3), 6)
    assert _lost_rounds(state_of(trial=5, value=None), 5)


def test_an_algorithm_without_noise_has_no_epsilon(log: FilteringBoundLogger) -> None:
    watched = Watched("coop-ucb", log)
    watched.play(best=0)
    assert watched.seen().status["epsilon"] is None
    assert watched.seen().status["favoured"] is None


def test_speeds_are_told_but_not_with_arms_of_its_own(
    log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched("sealed", log)
    watched.play(best=0, trials=100)
    status = watched.seen().status
    assert (status["rounds_per_s"], status["round_s"], status["journal_s"]) == (100.0, 0.01, None)
    monkeypatch.setattr(agent_view, "has_own_arms", lambda _: True)
    own = Watched("sealed", log)
    own.play(best=0, trials=100)
    assert not {name for name in own.seen().status if name.endswith("_s")}
    assert not [figure for figure in own.seen().figures if "second" in figure.name and figure.samples]


def test_with_arms_of_its_own_a_trial_is_shown_when_its_frame_has_left(
    log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_view, "has_own_arms", lambda _: True)
    watched = Watched("sealed", log)
    watched.play(best=0, trials=100)
    before = watched.seen()
    watched.pull(best=0)
    assert watched.seen() == before
    watched.link.publish(watched.agent.trial, watched.agent.turn.outbox())
    assert watched.seen().status["trial"] == 101


def test_only_an_environment_that_others_share_pays_at_times_that_tell_nothing() -> None:
    class Named:
        def __init__(self, environment: str) -> None:
            self.environment = environment

    for name in ("tcp://hub:7000", "ipc:///run/agentd/env"):
        assert not has_own_arms(Named(name))  # type: ignore[arg-type]
    for name in ("exec:./mirror", "python:arms:make", "http://127.0.0.1/arms", "anything"):
        assert has_own_arms(Named(name))  # type: ignore[arg-type]


async def test_a_neighbour_that_falls_silent_makes_an_agent_unready_until_it_is_back(
    virtual: MakeVirtual, log: FilteringBoundLogger, tmp_path: Path
) -> None:
    link, _, (peer,) = await virtual(2)
    own = settings("sealed", id=link._own, clock="free", interval_s=1.0)
    agent = agent_of(own, Welcome(Terms(2, None, run=RUN), 0.0, 1.0, 1, 0, 0), noise=SeededLaplace(1, 0))
    now_s = 0.0
    view = AgentView(own, agent, link, StateKeeper(own, None, log), arms=2, now_s=lambda: now_s)
    seen = []
    for second in range(30):
        now_s = float(second)
        if not 10 <= second < 20:
            peer.publish(second + 1)
        link.drain()
        link.publish(second + 1, ())
        seen.append(view("running"))
    ready = [not each.unready for each in seen]
    assert ready == [True] * 15 + [False] * 5 + [True] * 10
    assert seen[17].unready == f"neighbours down: {peer.own}"
    assert seen[17].status["neighbours"][0]["silent_s"] == 8.0
    assert json.loads(taken({}, "running", seen[17], 1.0).status)["ready"] is False


def test_it_is_not_ready_before_it_runs_nor_when_no_round_is_closed(log: FilteringBoundLogger) -> None:
    watched = Watched("sealed", log)
    assert watched.view("ready").unready == "it is ready"
    watched.play(best=0, trials=10)
    assert watched.seen().unready == ""
    watched.now_s += 16.0
    assert watched.seen().unready.startswith("no round was closed")


@pytest.mark.parametrize("algorithm", ["private-ucb", "dp-ucb-int", "sealed"])
def test_the_bound_is_that_of_the_schedule_and_long_ones_are_worked_out_beforehand(algorithm: str) -> None:
    policy = settings(algorithm, epsilon=0.5).policy(3)
    bound = ScheduleBound(ALGORITHMS[algorithm], policy)
    for trial, pulls in ((0, 0), (1, 1), (3, 4), (1000, 1024), (AT_ONCE, AT_ONCE)):
        schedule = schedule_of(algorithm, policy, pulls)
        assert schedule is not None
        assert bound.at(trial) == schedule.epsilon
    until(lambda: 2 * AT_ONCE in bound._known)
    longer = schedule_of(algorithm, policy, 2 * AT_ONCE)
    assert longer is not None
    assert bound.at(AT_ONCE + 1) == longer.epsilon
    assert bound.at(LONGEST + 1) is None


def test_an_agent_that_pulls_once_a_minute_is_not_told_to_stand_still(log: FilteringBoundLogger) -> None:
    watched = Watched("sealed", log, clock="free", interval_s=60.0)
    speeds = []
    for second in range(1, 400):
        watched.now_s = float(second)
        if second % 60 == 0 and second <= 180:
            watched.pull(best=0)
            watched.link.publish(watched.agent.trial, watched.agent.turn.outbox())
        speeds.append(watched.seen().status.get("rounds_per_s"))
    assert speeds[:59] == [None] * 59
    assert set(speeds[59:300]) == {0.02}
    assert speeds[-1] == 0.0  # and then it does
