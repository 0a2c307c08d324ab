"""The one place where ZeroMQ sockets are made, and every option they get, with its reason.

Contexts are made by whoever runs a process, after fork: one made before breaks silently in the child.
"""

from __future__ import annotations

from collections.abc import Mapping

import zmq

from agentd.errors import ConfigurationError
from agentd.wire.frame import MAX_FRAME_BYTES
from agentd.wire.topics import FRAME_TOPIC, LONGEST_TOPIC, sync_topic

SLICE_MS = 200
"""How long a blocking receive may keep the event loop from looking at signals."""
QUEUE_FRAMES = 64
"""Frames that may wait for a slow neighbour, per side; then the newest are lost, counted by their sequence numbers."""
HEARTBEAT_MS = 1000
HEARTBEAT_TIMEOUT_MS = 3000

_COMMON = {
    zmq.IPV6: 0,
    zmq.MAXMSGSIZE: MAX_FRAME_BYTES + LONGEST_TOPIC,  # without it one message can take all memory
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 10_000,  # back off, or hundreds of agents storm one that is down
    zmq.CONNECT_TIMEOUT: 5_000,
    zmq.HANDSHAKE_IVL: 10_000,
    zmq.TCP_KEEPALIVE: 1,  # behind the heartbeats, for the side that does not send them
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
}

# The side that connects asks whether the other is alive, and tells it how long silence may last.
_ASKS = {
    zmq.HEARTBEAT_IVL: HEARTBEAT_MS,
    zmq.HEARTBEAT_TIMEOUT: HEARTBEAT_TIMEOUT_MS,
    zmq.HEARTBEAT_TTL: HEARTBEAT_TIMEOUT_MS,
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
            f"cannot listen on {listen}: {fault.strerror.lower()}; choose another address with --listen"
        ) from None
    return socket


def subscriber(context: zmq.Context[zmq.Socket[bytes]], own: int, address: str) -> zmq.Socket[bytes]:
    """A SUB socket that hears one neighbour, so that the sender of each frame is known."""
    socket = _made(context, zmq.SUB, _COMMON | _ASKS | _SUBSCRIBE)
    socket.subscribe(FRAME_TOPIC)
    socket.subscribe(sync_topic(own))
    socket.connect(address)
    return socket


def requester(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    """A DEALER socket to the environment."""
    socket = _made(context, zmq.DEALER, _COMMON | _ASKS | _ASK)
    socket.connect(address)
    return socket


def _made(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, options: Mapping[zmq.SocketOption, int]
) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    for option, value in options.items():
        socket.setsockopt(option, value)
    return socket
