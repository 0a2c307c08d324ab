"""Reserved ports: found once, nobody else's, and still ours to listen on."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from agentd.errors import ConfigurationError
from deploy.plan import ports
from deploy.plan.plan import HOST
from deploy.plan.ports import FIRST_PORT, Reservation, reserve


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search where testbeds of other tests do not, so that nobody takes what is released for a moment."""
    monkeypatch.setattr(ports, "FIRST_PORT", random.SystemRandom().randrange(5_000, 10_000))


def listening(port: int) -> socket.socket:
    """A listener as ZeroMQ makes it."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen()
    return listener


def test_a_reservation_is_a_row_of_ports_that_our_own_processes_can_listen_on() -> None:
    with reserve(3) as reservation:
        assert reservation.base_port >= FIRST_PORT
        listeners = [listening(reservation.base_port + place) for place in range(4)]
        for listener in listeners:
            listener.close()


def test_two_testbeds_that_start_at_the_same_time_get_different_ports() -> None:
    with reserve(5) as first, reserve(5) as second:
        assert abs(first.base_port - second.base_port) >= 6


def test_the_search_goes_on_behind_a_port_that_is_taken() -> None:
    with reserve(0) as free:
        taken = free.base_port
        listener = listening(taken)  # before it is released: testbeds of other tests search the same ports
    with listener, reserve(2) as reservation:
        assert taken not in range(reservation.base_port, reservation.base_port + 3)


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
