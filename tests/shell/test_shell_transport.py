"""The line to one neighbour, on real sockets."""

from __future__ import annotations

from collections import Counter

import pytest
import zmq
from evidence import until
from loopback import LONG_S
from loopback_fixtures import Addresses, Context, Keep

from agentd.shell.doors.door import Door
from agentd.shell.doors.takeover import MOST_AHEAD, Takeover
from agentd.shell.sockets import publisher, subscriber
from agentd.shell.transport import PARTS_AT_ONCE, ZmqLine, ZmqTransport
from agentd.wire.topics import FRAME_TOPIC


def line_of(context: Context, addresses: Addresses, keep: Keep) -> ZmqLine:
    return ZmqLine(2, addresses[2], lambda **how: keep(subscriber(context, 1, addresses[2], **how)), Counter())


def test_parts_that_were_put_back_come_first(context: Context, addresses: Addresses, keep: Keep) -> None:
    xpub = keep(publisher(context, Door(addresses[2])))
    line = line_of(context, addresses, keep)
    assert xpub.poll(int(LONG_S * 1000))
    xpub.send(b"frame/second")
    assert line.socket.poll(int(LONG_S * 1000))
    line.put_back(b"first")
    assert [line.receive(False) for _ in range(3)] == [b"first", b"frame/second", None]


def test_connecting_anew_subscribes_anew(context: Context, addresses: Addresses, keep: Keep) -> None:
    xpub = keep(publisher(context, Door(addresses[2])))
    line = line_of(context, addresses, keep)
    seen: list[bytes] = []
    while seen.count(b"\x01sync/1/") < 2:
        assert xpub.poll(int(LONG_S * 1000))
        seen.append(xpub.recv())
        if seen == [b"\x01frame/", b"\x01sync/1/"]:
            line.reconnect()
    assert seen.count(b"\x01frame/") == 2


def test_connecting_anew_in_the_middle_of_a_message_is_safe(context: Context, addresses: Addresses, keep: Keep) -> None:
    """Where all parts begin as frames do, nobody asks whether more follow; a disconnect there ends the process."""
    xpub = keep(publisher(context, Door(addresses[2])))
    line = line_of(context, addresses, keep)
    seen: list[bytes] = []
    while seen.count(b"\x01sync/1/") < 2:
        assert xpub.poll(int(LONG_S * 1000))
        seen.append(xpub.recv())
        if len(seen) == 2:
            xpub.send_multipart([b"frame/1", b"frame/2", b"frame/3"])
            assert line.socket.poll(int(LONG_S * 1000))
            assert line.receive(False) == b"frame/1"
            line.reconnect()
            assert line.receive(False) is None
    xpub.send(b"frame/4")
    assert line.socket.poll(int(LONG_S * 1000))
    assert line.receive(False) == b"frame/4"
    line.socket.close()


