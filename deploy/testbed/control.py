"""How a running testbed is spoken to: JSON lines over a unix socket in its run directory.

One request per line, one reply per line:

    {"do": "status"}                        state, round and processes
    {"do": "kill", "name": "agent-3"}       SIGKILL, as a crash would
    {"do": "restart", "name": "agent-3"}    start it anew; if it runs, it is killed first
    {"do": "stop"}                          end the testbed in order

The socket is the owner's only (mode 0600, and the kernel is asked who connects). What comes in is bounded and checked;
a client that sends anything else gets one line that says so, and is disconnected.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentd.errors import AgentdError, ConfigurationError
from agentd.untrusted import decode_json
from deploy.plan.names import agent_name

SOCKET = "control.sock"
MAX_LINE_BYTES = 1_024
MAX_CLIENTS = 8
_BACKLOG = 64  # connections the kernel holds while the supervisor is busy starting agents
_REPLY_TIMEOUT_S = 1.0
_LONGEST_REPLY = 16 << 20
_BLOCK = 64 << 10
_NAMED = ("kill", "restart")
_UNNAMED = ("status", "stop")

Reply = Callable[[dict[str, Any]], None]
"""Answers one request, now or later."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was read and found to be one of those above."""

    do: str
    name: str = ""


def parse_request(line: bytes, names: Collection[str]) -> Request:
    """Read one line; raises ValueError with what is wrong with it."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a line of JSON") from None
    match data:
        case {"do": str(do), **rest} if do in _UNNAMED and not rest:
            return Request(do)
        case {"do": str(do), "name": str(name), **rest} if do in _NAMED and not rest:
            if name in names:
                return Request(do, name)
            raise ValueError("no process of this testbed has that name")
    raise ValueError(f'expected {{"do": …}} with one of {", ".join((*_UNNAMED, *_NAMED))}')


@dataclass(slots=True, eq=False)
class _Client:
    connection: socket.socket
    unread: bytes = b""
    closed: bool = False


@dataclass(slots=True, eq=False)
class ControlSocket:
    """The supervisor's end: readable sockets come from its selector, requests go to `answer`."""

    run_dir: Path
    names: Collection[str]
    answer: Callable[[Request, Reply], None]
    selector: selectors.BaseSelector
    _listener: socket.socket = field(init=False)
    _clients: list[_Client] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._listener = _listen(self.run_dir)
        self.selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Hang up on everybody and remove the socket."""
        for client in list(self._clients):
            self._drop(client)
        self.selector.unregister(self._listener)
        self._listener.close()
        (self.run_dir / SOCKET).unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone before we looked
            return
        if not _is_ours(connection):
            connection.close()
            return
        if len(self._clients) >= MAX_CLIENTS:
            self._drop(self._clients[0])  # whoever has waited longest is most likely stuck
        connection.setblocking(False)
        client = _Client(connection)
        self._clients.append(client)
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: _Client) -> None:
        try:
            received = client.connection.recv(MAX_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._drop(client)
            return
        *lines, client.unread = (client.unread + received).split(b"\n")
        for line in lines:
            self._serve(client, line)
        if len(client.unread) > MAX_LINE_BYTES:
            self._refuse(client, f"a request is at most {MAX_LINE_BYTES} bytes long")

    def _serve(self, client: _Client, line: bytes) -> None:
        if client.closed:
            return
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"a request is at most {MAX_LINE_BYTES} bytes long")
            request = parse_request(line, self.names)
        except ValueError as fault:
            self._refuse(client, str(fault))
            return
        self.answer(request, lambda reply: self._reply(client, reply))

    def _refuse(self, client: _Client, why: str) -> None:
        self._reply(client, {"ok": False, "error": why})
        self._drop(client)

    def _reply(self, client: _Client, reply: dict[str, Any]) -> None:
        if client.closed:
            return
        try:
            client.connection.settimeout(_REPLY_TIMEOUT_S)
            client.connection.sendall(json.dumps(reply).encode() + b"\n")
            client.connection.setblocking(False)
        except OSError:  # it went away, or does not read
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        if not client.closed:
            client.closed = True
            self._clients.remove(client)
            self.selector.unregister(client.connection)
            client.connection.close()


def ask(run_dir: Path, do: str, name: str = "", *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Ask the supervisor of a running testbed; raises AgentdError where it refuses or does not answer."""
    request = {"do": do, "name": name} if name else {"do": do}
    try:
        with _address(run_dir) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(address)
            if not _is_ours(connection):
                raise OSError(errno.EPERM, "somebody else listens there")
            connection.sendall(json.dumps(request).encode() + b"\n")
            reply = decode_json(_line(connection, time.monotonic() + timeout_s))
    except (FileNotFoundError, ConnectionRefusedError):
        raise ConfigurationError(f"no testbed is running in {run_dir}; see agentd ps") from None
    except (OSError, ValueError) as fault:
        raise AgentdError(f"the testbed in {run_dir} does not answer: {fault!s:.200}") from None
    if not isinstance(reply, dict) or not reply.get("ok"):
        why = reply.get("error") if isinstance(reply, dict) else reply
        raise AgentdError(f"the testbed in {run_dir} refused: {why!s:.200}")
    return reply


def _line(connection: socket.socket, deadline_s: float) -> bytes:
    """What the other side says, up to the end of a line; it has a deadline for all of it, not for each byte."""
    said = b""
    while not said.endswith(b"\n"):
        connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
        part = connection.recv(_BLOCK)
        if not part or len(said) > _LONGEST_REPLY:
            raise ValueError("it hung up" if not part else "it does not stop talking")
        said += part
    return said


def kill_agent(run_dir: Path, agent: int) -> None:
    """Let an agent of a running testbed crash."""
    ask(run_dir, "kill", agent_name(agent))


def restart_agent(run_dir: Path, agent: int) -> int:
    """Start an agent of a running testbed anew, after a crash if it runs; returns its new process number."""
    return int(ask(run_dir, "restart", agent_name(agent))["pid"])


def _listen(run_dir: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _address(run_dir) as address:
            listener.bind(address)
    finally:
        os.umask(before)
    listener.setblocking(False)
    listener.listen(_BACKLOG)
    return listener


@contextlib.contextmanager
def _address(run_dir: Path) -> Iterator[str]:
    """A name of the socket that is short however deep the run directory lies: the kernel takes 107 bytes at most."""
    directory = os.open(run_dir, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET}"
    finally:
        os.close(directory)


def _is_ours(connection: socket.socket) -> bool:
    """Whether the other end is the same user, or root."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in (os.getuid(), 0)
