"""What is answered to one request: the four pages, to whoever asks by a name of ours; parsed by the standard library.

Nothing can be changed over it: GET and HEAD only. A request comes complete and a reply leaves as one piece, so nothing
in here waits for anybody.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Collection
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import NamedTuple
from urllib.parse import urlsplit

from agentd.shell.watch.metrics_page import CONTENT_TYPE_LATEST, metrics_page
from agentd.shell.watch.snapshot import Board, Figure, Snapshot, counters

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class Page(NamedTuple):
    """One reply."""

    status: HTTPStatus
    content: bytes
    kind: str = TEXT


class Pages:
    """The pages, made of the newest snapshot."""

    def __init__(self, board: Board, names: Collection[str]) -> None:
        self._board = board
        self._names = {"localhost", *(name.lower() for name in names)}
        self.refused: Counter[str] = Counter()
        """Requests and connections that got no page, by reason; only the serving thread counts."""
        self._rendered: tuple[Snapshot, bytes] | None = None

    def page(self, path: str) -> Page:
        """The page of a path."""
        snapshot = self._board.newest
        if snapshot is None:
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, b"it has only just started\n")
        if path == "/livez":
            return _liveness(snapshot)
        if path == "/readyz":
            return _readiness(snapshot)
        if path == "/status":
            return Page(HTTPStatus.OK, snapshot.status, JSON)
        if path == "/metrics":
            return Page(HTTPStatus.OK, self._metrics(snapshot), CONTENT_TYPE_LATEST)
        return Page(HTTPStatus.NOT_FOUND, b"there are /livez, /readyz, /metrics and /status\n")

    def knows(self, headers: Message) -> bool:
        """Whether a request was meant for us: a page of somebody else's, in a browser, asks by a name of theirs.

        Numbers are nobody's name: no page can have been loaded from them but by whoever listens there.
        """
        said = headers.get_all("Host", [])
        try:
            host = urlsplit(f"//{said[0].strip()}").hostname if len(said) == 1 else None
        except ValueError:
            return False
        return host is not None and (host in self._names or _is_number(host))

    def _metrics(self, snapshot: Snapshot) -> bytes:
        """Rendered once for each snapshot, however many ask."""
        if self._rendered is None or self._rendered[0] is not snapshot:
            self._rendered = snapshot, metrics_page((*snapshot.figures, self._own_figure()))
        return self._rendered[1]

    def _own_figure(self) -> Figure:
        return counters("http_refused", "Requests that got no page, by reason.", "reason", self.refused)


def _liveness(snapshot: Snapshot) -> Page:
    if snapshot.is_fresh(time.monotonic()):
        return Page(HTTPStatus.OK, b"alive\n")
    return Page(HTTPStatus.SERVICE_UNAVAILABLE, b"stuck: it has said nothing for too long\n")


def _readiness(snapshot: Snapshot) -> Page:
    stuck = _liveness(snapshot)
    if stuck.status is not HTTPStatus.OK:
        return stuck
    if snapshot.unready:
        return Page(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {snapshot.unready}\n".encode())
    return Page(HTTPStatus.OK, b"ready\n")


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Exchange(BaseHTTPRequestHandler):
    """One request that is there already, and its reply."""

    error_message_format = "%(code)d %(message)s\n"
    error_content_type = TEXT
    request: bytes
    server: Pages  # type: ignore[assignment]  # all that it asks of one

    def setup(self) -> None:
        self.rfile, self.wfile = BytesIO(self.request), BytesIO()

    def finish(self) -> None:
        """Whoever made us takes the reply."""

    def do_GET(self) -> None:
        if not self.server.knows(self.headers):
            self.server.refused["host"] += 1
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "ask by number, as localhost, or by one of --http-names")
            return
        page = self.server.page(self.path.partition("?")[0])
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.content)

    do_HEAD = do_GET  # noqa: N815 - their name

    def version_string(self) -> str:
        return "agentd"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name for it
        """Nobody reads who asked."""


def answered(request: bytes, pages: Pages) -> bytes:
    """The reply to a whole request, or to what could not be one; empty where there is nothing to say."""
    exchange = _Exchange(request, ("", 0), pages)  # type: ignore[arg-type]
    written: BytesIO = exchange.wfile  # type: ignore[assignment]
    return written.getvalue()
