"""Free ports in a row, listened on from the moment they are found until the testbed has ended.

The listening sockets are handed to the processes (`agentd.listeners`); we keep copies. While one of them is open the
kernel gives the port to nobody else, whatever options a socket of another user has. A search binds without
SO_REUSEADDR, so it never takes a port that anybody uses; the option is set afterwards, so that what our own connections
leave in TIME_WAIT does not keep the next testbed from the ports that its operator names.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentd.errors import ConfigurationError
from agentd.listeners import BACKLOG
from deploy.plan.plan import HOST, LAST_PORT, Loopback, port_count, require_ports

FIRST_PORT = 17_000
"""Where the search begins."""

_USUAL_EPHEMERAL_START = 32_768
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Reservation:
    """Ports in a row that are ours."""

    def __init__(self, base_port: int, sockets: Sequence[socket.socket]) -> None:
        self.base_port = base_port
        places = self.places(Path())
        addresses = [places.environment, *(places.listen(agent) for agent in range(len(sockets) - 1))]
        self.listeners = dict(zip(addresses, sockets, strict=False))
        """By address."""

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def places(self, run_dir: Path) -> Loopback:
        """Who listens where."""
        return Loopback(self.base_port, run_dir)

    def release(self) -> None:
        """Let others have the ports."""
        for held in self.listeners.values():
            held.close()
        self.listeners.clear()


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
    # Shared at once: what a testbed that ended a moment ago left in TIME_WAIT on these ports is harmless. Whoever else
    # shares them may bind before we listen, but then cannot listen, and if it listened first we could not.
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
    """Listen on a port, unless anybody else has it; only who listens is safe from others who share."""
    try:
        if share:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.listen(BACKLOG)
        held.setblocking(False)  # for ZeroMQ, which would wait where somebody has hung up already
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
