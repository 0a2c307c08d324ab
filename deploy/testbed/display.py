"""What an operator sees of a running testbed: a table on a terminal, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from deploy.testbed.lifecycle import Phase
from deploy.testbed.supervisor import Display, View

TABLE_TICK_S = 0.5
LINE_TICK_S = 5.0
_NAMED_DOWN = 12


class Nothing:
    """Shows nothing."""

    tick_s: float | None = None

    def update(self, view: View) -> None:
        """For programs, which read the run directory instead."""


class Lines:
    """One line every few seconds, for logs and pipes."""

    def __init__(self, tick_s: float = LINE_TICK_S) -> None:
        self.tick_s: float | None = tick_s
        self._due_s = 0.0
        self._noticed = 0

    def update(self, view: View) -> None:
        """What is new, at once; the figures, where it is time for them: while starting the supervisor looks often."""
        for notice in view.notices[self._noticed :]:
            click.echo(notice)
        self._noticed = len(view.notices)
        if view.elapsed_s >= self._due_s:
            self._due_s = view.elapsed_s + (self.tick_s or 0.0)
            click.echo("  ".join(f"{name} {value}" for name, value in figures(view)))


class LiveTable:
    """A table that is drawn again in place, by the rich library."""

    tick_s: float | None = TABLE_TICK_S

    def __init__(self, live: Any) -> None:
        self._live = live
        self._noticed = 0

    def update(self, view: View) -> None:
        """What is new stands above the table and stays."""
        for notice in view.notices[self._noticed :]:
            self._live.console.print(notice, style="bold yellow", markup=False, highlight=False)
        self._noticed = len(view.notices)
        self._live.update(rich_table(view), refresh=True)


@contextlib.contextmanager
def display(*, quiet: bool, terminal: bool) -> Iterator[Display]:
    """What suits the output: a table needs a terminal and rich, lines need neither."""
    if quiet:
        yield Nothing()
        return
    live = _rich_live() if terminal else None
    if live is None:
        yield Lines()
        return
    with live:
        yield LiveTable(live)


def figures(view: View) -> list[tuple[str, str]]:
    """What is shown, in its order."""
    shown = [("phase", str(view.phase))] if view.phase is not Phase.RUNNING else []
    if view.status is None:
        return [*shown, ("agents", str(view.agents)), ("elapsed", clock(view.elapsed_s))]
    status = view.status
    if view.phase is Phase.STARTING:
        shown.append(("agents", f"{len(status.seen())} of {view.agents} in step"))
    shown += [
        ("round", f"{status.round(but=view.down):,} of {view.rounds:,}"),
        ("regret", f"{status.group_regret:,.1f}"),
        ("messages", f"{status.messages:,}"),
        ("dropped", f"{status.dropped:,}"),
        ("pulls/s", f"{status.pulls_per_s:,.0f}"),
        ("down", _who(view.down)),
        ("elapsed", clock(view.elapsed_s)),
    ]
    left_s = time_left(view)
    return [*shown, ("left", clock(left_s))] if left_s is not None else shown


def time_left(view: View) -> float | None:
    """Seconds to the end at the speed of now; None while nobody can know."""
    status = view.status
    if status is None or status.pulls_per_s <= 0.0 or view.phase is not Phase.RUNNING:
        return None
    pulls = (view.agents - len(view.down)) * view.rounds
    return max(0, pulls - status.pulls) / status.pulls_per_s


def clock(seconds: float) -> str:
    """Seconds as people read them: 1:05, 2:01:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rich_table(view: View) -> Any:
    """The figures as a table of the rich library."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in figures(view):
        alarming = name == "down" and view.down
        table.add_row(name, value, style="bold red" if alarming else None)
    return table


def _rich_live() -> Any | None:
    """Rich's live display, drawn only when told to; None without the library."""
    try:
        from rich.live import Live
    except ImportError:
        return None
    return Live(auto_refresh=False, transient=True)


def _who(down: tuple[int, ...]) -> str:
    if not down:
        return "nobody"
    named = ", ".join(str(agent) for agent in down[:_NAMED_DOWN])
    return named if len(down) <= _NAMED_DOWN else f"{named} and {len(down) - _NAMED_DOWN} more"
