"""How one socket takes the place of another that hears the same neighbour, so that no part is lost or heard twice.

A new subscription takes time to arrive, and what is published before is not sent to it. So both sockets listen until
the new one has brought all that the old one has: from there on it goes on alone. What a publisher says it says to all
who listen, in one order; so the first part of the new one that the old one has brought, too, tells where they meet.
"""

from __future__ import annotations

from collections import deque

import zmq

MOST_AHEAD = 128
"""Parts that the old socket may bring before it goes in any case: whoever tells its listeners different things, or
tells the new one nothing at all, is no honest neighbour, and nothing of it is missed."""


class Takeover:
    """A new socket, while the old one is still the one that is read."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        self._longest = int(socket.getsockopt(zmq.MAXMSGSIZE))
        self._read: deque[bytes] = deque()
        """What the old socket has brought, and the new one has not yet."""
        self._next: bytes | None = None
        """What the new socket has brought, and the old one has not yet."""

    def has_read(self, part: bytes) -> bool:
        """Note what the old socket has brought; whether the new one may bring it, too, and not be cut off for it."""
        self._read.append(part)
        return len(part) <= self._longest

    def is_level(self) -> bool:
        """Whether the new socket goes on right where the old one stands."""
        while self._read and self._bring():
            assert self._next is not None  # noqa: S101
            if self._next not in self._read:  # it is ahead: the old one will bring it, too
                break
            while self._read.popleft() != self._next:  # said before the new subscription had arrived
                pass
            self._next = None
            if not self._read:
                return True
        return len(self._read) > MOST_AHEAD

    def _bring(self) -> bool:
        if self._next is None:
            try:
                self._next = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return False
        return True
