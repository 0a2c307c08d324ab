"""The line to one neighbour, on real sockets."""

from __future__ import annotations

from loopback import LONG_S
from loopback_fixtures import Addresses, Context, Keep

from agentd.shell.sockets import publisher, subscriber
from agentd.shell.transport import ZmqLine


def line_of(context: Context, addresses: Addresses, keep: Keep) -> ZmqLine:
    return ZmqLine(2, addresses[2], keep(subscriber(context, 1, addresses[2])))


def test_parts_that_were_put_back_come_first(context: Context, addresses: Addresses, keep: Keep) -> None:
    xpub = keep(publisher(context, addresses[2]))
    line = line_of(context, addresses, keep)
    assert xpub.poll(int(LONG_S * 1000))
    xpub.send(b"frame/second")
    assert line.socket.poll(int(LONG_S * 1000))
    line.put_back(b"first")
    assert [line.receive(False) for _ in range(3)] == [b"first", b"frame/second", None]


def test_connecting_anew_subscribes_anew(context: Context, addresses: Addresses, keep: Keep) -> None:
    xpub = keep(publisher(context, addresses[2]))
    line = line_of(context, addresses, keep)
    seen: list[bytes] = []
    while seen.count(b"\x01sync/1/") < 2:
        assert xpub.poll(int(LONG_S * 1000))
        seen.append(xpub.recv())
        if seen == [b"\x01frame/", b"\x01sync/1/"]:
            line.reconnect()
    assert seen.count(b"\x01frame/") == 2
