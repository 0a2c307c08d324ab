"""The control socket: what it understands, and what hostile clients get."""

from __future__ import annotations

import json
import selectors
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.errors import AgentdError, ConfigurationError
from deploy.testbed import control
from deploy.testbed.control import (
    MAX_CLIENTS,
    MAX_LINE_BYTES,
    SOCKET,
    ControlSocket,
    Reply,
    Request,
    ask,
    parse_request,
)

NAMES = {"environment", "agent-0", "agent-1"}


class Server:
    """A control socket in a thread of its own, which remembers what was asked."""

    def __init__(self, run_dir: Path) -> None:
        self.asked: list[Request] = []
        self.selector = selectors.DefaultSelector()
        self.control = ControlSocket(run_dir, NAMES, self.answer, self.selector)
        self._wake, woken = socket.socketpair()
        self._running = True
        self.selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(1))
        self._woken = woken
        self._thread = threading.Thread(target=self.serve)
        self._thread.start()

    def answer(self, request: Request, reply: Reply) -> None:
        self.asked.append(request)
        if request.do == "kill":
            reply({"ok": False, "error": "not today"})
        else:
            reply({"ok": True, "did": request.do})

    def serve(self) -> None:
        while self._running:
            for key, _ in self.selector.select():
                key.data()

    def close(self) -> None:
        self._running = False
        self._wake.send(b"x")
        self._thread.join()
        self.control.close()
        self.selector.close()
        self._wake.close()
        self._woken.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    serving = Server(tmp_path)
    yield serving
    serving.close()
    assert not (tmp_path / SOCKET).exists()


def connect(run_dir: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with control._address(run_dir) as address:
        client.connect(address)
    client.settimeout(60.0)
    return client


def exchange(run_dir: Path, data: bytes) -> list[Any]:
    """Everything the server answers until it hangs up or we do."""
    with connect(run_dir) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as replies:
            return [json.loads(line) for line in replies]


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        (b'{"do": "status"}', Request("status")),
        (b' {"do":"stop"} ', Request("stop")),
        (b'{"do": "kill", "name": "agent-1"}', Request("kill", "agent-1")),
        (b'{"name": "environment", "do": "restart"}', Request("restart", "environment")),
    ],
)
def test_requests_are_understood(line: bytes, request_: Request) -> None:
    assert parse_request(line, NAMES) == request_


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"status",
        b"[]",
        b"null",
        b"3",
        b'"status"',
        b"{}",
        b'{"do": null}',
        b'{"do": ["status"]}',
        b'{"do": "explode"}',
        b'{"do": "status", "name": "agent-0"}',
        b'{"do": "kill"}',
        b'{"do": "kill", "name": 0}',
        b'{"do": "kill", "name": "agent-7"}',
        b'{"do": "kill", "name": "agent-0 "}',
        b'{"do": "kill", "name": "../agent-0"}',
        b'{"do": "kill", "name": "agent-0", "signal": 9}',
        b'{"do": "status"}{"do": "stop"}',
        b"\xff\xfe\x00",
        b"[" * MAX_LINE_BYTES,
    ],
)
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|expected|no process"):
        parse_request(line, NAMES)


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_being_refused(line: bytes) -> None:
    try:
        request = parse_request(line, NAMES)
    except ValueError:
        return
    assert request.name in {"", *NAMES}


def test_only_the_owner_may_open_the_socket(server: Server, tmp_path: Path) -> None:
    mode = (tmp_path / SOCKET).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_a_stranger_is_hung_up_on(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_is_ours", lambda _connection: False)
    with pytest.raises(AgentdError, match="does not answer"):
        ask(tmp_path, "status")
    assert server.asked == []


def test_asking_gets_the_answer(server: Server, tmp_path: Path) -> None:
    assert ask(tmp_path, "restart", "agent-1") == {"ok": True, "did": "restart"}
    assert server.asked == [Request("restart", "agent-1")]


def test_a_refusal_is_an_error_with_its_reason(server: Server, tmp_path: Path) -> None:
    with pytest.raises(AgentdError, match="refused: not today"):
        ask(tmp_path, "kill", "agent-0")


def test_nobody_there_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no testbed is running in"):
        ask(tmp_path, "status")
    with pytest.raises(ConfigurationError, match="no testbed is running in"):
        ask(tmp_path / "missing", "status")


def test_several_requests_may_come_at_once_and_in_pieces(server: Server, tmp_path: Path) -> None:
    with connect(tmp_path) as client, client.makefile("rb") as replies:
        client.sendall(b'{"do": "status"}\n{"do": "sta')
        assert json.loads(replies.readline()) == {"ok": True, "did": "status"}
        client.sendall(b'tus"}\n')
        assert json.loads(replies.readline()) == {"ok": True, "did": "status"}


def test_after_nonsense_a_client_is_told_and_dropped(server: Server, tmp_path: Path) -> None:
    (reply,) = exchange(tmp_path, b'nonsense\n{"do": "stop"}\n')
    assert reply["ok"] is False
    assert server.asked == [], "what follows nonsense is not obeyed"


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_a_line_without_end_is_cut_off(server: Server, tmp_path: Path, ending: bytes) -> None:
    with connect(tmp_path) as client:
        client.sendall(b" " * (MAX_LINE_BYTES + 1) + ending)
        with client.makefile("rb") as replies:
            assert "at most 1024 bytes" in json.loads(replies.readline())["error"]
            assert replies.read() == b""


def test_clients_that_say_nothing_do_not_keep_others_out(server: Server, tmp_path: Path) -> None:
    silent = [connect(tmp_path) for _ in range(MAX_CLIENTS + 3)]
    assert ask(tmp_path, "status")["ok"] is True
    assert silent[0].recv(1) == b"", "whoever has waited longest is dropped"
    for client in silent:
        client.close()


def test_a_client_that_leaves_before_the_answer_does_no_harm(server: Server, tmp_path: Path) -> None:
    for _ in range(20):
        with connect(tmp_path) as client:
            client.sendall(b'{"do": "status"}\n')
    assert ask(tmp_path, "status")["ok"] is True


def test_a_run_directory_deeper_than_socket_names_are_long_works_too(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    serving = Server(deep)
    try:
        assert ask(deep, "stop") == {"ok": True, "did": "stop"}
    finally:
        serving.close()
