"""The environment's socket: a ROUTER that never waits for a peer.

No ZMTP heartbeats: in libzmq 4.3.5 any peer could end the service with them. It floods the socket until its queue is
full, and dies; the next heartbeat to it aborts the whole process (`Assertion failed: !_io_error`; a test does exactly
this). A peer that vanished without a word is found by TCP instead: what is sent to it must be acknowledged within
DEAD_AFTER_MS. Nobody waits for that: a connection says nothing about who speaks, and an agent may come from a new one
at any time.
"""

from __future__ import annotations

import asyncio

import zmq

from agentd.shell.doors.admission import Admission
from agentd.shell.doors.door import Door
from agentd.shell.doors.keyring import Keyring, descriptor_of, hang_up, name_of
from agentd.wire.environment_messages import MAX_ENVIRONMENT_BYTES
from agentd.wire.parcel import is_parcel

BATCH_LIMIT = 512
"""Requests taken at once; bounds how long the first of them waits for its reply, and how long a signal waits."""
BATCH_BYTES = 128 << 10
"""The same of parcels, each of which holds many."""
PARTS_AT_ONCE = 32_768
"""Unwanted parts passed over before anything else is done; some dozens of milliseconds."""

DEAD_AFTER_MS = 10_000
"""How long sent data may stay unacknowledged before a connection is given up."""

_OPTIONS = {
    zmq.LINGER: 1000,  # ms; the last replies still leave
    zmq.MAXMSGSIZE: 2 * MAX_ENVIRONMENT_BYTES,  # a little too long is answered, far too long is cut off
    zmq.SNDHWM: 1_000,  # per connection, as the next
    zmq.RCVHWM: 16,  # an agent has one request under way; more wait with who sends them
    zmq.ROUTER_MANDATORY: 1,  # an unreachable peer is an error instead of silence
    zmq.ROUTER_HANDOVER: 0,  # nobody takes over another's connection by claiming its identity
    zmq.TCP_MAXRT: DEAD_AFTER_MS,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 10,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 3,
    zmq.HANDSHAKE_IVL: 10_000,
}


class Router:
    """A bound ROUTER socket; every operation returns at once."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        listen: str,
        admission: Admission | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self.socket = context.socket(zmq.ROUTER)
        for option, value in _OPTIONS.items():
            self.socket.setsockopt(option, value)
        self._within_message = False
        """Whether the rest of a message is still to be passed over."""
        self._keyring = keyring
        self._said_by: dict[bytes, int] = {}
        self._revoked = 0
        self._door = Door(listen, admission, keyring)
        self._door.open(self.socket)
        self.address: str = self.socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")

    @property
    def refused_connections(self) -> int:
        """Of addresses or keys that are not admitted, or not any more."""
        return self._door.refused + self._revoked

    @property
    def keyed(self) -> bool:
        """Whether whoever speaks is known by its key."""
        return self._keyring is not None

    def speaker(self, connection: bytes) -> int | None:
        """The agent whose key a connection has, of which a message was waiting just now."""
        return self._said_by.get(connection)

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
        """The messages that have arrived, up to BATCH_LIMIT; the first part of each is its connection.

        A message of more than one part is told by an empty third one; the rest of it is passed over, some at a time.
        """
        messages: list[list[bytes]] = []
        receive, ask = self.socket.recv, self.socket.getsockopt
        self._said_by.clear()
        try:
            room, unwanted = BATCH_BYTES, PARTS_AT_ONCE
            if self._within_message:
                unwanted = self._pass_over(unwanted)
            while len(messages) < BATCH_LIMIT and room > 0 and unwanted > 0:
                connection = receive(zmq.DONTWAIT)
                message = [connection, self._known_part(connection) if self.keyed else receive(zmq.DONTWAIT)]
                messages.append(message)
                if is_parcel(message[1]):
                    room -= len(message[1])
                if ask(zmq.RCVMORE):
                    message.append(b"")
                    unwanted = self._pass_over(unwanted)
        except zmq.Again:
            self._within_message = False
        return [each for each in messages if each[0] in self._said_by] if self.keyed else messages

    def _known_part(self, connection: bytes) -> bytes:
        """What a connection said, noting whose it is; one whose key was revoked since it was let in is ended."""
        assert self._keyring is not None  # noqa: S101
        part = self.socket.recv(zmq.DONTWAIT, copy=False)
        agent = self._keyring.agent_of(name_of(part))
        if agent is not None:
            self._said_by[connection] = agent
            return part.bytes
        self._revoked += 1
        if (descriptor := descriptor_of(part)) is not None:
            hang_up(descriptor)
        return b""

    def _pass_over(self, most: int) -> int:
        """Read on in a message that nobody wants, so many parts of it; how many are left of these, 0: not at its end.

        ZeroMQ hands out nothing else before that.
        """
        self._within_message = True
        receive = self.socket.recv
        for left in range(most - 1, -1, -1):
            if not receive(zmq.DONTWAIT, copy=False).more:
                self._within_message = False
                return left
        return 0

    def send(self, connection: bytes, data: bytes) -> bool:
        """Send to a connection; False if it is gone or does not read."""
        try:
            # What stands in the way of a message shows at its first part, so no half message leaves; send_multipart
            # does the same, 4 µs slower.
            self.socket.send(connection, zmq.DONTWAIT | zmq.SNDMORE)
            self.socket.send(data, zmq.DONTWAIT)
        except zmq.ZMQError as fault:
            if fault.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        """Close the socket; replies under way still leave."""
        self.socket.close()
        self._door.close()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
