"""The client of the environment: asks again, passes over what it did not ask for, gives up in time."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from loopback import LONG_S, RUN, StandIn, events, free_address
from loopback_fixtures import Context
from structlog.typing import FilteringBoundLogger

from agentd.core.terms import Terms
from agentd.errors import AgentdError, ConfigurationError, EnvironmentUnreachable
from agentd.shell.environment_client import GIVE_UP_AFTER_S, EnvironmentClient, OldIncarnation, RunOver, _raise
from agentd.wire.codec import encode_environment
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

TOKEN = bytes(range(16))
WELCOME = Welcome(Terms(2, None, run=RUN), 0.0, 1.0, 1, 1, 0)
REPORT = Report(3, TOKEN, 7, 10, 1000, (), 0, True, 0)
HELLO, PULL = Hello(3, TOKEN, 1), Pull(3, TOKEN, 1, 0, 0)


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
    made.token = TOKEN
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
        assert await client.hello(3, 1, LONG_S) == Welcome(Terms(2, None, run=RUN, horizon=50), 0.0, 1.0, 1, 1, 0)
        assert await client.pull(3, 1, 1) == environment.reward(3, 1, 1)
        await client.last_report(REPORT, LONG_S)
    assert environment.requests == [HELLO, Pull(3, TOKEN, 1, 1, 0), REPORT]
    assert client.retries == 0


async def test_it_asks_again_until_it_is_answered(
    client: EnvironmentClient, address: str, log_file: Path, clock: Clock
) -> None:
    with StandIn(address, Scripted([], [], [WELCOME], clock=clock)) as environment:
        assert await client.hello(3, 1, LONG_S) == WELCOME
    assert environment.requests == [HELLO] * 3
    assert client.retries == 2
    lines = events(log_file, "environment silent, asking again")
    assert [(line["address"], line["retries"]) for line in lines] == [(address, 1), (address, 2)]


@pytest.mark.usefixtures("clock")
async def test_a_late_answer_to_a_hello_is_not_taken_for_that_to_the_next_one(
    client: EnvironmentClient, address: str
) -> None:
    """Found by `agentd check`: asked twice while the environment was silent, and then for a new life."""
    terms = Terms(2, None, run=RUN)
    doubted = Welcome(terms, 0.0, 1.0, 6, 1, 0)
    new_life = Welcome(terms, 0.0, 1.0, 6, 5, 0)
    with StandIn(address, Scripted([doubted, doubted], [new_life])):
        assert await client.hello(3, 1, LONG_S) == doubted
        assert await client.hello(3, None, LONG_S) == new_life


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
    assert PULL in environment.requests


@pytest.mark.usefixtures("clock")
async def test_answers_to_earlier_requests_and_questions_of_the_environment_are_passed_over(
    client: EnvironmentClient, address: str, log_file: Path
) -> None:
    stale = [Reward(1, 0, 11), Reward(2, 0, 12), WELCOME, Noted(7, 0), Ping(), b"\xc1", b"", Reward(2, 1, 22)]
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


async def test_a_pull_gives_up_too(client: EnvironmentClient, address: str) -> None:
    client.give_up_s = 0.6
    with StandIn(address, Scripted([WELCOME])):
        await client.hello(3, 1, LONG_S)
        with pytest.raises(EnvironmentUnreachable):
            await client.pull(3, 1, 0)


async def test_who_waits_for_ever_is_still_there_when_the_link_is_back(
    client: EnvironmentClient, address: str, clock: Clock
) -> None:
    client.give_up_s = math.inf
    with StandIn(address, Scripted([WELCOME], *[[]] * 20, [Reward(1, 0, 5)], clock=clock)):
        await client.hello(3, 1, LONG_S)
        began_s = clock.now_s
        assert await client.pull(3, 1, 0) == 5
    assert clock.now_s - began_s > GIVE_UP_AFTER_S, "longer than others wait"


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("code", "kind", "exit_code"),
    [
        (Refusal.VERSION, ConfigurationError, 78),
        (Refusal.UNKNOWN_AGENT, ConfigurationError, 78),
        (Refusal.WRONG_TOKEN, ConfigurationError, 78),
        (Refusal.OLD_INCARNATION, OldIncarnation, 78),
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
    assert environment.requests == [PULL] * 3
    assert [line["missing"] for line in events(log_file, "waiting for other agents")] == [2, 1]


async def test_being_told_to_stop_ends_the_waiting_for_the_others(
    client: EnvironmentClient, address: str, stop: asyncio.Event
) -> None:
    asyncio.get_running_loop().call_later(0.2, stop.set)
    with StandIn(address, lambda _: [Wait(1, 1)]), pytest.raises(RunOver):
        await asyncio.wait_for(client.pull(3, 1, 0), LONG_S / 2)


@pytest.mark.usefixtures("clock")
async def test_what_a_note_tells_of_others_is_taken_up(client: EnvironmentClient, address: str) -> None:
    told = [Noted(7, 5, ((2, 40), (9, 3)))]
    with StandIn(address, Scripted(told, [Reward(1, 0, 5)])):
        client.report(REPORT)
        assert await client.pull(3, 1, 0) == 5
    assert (client.lives.of(2), client.lives.of(9), client.lives.known) == (40, 3, 5)


@pytest.mark.usefixtures("clock")
async def test_a_note_that_is_full_is_followed_by_another_report_at_once(
    client: EnvironmentClient, address: str
) -> None:
    full, rest = Noted(7, 64, tuple((agent, 1) for agent in range(100, 164))), Noted(7, 65, ((9, 2),))
    with StandIn(address, Scripted([full], [Reward(1, 0, 5)], [rest], [Reward(2, 0, 6)])) as environment:
        client.report(REPORT)
        assert await client.pull(3, 1, 0) == 5
        assert await client.pull(3, 2, 0) == 6
    assert environment.requests[2] == replace(REPORT, returns=64)
    assert (client.lives.of(163), client.lives.of(9), client.lives.known) == (1, 2, 65)


async def test_the_round_of_the_run_is_the_latest_that_was_told(client: EnvironmentClient, address: str) -> None:
    answers = ([replace(WELCOME, round=40)], [Noted(7, 0, (), 44)], [Reward(1, 0, 5)], [Noted(7, 0, (), 30)])
    with StandIn(address, Scripted(*answers)):
        assert client.run_round == 0
        await client.hello(3, 1, LONG_S)
        assert client.run_round == 40
        client.report(REPORT)
        await client.pull(3, 1, 0)
        assert client.run_round == 44
        await client.last_report(REPORT, LONG_S)
        assert client.run_round == 44, "an environment that was started again may know less"


async def test_news_are_asked_for_and_waited_for(client: EnvironmentClient, address: str) -> None:
    assert not await client.news(LONG_S), "nothing was reported that could be repeated"
    with StandIn(address, Scripted([], [Noted(7, 2, ((2, 4),), 9)], [])) as environment:
        client.report(REPORT)
        assert await client.news(LONG_S)
        assert (client.run_round, client.lives.of(2)) == (9, 4)
        assert not await client.news(0.3), "silence is no failure"
    assert environment.requests == [REPORT, REPORT, replace(REPORT, returns=2)]
    assert client.retries == 0


class Impatience:
    """Counts how often somebody was told that nothing comes, and gives the answer away after so many times."""

    def __init__(self, stop: asyncio.Event, enough: int) -> None:
        self.times = 0
        self._stop, self._enough = stop, enough

    def __call__(self) -> None:
        self.times += 1
        if self.times == self._enough:
            self._stop.set()


@pytest.mark.timeout(LONG_S / 2)
@pytest.mark.parametrize("answer", [[], [Wait(1, 1)]], ids=["silent", "others are missing"])
async def test_whoever_waits_for_an_answer_is_told_so_again_and_again(
    client: EnvironmentClient, address: str, stop: asyncio.Event, answer: list[EnvironmentMessage]
) -> None:
    client.on_silence = impatience = Impatience(stop, 8)
    with StandIn(address, lambda _: answer), pytest.raises(RunOver):
        await client.pull(3, 1, 0)
    assert impatience.times >= 8


@pytest.mark.timeout(LONG_S / 2)
async def test_it_goes_on_to_be_told_while_an_environment_is_away(
    client: EnvironmentClient, address: str, stop: asyncio.Event
) -> None:
    client.on_silence = impatience = Impatience(stop, 12)
    with StandIn(address):
        await client.hello(3, 1, LONG_S)
        await client.pull(3, 1, 0)
    with pytest.raises(RunOver):
        await client.pull(3, 2, 0)
    assert impatience.times >= 12
    assert client.retries >= 2, "asking again does not end it"


@pytest.mark.usefixtures("clock")
async def test_who_is_answered_at_once_is_told_nothing(
    client: EnvironmentClient, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[None] = []
    client.on_silence = lambda: told.append(None)
    parts = iter([encode_environment(Reward(trial, 0, 5)) for trial in range(1, 51)])

    async def part() -> bytes:
        return next(parts)

    monkeypatch.setattr(client, "_part", part)
    for trial in range(1, 51):
        assert await client.pull(3, trial, 0) == 5
    assert not told


@pytest.mark.timeout(LONG_S / 2)
@pytest.mark.parametrize("request_", [HELLO, PULL], ids=["hello", "pull"])
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
    with StandIn(address, Scripted([], [Noted(7, 0)], clock=clock)) as environment:
        await client.last_report(REPORT, LONG_S)
    assert environment.requests == [REPORT, REPORT]


def test_two_processes_with_one_seat_are_told_what_is_probably_wrong() -> None:
    with pytest.raises(AgentdError, match="does another process run with the same --id and --seat"):
        _raise(Refused(Refusal.TRIAL_OUT_OF_ORDER, "trial 7 of agent 0 is committed"), "tcp://hub:7000")
