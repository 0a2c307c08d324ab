"""Reserved ports: found once, listened on from then on, and nobody else's until the end."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
import zmq
from loopback import LONG_S
from other_user import as_another_user

from agentd import listeners
from agentd.errors import ConfigurationError
from agentd.shell.doors.door import Door
from agentd.shell.sockets import publisher
from deploy.local import ports
from deploy.local.ports import FIRST_PORT, Reservation, reserve
from deploy.plan.plan import HOST


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search where testbeds of other tests do not, so that nobody takes what is released for a moment."""
    monkeypatch.setattr(ports, "FIRST_PORT", random.SystemRandom().randrange(5_000, 10_000))


SHARING = [
    (),
    (socket.SO_REUSEADDR,),
    (socket.SO_REUSEPORT,),
    (socket.SO_REUSEADDR, socket.SO_REUSEPORT),
]
"""Every way to ask the kernel for a port that somebody has."""


def listening(port: int, host: str = HOST, options: tuple[int, ...] = (socket.SO_REUSEADDR,)) -> socket.socket:
    """A listener, by default as ZeroMQ makes it."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def ways_in(ports_: Sequence[int]) -> list[str]:
    """How whoever calls could listen where somebody else is expected, too."""
    found = []
    for port, host, options in product(ports_, (HOST, "0.0.0.0", "::"), SHARING):
        with suppress(OSError), listening(port, host, options):
            found.append(f"{host}:{port} with {options}")
    return found


def test_a_reservation_listens_on_a_row_of_ports() -> None:
    with reserve(3) as reservation:
        assert reservation.base_port >= FIRST_PORT
        assert [held.getsockname()[1] for held in reservation.listeners.values()] == [
            reservation.base_port + place for place in range(4)
        ]
        assert list(reservation.listeners)[:2] == [
            f"tcp://{HOST}:{reservation.base_port}",
            f"tcp://{HOST}:{reservation.base_port + 1}",
        ]
        for place in range(4):
            with socket.create_connection((HOST, reservation.base_port + place), timeout=LONG_S):
                pass


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.usefixtures("elsewhere")
def test_no_other_user_gets_a_port_between_choosing_and_the_end(named: bool) -> None:
    with reserve(2) as reservation:
        base = reservation.base_port
    with reserve(2, base if named else None) as reservation:
        row = [reservation.base_port + place for place in range(3)]
        assert as_another_user(lambda: ways_in(row)) == []
        (address, listener), *_ = reservation.listeners.items()
        listeners.hand_over(address, listener.dup())
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        says = publisher(context, Door(address))  # as an agent that starts does, and then dies
        assert as_another_user(lambda: ways_in(row)) == []
        context.destroy(linger=0)
        assert says.closed
        assert as_another_user(lambda: ways_in(row)) == []
        assert ways_in(row) == [], "not even we ourselves"
    assert as_another_user(lambda: ways_in(row)) != [], "the attempt itself is a good one"


def test_two_testbeds_that_start_at_the_same_time_get_different_ports() -> None:
    with reserve(5) as first, reserve(5) as second:
        assert abs(first.base_port - second.base_port) >= 6


def test_the_search_goes_on_behind_a_port_that_is_taken() -> None:
    with reserve(0) as taken, reserve(2) as reservation:
        assert taken.base_port not in range(reservation.base_port, reservation.base_port + 3)


@pytest.mark.usefixtures("elsewhere")
def test_released_ports_can_be_reserved_again() -> None:
    first = reserve(2)
    first.release()
    with reserve(2, first.base_port) as again:
        assert again.base_port == first.base_port


@pytest.mark.usefixtures("elsewhere")
def test_the_operators_ports_are_taken_as_they_are_or_refused_by_name() -> None:
    with reserve(3) as free:
        base = free.base_port
    with listening(base + 2), pytest.raises(ConfigurationError, match=f"port {base + 2} on {HOST} is taken") as fault:
        reserve(3, base)
    assert f"--base-port {base}" in str(fault.value)


def test_ports_of_root_are_refused_with_the_reason() -> None:
    class Refusing:
        def setsockopt(self, *_: object) -> None: ...

        def bind(self, _address: object) -> None:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(ConfigurationError, match="port 80 may be used by root only"):
        ports._bind(Refusing(), 80, share=True)  # type: ignore[arg-type]


def test_a_machine_without_a_row_of_free_ports_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_search_end", lambda: FIRST_PORT + 10)
    with pytest.raises(ConfigurationError, match="no 21 free ports in a row between 17000 and 17009"):
        reserve(20)


@pytest.mark.parametrize(("content", "end"), [("20000 60999\n", 20_000), ("1024 60999\n", 32_768), ("?", 32_768)])
def test_the_search_ends_where_outgoing_connections_get_their_ports(
    content: str, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "range"
    file.write_text(content, encoding="ascii")
    monkeypatch.setattr(ports, "_RANGE_FILE", file)
    assert ports._search_end() == end


def test_releasing_twice_does_no_harm() -> None:
    reservation = Reservation(1, [])
    reservation.release()
    reservation.release()