def test_who_was_cut_off_for_a_frame_that_is_too_long_is_seen_with_a_later_one(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    """So that it can be named: all that a socket tells of such a frame is silence."""
    xpub = keep(publisher(context, Door(addresses[2])))
    line = ZmqLine(2, addresses[2], lambda **how: keep(subscriber(context, 1, addresses[2], 1000, **how)), Counter())
    long = b"frame/" + bytes(1_000_000)
    for _ in range(2):  # cut off, which shows here as the end of the subscriptions; and connected anew, in vain
        wait_for(xpub, b"\x01frame/")
        xpub.send(long)
        wait_for(xpub, b"\x00frame/")
        assert line.receive(False) is None
        line.reconnect()
    wait_for(xpub, b"\x01sync/1/")
    xpub.send(b"sync/1/a greeting, which is short in any case")
    xpub.send(long)
    assert line.socket.poll(int(LONG_S * 1000))
    assert line.receive(False) == b"sync/1/a greeting, which is short in any case"
    assert line.socket.poll(int(LONG_S * 1000))
    assert line.receive(False) == long
    wait_for(xpub, b"\x01frame/")  # the line has begun anew, and is as before
    xpub.send(long)
    wait_for(xpub, b"\x00frame/")
    assert line.receive(False) is None


def test_no_frame_is_lost_or_heard_twice_after_a_neighbour_that_was_slow_to_start_was_looked_for_again(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    """Two hundred agents look for each other twice before the last one is there, and then rounds begin at once."""
    xpub = keep(publisher(context, Door(addresses[2])))
    line = line_of(context, addresses, keep)
    for _ in range(2):
        wait_for(xpub, b"\x01sync/1/")
        line.reconnect()  # in vain; after the second time one part is let in whatever its length
    wait_for(xpub, b"\x01sync/1/")
    probing = line.socket
    said = [b"frame/%d" % number for number in range(1000)]
    xpub.send(said[0])
    heard = [next_of(line)]
    for part in said[1:4]:  # the neighbour does not wait until it is subscribed to anew
        xpub.send(part)
    wait_for(xpub, b"\x01sync/1/")
    xpub.send(b"sync/1/hears it, too")
    heard += [next_of(line) for _ in range(4)]
    assert heard == [*said[:4], b"sync/1/hears it, too"]
    rest = iter(said[4:])
    until(lambda: one_more(xpub, line, next(rest)) and line.socket is not probing)
    assert [one_more(xpub, line, next(rest)) for _ in range(3)] == [True] * 3
    assert line.receive(False) is None
    wait_for_none(xpub)


def test_who_tells_the_next_socket_nothing_is_left_for_it_after_a_while(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    xpub = keep(publisher(context, Door(addresses[2])))
    line = line_of(context, addresses, keep)
    wait_for(xpub, b"\x01sync/1/")
    takeover = Takeover(keep(subscriber(context, 1, addresses[2])))
    wait_for(xpub, b"\x01sync/1/")
    for number in range(MOST_AHEAD):
        assert takeover.has_read(b"frame/%d" % number)
        assert not takeover.is_level()
    xpub.send(b"frame/another")
    assert takeover.socket.poll(int(LONG_S * 1000))
    assert not takeover.is_level()
    assert takeover.has_read(b"frame/more")
    assert takeover.is_level()
    line.close()


def next_of(line: ZmqLine) -> bytes | None:
    assert line.socket.poll(int(LONG_S * 1000))
    return line.receive(False)


def one_more(xpub: zmq.Socket[bytes], line: ZmqLine, part: bytes) -> bool:
    xpub.send(part)
    assert next_of(line) == part
    return True


def wait_for_none(xpub: zmq.Socket[bytes]) -> None:
    """Nobody begins or ceases to listen any more."""
    while xpub.poll(0):
        assert xpub.recv() not in {b"\x00frame/", b"\x00sync/1/"}, "one of its sockets always listened"


def wait_for(xpub: zmq.Socket[bytes], event: bytes) -> None:
    assert xpub.poll(int(LONG_S * 1000))
    while xpub.recv() != event:
        assert xpub.poll(int(LONG_S * 1000))


def made(context: Context, addresses: Addresses) -> ZmqTransport:
    return ZmqTransport(context, own=2, door=Door(addresses[2]), peers={1: addresses[1]})


class OneIsThere:
    """Watches lines, and has something of the first one alone."""

    def __init__(self) -> None:
        self._watched: list[object] = []

    def register(self, socket: object, _events: int) -> None:
        self._watched.append(socket)

    def poll(self, _milliseconds: int) -> list[tuple[object, int]]:
        return [(self._watched[0], int(zmq.POLLIN))]


@pytest.mark.parametrize(("waited_s", "gathers_s"), [(0.004, 0.001), (10.0, 0.01)])
async def test_frames_gather_for_a_share_of_the_wait_so_far_and_a_hundredth_of_a_second_at_most(
    context: Context, addresses: Addresses, monkeypatch: pytest.MonkeyPatch, waited_s: float, gathers_s: float
) -> None:
    """A round of an idle machine takes half of that hundredth: whoever gathered for all of it would slow everybody."""
    transport = ZmqTransport(context, own=0, door=Door(addresses[0]), peers={n: addresses[n] for n in range(1, 5)})
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(zmq, "Poller", OneIsThere)
    now_s = 100.0
    transport.now_s = lambda: now_s
    transport.publish(b"frame/")
    now_s += waited_s
    assert set(await transport.ready(transport.lines.values(), 1.0)) == {1}
    assert slept == pytest.approx([gathers_s])
    transport.close()


def events_of(transport: ZmqTransport, number: int) -> list[bytes]:
    """The next events; what comes between them may take several turns."""
    seen: list[bytes] = []

    def there() -> bool:
        if (event := transport.event()) is not None:
            seen.append(event)
        return len(seen) == number

    until(there)
    return seen


def test_what_a_subscriber_sends_in_several_parts_is_one_drop(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    transport = made(context, addresses)
    upstream = keep(context.socket(zmq.XSUB))
    upstream.connect(addresses[2])
    upstream.send(b"\x01frame/")
    upstream.send_multipart([b"whatever", *[b"\x01frame/", b""] * (3 * PARTS_AT_ONCE)])
    upstream.send(b"garbage")
    upstream.send(b"\x01sync/1/")
    assert events_of(transport, 3) == [b"\x01frame/", b"garbage", b"\x01sync/1/"]
    assert transport.event() is None
    assert transport.dropped == {"multipart": 1}
    transport.close()


def test_passing_over_parts_ends_after_a_while_and_goes_on_later(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    transport = made(context, addresses)
    upstream = keep(context.socket(zmq.XSUB))
    upstream.connect(addresses[2])
    upstream.send_multipart([b""] * (2 * PARTS_AT_ONCE + 1))
    upstream.send(b"garbage")
    assert transport._publisher.poll(int(LONG_S * 1000))
    turns = 0
    while (event := transport.event()) is None:
        turns += 1
    assert event == b"garbage"
    assert turns >= 2
    transport.close()


def test_who_sends_more_upstream_than_a_subscription_may_have_is_cut_off(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    """What we send has no such bound: a frame of three megabytes arrives."""
    transport = made(context, addresses)
    fat, honest = keep(context.socket(zmq.XSUB)), keep(subscriber(context, 1, addresses[2]))
    fat.setsockopt(zmq.RECONNECT_IVL, -1)
    fat.connect(addresses[2])
    fat.send(b"\x01" + bytes(5000))
    assert events_of(transport, 2) == [b"\x01frame/", b"\x01sync/1/"]
    transport.publish(FRAME_TOPIC + bytes(3 << 20))
    assert len(next_part(honest)) == len(FRAME_TOPIC) + (3 << 20)
    assert transport.event() is None
    transport.close()


def next_part(socket: zmq.Socket[bytes]) -> bytes:
    assert socket.poll(int(LONG_S * 1000)), "nothing came"
    return socket.recv()
