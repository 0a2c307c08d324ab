"""Servers that pay rewards over HTTP, honest and hostile, on loopback or wherever an address leads."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class PayingServer:
    """A real HTTP server that pays what a function says of a request; it remembers all requests."""

    def __init__(self, pays: Callable[[dict[str, Any]], object]) -> None:
        self.requests: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(asked)
                body = json.dumps({"reward": pays(asked)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/pull"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class RawServer:
    """A listener that does with every connection what it is told to."""

    def __init__(self, act: Callable[[socket.socket, int], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._act = act
        self.connections = 0
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}/pull"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(connection, self.connections), daemon=True).start()

    def _one(self, connection: socket.socket, number: int) -> None:
        with connection:
            try:
                connection.recv(65536)
                self._act(connection, number)
            except OSError:
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
