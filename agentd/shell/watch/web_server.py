"""A small web server in a thread of its own; strangers cost it, and nobody else, next to nothing.

One thread watches all connections and waits for none: a request is answered when it is there as a whole, a reply is
sent as fast as its reader takes it. There are few places; when they are taken the oldest connection goes, which had
its chance, so that whoever asks at once is answered at once. New connections are taken at a bounded pace: a flood waits
in the kernel, and is dropped there. Nothing in here touches an object of the event loop but the newest snapshot.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import threading
import time

from agentd.errors import ConfigurationError
from agentd.shell.watch.web_pages import Pages, answered
from agentd.watching import host_and_port

MOST_CONNECTIONS = 32
ALLOWED_S = 5.0
"""From connecting to the last byte of the reply."""
LONGEST_REQUEST = 8_192
PER_SECOND = 200
"""Connections that are taken; as many at once after a quiet second."""
BACKLOG = 128
_STEP_S = 0.1
"""How often a server that holds new ones back looks again."""


def listening(place: str) -> socket.socket:
    """A socket that listens at HOST:PORT."""
    parts = host_and_port(place)
    assert parts is not None  # noqa: S101 - the settings have seen to it
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(*parts, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as fault:
        raise ConfigurationError(
            f"cannot listen on {place}: {fault.strerror or fault}; choose another place with --http"
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where it is asked, with the port that was taken."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Connection:
    """One that asked, until its reply is sent, its time is over or its place is needed."""

    __slots__ = ("socket", "unread", "unsent", "until_s")

    def __init__(self, connected: socket.socket, until_s: float) -> None:
        self.socket = connected
        self.until_s = until_s
        self.unread = bytearray()
        self.unsent = memoryview(b"")


class WebServer:
    """Serves pages until it is closed."""

    def __init__(self, listener: socket.socket, pages: Pages) -> None:
        self._listener = listener
        self._pages = pages
        self._connections: dict[int, _Connection] = {}
        """By descriptor, the oldest first."""
        self._selector = selectors.DefaultSelector()
        self._asleep, self._awake = socket.socketpair()
        self._credit, self._credited_s = float(PER_SECOND), time.monotonic()
        self._taking = False
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._selector.register(self._asleep, selectors.EVENT_READ)
        self._take_new_ones()
        self._thread.start()

    def close(self) -> None:
        """End the thread, and every connection."""
        self._awake.close()
        self._thread.join()

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the main thread
        with contextlib.ExitStack() as stack:
            for each in (self._asleep, self._listener, self._selector):
                stack.callback(each.close)
            while self._turn():
                pass
            for connection in list(self._connections.values()):
                self._part_with(connection)

    def _turn(self) -> bool:
        """Do what can be done now, then wait; False: it is over."""
        for key, _ in self._selector.select(self._wait_s()):
            if key.fileobj is self._asleep:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif (connection := self._connections.get(key.fd)) is not None:  # else its place was needed just now
                self._go_on_with(connection)
        self._end_the_late()
        if not self._taking:
            self._take_new_ones()
        return True

    def _wait_s(self) -> float | None:
        if not self._taking:
            return _STEP_S
        oldest = next(iter(self._connections.values()), None)
        return None if oldest is None else max(0.0, oldest.until_s - time.monotonic())

    def _take_new_ones(self) -> None:
        now_s = time.monotonic()
        self._credit = min(PER_SECOND, self._credit + (now_s - self._credited_s) * PER_SECOND)
        self._credited_s = now_s
        if self._credit >= 1.0:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._taking = True

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except OSError:  # it went away, or no descriptor is left: neither may make us turn in circles
            self._hold_back()
            return
        connected.setblocking(False)
        if len(self._connections) >= MOST_CONNECTIONS:
            self._refuse(next(iter(self._connections.values())), "crowded")
        connection = _Connection(connected, time.monotonic() + ALLOWED_S)
        self._connections[connected.fileno()] = connection
        self._selector.register(connected, selectors.EVENT_READ)
        self._credit -= 1.0
        if self._credit < 1.0:
            self._hold_back()

    def _hold_back(self) -> None:
        self._selector.unregister(self._listener)
        self._credit, self._credited_s, self._taking = 0.0, time.monotonic(), False

    def _go_on_with(self, connection: _Connection) -> None:
        try:
            if not connection.unsent:
                self._read(connection)
            if connection.unsent:
                self._send(connection)
        except BlockingIOError:
            return
        except OSError:
            self._part_with(connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.socket.recv(LONGEST_REQUEST)
        connection.unread += data
        if not data:
            self._part_with(connection)
        elif b"\r\n\r\n" in connection.unread:
            self._answer(connection)
        elif len(connection.unread) >= LONGEST_REQUEST:
            self._refuse(connection, "too long")

    def _answer(self, connection: _Connection) -> None:
        try:
            connection.unsent = memoryview(answered(bytes(connection.unread), self._pages))
        except Exception:  # whatever a stranger's bytes make the parser do, it ends this connection and not the thread
            self._refuse(connection, "unreadable")
            return
        if connection.unsent:
            self._selector.modify(connection.socket, selectors.EVENT_WRITE)
        else:
            self._part_with(connection)

    def _send(self, connection: _Connection) -> None:
        sent = connection.socket.send(connection.unsent)
        connection.unsent = connection.unsent[sent:]
        if not connection.unsent:
            self._part_with(connection)

    def _end_the_late(self) -> None:
        now_s = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.until_s > now_s:
                return  # those after it came later
            self._refuse(connection, "too slow")

    def _refuse(self, connection: _Connection, why: str) -> None:
        self._pages.refused[why] += 1
        self._part_with(connection)

    def _part_with(self, connection: _Connection) -> None:
        self._connections.pop(connection.socket.fileno(), None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
