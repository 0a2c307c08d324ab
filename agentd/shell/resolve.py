"""Names of neighbours looked up beside the links: libzmq would do it on the thread that carries all frames.

A name that nobody answers for takes ten seconds and more to fail. On libzmq's own thread that would silence every link
of the agent, so sockets are only ever connected to numbers; names are turned into numbers by a thread that may wait.
Where containers come and go a name outlives its numbers: each time a connection is renewed, the name is looked up
again, and what was found is used from the next time on.

A name may have several numbers, of IPv4 and of IPv6, and its machine may listen on one of them only: the first one that
answers is taken, in the order that the system gives them; until one does, the first of IPv4.
"""

from __future__ import annotations

import ipaddress
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
ANSWER_WITHIN_S = 1.0
"""How long one of several numbers may take to show that somebody listens there."""


def has_name(address: str) -> bool:
    """Whether an address has to be looked up before it can be connected to; what can be no name is left to libzmq."""
    found = _NAMED.fullmatch(address)
    return found is not None and not _NUMBER.fullmatch(found[1])


def has_ipv6() -> bool:
    """Whether this machine has IPv6 at all."""
    try:
        with system.socket(system.AF_INET6, system.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def is_number(host: str) -> bool:
    """Whether a host is a number already, of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def numbers_of(address: str) -> list[str]:
    """All numbers of the name in an address, in the order of the system; none where nobody knows it. May take long."""
    parts = urlsplit(address)
    try:
        found = system.getaddrinfo(parts.hostname, parts.port, type=system.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(place[4][0]) for place in found))


def look_up(address: str) -> str | None:
    """The address with a number for its name; None where nobody knows the name. May take long."""
    port = urlsplit(address).port
    found = numbers_of(address)
    if len(found) > 1:
        answering = (number for number in found if _answers(number, port))
        found = [next(answering, None) or min(found, key=lambda number: ":" in number)]
    if not found:
        return None
    return f"tcp://[{found[0]}]:{port}" if ":" in found[0] else f"tcp://{found[0]}:{port}"


def _answers(number: str, port: int | None) -> bool:
    """Whether somebody listens there."""
    try:
        system.create_connection((number, port or 0), timeout=ANSWER_WITHIN_S).close()
    except OSError:
        return False
    return True


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

    def use(self, socket: zmq.Socket[bytes]) -> None:
        """Go on with another socket, which was connected already if the address has no name in it."""
        self._socket = socket
        if self._is_named and self._connected is not None:
            self._connect(self._connected)

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

    def leave(self) -> None:
        """Disconnect; renewing connects again."""
        if self._connected is not None:
            self._socket.disconnect(self._connected)
            self._found, self._connected = self._found or self._connected, None

    def _connect(self, address: str) -> None:
        if "[" in address:
            self._socket.setsockopt(zmq.IPV6, 1)
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
