"""One agent as a process: it is put together as the settings say, takes part, and leaves in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from evidence import until
from loopback import LONG_S, RUN, Peer, StandIn, events, free_address
from loopback_fixtures import Context, MakeLink
from structlog.typing import FilteringBoundLogger

from agentd.core.grid import UNIT
from agentd.core.lies import Attack
from agentd.core.privacy.laplace import ExactLaplace, SeededLaplace
from agentd.core.privacy.ledger import Release
from agentd.core.terms import Terms
from agentd.environment.live_status import epsilon_of
from agentd.settings import AgentSettings
from agentd.shell.attendance.agent_making import agent_of
from agentd.shell.attendance.reporting import report_of
from agentd.shell.environment_client import EnvironmentClient
from agentd.shell.noise import noise_of
from agentd.wire.codec import encode_environment
from agentd.wire.environment_messages import MAX_COUNT, EnvironmentMessage, Pull, Refusal, Refused, Report, Welcome


def settings(**changes: object) -> AgentSettings:
    usual = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://127.0.0.1:7000"}
    return AgentSettings(**(usual | changes))  # type: ignore[arg-type]


def welcome(next_trial: int = 1, arms: int = 4, incarnation: int = 0) -> Welcome:
    return Welcome(Terms(arms, None, run=RUN), 0.0, 1.0, next_trial, incarnation, 0)


class TestAssembly:
    def test_a_new_agent_starts_from_nothing(self) -> None:
        agent = agent_of(settings(gamma=5), welcome())
        assert (agent.own, agent.trial, agent.incarnation, agent.lifetime) == (3, 0, 0, 5)

    def test_it_goes_on_under_the_incarnation_that_the_environment_gave(self) -> None:
        lives = [agent_of(settings(), welcome(trial, incarnation=life)) for trial, life in ((1, 0), (41, 40), (97, 40))]
        assert [(agent.trial, agent.incarnation) for agent in lives] == [(0, 0), (40, 40), (96, 40)]

    def test_it_has_as_many_arms_as_the_environment_says(self) -> None:
        agent = agent_of(settings(algorithm="coop-ucb"), welcome(arms=7))
        for _ in range(7):
            agent.choose()
            agent.advance(UNIT).committed()
        (batch,) = agent.turn.outbox()
        assert batch.body.shape == (1, 14)

    def test_noise_comes_from_the_operating_system_unless_a_seed_is_given(self) -> None:
        assert isinstance(noise_of(settings(), 0), ExactLaplace)
        assert isinstance(noise_of(settings(seed=1), 0), SeededLaplace)

    def test_another_life_draws_other_noise(self) -> None:
        first, same, second = (noise_of(settings(seed=1), incarnation) for incarnation in (0, 0, 40))
        draws = [[noise.draw(0, 1000) for _ in range(8)] for noise in (first, same, second)]
        assert draws[0] == draws[1]
        assert draws[0] != draws[2]

    def test_a_liar_lies_and_others_do_not(self) -> None:
        def told(**changes: object) -> list[int]:
            agent = agent_of(
                settings(algorithm="byzantine-ucb", seed=1, contamination=1.0, attack="point:1", **changes), welcome()
            )
            said = []
            for _ in range(4):
                agent.choose()
                agent.advance(0).committed()
                said += [message.body[1] for batch in agent.turn.outbox() for message in batch.messages()]
            return said

        assert Attack.parse("point:1")
        assert told() == [0] * 4
        assert told(lies=True) == [UNIT] * 4


@pytest.fixture
def client(context: Context, log: FilteringBoundLogger, stop: asyncio.Event) -> Iterator[EnvironmentClient]:
    made = EnvironmentClient(context, free_address(), log, stop)
    yield made
    made.close()


class TestReport:
    def test_it_carries_the_counters_of_agent_and_link(self, make_link: MakeLink, client: EnvironmentClient) -> None:
        link, agent = make_link(3, ()), agent_of(settings(), welcome(next_trial=6))
        link.messages, link.bytes = 10, 2000
        link.dropped["topic"] = 2
        client.lives.told([(7, 40)], 2)
        expected = Report(3, client.token, 5, 10, 2000, (("topic", 2),), 0, True, 2)
        assert report_of(settings(), agent, link, client, done=True) == expected

    @pytest.mark.parametrize(("scale", "micro"), [(UNIT, 1_000_000), (3 * UNIT, 333_334), (UNIT << 30, 1)])
    def test_what_was_spent_is_rounded_up(
        self, scale: int, micro: int, make_link: MakeLink, client: EnvironmentClient
    ) -> None:
        link, agent = make_link(3, ()), agent_of(settings(), welcome())
        assert agent.policy.ledger is not None
        agent.policy.ledger.record(Release(0, 1, 1, scale))
        assert report_of(settings(), agent, link, client, done=False).epsilon_micro == micro

    def test_an_agent_that_adds_no_noise_tells_of_no_bound(
        self, make_link: MakeLink, client: EnvironmentClient
    ) -> None:
        given = settings(algorithm="coop-ucb")
        report = report_of(given, agent_of(given, welcome()), make_link(3, ()), client, done=False)
        assert report.epsilon_micro == MAX_COUNT
        assert epsilon_of(report) is None

    def test_no_peer_can_make_it_break_the_protocol(self, make_link: MakeLink, client: EnvironmentClient) -> None:
        """A liar's sequence numbers add up to more than the wire can say; this once ended the daemon."""
        link, agent = make_link(3, ()), agent_of(settings(), welcome())
        link.dropped["lost-frames"] = 1 << 60
        for number in range(40):
            link.dropped[f"reason {number} that is longer than it may be"] = 1
        assert encode_environment(report_of(settings(), agent, link, client, done=False))


