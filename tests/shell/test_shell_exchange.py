"""Agents of one process hear each other as through sockets, and other hosts speak for their own agents only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentd.shell.host.exchange import LONGEST_SLICE_S, QUEUE_PARTS, Exchange, HostedTransport
from agentd.shell.host.waits import Waits
from agentd.wire.topics import FRAME_TOPIC, sync_topic

FRAME = FRAME_TOPIC + b"something"


class Noted:
    """A trunk that only notes what it is told."""

    def __init__(self) -> None:
        self.ears: list[tuple[int, int, bool]] = []
        self.said: list[tuple[int, int, bytes]] = []

    def join(self, listener: int, speaker: int, joined: bool) -> None:
        self.ears.append((listener, speaker, joined))

    def say(self, host: int, speaker: int, part: bytes) -> None:
        self.said.append((host, speaker, part))


def host_of(agent: int) -> int | None:
    """Agents 0 to 9 are here, 10 to 19 in host 1, and others nowhere."""
    return None if agent < 10 else 1 if agent < 20 else -1


def on(act: Callable[[Exchange, Noted], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        trunk = Noted()
        await act(Exchange(Waits(asyncio.get_running_loop()), 10, host_of, trunk), trunk)

    asyncio.run(run())


def agent(exchange: Exchange, own: int, *peers: int) -> HostedTransport:
    transport = HostedTransport(exchange, own)
    transport.open({peer: f"ipc:///a{peer}" for peer in peers}, 1 << 20)
    return transport


def events(transport: HostedTransport) -> list[bytes]:
    return list(iter(transport.event, None))


def test_whoever_listens_is_seen_whichever_of_the_two_came_first() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        early = agent(exchange, 1, 2)
        late = agent(exchange, 2, 1)
        assert events(early) == [b"\x01" + sync_topic(2)]
        assert events(late) == [b"\x01" + sync_topic(1)]

    on(act)


def test_a_frame_comes_to_all_who_listen_and_a_greeting_to_the_one_it_is_for() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        speaker, one, other = agent(exchange, 1), agent(exchange, 2, 1), agent(exchange, 3, 1)
        speaker.publish(FRAME)
        speaker.publish(sync_topic(3) + b"hello")
        assert (one.lines[1].receive(False), one.lines[1].receive(False)) == (FRAME, None)
        assert (other.lines[1].receive(True), other.lines[1].receive(True)) == (FRAME, sync_topic(3) + b"hello")

    on(act)


def test_what_nobody_reads_is_kept_up_to_a_limit() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        speaker, listener = agent(exchange, 1), agent(exchange, 2, 1)
        for number in range(QUEUE_PARTS + 5):
            speaker.publish(FRAME_TOPIC + b"%d" % number)
        read = list(iter(lambda: listener.lines[1].receive(False), None))
        assert read == [FRAME_TOPIC + b"%d" % number for number in range(QUEUE_PARTS)]

    on(act)


def test_whoever_gathers_goes_on_when_the_last_of_them_has_spoken() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        one, other, listener = agent(exchange, 1), agent(exchange, 2), agent(exchange, 3, 1, 2)
        exchange.slice_s = 1000.0
        gathered = asyncio.create_task(listener.gather([1, 2]))
        await asyncio.sleep(0)
        one.publish(FRAME)
        await asyncio.sleep(0)
        assert not gathered.done()
        other.publish(FRAME)
        await gathered

    on(act)


def test_whoever_gathers_looks_up_when_its_slice_is_over_or_somebody_begins_to_listen() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        listener = agent(exchange, 3, 1)
        exchange.slice_s = 0.0
        await listener.gather([1])
        exchange.slice_s = 1000.0
        gathered = asyncio.create_task(listener.gather([1]))
        await asyncio.sleep(0)
        agent(exchange, 4, 3)
        await gathered
        assert events(listener) == [b"\x01" + sync_topic(4)]

    on(act)


def test_who_is_gone_hears_nothing_and_is_seen_to_leave_and_to_come_back() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        speaker, listener = agent(exchange, 1, 2), agent(exchange, 2, 1)
        events(speaker), events(listener)
        listener.close()
        speaker.publish(FRAME)
        assert events(speaker) == [b"\x00" + sync_topic(2)]
        assert not listener.lines[1].is_readable()
        again = agent(exchange, 2, 1)
        assert events(speaker) == [b"\x01" + sync_topic(2)]
        assert events(again) == [b"\x01" + sync_topic(1)], "who listened before still does"

    on(act)


def test_a_line_that_was_cut_off_hears_nothing_until_it_is_connected_anew() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        speaker, listener = agent(exchange, 1), agent(exchange, 2, 1)
        speaker.publish(FRAME)
        listener.lines[1].disconnect()
        speaker.publish(FRAME)
        assert not listener.lines[1].is_readable()
        listener.lines[1].reconnect()
        speaker.publish(FRAME)
        assert listener.lines[1].receive(False) == FRAME
        assert events(speaker) == [b"\x01" + sync_topic(2), b"\x00" + sync_topic(2), b"\x01" + sync_topic(2)]

    on(act)


def test_another_host_is_told_once_however_many_of_its_agents_listen() -> None:
    async def act(exchange: Exchange, trunk: Noted) -> None:
        speaker = agent(exchange, 1, 10)
        exchange.far_ear(1, 10, 1, True)
        exchange.far_ear(1, 11, 1, True)
        speaker.publish(FRAME)
        assert trunk.ears == [(1, 10, True)]
        assert trunk.said == [(1, 1, FRAME)]
        assert events(speaker) == [b"\x01" + sync_topic(10), b"\x01" + sync_topic(11)]
        assert exchange.ears_at(1) == [(1, 10)]
        exchange.host_left(1)
        speaker.publish(FRAME)
        assert len(trunk.said) == 1
        assert sorted(events(speaker)) == [b"\x00" + sync_topic(10), b"\x00" + sync_topic(11)]

    on(act)


def test_a_host_speaks_and_listens_for_its_own_agents_only() -> None:
    async def act(exchange: Exchange, _trunk: Noted) -> None:
        one, other = agent(exchange, 1, 2, 10, 30), agent(exchange, 2)
        events(one), events(other)
        exchange.far_part(1, 2, FRAME)  # one of ours
        exchange.far_part(1, 30, FRAME)  # nobody's
        exchange.far_ear(1, 2, 1, True)
        exchange.far_ear(1, 30, 1, True)
        exchange.far_ear(1, 10, 11, True)
        exchange.far_ear(1, 10, 65_535, True)
        assert exchange.strayed == 6
        assert not any(line.is_readable() for line in one.lines.values())
        assert events(one) == events(other) == []
        exchange.far_part(1, 10, FRAME)
        assert one.lines[10].receive(False) == FRAME

    on(act)


def test_the_more_agents_share_a_process_the_longer_one_waits_before_it_looks_around() -> None:
    """Else thousands that wait for a long round do little but see that nothing has come, and report it."""

    async def act(_exchange: Exchange, trunk: Noted) -> None:
        crowds = {n: Exchange(Waits(asyncio.get_running_loop()), n, host_of, trunk) for n in (1, 100, 1000, 5000)}
        waits = {agents: HostedTransport(exchange, 1).slice_s for agents, exchange in crowds.items()}
        assert waits == {1: 0.2, 100: 0.2, 1000: 2.0, 5000: LONGEST_SLICE_S}

    on(act)


def test_agents_of_a_process_make_allowance_for_the_time_that_a_round_of_all_of_them_takes() -> None:
    spent_s = iter([1.0, 1.4, 2.2])

    async def act(exchange: Exchange, trunk: Noted) -> None:
        crowd = Exchange(exchange.waits, 2, host_of, trunk, lambda: next(spent_s))
        one, other = agent(crowd, 1, 2), agent(crowd, 2, 1)
        allowed = [one.crowd_s]
        for _ in range(2):
            one.publish(FRAME)
            other.publish(sync_topic(1) + b"a greeting is no round")
            other.publish(FRAME)
            allowed.append(one.crowd_s)
        assert allowed == pytest.approx([0.0, 0.4, 0.5])

    on(act)
