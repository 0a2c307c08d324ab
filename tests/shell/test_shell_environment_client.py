"""The client of the environment: asks again, passes over what it did not ask for, gives up in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import LONG_S, RUN, StandIn, events, free_address
from loopback_fixtures import Context
from structlog.typing import FilteringBoundLogger

from agentd.errors import AgentdError, ConfigurationError, EnvironmentUnreachable
from agentd.shell.environment_client import EnvironmentClient, RunOver
from agentd.wire.environment_messages import (
    EnvironmentMessage,
    Hello,
    Noted,
    Ping,
    Pull,
    Refusal,
    Refused,
    Report,
    Request,
    Reward,
    Wait,
    Welcome,
)

WELCOME = Welcome(RUN, 2, 0.0, 1.0, 0, 1)
REPORT = Report(3, 7, 10, 1000, (), 0, True)


@pytest.fixture(autouse=True)
def _less_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd.shell.environment_client.FIRST_PATIENCE_S", 0.25)
    monkeypatch.setattr("agentd.shell.environment_client.ASK_AGAIN_S", 0.05)


class Clock:
    """The client's time: it passes only while the environment is silent on purpose, however slow the machine is."""

    now_s = 1000.0
    silent = False
    """The newest request gets no answer."""

    def monotonic(self) -> float:
        if self.silent:
            self.now_s += 2.0
        return self.now_s


@pytest.fixture
def address() -> str:
    return free_address()


@pytest.fixture
def client(
    context: Context, address: str, log: FilteringBoundLogger, stop: asyncio.Event
) -> Iterator[EnvironmentClient]:
    made = EnvironmentClient(context, address, log, stop)
    yield made
    made.close()