@pytest.fixture(scope="module")
def environment() -> Iterator[EnvironmentProcess]:
    with EnvironmentProcess("--arms", "0.9,0.1", "--seed", "7") as process:
        yield process


@pytest.mark.system
class TestProcess:
    def test_sigterm_says_goodbye_reports_and_ends_with_0(self, context: Context, log_file: Path) -> None:
        own, other = free_address(), free_address()
        with (
            StandIn(free_address()) as environment,
            # The round would last longer than the test: nothing but the signal ends it.
            Process(
                *agent_arguments(1, own, environment.address, {2: other}, log_file=log_file, round_timeout=LONG_S)
            ) as process,
        ):
            peer = Peer(context, 2, 1, listen=other, hears=own)
            peer.join()
            peer.hear_round(1)
            peer.publish(1)
            peer.hear_round(2)
            process.terminate()
            assert process.wait(LONG_S / 2) == 0, process.errors
            assert peer.hear_round(2).goodbye
            peer.close()
        assert process.errors == ""
        assert environment.reports[1].done
        assert environment.reports[1].trial == 2
        terms, open_run, warning, *told = [line["event"] for line in events(log_file)]
        assert told == ["joined", "ready", "stopping", "done"]
        assert (terms, open_run) == ("terms", "open run: cannot refuse what was not agreed on")
        assert "--state" in warning  # without a place for it, the ledger is in memory only
        assert {line["agent"] for line in events(log_file)} == {1}
        (done,) = events(log_file, "done")
        assert (done["trial"], done["run"]) == (2, RUN.hex())
        assert "lies" not in done

    def test_a_second_sigterm_ends_it_at_once(self, log_file: Path) -> None:
        def silent_after_the_first_pull(request: EnvironmentMessage) -> list[EnvironmentMessage | bytes]:
            return environment.honest(request) if len(environment.requests) < 3 else []

        environment = StandIn(free_address(), silent_after_the_first_pull)
        arguments = agent_arguments(1, free_address(), environment.address, {}, log_file=log_file)
        with environment, Process(*arguments) as process:
            until(lambda: len(environment.requests) > 2)
            process.terminate()
            until(lambda: events(log_file, "stopping"))
            process.terminate()
            assert (
                process.wait(LONG_S / 2) == 128 + signal.SIGTERM
            )  # at once: had it given up the report first, it would be 0
        assert not events(log_file, "done")

    @pytest.mark.parametrize("waiting_for", ["environment", "neighbour"])
    def test_sigterm_ends_the_waiting_at_the_start(self, waiting_for: str, log_file: Path) -> None:
        own, nobody = free_address(), free_address()
        with StandIn(free_address()) as environment:
            address = nobody if waiting_for == "environment" else environment.address
            arguments = agent_arguments(
                1, own, address, {2: nobody}, log_file=log_file, log_level="debug", ready_timeout=LONG_S
            )
            with Process(*arguments) as process:
                seen = "environment silent, asking again" if waiting_for == "environment" else "joined"
                until(lambda: events(log_file, seen))
                process.terminate()
                assert process.wait(LONG_S / 2) == 0, process.errors
        assert process.errors == ""
        assert not events(log_file, "ready")

    def test_a_run_that_is_over_ends_with_0(self, log_file: Path) -> None:
        def over_after_five(request: EnvironmentMessage) -> list[EnvironmentMessage | bytes]:
            if isinstance(request, Pull) and request.trial > 5:
                return [Refused(Refusal.RUN_OVER, "the run ends with trial 5")]
            return environment.honest(request)

        environment = StandIn(free_address(), over_after_five)
        arguments = agent_arguments(1, free_address(), environment.address, {}, log_file=log_file)
        with environment, Process(*arguments) as process:
            assert process.wait() == 0, process.errors
        assert (environment.reports[1].trial, environment.reports[1].done) == (5, True)

    def test_a_liar_says_at_the_end_how_often_it_lied(self, log_file: Path) -> None:
        lying = {"algorithm": "byzantine-ucb", "contamination": 1.0, "attack": "worst", "seed": 1, "rounds": 6}
        with StandIn(free_address()) as environment:
            arguments = agent_arguments(1, free_address(), environment.address, {}, log_file=log_file, **lying)
            with Process(*arguments, "--lies") as process:
                assert process.wait() == 0, process.errors
        (done,) = events(log_file, "done")
        assert (done["trial"], done["lies"]) == (6, 6)

    def test_a_run_that_was_over_before_ends_with_0(self, log_file: Path) -> None:
        with StandIn(free_address(), lambda _: [Refused(Refusal.RUN_OVER, "the run is over")]) as environment:
            arguments = agent_arguments(1, free_address(), environment.address, {}, log_file=log_file)
            with Process(*arguments) as process:
                assert process.wait() == 0, process.errors
        (line,) = events(log_file, "nothing to do")
        assert line["why"] == "the run is over"

    def test_an_agent_that_was_killed_goes_on_where_it_was(self, context: Context, log_file: Path) -> None:
        own, other = free_address(), free_address()
        with StandIn(free_address()) as environment:
            arguments = agent_arguments(1, own, environment.address, {2: other}, log_file=log_file)
            peer = Peer(context, 2, 1, listen=other, hears=own)
            with Process(*arguments) as process:
                peer.join()
                peer.publish(1)
                peer.hear_round(2)
                process.kill()
            with Process(*arguments) as process:
                peer.await_subscription(times=2)
                peer.greet(2)
                frame = peer.hear_round(3)
                process.terminate()
                assert process.wait() == 0, process.errors
            peer.close()
        assert (frame.incarnation, frame.sequence) == (2, 1)
        assert sorted(environment.pulls[1])[:3] == [1, 2, 3]

    def test_two_agents_on_their_own_clocks_learn_from_each_other(
        self, environment: EnvironmentProcess, tmp_path: Path
    ) -> None:
        addresses = {11: free_address(), 12: free_address()}
        logs = {own: tmp_path / f"{own}.jsonl" for own in addresses}
        # Four seconds: were one of them kept from a processor for a while, it would still hear half of the other.
        flags = {"clock": "free", "interval": 0.05, "rounds": 80, "algorithm": "coop-ucb"}
        arguments = {
            own: agent_arguments(
                own, addresses[own], environment.address, {other: addresses[other]}, log_file=logs[own], **flags
            )
            for own, other in ((11, 12), (12, 11))
        }
        with Process(*arguments[11]) as first, Process(*arguments[12]) as second:
            assert (first.wait(), second.wait()) == (0, 0), first.errors + second.errors
        for log in logs.values():
            (done,) = events(log, "done")
            assert done["heard"] > 40
            assert done["dropped"] == {}
