"""What is known of a neighbour follows from its frames alone."""

from __future__ import annotations

from collections import Counter

import zmq
from loopback import LONG_S, RUN
from loopback_fixtures import Addresses, Context, Keep

from agentd.shell.neighbour import Neighbour
from agentd.shell.sockets import publisher, subscriber
from agentd.wire.frame import GOODBYE, GREETING, Frame


def frame(sequence: int, *, round_: int = 1, incarnation: int = 0, flags: int = 0) -> Frame:
    return Frame(RUN, 2, incarnation, sequence, round_, flags, (), 2)


def note(neighbour: Neighbour, *frames: Frame) -> int:
    """How many frames were lost in between."""
    dropped: Counter[str] = Counter()
    for each in frames:
        neighbour.note(each, dropped)
    return dropped["lost-frames"]


def neighbour_of(context: Context, addresses: Addresses, keep: Keep) -> Neighbour:
    return Neighbour(2, addresses[2], keep(subscriber(context, 1, addresses[2])))


def test_gaps_in_the_sequence_are_lost_frames(context: Context, addresses: Addresses, keep: Keep) -> None:
    neighbour = neighbour_of(context, addresses, keep)
    assert note(neighbour, frame(5), frame(6), frame(10), frame(11)) == 3
    assert neighbour.sequence == 11


def test_what_was_published_before_we_listened_is_not_lost(context: Context, addresses: Addresses, keep: Keep) -> None:
    assert note(neighbour_of(context, addresses, keep), frame(1000), frame(1001)) == 0


def test_a_repeated_or_older_frame_is_no_gap(context: Context, addresses: Addresses, keep: Keep) -> None:
    neighbour = neighbour_of(context, addresses, keep)
    assert note(neighbour, frame(5), frame(5), frame(3), frame(6)) == 0


def test_a_new_incarnation_begins_a_new_sequence(context: Context, addresses: Addresses, keep: Keep) -> None:
    neighbour = neighbour_of(context, addresses, keep)
    assert note(neighbour, frame(500), frame(1, incarnation=7), frame(2, incarnation=7)) == 0
    assert note(neighbour, frame(4, incarnation=7)) == 1
    assert (neighbour.incarnation, neighbour.sequence) == (7, 4)


def test_a_greeting_tells_the_round_but_is_no_frame_of_the_sequence(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    neighbour = neighbour_of(context, addresses, keep)
    assert note(neighbour, frame(9, round_=9, flags=GREETING), frame(10, round_=10), frame(11, round_=11)) == 0
    assert neighbour.greeted
    assert neighbour.round == 11


def test_the_round_never_goes_back(context: Context, addresses: Addresses, keep: Keep) -> None:
    neighbour = neighbour_of(context, addresses, keep)
    note(neighbour, frame(1, round_=9), frame(2, round_=4))
    assert neighbour.round == 9


def test_goodbye_holds_until_the_next_frame_but_not_against_a_greeting(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    neighbour = neighbour_of(context, addresses, keep)
    note(neighbour, frame(1, flags=GOODBYE), frame(1, flags=GREETING))
    assert neighbour.left
    note(neighbour, frame(2))
    assert not neighbour.left


def test_parts_that_were_put_aside_come_first(context: Context, addresses: Addresses, keep: Keep) -> None:
    xpub = keep(publisher(context, addresses[2]))
    neighbour = neighbour_of(context, addresses, keep)
    assert xpub.poll(int(LONG_S * 1000))
    xpub.send(b"frame/second")
    assert neighbour.socket.poll(int(LONG_S * 1000))
    neighbour.waiting.append(b"first")
    assert [neighbour.receive(zmq.NOBLOCK) for _ in range(3)] == [b"first", b"frame/second", None]


def test_connecting_anew_subscribes_anew(context: Context, addresses: Addresses, keep: Keep) -> None:
    xpub = keep(publisher(context, addresses[2]))
    neighbour = neighbour_of(context, addresses, keep)
    seen: list[bytes] = []
    while seen.count(b"\x01sync/1/") < 2:
        assert xpub.poll(int(LONG_S * 1000))
        seen.append(xpub.recv())
        if seen == [b"\x01frame/", b"\x01sync/1/"]:
            neighbour.reconnect()
    assert seen.count(b"\x01frame/") == 2
