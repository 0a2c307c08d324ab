"""Free ports in a row, reserved from the moment they are found until the testbed has ended.

A reservation is a socket that is bound and never listens. It is bound without SO_REUSEADDR, so a second search (of any
user of this machine) finds the port taken; then the option is set, so our own listener, which sets it too, may bind the
port beside it. Two testbeds that start at the same moment therefore never choose the same ports.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from agentd.errors import ConfigurationError
from deploy.plan.plan import HOST, LAST_PORT, port_count, require_ports

FIRST_PORT = 17_000
"""Where the search begins."""

_USUAL_EPHEMERAL_START = 32_768
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Reservation:
    """Ports in a row that nobody else finds free."""

    def __init__(self, base_port: int, sockets: list[socket.socket]) -> None:
        self.base_port = base_port
        self._sockets = sockets

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others have the ports."""
        for held in self._sockets:
            held.close()
        self._sockets.clear()


def reserve(agents: int, base_port: int | None = None) -> Reservation:
    """Reserve the ports of a testbed: where the operator said, or in the first gap that is wide enough."""
    count = port_count(agents)
    if base_port is not None:
        require_ports(base_port, agents)
        return _reserve_here(base_port, count)
    first, end = FIRST_PORT, _search_end()
    while first + count <= end:
        taken, sockets = _bind_row(range(first, first + count), share=False)
        if taken is None:
            return Reservation(first, sockets)
        first = taken + 1
    raise ConfigurationError(
        f"no {count} free ports in a row between {FIRST_PORT} and {end - 1} on {HOST}; "
        "stop other testbeds (agentd ps) or name a place with --base-port"
    )


def _reserve_here(base_port: int, count: int) -> Reservation:
    # Shared at once: what a testbed that ended a moment ago left in TIME_WAIT on these ports is harmless.
    taken, sockets = _bind_row(range(base_port, base_port + count), share=True)
    if taken is not None:
        raise ConfigurationError(
            f"port {taken} on {HOST} is taken, and --base-port {base_port} needs all of "
            f"{base_port}…{base_port + count - 1}; name another place or leave --base-port out"
        )
    return Reservation(base_port, sockets)


def _bind_row(ports: range, *, share: bool) -> tuple[int | None, list[socket.socket]]:
    """Bind every port; the first that is taken, or None and the sockets."""
    with contextlib.ExitStack() as undo:
        sockets = []
        for port in ports:
            held = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            if not _bind(held, port, share=share):
                return port, []
            sockets.append(held)
        undo.pop_all()
    return None, sockets


def _bind(held: socket.socket, port: int, *, share: bool) -> bool:
    try:
        if share:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except PermissionError:
        raise ConfigurationError(f"port {port} may be used by root only; name a higher --base-port") from None
    except OSError:
        return False
    return True


def _search_end() -> int:
    """Where the ports begin that the kernel gives to outgoing connections: a listener there would collide with them."""
    return next(_ephemeral_start(), _USUAL_EPHEMERAL_START)


def _ephemeral_start() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        start = int(_RANGE_FILE.read_text(encoding="ascii").split()[0])
        if FIRST_PORT < start <= LAST_PORT:
            yield start
