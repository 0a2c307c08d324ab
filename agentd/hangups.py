"""SIGHUP: for who logs to a terminal it means that nobody is there any more; to a daemon with keys, a newer roster."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

UNCHANGED = "SIGHUP changes nothing: settings are read at the start; restart to change them, SIGTERM ends this"


def outlive_hangups(
    loop: asyncio.AbstractEventLoop,
    say: Callable[[str], object],
    end: Callable[[], object],
    log_file: str | None,
    renew: Callable[[], object] | None = None,
) -> None:
    """End in order when the terminal that we log to is gone; elsewhere read anew what can be, or say that nothing is.

    `renew` reads it; None: there is nothing of that kind.
    """
    if log_file is None and _is_terminal():
        loop.add_signal_handler(signal.SIGHUP, _leave_terminal, end)
    elif renew is not None:
        loop.add_signal_handler(signal.SIGHUP, renew)
    else:
        loop.add_signal_handler(signal.SIGHUP, say, UNCHANGED)


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it was closed
        return False


def _leave_terminal(end: Callable[[], object]) -> None:
    """Nothing more can be said there: every word would be an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for stream in (1, 2):
        if os.isatty(stream) or stream == 2:
            os.dup2(nowhere, stream)
    os.close(nowhere)
    end()
