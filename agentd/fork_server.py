"""The fork server of multiprocessing: ended by us, so that nothing of ours is left when we are gone."""

from __future__ import annotations

import atexit
from multiprocessing import forkserver


def end_at_exit() -> None:
    """Wait for the fork server to end before this process does.

    It would end by itself, moments after us; a caller that looks at once would still see it.
    """
    atexit.register(_end)


def _end() -> None:
    stop = getattr(getattr(forkserver, "_forkserver", None), "_stop", None)
    if stop is not None:  # not a public function, so only where it exists
        stop()
