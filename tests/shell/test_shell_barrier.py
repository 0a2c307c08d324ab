"""Rounds begin when every neighbour hears us and was heard: on evidence, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from loopback import LONG_S, RUN, SOON_S, Peer, about_to_greet, arrived, events, joined, said
from loopback_fixtures import Addresses, MakeLink, MakePeer
from small_runs import sample, samples

from agentd.errors import LinkError

OTHER_VERSION = b"sync/1/" + msgpack.packb([2, RUN, b"whatever comes then"])


class TestBarrier:
    async def test_it_ends_when_both_directions_have_been_seen(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.join()
        await asyncio.wait_for(link.wait_until_ready(LONG_S, stop, some_needed=True), LONG_S / 2)
        greeting = peer.hear()
        assert (greeting.greeting, greeting.sender, greeting.run) == (True, 1, RUN)

    async def test_a_neighbour_that_does_not_greet_is_missing(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, addresses: Addresses, log_file: Path
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.await_subscription()
        about_to_greet(link)
        await link.wait_until_ready(SOON_S, stop, some_needed=True)
        assert peer.hear().greeting  # this direction was there
        (line,) = events(log_file, "starting without neighbours")
        assert line["why"] == {"2": f"{addresses[2]} hears us and says nothing"}

    async def test_a_neighbour_that_does_not_subscribe_is_missing(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, addresses: Addresses, log_file: Path
    ) -> None:
        # It listens to somebody else. A socket that is only closed may still subscribe: closing goes on in libzmq.
        link, peer = make_link(1, (2,)), make_peer(2, 1, hears=3)
        peer.join()
        arrived(link, peer)
        await link.wait_until_ready(SOON_S, stop, some_needed=True)
        (line,) = events(log_file, "starting without neighbours")
        assert line["why"] == {"2": f"{addresses[2]} does not hear us"}

    async def test_where_nobody_gives_a_sign_the_error_names_all_and_their_addresses(
        self, make_link: MakeLink, stop: asyncio.Event, addresses: Addresses
    ) -> None:
        link = make_link(1, (2, 4))
        with pytest.raises(LinkError) as fault:
            await link.wait_until_ready(SOON_S, stop, some_needed=True)
        assert fault.value.exit_code == 1
        assert str(fault.value) == (
            f"neighbours did not answer within 0.25 s: 2 ({addresses[2]}), 4 ({addresses[4]}); "
            "are they running, and do their --peers name agent 1?"
        )

    @pytest.mark.parametrize("starting", [True, False])
    async def test_where_somebody_is_there_the_missing_are_logged_and_not_waited_for(
        self,
        *,
        starting: bool,
        make_link: MakeLink,
        make_peer: MakePeer,
        stop: asyncio.Event,
        addresses: Addresses,
        log_file: Path,
    ) -> None:
        link = make_link(1, (2, 3))
        joined(link, make_peer(3, 1))
        await link.wait_until_ready(SOON_S, stop, some_needed=starting)
        (line,) = events(log_file, "starting without neighbours")
        assert (line["missing"], line["why"]) == ([2], {"2": f"{addresses[2]} is silent"})
        assert line["run"] == RUN.hex()
        assert link.down == [2]

    async def test_an_agent_that_comes_back_needs_nobody(self, make_link: MakeLink, stop: asyncio.Event) -> None:
        link = make_link(1, (2, 3))
        await link.wait_until_ready(SOON_S, stop, some_needed=False)
        assert link.down == [2, 3]

    async def test_it_ends_when_the_agent_is_told_to_stop(self, make_link: MakeLink, stop: asyncio.Event) -> None:
        link = make_link(1, (2,))
        asyncio.get_running_loop().call_soon(stop.set)
        await asyncio.wait_for(link.wait_until_ready(LONG_S, stop, some_needed=True), LONG_S / 2)

    async def test_waiting_costs_no_processor_time(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A barrier that looks again and again would do so thousands of times in a second, not once in a slice."""
        link, peer = make_link(1, (2, 3)), make_peer(3, 1)
        joined(link, peer)
        for round_ in range(1, 20):
            peer.publish(round_)  # what is already there must not wake it all the time
        looked: list[int] = []
        wait_for_any = link._transport.wait_for_any
        monkeypatch.setattr(link._transport, "wait_for_any", lambda lines: looked.append(1) or wait_for_any(lines))
        await link.wait_until_ready(1.0, stop, some_needed=True)
        assert len(looked) <= 12

    async def test_frames_that_came_before_the_rounds_began_are_not_lost(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        """One neighbour is ready earlier and already in round 1 when the last one joins."""
        link, early, late = make_link(1, (2, 3)), make_peer(2, 1), make_peer(3, 1)
        early.join()
        early.publish(1, samples(sample(2, 1)))
        arrived(link, early)
        asyncio.get_running_loop().call_later(SOON_S, late.join)
        await link.wait_until_ready(LONG_S, stop, some_needed=True)
        late.publish(1, samples(sample(3, 1)))
        link.publish(1, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, 1), (3, 1)]

    @pytest.mark.timeout(60)
    async def test_a_frame_instead_of_a_greeting_is_evidence_too_and_is_kept(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        """This is how running neighbours look to an agent that comes back; once it made the barrier spin for ever."""
        link, peer = make_link(1, (2,), round_=6), make_peer(2, 1)
        peer.await_subscription()
        peer.publish(7, samples(sample(2, 7)))
        peer.publish(8, samples(sample(2, 8)))
        await link.wait_until_ready(LONG_S, stop, some_needed=True)
        for round_ in (7, 8):
            link.publish(round_, ())
            assert said(await link.gather(LONG_S, stop)) == [(2, round_)]

    @pytest.mark.timeout(60)
    async def test_a_neighbour_that_floods_cannot_hold_it_open(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.await_subscription()
        for _ in range(1000):
            peer.say(b"frame/garbage")
        arrived(link, peer)
        await link.wait_until_ready(SOON_S, stop, some_needed=True)
        assert link.dropped["trailing"] > 0
        assert link.down == [2]

    @pytest.mark.parametrize(
        ("wrong", "reason", "why"),
        [
            (lambda peer: peer.greet(run=b"another!"), "run", f"belongs to run {b'another!'.hex()}"),
            (lambda peer: peer.publish(1, run=b"another!"), "run", f"belongs to run {b'another!'.hex()}"),
            (lambda peer: peer.greet(sender=9), "sender", "is agent 9, whatever --peers says"),
            (lambda peer: peer.say(OTHER_VERSION), "version", "speaks another protocol version"),
            (lambda peer: peer.say(b"frame/garbage"), "trailing", "says what cannot be read"),
        ],
    )
    async def test_a_neighbour_that_says_something_wrong_is_missing_and_the_log_says_why(
        self,
        *,
        wrong: Callable[[Peer], None],
        reason: str,
        why: str,
        make_link: MakeLink,
        make_peer: MakePeer,
        stop: asyncio.Event,
        addresses: Addresses,
        log_file: Path,
    ) -> None:
        """Once it ended whoever started or came back, so that one frame stopped a whole neighbourhood."""
        link, peer = make_link(1, (2, 3)), make_peer(2, 1)
        joined(link, make_peer(3, 1))
        peer.await_subscription()
        wrong(peer)
        arrived(link, peer)
        await link.wait_until_ready(SOON_S, stop, some_needed=True)
        (line,) = events(log_file, "starting without neighbours")
        assert line["why"] == {"2": f"{addresses[2]} {why}"}
        assert (link.dropped[reason], link.down) == (1, [2])

    async def test_one_that_says_only_wrong_things_keeps_nobody_for_long(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2, 3)), make_peer(2, 1)
        joined(link, make_peer(3, 1))
        peer.await_subscription()
        peer.say(OTHER_VERSION)
        arrived(link, peer)
        began_s = link.now_s()
        await link.wait_until_ready(LONG_S, stop, some_needed=True)
        assert (link.down, link.now_s() - began_s < LONG_S / 2) == ([2], True)

    async def test_after_something_wrong_a_neighbour_may_still_say_something_right(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, log_file: Path
    ) -> None:
        """It may have been a frame of the run before, on its way while the neighbour was started again."""
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.await_subscription()
        peer.greet(run=b"another!")
        peer.greet()
        await link.wait_until_ready(LONG_S, stop, some_needed=True)
        assert (link.down, events(log_file, "starting without neighbours")) == ([], [])

    async def test_something_wrong_is_a_sign_too(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1, hears=3)
        peer.await_subscription()
        peer.say(OTHER_VERSION)
        arrived(link, peer)
        await link.wait_until_ready(SOON_S, stop, some_needed=True)
        assert link.down == [2]
