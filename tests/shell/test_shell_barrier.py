"""Rounds begin when every neighbour hears us and was heard: on evidence, or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgpack
import pytest
from loopback import LONG_S, RUN, SOON_S, about_to_greet, arrived, events, joined, said
from loopback_fixtures import Addresses, MakeLink, MakePeer
from small_runs import sample, samples

from agentd.errors import ConfigurationError, LinkError


class TestBarrier:
    async def test_it_ends_when_both_directions_have_been_seen(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.join()
        await asyncio.wait_for(link.wait_until_ready(LONG_S, stop, all_needed=True), LONG_S / 2)
        greeting = peer.hear()
        assert (greeting.greeting, greeting.sender, greeting.run) == (True, 1, RUN)

    async def test_a_neighbour_that_does_not_greet_is_missing(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.await_subscription()
        about_to_greet(link)
        with pytest.raises(LinkError):
            await link.wait_until_ready(SOON_S, stop, all_needed=True)
        assert peer.hear().greeting  # this direction was there

    async def test_a_neighbour_that_does_not_subscribe_is_missing(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        # It listens to somebody else. A socket that is only closed may still subscribe: closing goes on in libzmq.
        link, peer = make_link(1, (2,)), make_peer(2, 1, hears=3)
        peer.join()
        with pytest.raises(LinkError):
            await link.wait_until_ready(SOON_S, stop, all_needed=True)

    async def test_the_error_names_the_missing_and_their_addresses(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, addresses: Addresses
    ) -> None:
        link, peer = make_link(1, (2, 3, 4)), make_peer(3, 1)
        joined(link, peer)
        with pytest.raises(LinkError) as fault:
            await link.wait_until_ready(SOON_S, stop, all_needed=True)
        assert fault.value.exit_code == 1
        assert str(fault.value) == (
            f"neighbours did not answer within 0.25 s: 2 ({addresses[2]}), 4 ({addresses[4]}); "
            "are they running, and do their --peers name agent 1?"
        )

    async def test_where_not_all_are_needed_the_missing_are_logged_and_not_waited_for(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, log_file: Path
    ) -> None:
        link = make_link(1, (2, 3))
        joined(link, make_peer(3, 1))
        await link.wait_until_ready(SOON_S, stop, all_needed=False)
        (line,) = events(log_file, "starting without neighbours")
        assert line["missing"] == [2]
        assert line["run"] == RUN.hex()
        assert link.down == [2]

    async def test_it_ends_when_the_agent_is_told_to_stop(self, make_link: MakeLink, stop: asyncio.Event) -> None:
        link = make_link(1, (2,))
        asyncio.get_running_loop().call_soon(stop.set)
        await asyncio.wait_for(link.wait_until_ready(LONG_S, stop, all_needed=True), LONG_S / 2)

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
        with pytest.raises(LinkError):
            await link.wait_until_ready(1.0, stop, all_needed=True)
        assert len(looked) <= 12

    async def test_frames_that_came_before_the_rounds_began_are_not_lost(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event
    ) -> None:
        """One neighbour is ready earlier and already in round 1 when the last one joins."""
        link, early, late = make_link(1, (2, 3)), make_peer(2, 1), make_peer(3, 1)
        early.join()
        early.publish(1, samples(sample(2, 1)))
        arrived(link, early)
        with pytest.raises(LinkError):
            await link.wait_until_ready(SOON_S, stop, all_needed=True)
        late.join()
        await link.wait_until_ready(LONG_S, stop, all_needed=True)
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
        await link.wait_until_ready(LONG_S, stop, all_needed=True)
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
        with pytest.raises(LinkError):
            await link.wait_until_ready(SOON_S, stop, all_needed=True)
        assert link.dropped["trailing"] > 0

    async def test_a_peer_of_another_run_is_a_mistake_of_the_operator(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, addresses: Addresses
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.run = b"another!"
        peer.join()
        with pytest.raises(ConfigurationError) as fault:
            await link.wait_until_ready(LONG_S, stop, all_needed=True)
        assert str(fault.value) == (
            f"the agent at {addresses[2]}, where --peers says agent 2 is, belongs to run {b'another!'.hex()}, "
            f"not {RUN.hex()}; give both the same --environment"
        )

    async def test_another_agent_at_that_address_is_a_mistake_of_the_operator(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, addresses: Addresses
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.await_subscription()
        peer.greet(sender=9)
        with pytest.raises(ConfigurationError) as fault:
            await link.wait_until_ready(LONG_S, stop, all_needed=True)
        assert str(fault.value) == (
            f"agent 9 answers at {addresses[2]}, where --peers says agent 2 is; correct --peers"
        )

    async def test_another_protocol_version_is_a_mistake_of_the_operator(
        self, make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, addresses: Addresses
    ) -> None:
        link, peer = make_link(1, (2,)), make_peer(2, 1)
        peer.await_subscription()
        peer.say(b"sync/1/" + msgpack.packb([2, RUN, b"whatever comes then"]))
        with pytest.raises(ConfigurationError) as fault:
            await link.wait_until_ready(LONG_S, stop, all_needed=True)
        assert str(fault.value) == (
            f"agent 2 at {addresses[2]} speaks another protocol version; run the same agentd version everywhere"
        )
