"""The loops around an agent, on real links with arms in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from loopback import LONG_S, Peer, arrived, events, ready, said
from loopback_fixtures import MakeLink, MakePeer, MakeVirtual
from small_runs import sample, samples
from structlog.typing import FilteringBoundLogger

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.rounds.whereabouts import Whereabouts
from agentd.core.terms import Clock, Terms
from agentd.core.trust.pace import Pace
from agentd.shell.drive import Reporter, drive_free, drive_lockstep


class Arms:
    """Arm 0 pays, arm 1 does not; remembers who pulled what."""

    def __init__(self, after: Callable[[int], None] | None = None) -> None:
        self.pulls: list[tuple[int, int, int]] = []
        self._after = after or (lambda _trial: None)

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:
        sent()
        self.pulls.append((agent, trial, arm))
        self._after(trial)
        return UNIT if arm == 0 else 0


FREE = Terms(2, 1, clock=Clock.FREE, interval_us=1_000_000, start_ms=1)


def an_agent(own: int = 1, trial: int = 0) -> Agent:
    policy = make_policy("byzantine-ucb", PolicySettings(arms=2), own)
    return Agent(own, policy, terms=Terms(2, 1), trial=trial)


@pytest.fixture
def reporter(log: FilteringBoundLogger) -> Reporter:
    return Reporter(lambda: None, log)


def in_step(peer: Peer, rounds: int) -> None:
    """Say all frames of a neighbour at once; the agent takes one per round."""
    for round_ in range(1, rounds + 1):
        peer.publish(round_, samples(sample(peer.own, round_)))


class TestLockstep:
    async def test_each_round_is_one_pull_one_frame_and_what_the_neighbours_said(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, peer, arms, agent = make_link(1, (2,)), make_peer(2, 1), Arms(), an_agent()
        await ready(link, peer)
        in_step(peer, 5)
        await drive_lockstep(agent, link, arms, rounds=5, round_timeout_s=LONG_S, stop=stop, reporter=reporter)
        assert [(who, trial) for who, trial, _ in arms.pulls] == [(1, trial) for trial in range(1, 6)]
        frames = [peer.hear_round(round_) for round_ in range(1, 6)]
        assert [said(list(frame.batches)) for frame in frames] == [[(1, trial)] for trial in range(1, 6)]
        assert [frame.goodbye for frame in frames] == [False, False, False, False, True]
        assert agent.heard == 4  # nothing is decided after the last pull, so nobody waits for the last frames

    async def test_an_agent_that_comes_back_goes_on_with_its_next_trial(
        self, make_link: MakeLink, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        arms = Arms()
        await drive_lockstep(
            an_agent(trial=7), make_link(1, ()), arms, rounds=9, round_timeout_s=1, stop=stop, reporter=reporter
        )
        assert [trial for _, trial, _ in arms.pulls] == [8, 9]

    async def test_it_ends_after_the_round_in_which_it_is_told_to(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        arms = Arms(after=lambda trial: stop.set() if trial == 3 else None)
        in_step(peer, 3)
        await drive_lockstep(an_agent(), link, arms, rounds=9, round_timeout_s=LONG_S, stop=stop, reporter=reporter)
        assert len(arms.pulls) == 3
        assert not peer.hear_round(3).goodbye  # the farewell is the daemon's


class TestOwnClock:
    async def test_pulls_are_an_interval_apart_and_the_end_waits_for_no_more(
        self, virtual: MakeVirtual, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, transport, _ = await virtual()
        at: list[float] = []
        arms = Arms(after=lambda _trial: at.append(transport.now_s()))
        await drive_free(an_agent(), link, arms, rounds=3, interval_s=1.0, stop=stop, reporter=reporter)
        assert at == [0.0, 1.0, 2.0]
        assert transport.now_s() == 2.0

    async def test_time_that_a_pull_took_is_not_made_up_for_by_a_burst(
        self, virtual: MakeVirtual, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, transport, _ = await virtual()
        at: list[float] = []

        def take_long_once(trial: int) -> None:
            transport.pass_time(3.5 if trial == 1 else 0.0, lambda: False)
            at.append(transport.now_s())

        arms = Arms(after=take_long_once)
        await drive_free(an_agent(), link, arms, rounds=4, interval_s=1.0, stop=stop, reporter=reporter)
        assert at == [3.5, 3.5, 4.5, 5.5]

    async def test_who_returns_early_waits_until_the_pace_allows_its_next_trial(
        self, virtual: MakeVirtual, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, transport, _ = await virtual()
        at: list[float] = []
        arms = Arms(after=lambda _trial: at.append(transport.now_s()))
        pace = Pace(FREE, age_ms=1_500)
        await drive_free(
            an_agent(trial=3), link, arms, rounds=6, interval_s=1.0, pace=pace, stop=stop, reporter=reporter
        )
        assert at == [1.5, 2.5, 3.5]

    async def test_it_refuses_what_nobody_can_have_reached(
        self, virtual: MakeVirtual, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, _, (peer,) = await virtual(2)
        agent, pace = an_agent(), Pace(FREE)

        def say_two(trial: int) -> None:
            peer.publish(trial, samples(sample(2, trial), sample(2, trial + 2)))

        await drive_free(
            agent, link, Arms(after=say_two), rounds=5, interval_s=1.0, pace=pace, stop=stop, reporter=reporter
        )
        assert agent.dropped == {"future": 4}
        assert agent.heard == 4

    async def test_it_hears_neighbours_that_are_ahead(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        link, peer, agent = make_link(1, (2,)), make_peer(2, 1), an_agent()
        await ready(link, peer)

        def say_one(trial: int) -> None:
            if trial <= 10:
                peer.publish(499 + trial, samples(sample(2, 499 + trial)))
                arrived(link, peer)

        await drive_free(agent, link, Arms(after=say_one), rounds=30, interval_s=0.02, stop=stop, reporter=reporter)
        assert agent.heard == 10
        assert peer.hear_round(30).goodbye

    async def test_being_told_to_stop_ends_the_interval(
        self, make_link: MakeLink, stop: asyncio.Event, reporter: Reporter
    ) -> None:
        asyncio.get_running_loop().call_soon(stop.set)
        driving = drive_free(
            an_agent(), make_link(1, ()), Arms(), rounds=9, interval_s=LONG_S, stop=stop, reporter=reporter
        )
        await asyncio.wait_for(driving, LONG_S / 2)


class TestReporter:
    def test_it_reports_at_once_and_then_every_other_second(
        self, log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [100.0]
        monkeypatch.setattr("agentd.shell.drive.time", SimpleNamespace(monotonic=lambda: now[0]))
        reports: list[float] = []
        reporter = Reporter(lambda: reports.append(now[0]), log)
        for tenth in range(66):
            now[0] = 100 + tenth / 10
            reporter.tick(1)
        assert reports == [100.0, 102.0, 104.0, 106.0]

    def test_in_a_crowd_it_reports_more_rarely(self, log: FilteringBoundLogger) -> None:
        now, reports = [100.0], list[float]()
        reporter = Reporter(lambda: reports.append(now[0]), log, now_s=lambda: now[0], every_s=20.0)
        for second in range(66):
            now[0] = 100.0 + second
            reporter.look()
        assert reports == [100.0, 120.0, 140.0, 160.0]

    def test_whoever_makes_it_report_often_does_not_make_it_tidy_up_often(self, log: FilteringBoundLogger) -> None:
        """A neighbour that claims to be a little ahead has every report asked for; collecting garbage takes 10 ms."""
        now, told = [100.0], list[str]()
        where = Whereabouts()
        reporter = Reporter(
            lambda: told.append("report"), log, None, where, lambda: now[0], at_leisure=lambda: told.append("tidy")
        )
        for tenth in range(66):
            now[0], where.ask = 100 + tenth / 10, True
            reporter.tick(1)
        assert (told.count("report"), told.count("tidy")) == (66, 3)

    def test_it_leaves_a_milestone_every_hundred_trials(self, reporter: Reporter, log_file: Path) -> None:
        for trial in range(1, 301):
            reporter.tick(trial)
        assert [line["trial"] for line in events(log_file, "progress")] == [100, 200, 300]
