"""Puts together what lets others watch a process: takes a snapshot about once a second, and hands it to who shows it.

It runs in the event loop, between the rounds: what it looks at is as a committed round has left it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from agentd.shell.health import LEAST_FRESH_S, Health
from agentd.shell.json_log import Log
from agentd.shell.watch.snapshot import NOTHING_YET, Board, Observed, taken
from agentd.shell.watch.systemd import Notifier
from agentd.watching import Watching

if TYPE_CHECKING:  # only who is watched over them loads them
    from agentd.shell.watch.web_server import WebServer

EVERY_S = 1.0

Look = Callable[[str], Observed]
"""From the state that a process is in to what there is to see of it."""


class Teller(Protocol):
    """Somebody who passes snapshots on."""

    def tell(self, status: bytes) -> None:
        """Pass one on, or leave it; never wait."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Watcher:
    """Watches one process, for whoever asked for it; where nobody did it costs nothing."""

    def __init__(self, about: Mapping[str, Any], health: Health, notifier: Notifier) -> None:
        self._about = dict(about)
        self._health = health
        self._notifier = notifier
        self._board = Board()
        self._web: WebServer | None = None
        self._tellers: list[Teller] = []
        self._timer: asyncio.TimerHandle | None = None
        self.look: Look | None = None
        """How to see more than the state; set once there is something."""

    @classmethod
    def open(cls, watching: Watching, about: Mapping[str, Any], health: Health, log: Log) -> Self:
        """Begin to be watchable as the settings say; to be closed."""
        watcher = cls(about, health, Notifier.of())
        health.watcher = watcher
        try:
            if watching.http is not None:
                watcher._serve(watching.http, watching, log)
            if watching.mqtt is not None:
                from agentd.shell.watch.mqtt_teller import MqttTeller

                watcher._tellers.append(MqttTeller(watching, about, log))
        except BaseException:
            watcher.close()
            raise
        return watcher

    @property
    def wanted(self) -> bool:
        """Whether there is anybody to look for."""
        return self._web is not None or bool(self._tellers)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take a snapshot now and from then on about once a second."""
        if self.wanted or self._notifier.wanted:
            self._tick(loop)

    def said(self, state: str) -> None:
        """The process is in another state."""
        self._take()
        self._notifier.state(state, self._text())

    def close(self) -> None:
        """Be watched no more."""
        self._health.watcher = None
        if self._timer is not None:
            self._timer.cancel()
        if self._web is not None:
            self._web.close()
        for teller in self._tellers:
            teller.close()
        self._notifier.close()

    def _serve(self, place: str, watching: Watching, log: Log) -> None:
        from agentd.shell.watch.web_pages import Pages
        from agentd.shell.watch.web_server import WebServer, listening, url_of

        listener = listening(place)
        url = url_of(listener)
        self._web = WebServer(listener, Pages(self._board, watching.http_names))
        self._take()
        self._web.start()
        log.info("watched", url=url)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._take()
        self._notifier.alive(self._text())
        every_s = min(EVERY_S, (self._notifier.watchdog_s or EVERY_S) / 3)
        self._timer = loop.call_later(every_s, self._tick, loop)

    def _take(self) -> None:
        if not self.wanted:
            return
        state = self._health.state
        observed = NOTHING_YET if self.look is None else self.look(state)
        self._board.newest = snapshot = taken(self._about, state, observed, LEAST_FRESH_S)
        for teller in self._tellers:
            teller.tell(snapshot.status)

    def _text(self) -> str:
        state, newest = self._health.state, self._board.newest
        return f"{state}, not ready: {newest.unready}" if newest is not None and newest.unready else state
