"""Saying things seldom enough that a log survives a peer who repeats itself."""

from __future__ import annotations

from collections import Counter

PAUSE_S = 1.0


class LogThrottle:
    """Lets each subject be spoken of once per second, and counts how often it came up in between."""

    def __init__(self) -> None:
        self._last_s: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def due(self, subject: str, now_s: float) -> int | None:
        """How often the subject came up since it was last spoken of, if it may be now; else None.

        Subjects must be of a bounded number: one is remembered for each.
        """
        self._times[subject] += 1
        last_s = self._last_s.get(subject)
        if last_s is not None and now_s - last_s < PAUSE_S:
            return None
        self._last_s[subject] = now_s
        return self._times.pop(subject)
