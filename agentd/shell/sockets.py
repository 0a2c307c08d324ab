"""The one place where ZeroMQ sockets are made, and every option they get, with its reason.

Contexts are made by whoever runs a process, after fork: one made before breaks silently in the child.

No ZMTP heartbeats: in libzmq 4.3.5 a heartbeat that expires while a subscriber's queue is full aborts the whole
process (`Assertion failed: !_io_error`, libzmq issues 3937, 4364 and 4767; seen here with 200 agents on two busy
cores). Whether a neighbour is alive is judged above, by its silence, and answered by connecting anew: that also finds a
peer that came back under another address. TCP's own timers clean up what a vanished peer leaves behind.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

import zmq

from agentd.errors import ConfigurationError
from agentd.shell.doors.door import Door, why
from agentd.shell.doors.keyring import LONGEST_HANDSHAKE, WRAPPING
from agentd.shell.resolve import has_ipv6, has_name
from agentd.wire.bundle import LONGEST_BUNDLE, host_topic
from agentd.wire.frame import MAX_FRAME_BYTES
from agentd.wire.topics import FRAME_TOPIC, LONGEST_TOPIC, sync_topic

SLICE_MS = 200
"""How long a blocking receive may keep the event loop from looking at signals."""
QUEUE_FRAMES = 64
"""Frames that may wait for a slow neighbour, per side; then the newest are lost, counted by their sequence numbers."""
QUEUE_BUNDLES = 256
"""Bundles that may wait for a slow host, per side."""
QUEUE_EVENTS = 2
"""Subscriptions of one subscriber that may wait for us, as many as each has; more wait with who sends them. Each time
that we look, ZeroMQ takes in all that wait, without any limit of its own: with 64, a flood came ten times as fast and
took 50 MB."""
LONGEST_EVENT = 64
"""Bytes; a subscription has a dozen, a handshake without keys at most fifty. Who sends more is cut off: each byte of a
subscription costs fifty of memory, for as long as the process lives."""
DEAD_AFTER_MS = 10_000
"""How long sent data may stay unacknowledged before the connection is given up."""

Secure = Callable[[zmq.Socket[bytes]], None]
"""Says with which keys a socket connects, before it does."""

_COMMON = {
    zmq.MAXMSGSIZE: MAX_FRAME_BYTES + LONGEST_TOPIC,  # without it one message can take all memory
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 10_000,  # back off, or hundreds of agents storm one that is down
    zmq.CONNECT_TIMEOUT: 5_000,
    zmq.HANDSHAKE_IVL: 10_000,
    zmq.TCP_MAXRT: DEAD_AFTER_MS,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
}

_PUBLISH = {
    zmq.MAXMSGSIZE: LONGEST_EVENT,  # of what comes in; what is sent may be as long as a frame
    zmq.LINGER: 1_000,  # the last frame still has to leave
    zmq.SNDHWM: QUEUE_FRAMES,
    zmq.RCVHWM: QUEUE_EVENTS,
    zmq.XPUB_VERBOSE: 1,  # without it the second equal subscription stays invisible
    zmq.ONLY_FIRST_SUBSCRIBE: 1,  # a subscription is a message of its own, not a part of one
}
_SUBSCRIBE = {zmq.LINGER: 0, zmq.RCVHWM: QUEUE_FRAMES, zmq.RCVTIMEO: SLICE_MS}
_ASK = {zmq.LINGER: 500, zmq.RCVTIMEO: SLICE_MS, zmq.SNDTIMEO: SLICE_MS}


def publisher(context: zmq.Context[zmq.Socket[bytes]], door: Door) -> zmq.Socket[bytes]:
    """An XPUB socket that neighbours subscribe to, behind a door."""
    longer = {zmq.MAXMSGSIZE: LONGEST_HANDSHAKE} if door.keyring is not None else {}
    socket = _made(context, zmq.XPUB, _COMMON | _PUBLISH | longer)
    door.open(socket)
    return socket


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]],
    own: int,
    address: str,
    longest: int = MAX_FRAME_BYTES,
    *,
    probes: bool = False,
    secure: Secure | None = None,
) -> zmq.Socket[bytes]:
    """A SUB socket that hears one neighbour, so that the sender of each frame is known; a longer frame ends its line.

    What nobody has read yet lies in memory, and it may be a whole queue of the longest frames. One that probes lets
    frames of any length in, one at a time: a neighbour that is silent may have been cut off for one. `secure` sees to
    it that this neighbour, and nobody else, is at the other end.
    """
    longest = longest if secure is None else max(longest, LONGEST_HANDSHAKE) + WRAPPING
    most = MAX_FRAME_BYTES if secure is None else MAX_FRAME_BYTES + WRAPPING
    limit = {zmq.MAXMSGSIZE: min(longest, most) + LONGEST_TOPIC}
    if probes:
        limit = {zmq.MAXMSGSIZE: most + LONGEST_TOPIC, zmq.RCVHWM: 1}
    socket = _made(context, zmq.SUB, _COMMON | _SUBSCRIBE | limit)
    if secure is not None:
        secure(socket)
    socket.subscribe(FRAME_TOPIC)
    socket.subscribe(sync_topic(own))
    return _connected(socket, address)


def bundle_publisher(context: zmq.Context[zmq.Socket[bytes]], door: Door) -> zmq.Socket[bytes]:
    """An XPUB socket that other hosts subscribe to; a bundle holds frames of many agents."""
    socket = _made(context, zmq.XPUB, _COMMON | _PUBLISH | {zmq.SNDHWM: QUEUE_BUNDLES})
    door.open(socket)
    return socket


def bundle_subscriber(context: zmq.Context[zmq.Socket[bytes]], own: int, address: str) -> zmq.Socket[bytes]:
    """A SUB socket that hears one other host, so that the sender of each bundle is known."""
    longest = {zmq.MAXMSGSIZE: LONGEST_BUNDLE, zmq.RCVHWM: QUEUE_BUNDLES}
    socket = _made(context, zmq.SUB, _COMMON | _SUBSCRIBE | longest)
    socket.subscribe(host_topic(own))
    return _connected(socket, address)


def requester(context: zmq.Context[zmq.Socket[bytes]], address: str, secure: Secure | None = None) -> zmq.Socket[bytes]:
    """A DEALER socket to the environment."""
    socket = _made(context, zmq.DEALER, _COMMON | _ASK)
    if secure is not None:
        secure(socket)
    return _connected(socket, address)


def _made(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, options: Mapping[zmq.SocketOption, int]
) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    for option, value in options.items():
        socket.setsockopt(option, value)
    return socket


def _connected(socket: zmq.Socket[bytes], address: str) -> zmq.Socket[bytes]:
    if has_name(address):  # whoever uses the socket connects it when the name was found
        return socket
    try:
        if "[" in address and not has_ipv6():
            raise zmq.ZMQError(errno.EAFNOSUPPORT)
        socket.setsockopt(zmq.IPV6, int("[" in address))
        socket.connect(address)
    except zmq.ZMQError as fault:
        socket.close(linger=0)
        raise ConfigurationError(f"cannot connect to {address}: {why(fault)}") from None
    return socket
