"""Dashboards for tests: one in this process, asked over a real socket."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentd.cli.watching.testbed_behind import RunDirectorySurroundings
from agentd.dashboard.page_server import PageServer
from agentd.dashboard.served_run import ServedRun
from agentd.dashboard.web_guard import Guard

TOKEN = "a-token-for-tests"  # noqa: S105 - of a server that lives for one test


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def told(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    port: int

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            reply = connection.getresponse()
            return Answer(reply.status, dict(reply.getheaders()), reply.read())
        finally:
            connection.close()

    def act(self, wanted: Mapping[str, Any], **headers: str) -> Answer:
        """As the page does it."""
        with_token = {"Origin": self.origin, "X_Agentd_Token": TOKEN, "Content_Type": "application/json"}
        return self.ask("/api/runs/0/chaos", "POST", json.dumps(wanted), **(with_token | headers))


@contextmanager
def served(places: Sequence[Path], token: str | None = TOKEN) -> Iterator[Served]:
    """The page of some run directories, while the context lasts."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    runs = [ServedRun(number, place, RunDirectorySurroundings(place)) for number, place in enumerate(places)]
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    server = PageServer(runs, Guard(port, token))
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(listener, stop),))
    thread.start()
    try:
        yield Served(port)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
