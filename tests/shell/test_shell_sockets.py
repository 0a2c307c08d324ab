"""Every socket gets every option, a place that cannot be used is the operator's fault, and closing never hangs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import zmq
from loopback import LONG_S, free_address
from loopback_fixtures import Addresses, Context, Keep

from agentd.errors import ConfigurationError
from agentd.shell.doors.door import Door
from agentd.shell.sockets import publisher, requester, subscriber
from agentd.wire.topics import FRAME_TOPIC

MIB = 1 << 20
EVERY_SOCKET = {
    zmq.MAXMSGSIZE: 4 * MIB + len("sync/65535/"),
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 10_000,
    zmq.CONNECT_TIMEOUT: 5_000,
    zmq.HANDSHAKE_IVL: 10_000,
    zmq.TCP_MAXRT: 10_000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
    zmq.HEARTBEAT_IVL: 0,  # an expiring heartbeat can abort the process, see agentd.shell.sockets
}
EXPECTED = {
    "publisher": EVERY_SOCKET
    | {zmq.TYPE: zmq.XPUB, zmq.MAXMSGSIZE: 64, zmq.LINGER: 1_000, zmq.SNDHWM: 64, zmq.RCVHWM: 2},
    "subscriber": EVERY_SOCKET | {zmq.TYPE: zmq.SUB, zmq.LINGER: 0, zmq.RCVHWM: 64, zmq.RCVTIMEO: 200},
    "requester": EVERY_SOCKET | {zmq.TYPE: zmq.DEALER, zmq.LINGER: 500, zmq.RCVTIMEO: 200, zmq.SNDTIMEO: 200},
}
MAKERS: dict[str, Callable[[Context, str], zmq.Socket[bytes]]] = {
    "publisher": lambda context, address: publisher(context, Door(address)),
    "subscriber": lambda context, address: subscriber(context, 3, address),
    "requester": requester,
}


def next_part(socket: zmq.Socket[bytes]) -> bytes:
    assert socket.poll(int(LONG_S * 1000)), "nothing came"
    return socket.recv()


@pytest.mark.parametrize("kind", MAKERS)
def test_every_option_is_set(kind: str, context: Context, addresses: Addresses, keep: Keep) -> None:
    made = keep(MAKERS[kind](context, addresses[1]))
    assert {option: made.getsockopt(option) for option in EXPECTED[kind]} == EXPECTED[kind]


def test_an_equal_subscription_of_a_second_subscriber_is_seen_too(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    """XPUB_VERBOSE cannot be read back; without it the restart of a neighbour would stay unseen."""
    xpub = keep(publisher(context, Door(addresses[1])))
    for _ in range(2):
        keep(subscriber(context, 3, addresses[1]))
        assert [next_part(xpub), next_part(xpub)] == [b"\x01frame/", b"\x01sync/3/"]


def test_the_topic_of_frames_is_subscribed_before_the_one_that_is_answered(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    xpub = keep(publisher(context, Door(addresses[1])))
    keep(subscriber(context, 12, addresses[1]))
    assert [next_part(xpub), next_part(xpub)] == [b"\x01frame/", b"\x01sync/12/"]


def test_a_port_that_is_taken_is_the_operators_fault(context: Context, keep: Keep) -> None:
    address = free_address()
    keep(publisher(context, Door(address)))
    with pytest.raises(ConfigurationError) as fault:
        publisher(context, Door(address))
    assert fault.value.exit_code == 78
    assert str(fault.value) == (
        f"cannot listen on {address}: address already in use; choose another address with --listen"
    )


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://192.0.2.1:7001", "cannot assign requested address"),
        ("ipc:///no/such/directory/socket", "no such file or directory"),
        ("ipc:///" + "x" * 200, "file name too long"),
    ],
)
def test_a_place_to_listen_that_does_not_exist_is_the_operators_fault(address: str, why: str, context: Context) -> None:
    with pytest.raises(ConfigurationError) as fault:
        publisher(context, Door(address))
    assert str(fault.value) == f"cannot listen on {address}: {why}; choose another address with --listen"


@pytest.mark.parametrize("kind", ["subscriber", "requester"])
def test_an_address_that_cannot_be_connected_to_is_the_operators_fault(kind: str, context: Context) -> None:
    with pytest.raises(ConfigurationError, match=r"^cannot connect to tcp://a b:7: invalid argument$"):
        MAKERS[kind](context, "tcp://a b:7")


@pytest.mark.timeout(60)
def test_a_socket_that_could_not_be_used_does_not_keep_the_context_open() -> None:
    context: Context = zmq.Context()
    for make in MAKERS.values():
        with pytest.raises(ConfigurationError):
            make(context, "tcp://a b:7")
    context.term()


@pytest.mark.timeout(LONG_S / 2)
def test_the_end_never_hangs_on_what_nobody_reads(addresses: Addresses) -> None:
    context: Context = zmq.Context()
    out = publisher(context, Door(addresses[1]))
    deaf = subscriber(context, 3, addresses[1])
    asked = requester(context, "tcp://127.0.0.1:9")
    assert [next_part(out), next_part(out)] == [b"\x01frame/", b"\x01sync/3/"]
    for _ in range(1000):
        out.send(FRAME_TOPIC + bytes(1000))
        asked.send(b"is anybody there?", zmq.NOBLOCK)
    for made in (deaf, asked, out):
        made.close()
    context.term()


@pytest.mark.timeout(60)
def test_the_last_frame_still_leaves_when_the_publisher_closes(
    context: Context, addresses: Addresses, keep: Keep
) -> None:
    own: Context = zmq.Context()
    out = publisher(own, Door(addresses[1]))
    heard = keep(subscriber(context, 3, addresses[1]))
    assert [next_part(out), next_part(out)] == [b"\x01frame/", b"\x01sync/3/"]
    out.send(FRAME_TOPIC + b"last")
    out.close()
    own.term()
    assert next_part(heard) == FRAME_TOPIC + b"last"