@pytest.fixture
def clock(client: EnvironmentClient, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made, really_send = Clock(), client._send

    def send(request: Request) -> None:
        made.silent = False
        really_send(request)

    monkeypatch.setattr(client, "_send", send)
    monkeypatch.setattr("agentd.shell.environment_client.time", made)
    return made


class Scripted:
    """Answers that a test has written down; nothing more is said when they are used up."""

    def __init__(self, *answers: list[EnvironmentMessage | bytes], clock: Clock | None = None) -> None:
        self._answers = iter(answers)
        self._clock = clock

    def __call__(self, _request: EnvironmentMessage) -> list[EnvironmentMessage | bytes]:
        answer = next(self._answers, [])
        if self._clock is not None:
            self._clock.silent = not answer
        return answer


@pytest.mark.usefixtures("clock")
async def test_hello_pull_and_report_are_answered(client: EnvironmentClient, address: str) -> None:
    with StandIn(address, horizon=50) as environment:
        assert await client.hello(3, 1, LONG_S) == Welcome(RUN, 2, 0.0, 1.0, 50, 1)
        assert await client.pull(3, 1, 1) == environment.reward(3, 1, 1)
        await client.last_report(REPORT, LONG_S)
    assert environment.requests == [Hello(3, 1), Pull(3, 1, 1), REPORT]
    assert client.retries == 0


async def test_it_asks_again_until_it_is_answered(
    client: EnvironmentClient, address: str, log_file: Path, clock: Clock
) -> None:
    with StandIn(address, Scripted([], [], [WELCOME], clock=clock)) as environment:
        assert await client.hello(3, 1, LONG_S) == WELCOME
    assert environment.requests == [Hello(3, 1)] * 3
    assert client.retries == 2
    lines = events(log_file, "environment silent, asking again")
    assert [(line["address"], line["retries"]) for line in lines] == [(address, 1), (address, 2)]


async def test_patience_grows_with_every_try(
    client: EnvironmentClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def silent_at_first(_request: object, deadline: float) -> Welcome | None:
        waits.append(deadline - clock.now_s)
        clock.now_s = deadline
        return WELCOME if len(waits) == 8 else None

    monkeypatch.setattr(client, "_answer", silent_at_first)
    assert await client.hello(3, 1, LONG_S) == WELCOME
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


async def test_an_environment_that_starts_later_is_found(client: EnvironmentClient, address: str) -> None:
    environment = StandIn(address)
    starter = threading.Timer(0.5, environment.__enter__)
    starter.start()
    try:
        assert (await client.hello(3, 1, LONG_S)).run == RUN
    finally:
        starter.join()
        environment.__exit__()


async def test_an_environment_that_was_restarted_is_found_again(client: EnvironmentClient, address: str) -> None:
    with StandIn(address) as environment:
        await client.hello(3, 1, LONG_S)
        first = await client.pull(3, 1, 0)
    asking = asyncio.get_running_loop().create_task(client.pull(3, 1, 0))
    with StandIn(address) as environment:
        assert await asking == first  # the same seed, so the same reward
    assert Pull(3, 1, 0) in environment.requests


@pytest.mark.usefixtures("clock")
async def test_answers_to_earlier_requests_and_questions_of_the_environment_are_passed_over(
    client: EnvironmentClient, address: str, log_file: Path
) -> None:
    stale = [Reward(1, 0, 11), Reward(2, 0, 12), WELCOME, Noted(7), Ping(), b"\xc1", b"", Reward(2, 1, 22)]
    with StandIn(address, Scripted(stale)):
        assert await client.pull(3, 2, 1) == 22
    assert client.retries == 0
    reasons = [line["reason"] for line in events(log_file, "unreadable answer of the environment")]
    assert reasons == ["not-msgpack", "not-msgpack"]


@pytest.mark.usefixtures("clock")
async def test_a_report_in_passing_waits_for_nobody(client: EnvironmentClient, address: str) -> None:
    with StandIn(address) as environment:
        await client.hello(3, 1, LONG_S)
        client.report(REPORT)
        await client.pull(3, 1, 0)  # its answer comes after that of the report, which is passed over
    assert environment.reports == {3: REPORT}


@pytest.mark.timeout(LONG_S / 2)  # had each waited for a slice only, it would be minutes
async def test_reports_to_nobody_never_block(client: EnvironmentClient) -> None:
    for _ in range(3000):
        client.report(REPORT)


async def test_silence_ends_in_an_error_that_says_where_and_what_to_do(client: EnvironmentClient, address: str) -> None:
    with pytest.raises(EnvironmentUnreachable) as fault:
        await client.hello(3, 1, 0.6)
    assert fault.value.exit_code == 69
    assert str(fault.value) == (
        f"the environment at {address} did not answer within 0.6 s; is `agentd env` running there?"
    )


async def test_a_pull_gives_up_too(client: EnvironmentClient, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd.shell.environment_client.GIVE_UP_AFTER_S", 0.6)
    with StandIn(address, Scripted([WELCOME])):
        await client.hello(3, 1, LONG_S)
        with pytest.raises(EnvironmentUnreachable):
            await client.pull(3, 1, 0)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("code", "kind", "exit_code"),
    [
        (Refusal.VERSION, ConfigurationError, 78),
        (Refusal.UNKNOWN_AGENT, ConfigurationError, 78),
        (Refusal.MALFORMED, AgentdError, 1),
        (Refusal.ARM_OUT_OF_RANGE, AgentdError, 1),
        (Refusal.TRIAL_CONFLICT, AgentdError, 1),
        (Refusal.TRIAL_OUT_OF_ORDER, AgentdError, 1),
        (Refusal.RUN_OVER, RunOver, 1),
    ],
)
async def test_a_refusal_says_whose_fault_it_is(
    client: EnvironmentClient, address: str, code: Refusal, kind: type[AgentdError], exit_code: int
) -> None:
    with StandIn(address, Scripted([Refused(code, "that is why")])), pytest.raises(kind) as fault:
        await client.pull(3, 1, 0)
    assert type(fault.value) is kind
    assert fault.value.exit_code == exit_code
    assert "that is why" in str(fault.value)


@pytest.mark.usefixtures("clock")
async def test_the_first_pull_waits_until_the_others_are_there(
    client: EnvironmentClient, address: str, log_file: Path
) -> None:
    with StandIn(address, Scripted([Wait(1, 2)], [Wait(1, 1)], [Reward(1, 0, 5)])) as environment:
        assert await client.pull(3, 1, 0) == 5
    assert environment.requests == [Pull(3, 1, 0)] * 3
    assert [line["missing"] for line in events(log_file, "waiting for other agents")] == [2, 1]


async def test_being_told_to_stop_ends_the_waiting_for_the_others(
    client: EnvironmentClient, address: str, stop: asyncio.Event
) -> None:
    asyncio.get_running_loop().call_later(0.2, stop.set)
    with StandIn(address, lambda _: [Wait(1, 1)]), pytest.raises(RunOver):
        await asyncio.wait_for(client.pull(3, 1, 0), LONG_S / 2)


@pytest.mark.usefixtures("clock")
async def test_a_broken_connection_of_our_own_is_outwaited(
    client: EnvironmentClient, address: str, log_file: Path
) -> None:
    """The environment takes some seconds to notice that an earlier connection of this agent is gone."""
    ghost: list[EnvironmentMessage | bytes] = [Refused(Refusal.DUPLICATE_AGENT, "agent 3 is already connected")]
    with StandIn(address, Scripted(ghost, ghost, [Reward(1, 0, 5)])) as environment:
        assert await client.pull(3, 1, 0) == 5
    assert len(environment.requests) == 3
    assert (
        len(events(log_file, "another connection speaks for this agent, asking again")) == 1
    )  # logged once, however often it asks


async def test_our_own_old_connection_is_outwaited_after_the_network_was_gone(
    client: EnvironmentClient, address: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence first, for longer than a ghost is usually waited for; then it speaks for us for a while."""
    monkeypatch.setattr("agentd.shell.environment_client.GHOST_S", 0.1)
    ghost: list[EnvironmentMessage | bytes] = [Refused(Refusal.DUPLICATE_AGENT, "agent 3 is already connected")]
    with StandIn(address, Scripted([], ghost, ghost, [Reward(1, 0, 5)], clock=clock)):
        assert await client.pull(3, 1, 0) == 5


async def test_another_agent_of_the_same_id_is_a_mistake_of_the_operator(
    client: EnvironmentClient, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.shell.environment_client.GHOST_S", 0.2)
    with (
        StandIn(address, lambda _: [Refused(Refusal.DUPLICATE_AGENT, "agent 3 is already connected")]),
        pytest.raises(ConfigurationError, match="refuses this agent: agent 3 is already connected"),
    ):
        await client.hello(3, 1, LONG_S)


@pytest.mark.timeout(LONG_S / 2)
@pytest.mark.parametrize("request_", [Hello(3, 1), Pull(3, 1, 0)], ids=["hello", "pull"])
async def test_being_told_to_stop_ends_the_waiting(
    client: EnvironmentClient, stop: asyncio.Event, request_: object
) -> None:
    asyncio.get_running_loop().call_later(0.1, stop.set)
    with pytest.raises(RunOver):
        await (client.hello(3, 1, LONG_S) if isinstance(request_, Hello) else client.pull(3, 1, 0))


async def test_the_last_report_is_sent_although_the_agent_was_told_to_stop(
    client: EnvironmentClient, address: str, stop: asyncio.Event, clock: Clock
) -> None:
    stop.set()
    with StandIn(address, Scripted([], [Noted(7)], clock=clock)) as environment:
        await client.last_report(REPORT, LONG_S)
    assert environment.requests == [REPORT, REPORT]
