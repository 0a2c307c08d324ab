"""Names of neighbours looked up beside the links: libzmq would do it on the thread that carries all frames.

A name that nobody answers for takes ten seconds and more to fail. On libzmq's own thread that would silence every link
of the agent, so sockets are only ever connected to numbers; names are turned into numbers by a thread that may wait.
Where containers come and go a name outlives its numbers: each time a connection is renewed, the name is looked up
again, and what was found is used from the next time on.
"""

from __future__ import annotations

import re
import socket as system
import threading
import time
from urllib.parse import urlsplit

import zmq

_NAMED = re.compile(r"tcp://([A-Za-z0-9_.-]+):\d+")
_NUMBER = re.compile(r"[0-9.]+")
LOOK_AGAIN_S = 0.5
"""How long to wait after a name was not found."""


def has_name(address: str) -> bool:
    """Whether an address has to be looked up before it can be connected to; what can be no name is left to libzmq."""
    found = _NAMED.fullmatch(address)
    return found is not None and not _NUMBER.fullmatch(found[1])


def look_up(address: str) -> str | None:
    """The address with a number for its name; None where nobody knows the name. May take long."""
    parts = urlsplit(address)
    try:
        found = system.getaddrinfo(parts.hostname, parts.port, family=system.AF_INET, type=system.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return f"tcp://{found[0][4][0]}:{parts.port}" if found else None


class Route:
    """The way from one socket to one address, which is only known once its name was looked up."""

    def __init__(self, socket: zmq.Socket[bytes], address: str) -> None:
        """A socket that was connected to `address` already if that has no name in it."""
        self._socket = socket
        self._address = address
        self._connected = None if has_name(address) else address
        self._is_named = self._connected is None
        self._found: str | None = None  # written by the thread that looks
        self._looking: threading.Thread | None = None
        self._look_at_s = 0.0
        if self._is_named:
            self._look()

    @property
    def is_known(self) -> bool:
        """Whether the socket is connected to something."""
        return self._connected is not None

    def find(self) -> bool:
        """Connect if the name was found in the meantime, look again if it was not; whether there is a connection."""
        if self._connected is None:
            if self._found is not None:
                self._connect(self._found)
            else:
                self._look()
        return self.is_known

    def renew(self) -> None:
        """Connect anew, to where the name leads by now as far as is known, and look it up for the next time."""
        if self._connected is not None:
            self._socket.disconnect(self._connected)
            self._connect(self._found or self._connected)
        elif self._found is not None:
            self._connect(self._found)
        if self._is_named:
            self._look()

    def _connect(self, address: str) -> None:
        self._socket.connect(address)
        self._connected = address

    def _look(self) -> None:
        """Look the name up, unless that is being done or was done a moment ago."""
        if (self._looking is not None and self._looking.is_alive()) or time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + LOOK_AGAIN_S
        self._looking = threading.Thread(target=self._ask, name=f"look up {self._address}", daemon=True)
        self._looking.start()

    def _ask(self) -> None:
        self._found = look_up(self._address) or self._found
