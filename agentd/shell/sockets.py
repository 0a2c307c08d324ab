"""The one place where ZeroMQ sockets are made, and every option they get, with its reason.

Contexts are made by whoever runs a process, after fork: one made before breaks silently in the child.

No ZMTP heartbeats: in libzmq 4.3.5 a heartbeat that expires while a subscriber's queue is full aborts the whole
process (`Assertion failed: !_io_error`, libzmq issues 3937, 4364 and 4767; seen here with 200 agents on two busy
cores). Whether a neighbour is alive is judged above, by its silence, and answered by connecting anew: that also finds a
peer that came back under another address. TCP's own timers clean up what a vanished peer leaves behind.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

import zmq

from agentd.errors import ConfigurationError
from agentd.shell.resolve import has_name
from agentd.wire.frame import MAX_FRAME_BYTES
from agentd.wire.topics import FRAME_TOPIC, LONGEST_TOPIC, sync_topic

SLICE_MS = 200
"""How long a blocking receive may keep the event loop from looking at signals."""
QUEUE_FRAMES = 64
"""Frames that may wait for a slow neighbour, per side; then the newest are lost, counted by their sequence numbers."""
DEAD_AFTER_MS = 10_000
"""How long sent data may stay unacknowledged before the connection is given up."""

_COMMON = {
    zmq.IPV6: 0,
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
    zmq.LINGER: 1_000,  # the last frame still has to leave
    zmq.SNDHWM: QUEUE_FRAMES,
    zmq.XPUB_VERBOSE: 1,  # without it the second equal subscription stays invisible
}
_SUBSCRIBE = {zmq.LINGER: 0, zmq.RCVHWM: QUEUE_FRAMES, zmq.RCVTIMEO: SLICE_MS}
_ASK = {zmq.LINGER: 500, zmq.RCVTIMEO: SLICE_MS, zmq.SNDTIMEO: SLICE_MS}


def publisher(context: zmq.Context[zmq.Socket[bytes]], listen: str) -> zmq.Socket[bytes]:
    """An XPUB socket that neighbours subscribe to."""
    socket = _made(context, zmq.XPUB, _COMMON | _PUBLISH)
    try:
        socket.bind(listen)
    except zmq.ZMQError as fault:
        socket.close(linger=0)
        raise ConfigurationError(
            f"cannot listen on {listen}: {_why(fault)}; choose another address with --listen"
        ) from None
    return socket


def subscriber(context: zmq.Context[zmq.Socket[bytes]], own: int, address: str) -> zmq.Socket[bytes]:
    """A SUB socket that hears one neighbour, so that the sender of each frame is known."""
    socket = _made(context, zmq.SUB, _COMMON | _SUBSCRIBE)
    socket.subscribe(FRAME_TOPIC)
    socket.subscribe(sync_topic(own))
    return _connected(socket, address)


def requester(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    """A DEALER socket to the environment."""
    return _connected(_made(context, zmq.DEALER, _COMMON | _ASK), address)


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
        socket.connect(address)
    except zmq.ZMQError as fault:
        socket.close(linger=0)
        raise ConfigurationError(f"cannot connect to {address}: {_why(fault)}") from None
    return socket


def _why(fault: zmq.ZMQError) -> str:
    """What the system says; pyzmq's own text repeats the address."""
    return os.strerror(fault.errno or errno.EINVAL).lower()
