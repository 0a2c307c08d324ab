"""Arms behind an HTTP endpoint: what is asked, what is believed, and what a hostile one costs."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from arm_server import PayingServer, RawServer
from evidence import PATIENCE_S, cpu_s_of, in_s, until

from agentd.real_arms.endpoint import LONGEST_REPLY, Endpoint
from agentd.real_arms.worker import ArmFault, Reason

ABOUT = {"agent": 3, "life": 17, "run": "0011223344556677"}
SOON_S = 0.3


def endpoint(address: str) -> Endpoint:
    return Endpoint(address, ABOUT)


def fault_of(address: str, within_s: float = PATIENCE_S) -> Reason:
    with pytest.raises(ArmFault) as caught:
        endpoint(address).pull(0, 1, in_s(within_s))
    return caught.value.reason


def answer(text: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> RawServer:
    return RawServer(lambda connection, _number: connection.sendall(head + text))


def test_a_pull_is_named_by_run_agent_life_and_trial() -> None:
    with PayingServer(lambda asked: asked["arm"] / 10) as server:
        assert endpoint(server.address).pull(3, 7, in_s(PATIENCE_S)) == 0.3
        assert server.requests == [{"arm": 3, "trial": 7, **ABOUT}]


def test_a_pull_without_an_answer_is_asked_for_again_in_the_same_words() -> None:
    heard: list[bytes] = []

    def act(connection: socket.socket, number: int) -> None:
        if number == 1:
            return  # and so closes it
        if number == 2:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")
            return
        connection.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"reward": 0.5}')

    class Hearing(RawServer):
        def _one(self, connection: socket.socket, number: int) -> None:
            heard.append(connection.recv(65536, socket.MSG_PEEK))
            super()._one(connection, number)

    with Hearing(act) as server:
        assert endpoint(server.address).pull(0, 1, in_s(PATIENCE_S)) == 0.5
    assert len(heard) == 3
    assert len(set(heard)) == 1


def test_nobody_there_is_unreachable_and_then_late() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert fault_of(f"http://127.0.0.1:{port}/", SOON_S) in (Reason.UNREACHABLE, Reason.LATE)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "307 Temporary Redirect", "404 Not Found", "500 Oh", "99"]
)
def test_anything_but_200_is_refused_and_no_redirect_is_followed(status: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"reward": 1.0}', encoding="ascii")
    with PayingServer(lambda _asked: 1.0) as elsewhere:
        for target in (f"file://{secret}", elsewhere.address):
            head = f"HTTP/1.1 {status}\r\nLocation: {target}\r\n\r\n".encode()
            with answer(b'{"reward": 1.0}', head) as server:
                assert fault_of(server.address) is Reason.REFUSED
        assert not elsewhere.requests


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"0.5",
            b"[]",
            b'{"rewards": 1}',
            b'{"reward": "0.5"}',
            b'{"reward": true}',
            b'{"reward": null}',
            b"\xff",
        ),
        *(b'{"reward": [0.5]}', b"[" * 9000, b'{"a":' * 1500),
    ],
)
def test_what_is_no_reward_is_unreadable(body: bytes) -> None:
    with answer(body) as server:
        assert fault_of(server.address) is Reason.UNREADABLE


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 9000])
def test_numbers_beyond_all_bounds_are_numbers_for_somebody_else_to_refuse(number: bytes) -> None:
    with answer(b'{"reward": ' + number + b"}") as server:
        reward = endpoint(server.address).pull(0, 1, in_s(PATIENCE_S))
    assert not 0.0 <= reward <= 1.0


def test_what_is_no_http_is_refused() -> None:
    with answer(b'{"reward": 0.5}', b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as server:
        assert fault_of(server.address) is Reason.REFUSED


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", b""]
)
def test_an_answer_without_end_is_cut_short(head: bytes) -> None:
    def act(connection: socket.socket, _number: int) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(b"x" * LONGEST_REPLY)

    with RawServer(act) as server:
        assert fault_of(server.address) is Reason.TOO_LONG


def test_an_answer_that_drips_is_late_however_long_it_goes_on() -> None:
    over = threading.Event()

    def act(connection: socket.socket, _number: int) -> None:
        while not over.wait(0.01):
            connection.sendall(b"H")

    with RawServer(act) as server:
        assert fault_of(server.address, SOON_S) is Reason.LATE
        over.set()


def test_a_server_that_never_answers_is_late_and_costs_no_work() -> None:
    over = threading.Event()
    with RawServer(lambda _connection, _number: over.wait() and None) as server:
        assert cpu_s_of(lambda: fault_of(server.address, SOON_S)) < SOON_S / 2
        over.set()
        until(lambda: server.connections == 1)
