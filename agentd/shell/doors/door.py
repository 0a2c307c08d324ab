"""How a socket begins to listen, whatever it listens on, and what is let go of when it ceases to."""

from __future__ import annotations

import errno
import os

import zmq

from agentd import listeners
from agentd.addresses import ipc_path
from agentd.errors import ConfigurationError
from agentd.shell.doors.admission import Admission
from agentd.shell.doors.ipc_endpoint import IpcEndpoint
from agentd.shell.doors.keyring import Keyring
from agentd.shell.doors.zap_domain import ZAP_DOMAIN
from agentd.shell.resolve import has_ipv6

BACKLOG = 1024
"""Hundreds of agents connect in the same second."""


class Door:
    """One address to listen on; with keys, or over TCP with an admission, only some are let in."""

    def __init__(self, listen: str, admission: Admission | None = None, keyring: Keyring | None = None) -> None:
        self._listen = listen
        self._admission = admission
        self.keyring = keyring
        """None: connections are not encrypted, and who is at their other end is not known."""
        self._place: IpcEndpoint | None = None

    def open(self, socket: zmq.Socket[bytes]) -> None:
        """Let a socket listen here; closes it where that cannot be done."""
        try:
            socket.setsockopt(zmq.BACKLOG, BACKLOG)
            if (listening := self._listening()) is not None:
                socket.setsockopt(zmq.USE_FD, listening)
            self._guard(socket)
            socket.bind(self._listen)
        except (zmq.ZMQError, OSError, ConfigurationError) as fault:
            socket.close(linger=0)
            self.close()
            raise ConfigurationError(
                f"cannot listen on {self._listen}: {why(fault)}; choose another address with --listen"
            ) from None

    @property
    def refused(self) -> int:
        """Connections that were not let in."""
        return 0 if self._admission is None else self._admission.refused

    def close(self) -> None:
        """Let go of the place; the socket is closed by who made it."""
        if self._admission is not None:
            self._admission.close()
        if self._place is not None:
            self._place.release()

    def _listening(self) -> int | None:
        """The descriptor of a socket that listens here already; None: ZeroMQ makes one."""
        if (handed_over := listeners.take(self._listen)) is not None:
            return handed_over
        if (path := ipc_path(self._listen)) is None:
            return None
        self._place = IpcEndpoint(path, BACKLOG)
        return self._place.descriptor

    def _guard(self, socket: zmq.Socket[bytes]) -> None:
        if self.keyring is not None:
            self.keyring.serve(socket)
        if not self._listen.startswith("tcp://"):
            return
        socket.setsockopt(zmq.IPV6, int(listens_on_ipv6(self._listen)))
        if self._admission is not None:
            socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without its thread nobody is let in, rather than everybody


def listens_on_ipv6(listen: str) -> bool:
    """Whether to listen on IPv6 (and then, if it is everywhere, on IPv4 as well)."""
    return "[" in listen or (listen.startswith("tcp://*:") and has_ipv6())


def why(fault: Exception) -> str:
    """What the system says; pyzmq's own text repeats the address."""
    if isinstance(fault, ConfigurationError):
        return str(fault)
    number = fault.errno if isinstance(fault, zmq.ZMQError | OSError) else None
    if number == errno.ENODEV:
        return "this machine has no such address"
    if number == errno.EAFNOSUPPORT:
        return "this machine has no IPv6"
    return os.strerror(number or errno.EINVAL).lower()
