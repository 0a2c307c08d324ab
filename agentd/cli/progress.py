"""How far a long command is: a bar on a terminal, a line now and then in a log, nothing for a script."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

jobs_option = click.option("--jobs", type=click.IntRange(1), help="Processes to work with.  [default: one per core]")
"""The same wherever work is spread over processes."""

Advance = Callable[[], None]
"""Called once for each thing done."""

_EVERY_S = 5.0


@contextmanager
def progress(label: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """Show on stderr how much of `total` is done and how long the rest will take."""
    if quiet or not total:
        yield _nothing
    elif (rich := _rich_on_a_terminal()) is not None:
        with _bar(rich, label, total) as advance:
            yield advance
    else:
        yield Lines(label, total).advance


class Lines:
    """A plain line every few seconds."""

    def __init__(self, label: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._total = total
        self._clock = clock
        self._started = self._said = clock()
        self._done = 0

    def advance(self) -> None:
        """One more is done; say so if it is time."""
        self._done += 1
        now = self._clock()
        if now - self._said >= _EVERY_S and self._done < self._total:
            self._said = now
            left_s = (now - self._started) / self._done * (self._total - self._done)
            click.echo(f"{self._label}: {self._done} of {self._total}, about {duration(left_s)} left", err=True)


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes, for a person."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _nothing() -> None:
    """Say nothing."""


def _rich_on_a_terminal() -> Any | None:
    if not sys.stderr.isatty():
        return None
    try:
        return import_module("rich.progress")
    except ImportError:
        return None


@contextmanager
def _bar(rich: Any, label: str, total: int) -> Iterator[Advance]:
    console = import_module("rich.console").Console(stderr=True)
    # The window of rich's own estimate; units of one experiment differ tenfold in length, a long one averages them.
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("left:"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True, speed_estimate_period=120.0) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
