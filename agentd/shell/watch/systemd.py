"""Tells systemd how it goes: datagrams of a few words, as sd_notify(3) describes them.

Without NOTIFY_SOCKET nothing is said. The variables are taken out of the environment: what this process starts must not
speak in its name.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

_LONGEST_PATH = 107
_LONGEST_STATUS = 200


class Notifier:
    """Whom to tell, if anybody; no call waits or fails."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s
        """Within which `alive` is to be called again and again; None: nobody waits for it."""
        self._socket = None if address is None else socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if self._socket is not None:
            self._socket.setblocking(False)

    @classmethod
    def of(cls, environment: MutableMapping[str, str] = os.environ) -> Notifier:
        """The one that systemd has named; its words are taken."""
        named, usec, pid = (
            environment.pop(f"{name}", "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        )
        if named[:1] not in ("/", "@") or len(named.encode()) > _LONGEST_PATH:
            return cls()
        ours = pid in ("", str(os.getpid()))
        watched = ours and usec.isascii() and usec.isdigit() and int(usec[:18]) > 0
        return cls("\0" + named[1:] if named[0] == "@" else named, int(usec[:18]) / 1e6 if watched else None)

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self._socket is not None

    def state(self, state: str, text: str) -> None:
        """Say in which state the process is, by the words of the health file, and what to show of it."""
        lines = {"ready": ["READY=1"], "running": ["READY=1"], "done": ["STOPPING=1"]}.get(state, [])
        self._say(*lines, f"STATUS={text[:_LONGEST_STATUS]}")

    def alive(self, text: str) -> None:
        """Say that the event loop turns."""
        self._say(*(["WATCHDOG=1"] if self.watchdog_s is not None else []), f"STATUS={text[:_LONGEST_STATUS]}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _say(self, *lines: str) -> None:
        if self._socket is None or self._address is None:
            return
        try:
            self._socket.sendto("\n".join(line.replace("\n", " ") for line in lines).encode(), self._address)
        except OSError:  # systemd is being started again, or does not read: the next word comes soon
            return
