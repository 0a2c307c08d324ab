"""Listening sockets that this process was started with, by their addresses: whoever started it opened them.

A launcher that only chose an address would leave a moment in which another user of the machine could take it; one that
listens itself, and hands the socket on, leaves none. The launcher keeps its own copy, so that a process that is started
again finds the same socket, and with it all that has connected in the meantime: those connections waited in the
kernel's queue and are served at once. Nothing is here in a process that was started by hand, which binds as ever.
"""

from __future__ import annotations

import socket

BACKLOG = 4096
"""Connections that wait for a process that is starting, or starting again; the kernel takes as many as it allows."""

_handed_over: dict[str, socket.socket] = {}


def hand_over(address: str, listener: socket.socket) -> None:
    """Let whoever binds this address in this process have this socket."""
    listener.set_inheritable(False)  # what we start ourselves listens to nobody
    _handed_over[address] = listener


def take(address: str) -> int | None:
    """The descriptor of the socket that listens there, from now on the caller's to close; None: it has to bind."""
    listener = _handed_over.pop(address, None)
    return listener.detach() if listener is not None else None
