"""What neighbours and strangers can send that they should not, and agents on a clock of their own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
from loopback import LONG_S, SOON_S, arrived, events, hears_us, ready, said, until
from loopback_fixtures import Addresses, Context, Keep, MakeLink, MakePeer, MakeVirtual
from small_runs import sample, samples

from agentd.core.message import Message
from agentd.core.trust.blame import Why
from agentd.wire.frame import MAX_FRAME_BYTES
from agentd.wire.topics import FRAME_TOPIC


class TestJudging:
    @pytest.mark.parametrize(
        ("part", "reason"),
        [
            (b"frame/", "not-msgpack"),
            (b"frame/\xc1", "not-msgpack"),
            (b"frame/\x01", "shape"),
            (b"frame/" + msgpack.packb([2, 3]), "version"),
            (b"frame/" + bytes(MAX_FRAME_BYTES + 1), "oversize"),
        ],
    )
    async def test_what_cannot_be_read_is_counted_by_reason_and_the_round_goes_on(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, part: bytes, reason: str
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.say(part)
        peer.publish(1, samples(sample(2, 1)))
        link.publish(1, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 1)]
        assert link.dropped == {reason: 1}

    @pytest.mark.parametrize("fast_path", [True, False])
    @pytest.mark.parametrize("lie", [sample(3, 1, 2), sample(2, 1, 1, lifetime=2)], ids=["another's", "its own"])
    async def test_a_life_that_its_sender_cannot_give_is_refused_however_often_it_is_repeated(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, fast_path: bool, lie: Message
    ) -> None:
        """Frames are as long as they were, so the fast path reads them; what they say is looked at when it changes."""
        link, two, three = make_link(1, (2, 3), fast_path=fast_path), make_peer(2, 1), make_peer(3, 1)
        await ready(link, two, three)
        for round_ in range(1, 13):
            honest = sample(9, round_, 1, lifetime=2)
            lies = 4 < round_ < 9
            two.publish(round_, samples(sample(2, round_, 2), lie._replace(trial=round_) if lies else honest))
            three.publish(round_, samples(sample(3, round_, 2), honest))
            link.publish(round_, ())
            gathered = said(await link.gather(LONG_S, stop))
            told = [(2, round_), (3, round_), (9, round_), (9, round_)]
            assert gathered == (told[:-1] if lies else told)
        assert link.dropped == {"lifetime": 4}

    async def test_a_message_of_several_parts_is_one_drop_and_the_line_begins_anew(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        """Only the first part has to begin with a topic that we subscribed; none of the others is looked at."""
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        first = FRAME_TOPIC + peer.encoded(0, (), flags=0)
        peer.xpub.send_multipart([first, *[b""] * 100_000])
        arrived(link, peer)
        link.publish(1, ())
        heard = asyncio.ensure_future(link.gather(LONG_S, stop))
        while peer.look_at_subscriptions().count(b"\x01sync/1/") < 2:
            await asyncio.sleep(0)
        peer.publish(1, samples(sample(2, 1)))
        assert said(await heard) == [(2, 1)]
        assert link.dropped == {"multipart": 1}

    @pytest.mark.parametrize(
        ("changes", "reason"), [({"run": b"another!"}, "run"), ({"sender": 3}, "sender"), ({"arms": 3}, "arms")]
    )
    async def test_a_sound_frame_from_the_wrong_place_is_counted_by_reason_and_the_round_goes_on(
        self,
        make_link: MakeLink,
        make_peer: MakePeer,
        stop: asyncio.Event,
        changes: dict[str, Any],
        reason: str,
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.publish(1, samples(sample(9, 1)), **changes)
        peer.sequence = 0  # a refused frame takes no place in the sequence
        peer.publish(1, samples(sample(2, 1)))
        link.publish(1, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 1)]
        assert link.dropped == {reason: 1}

    async def test_gaps_in_a_neighbours_sequence_are_counted_as_lost_frames(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.publish(1)
        peer.sequence += 4
        peer.publish(2)
        for round_ in (1, 2):
            link.publish(round_, ())
            await link.gather(LONG_S, stop)
        assert link.dropped == {"lost-frames": 4}

    async def test_a_neighbour_that_lost_its_state_begins_its_sequence_anew(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.sequence = 700
        peer.publish(1)
        peer.incarnation, peer.sequence = 1, 0
        peer.publish(2)
        for round_ in (1, 2):
            link.publish(round_, ())
            await link.gather(LONG_S, stop)
        assert not link.dropped

    @pytest.mark.parametrize(
        ("topic", "reason"),
        [
            (b"sync/77/", "stranger"),
            (b"sync/", "topic"),
            (b"", "topic"),
            (b"sync/1/", "stranger"),
            (b"x" * 40, "topic"),
        ],
    )
    async def test_subscriptions_of_strangers_are_counted_and_not_answered(
        self, make_link: MakeLink, make_peer: MakePeer, topic: bytes, reason: str
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        assert peer.hear().greeting
        peer.sub.subscribe(topic)
        until(lambda: link._transport._publisher.poll(0))
        link.publish(1, ())
        assert not peer.hear().greeting
        assert link.dropped == {reason: 1}

    async def test_what_a_subscriber_says_is_counted_and_means_nothing(
        self, make_link: MakeLink, context: Context, keep: Keep, addresses: Addresses
    ) -> None:
        """A subscriber can send upstream whatever it wants."""
        link = make_link(1, (2,))
        shouting = keep(context.socket(zmq.XSUB))
        shouting.connect(addresses[1])
        for part in (b"frame/hello", b"", b"\x02", b"\x01sync/2/"):
            shouting.send(part)
        until(lambda: link._transport._publisher.poll(0) and not link.publish(1, ()) and hears_us(link, 2))
        assert link.dropped == {"topic": 3}

    async def test_frames_of_earlier_rounds_without_end_are_dropped_at_last(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, log_file: Path
    ) -> None:
        """Each of them is sound, and all that are taken within one round would be held in memory together."""
        link, peer = make_link(1, (2,), round_=1000), make_peer(2, 1)
        await ready(link, peer)
        link.publish(1001, ())
        parts = [FRAME_TOPIC + peer.encoded(1, (samples(sample(2, 1)),), flags=0)] * 6000
        flood = threading.Thread(target=lambda: [peer.say(part) for part in parts])
        flood.start()
        batches = await link.gather(LONG_S, stop)
        until(lambda: link._lines[2].receive(False) is None and not flood.is_alive())  # the line is cut, and read empty
        assert 3000 < len(batches) < 4200
        assert link.dropped == {"flood": 4}
        assert link.down == [2], "it is read no more, and not waited for"
        assert [(blame.neighbour, blame.why, blame.times) for blame in link.blames] == [(2, Why.FLOOD, 4)]
        (line,) = events(log_file, "neighbour floods us")
        assert line["neighbour"] == 2

    @pytest.mark.timeout(60)
    async def test_subscribing_without_end_does_not_keep_the_agent_busy(
        self, make_link: MakeLink, context: Context, keep: Keep, addresses: Addresses, stop: asyncio.Event
    ) -> None:
        link = make_link(1, ())
        shouting = keep(context.socket(zmq.XSUB))
        shouting.connect(addresses[1])
        over = threading.Event()

        def shout() -> None:
            while not over.is_set():
                shouting.send(b"\x01sync/9/")

        crowd = threading.Thread(target=shout)
        crowd.start()
        try:
            for round_ in range(1, 21):
                link.publish(round_, ())
                await link.gather(LONG_S, stop)
        finally:
            over.set()
            crowd.join()
        assert link.dropped["stranger"] <= 20 * 1024


class TestDrain:
    async def test_an_agent_on_its_own_clock_hears_neighbours_ahead_of_it_and_behind_it(
        self, make_link: MakeLink, make_peer: MakePeer
    ) -> None:
        """Frames of later rounds were once kept for a round that never comes."""
        link, ahead, behind = make_link(1, (2, 3)), make_peer(2, 1), make_peer(3, 1)
        await ready(link, ahead, behind)
        link.publish(10, ())
        for round_ in range(100, 110):
            ahead.publish(round_, samples(sample(2, round_)))
        behind.publish(1, samples(sample(3, 1)))
        heard: list[tuple[int, int]] = []
        until(lambda: heard.extend(said(link.drain())) or len(heard) == 11)
        assert sorted(heard) == [*((2, round_) for round_ in range(100, 110)), (3, 1)]
        assert not link.dropped

    async def test_it_returns_at_once_when_nothing_came(self, virtual: MakeVirtual) -> None:
        link, transport, _ = await virtual(2)
        waited, started_s = transport.slices, transport.now_s()
        assert link.drain() == []
        assert (transport.slices, transport.now_s()) == (waited, started_s)

    async def test_one_call_takes_a_bounded_number_of_frames(self, make_link: MakeLink, make_peer: MakePeer) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        for round_ in range(1, 41):
            peer.publish(round_, samples(sample(2, round_)))
        sizes: list[int] = []
        until(lambda: sizes.append(len(said(link.drain()))) or sum(sizes) == 40)
        assert max(sizes) <= 16

    async def test_a_neighbour_that_was_missing_at_the_start_counts_as_there_when_it_speaks(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link = make_link(1, (2,))
        await link.wait_until_ready(SOON_S, stop, some_needed=False)
        assert link.down == [2]
        peer = make_peer(2, 1)
        peer.join()
        until(lambda: peer.greet() or link.drain() or not link.down)

    async def test_a_neighbour_that_is_silent_for_long_is_connected_to_anew(self, virtual: MakeVirtual) -> None:
        link, transport, _ = await virtual(2)
        for seconds, reconnected in ((9.0, 0), (2.0, 1), (9.0, 1), (2.0, 2)):
            transport.pass_time(seconds, lambda: False)
            link.drain()
            assert transport.lines[2].reconnected == reconnected
