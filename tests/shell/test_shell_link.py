"""What a round publishes and gathers, against neighbours made by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from loopback import LONG_S, RUN, SOON_S, about_to_greet, arrived, events, hears_us, ready, said, until
from loopback_fixtures import MakeLink, MakePeer, MakeVirtual
from small_runs import sample, samples

from agentd.core.trust.blame import Why
from agentd.shell.sockets import SLICE_MS
from agentd.wire.codec import encode_frame
from agentd.wire.frame import GOODBYE, MAX_FRAME_BYTES, Frame
from agentd.wire.topics import sync_topic


class TestGather:
    async def test_a_round_holds_what_every_neighbour_said(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, two, three = make_link(1, (2, 3)), make_peer(2, 1), make_peer(3, 1)
        await ready(link, two, three)
        two.publish(1, samples(sample(2, 1)))
        three.publish(1, samples(sample(3, 1), sample(9, 1, lifetime=2)))
        link.publish(1, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 1), (3, 1), (9, 1)]
        assert not link.dropped

    async def test_a_frame_of_a_later_round_is_delivered_in_its_own(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        """Its frame of round 1 got lost, so that the one of round 2 is read while we are still in round 1."""
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.publish(2, samples(sample(2, 2)))
        link.publish(1, ())
        assert said(await link.gather(LONG_S, stop)) == []
        assert link.latest_round == 2
        link.publish(2, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 2)]

    async def test_frames_of_a_neighbour_that_is_ahead_come_one_per_round(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        for round_ in (1, 2, 3):
            peer.publish(round_, samples(sample(2, round_)))
        for round_ in (1, 2, 3):
            link.publish(round_, ())
            assert said(await link.gather(LONG_S, stop)) == [(2, round_)]

    @pytest.mark.parametrize("fast_path", [True, False])
    async def test_rounds_that_repeat_each_other_are_gathered_with_and_without_the_fast_path(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, fast_path: bool
    ) -> None:
        link, two, three = make_link(1, (2, 3), fast_path=fast_path), make_peer(2, 1), make_peer(3, 1)
        await ready(link, two, three)
        recognised = 0
        for round_ in range(1, 9):
            two.publish(round_, samples(sample(2, round_)))
            three.publish(round_, samples(sample(3, round_)))
            link.publish(round_, ())
            gathered = await link.gather(LONG_S, stop)
            assert said(gathered) == [(2, round_), (3, round_)]
            recognised += any(batch.sequel is not None and batch.sequel.repeats for batch in gathered)
        assert recognised == (7 if fast_path else 0)

    async def test_a_late_frame_is_still_used(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        link.publish(1, ())
        assert await link.gather(SOON_S, stop) == []
        peer.publish(1, samples(sample(2, 1)))
        arrived(link, peer)
        link.publish(2, ())
        assert said(await link.gather(SOON_S, stop)) == [(2, 1)]

    async def test_a_missing_neighbour_costs_one_timeout_once_and_is_logged_once(
        self, virtual: MakeVirtual, stop: asyncio.Event, log_file: Path
    ) -> None:
        link, transport, (_dumb, fine) = await virtual(2, 3)
        took: list[float] = []
        for round_ in range(1, 6):
            fine.publish(round_, samples(sample(3, round_)))
            link.publish(round_, ())
            started_s = transport.now_s()
            assert said(await link.gather(2.0, stop)) == [(3, round_)]
            took.append(transport.now_s() - started_s)
        assert took == pytest.approx([2.0, 0.0, 0.0, 0.0, 0.0])
        (line,) = events(log_file, "neighbour down")
        assert (line["neighbour"], line["address"], line["round"]) == (2, "virtual://2", 1)
        assert (link.dropped["missed-rounds"], link.down) == (1, [2])

    async def test_many_missing_neighbours_cost_one_timeout_too(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        others = range(2, 22)
        link, transport, _ = await virtual(*others)
        started_s = transport.now_s()
        link.publish(1, ())
        assert await link.gather(2.0, stop) == []
        assert transport.now_s() - started_s == pytest.approx(2.0), "each was given a slice of its own"
        assert link.down == list(others)

    async def test_who_waits_for_long_tells_its_neighbours_that_it_is_held_up(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        link, transport, (_dumb, fine) = await virtual(2, 3)
        fine.publish(1)
        link.publish(1, ())
        started_s = transport.now_s()
        await link.gather(1.0, stop)
        for peer in (2, 3):
            told_s, greeting = transport.frames(sync_topic(peer))[-1]
            assert told_s - started_s == pytest.approx(0.5)
            assert (greeting.greeting, greeting.round, greeting.sequence) == (True, 1, 1)
        assert [frame.round for _, frame in transport.frames()] == [1]

    async def test_who_is_held_up_is_given_half_of_the_time_more(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        link, transport, (peer, _dumb) = await virtual(2, 3)
        peer.greet()
        transport.at(transport.now_s() + 5.9, lambda: peer.publish(1, samples(sample(2, 1))))
        link.publish(1, ())
        assert said(await link.gather(4.0, stop)) == [(2, 1)]
        assert link.down == [3]

    async def test_who_only_says_that_it_is_held_up_is_not_waited_for_without_end(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        link, transport, (peer,) = await virtual(2)
        for tenth in range(100):
            transport.at(transport.now_s() + tenth / 10, peer.greet)
        link.publish(1, ())
        started_s = transport.now_s()
        assert await link.gather(2.0, stop) == []
        assert 3.0 <= transport.now_s() - started_s <= 3.0 + SLICE_MS / 1000
        assert link.down == [2]

    async def test_who_comes_back_is_waited_for_only_after_it_has_caught_up(
        self, virtual: MakeVirtual, stop: asyncio.Event, log_file: Path
    ) -> None:
        link, transport, (peer,) = await virtual(2)
        for round_ in range(1, 10):
            link.publish(round_, ())
            await link.gather(SOON_S, stop)
        peer.publish(7, samples(sample(2, 7)))
        link.publish(10, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 7)]  # used, but two rounds behind: not waited for
        assert link.down == [2]
        assert not events(log_file, "neighbour back")
        for round_ in (10, 11, 12):  # one round behind, three times in a row
            assert link.down == [2]
            peer.greet(round_)  # greetings show nothing
            peer.publish(round_)
            link.publish(round_ + 1, ())
            transport.at(transport.now_s() + 1.0, lambda: peer.publish(13, samples(sample(2, 13))))
            heard = said(await link.gather(LONG_S, stop))
        assert heard == [(2, 13)]  # it was waited for
        assert link.down == []
        (line,) = events(log_file, "neighbour back")
        assert (line["neighbour"], line["round"]) == (2, 13)

    async def test_who_is_down_is_connected_to_anew_every_other_second(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        link, transport, _ = await virtual(2)
        reconnected: list[int] = []
        for round_ in range(1, 12):
            link.publish(round_, ())
            await link.gather(0.2, stop)
            transport.pass_time(0.55, lambda: False)
            reconnected.append(transport.lines[2].reconnected)
        assert reconnected == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]

    async def test_goodbye_ends_the_waiting_at_once(
        self, virtual: MakeVirtual, stop: asyncio.Event, log_file: Path
    ) -> None:
        link, transport, (peer,) = await virtual(2)
        peer.publish(1, samples(sample(2, 1)))
        peer.publish(1, flags=GOODBYE)
        started_s = transport.now_s()
        heard = []
        for round_ in (1, 2, 3):
            link.publish(round_, ())
            heard.append(said(await link.gather(LONG_S, stop)))
        assert transport.now_s() == started_s
        assert heard == [[(2, 1)], [], []]
        assert link.down == []  # it left on purpose
        assert not events(log_file, "neighbour down")
        assert not link.dropped

    async def test_the_last_frame_of_who_leaves_is_still_delivered(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.publish(1, samples(sample(2, 1)), flags=GOODBYE)
        link.publish(1, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 1)]

    async def test_being_told_to_stop_ends_the_waiting(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        link.publish(1, ())
        asyncio.get_running_loop().call_soon(stop.set)
        await asyncio.wait_for(link.gather(LONG_S, stop), LONG_S / 2)
        assert link.dropped["missed-rounds"] == 0

    async def test_without_neighbours_a_round_is_complete_at_once(
        self, make_link: MakeLink, stop: asyncio.Event
    ) -> None:
        link = make_link(1, ())
        await link.wait_until_ready(LONG_S, stop, some_needed=True)
        link.publish(1, (samples(sample(1, 1)),))
        assert await link.gather(LONG_S, stop) == []
        assert (link.messages, link.bytes) == (0, 0)


class TestPublish:
    async def test_frames_are_numbered_and_say_who_and_what_round(
        self, make_link: MakeLink, make_peer: MakePeer
    ) -> None:
        link, peer = make_link(1, (2,), incarnation=5, round_=40), make_peer(2, 1)
        await ready(link, peer)
        assert peer.hear().round == 40  # the greeting
        link.publish(41, [samples(sample(1, 41))])
        link.publish(42, (), last=True)
        first, last = peer.hear(), peer.hear()
        assert [(f.sender, f.incarnation, f.sequence, f.round) for f in (first, last)] == [(1, 5, 1, 41), (1, 5, 2, 42)]
        assert [f.goodbye for f in (first, last)] == [False, True]
        assert said(list(first.batches)) == [(1, 41)]

    async def test_messages_and_bytes_are_counted_once_per_neighbour(
        self, make_link: MakeLink, make_peer: MakePeer
    ) -> None:
        link, two, three = make_link(1, (2, 3)), make_peer(2, 1), make_peer(3, 1)
        await ready(link, two, three)
        link.publish(1, [samples(sample(1, 1), sample(7, 1))])
        length = len(encode_frame(Frame(RUN, 1, 0, 1, 1, 0, (samples(sample(1, 1), sample(7, 1)),), 2)))
        assert (link.messages, link.bytes) == (4, 2 * length)

    async def test_a_subscriber_that_comes_again_is_greeted_again_with_the_last_sequence_number(
        self, make_link: MakeLink, make_peer: MakePeer
    ) -> None:
        """A neighbour that restarted subscribes the same topics as before; PROTOCOL.md says what it hears."""
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        for round_ in (1, 2, 3):
            link.publish(round_, ())
        peer.hear_round(3)
        peer.sub.close()  # libzmq does it later, and the link is told: not to be taken for the new subscription
        until(lambda: link.greet_subscribers() or not hears_us(link, 2))
        peer.listen_anew()
        about_to_greet(link)
        link.publish(4, ())
        greeting = peer.hear()
        assert (greeting.greeting, greeting.sequence, greeting.round) == (True, 3, 4)

    async def test_who_begins_to_hear_us_while_the_environment_is_silent_is_answered(
        self, make_link: MakeLink, make_peer: MakePeer
    ) -> None:
        """Where agents start together all of them wait for the environment, and it for the last one's barrier."""
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.sub.close()
        until(lambda: link.tell_of_silence(LONG_S) or not hears_us(link, 2))  # it has told; next in a minute
        peer.listen_anew()
        until(lambda: link.tell_of_silence(LONG_S) or peer.sub.poll(0))
        assert peer.hear().greeting

    async def test_what_does_not_fit_is_left_out_and_counted(self, make_link: MakeLink, make_peer: MakePeer) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        await ready(link, peer)
        peer.hear()
        many = samples(*(sample(origin, trial) for origin in range(2000) for trial in range(1, 101)))
        link.publish(1, [many])
        heard = peer.hear()
        assert heard.messages + link.dropped["unsent"] == len(many)
        assert len(encode_frame(heard)) <= MAX_FRAME_BYTES
        assert link.dropped["unsent"] > 0


