"""What happened in a world, in its order: told by the logs of the daemons themselves, and by the stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from agentd.shell.json_log import Log

MOST_LINES = 2000
"""Of a story that goes on and on the beginning says most."""
UNTOLD = frozenset({"progress", "terms", "open run: cannot refuse what was not agreed on"})


class Story:
    """Lines of (time, who, what)."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.lines: list[tuple[float, str, str]] = []

    def tell(self, who: str, what: str) -> None:
        """Add a line."""
        if len(self.lines) < MOST_LINES:
            self.lines.append((self._now_s(), who, what))

    def log(self, who: str) -> Log:
        """A log whose lines belong to somebody."""
        return cast("Log", _Teller(self, who))

    def text(self) -> list[str]:
        """As people read it."""
        return [f"{when_s:9.3f}  {who:<11} {what}" for when_s, who, what in self.lines]


class _Teller:
    """As much of a log as the shell uses."""

    def __init__(self, story: Story, who: str) -> None:
        self._story = story
        self._who = who

    def bind(self, **_about: Any) -> _Teller:
        return self

    def debug(self, event: str, **about: Any) -> None:
        """Nobody wants to know."""

    def info(self, event: str, **about: Any) -> None:
        if event not in UNTOLD:
            said = " ".join(f"{name}={value}" for name, value in about.items())
            self._story.tell(self._who, f"{event} {said}".rstrip())

    warning = error = info
