"""The environment's socket: a ROUTER that never waits for a peer.

No ZMTP heartbeats: in libzmq 4.3.5 any peer could end the service with them. It floods the socket until its queue is
full, and dies; the next heartbeat to it aborts the whole process (`Assertion failed: !_io_error`; a test does exactly
this). A peer that vanished without a word is found by TCP instead: what is sent to it, a probe for example, must be
acknowledged within DEAD_AFTER_MS.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time

import zmq

from agentd.errors import ConfigurationError
from agentd.wire.codec import encode_environment
from agentd.wire.environment_messages import MAX_ENVIRONMENT_BYTES, Ping

BATCH_LIMIT = 4096
"""Requests taken at once; bounds how long the first of them waits for its reply, and how long a signal waits."""

DEAD_AFTER_MS = 10_000
"""How long sent data may stay unacknowledged before a connection is given up."""

_OPTIONS = {
    zmq.LINGER: 1000,  # ms; the last replies still leave
    zmq.MAXMSGSIZE: 2 * MAX_ENVIRONMENT_BYTES,  # a little too long is answered, far too long is cut off
    zmq.SNDHWM: 10_000,
    zmq.RCVHWM: 10_000,
    zmq.ROUTER_MANDATORY: 1,  # an unreachable peer is an error instead of silence
    zmq.ROUTER_HANDOVER: 0,  # nobody takes over another's connection by claiming its identity
    zmq.TCP_MAXRT: DEAD_AFTER_MS,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 10,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 3,
    zmq.HANDSHAKE_IVL: 10_000,
    zmq.BACKLOG: 1024,  # hundreds of agents connect in the same second
}

_PROBE_PAUSE_S = 0.2
_PROBES_LIMIT = 1024
_PING = encode_environment(Ping())


class Router:
    """A bound ROUTER socket; every operation returns at once."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], listen: str) -> None:
        self.socket = context.socket(zmq.ROUTER)
        for option, value in _OPTIONS.items():
            self.socket.setsockopt(option, value)
        if "[" in listen:
            self.socket.setsockopt(zmq.IPV6, 1)
        try:
            self.socket.bind(listen)
        except zmq.ZMQError as fault:
            self.socket.close(linger=0)
            raise ConfigurationError(
                f"cannot listen on {listen}: {_why(fault)}; choose another with --listen"
            ) from None
        self.address: str = self.socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        self._probed_s: dict[bytes, float] = {}

    async def ready(self, timeout_s: float | None) -> None:
        """Come back when a message waits or the time is over; signals and other tasks get their turn in any case."""
        await asyncio.sleep(0)
        # The descriptor only tells that the state may have changed, and reading the state resets it: look first.
        if self.socket.poll(0, zmq.POLLIN):
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        descriptor = self.socket.FD
        loop.add_reader(descriptor, _wake, woken)
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            loop.remove_reader(descriptor)

    def waiting(self) -> list[list[bytes]]:
        """All messages that have arrived, up to BATCH_LIMIT; the first part of each is its connection."""
        messages: list[list[bytes]] = []
        receive = self.socket.recv_multipart
        try:
            while len(messages) < BATCH_LIMIT:
                messages.append(receive(zmq.DONTWAIT))
        except zmq.Again:
            pass
        return messages

    def send(self, connection: bytes, data: bytes) -> bool:
        """Send to a connection; False if it is gone or does not read."""
        try:
            self._send(connection, data)
        except zmq.ZMQError as fault:
            if fault.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def reachable(self, connection: bytes) -> bool:
        """Whether a connection is still there; asked too often, the last answer stands for a moment."""
        now_s = time.monotonic()
        if now_s - self._probed_s.get(connection, -_PROBE_PAUSE_S) < _PROBE_PAUSE_S:
            return True  # or a second agent of the same id could drown the first in pings
        try:
            self._send(connection, _PING)
        except zmq.ZMQError as fault:
            if fault.errno == zmq.EHOSTUNREACH:
                self._probed_s.pop(connection, None)
                return False
            if fault.errno != zmq.EAGAIN:
                raise
        if len(self._probed_s) >= _PROBES_LIMIT:
            self._probed_s.clear()
        self._probed_s[connection] = now_s
        return True

    def _send(self, connection: bytes, data: bytes) -> None:
        # What stands in the way of a message shows at its first part, so no half message leaves; send_multipart does
        # the same, 4 µs slower.
        self.socket.send(connection, zmq.DONTWAIT | zmq.SNDMORE)
        self.socket.send(data, zmq.DONTWAIT)

    def close(self) -> None:
        """Close the socket; replies under way still leave."""
        self.socket.close()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _why(fault: zmq.ZMQError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return "address already in use"
    if fault.errno == errno.ENODEV:
        return "this machine has no such address"
    return os.strerror(fault.errno or errno.EINVAL).lower()