class TestCatchingUp:
    async def test_who_was_away_reads_all_that_lies_ready_and_goes_to_where_the_others_are(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        link, _, (two, three) = await virtual(2, 3)
        link.rounds.were_away()
        for round_ in range(1, 51):
            two.publish(round_, samples(sample(2, round_)))
            three.publish(round_, samples(sample(3, round_)))
        round_ = link.next_round()
        assert round_ == 50
        link.publish(round_, ())
        assert len(said(await link.gather(LONG_S, stop))) == 100
        assert not link.dropped

    async def test_large_frames_that_a_cut_has_stored_are_no_flood(
        self, virtual: MakeVirtual, stop: asyncio.Event
    ) -> None:
        """Six megabytes of one neighbour, more than may be said about earlier rounds in one round of ours."""
        link, _, (two, three) = await virtual(2, 3)
        link.publish(150, ())
        link.rounds.were_away()
        large = [sample(origin, 1, lifetime=2) for origin in range(100, 900)]
        for round_ in range(1, 151):
            two.publish(round_, samples(*large))
        three.publish(150)
        heard = 0
        for _ in range(12):
            link.publish(link.next_round(), ())
            three.publish(link.round)
            heard += len(said(await link.gather(SOON_S, stop)))
        assert (heard, link.blames, link.dropped["flood"]) == (150 * len(large), (), 0)

    async def test_the_environments_word_lets_it_jump_further(self, virtual: MakeVirtual) -> None:
        link, _, (two, three) = await virtual(2, 3)
        two.publish(700)
        three.publish(5)
        link.told(690)
        assert link.next_round() == 690
        assert link.rounds[2].held is not None

    async def test_the_silence_of_the_environment_is_told_with_measure(self, virtual: MakeVirtual) -> None:
        link, transport, _ = await virtual(2)
        before = len(transport.frames(sync_topic(2)))
        for _ in range(100):
            transport.pass_time(0.1, lambda: False)
            link.tell_of_silence(2.5)
        assert 3 <= len(transport.frames(sync_topic(2))) - before <= 4


class TestLateness:
    async def test_who_drips_its_frames_is_waited_for_until_its_budget_is_used_up_and_named_once(
        self, virtual: MakeVirtual, stop: asyncio.Event, log_file: Path
    ) -> None:
        link, transport, (slow, *others) = await virtual(2, 3, 4)
        began_s = transport.now_s()
        for round_ in range(1, 2001):
            transport.pass_time(0.01, lambda: False)
            link.publish(round_, ())
            for peer in others:
                peer.publish(round_)
            if 2 not in link.down or round_ % 150 == 0:
                transport.at(transport.now_s() + 1.8, lambda round_=round_: slow.publish(round_))
            await link.gather(2.0, stop)
        assert link.down == [2]
        assert transport.now_s() - began_s < 2000 * 0.01 + 1.5 * 2.0 + 3.0, "a budget, and hardly more"
        (line,) = events(log_file, "neighbour slow")
        assert line["neighbour"] == 2
        assert line["late_s"] > 1.0
        assert [(blame.neighbour, blame.why) for blame in link.blames] == [(2, Why.SLOW)]

    async def test_who_is_late_once_is_waited_for_and_nobody_is_told(
        self, virtual: MakeVirtual, stop: asyncio.Event, log_file: Path
    ) -> None:
        link, transport, (late, *others) = await virtual(2, 3, 4)
        for round_ in range(1, 101):
            link.publish(round_, ())
            for peer in others:
                peer.publish(round_)
            transport.at(transport.now_s() + (1.5 if round_ == 50 else 0.0), lambda round_=round_: late.publish(round_))
            await link.gather(2.0, stop)
        assert link.down == []
        assert not link.dropped
        assert not [line for line in events(log_file) if line["event"].startswith("neighbour")]
