"""What an operator sees of a running testbed: a bar and a table on a terminal, lines elsewhere, or nothing.

Colours are the rich library's, which has none where NO_COLOR is set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from agentd.core.upwards import shown as epsilon_text
from agentd.quantities import as_bytes
from agentd.runs.status import Status
from deploy.testbed.lifecycle import Phase
from deploy.testbed.supervisor import Display, View

TABLE_TICK_S = 0.5
LINE_TICK_S = 5.0
_NAMED_DOWN, _NAMED_LATE = 12, 5
_BAR_WIDTH = 40
_ALARMING = {"down": "bold red", "late": "yellow", "dropped": "yellow", "phase": "cyan"}
"""Colours of what deserves a look; of "down" and "dropped" only where there are any."""
_CALM = {"nobody", "0"}


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
        ("messages", _messages(status)),
        ("dropped", f"{status.dropped:,}"),
        ("pulls/s", f"{status.pulls_per_s:,.0f}"),
        ("down", _who(view.down)),
        *([("late", late)] if (late := _late(view, status)) else []),
        *([("ε spent", spent)] if (spent := _spent(status)) else []),
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


def progress_of(view: View) -> tuple[int, int]:
    """How much of how much is done: agents that are in step while it starts, then the rounds of all who are up."""
    status = view.status
    if status is None:
        return 0, 1
    if view.phase is Phase.STARTING:
        return len(status.seen()), max(1, view.agents)
    whole = max(1, (view.agents - len(view.down)) * view.rounds)
    up = (agent for agent in status.agents if agent.id not in view.down)
    return min(whole, sum(view.rounds if agent.done else max(agent.trial, agent.round) for agent in up)), whole


def rich_table(view: View) -> Any:
    """A bar and the figures, by the rich library."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    done, whole = progress_of(view)
    left_s = time_left(view)
    ahead = Table.grid(padding=(0, 1))
    style = "cyan" if view.phase is Phase.STARTING else "green"
    bar = ProgressBar(total=whole, completed=done, width=_BAR_WIDTH, complete_style=style, finished_style=style)
    ahead.add_row(bar, f"{done / whole:4.0%}", f"{clock(left_s)} left" if left_s is not None else "")
    table = Table.grid(padding=(0, 2))
    for name, value in figures(view):
        if name == "left":  # it stands beside the bar
            continue
        table.add_row(name, value, style=_ALARMING.get(name) if value not in _CALM else None)
    return Group(ahead, table)


def _rich_live() -> Any | None:
    """Rich's live display, drawn only when told to; None without the library, or where lines cannot be drawn again."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        return None
    console = Console()
    return None if console.is_dumb_terminal else Live(console=console, auto_refresh=False, transient=True)


def _messages(status: Status) -> str:
    size = sum(agent.bytes for agent in status.agents)
    return f"{status.messages:,} ({as_bytes(size)})" if size > 0 else f"{status.messages:,}"


def _late(view: View, status: Status) -> str:
    """Who holds up or has lost the others: those far behind, and those not heard of for long."""
    behind, silent = status.late(but=view.down), status.silent()
    said = [f"agent {who}, {rounds:,} rounds behind" for who, rounds in behind.items()]
    said += [
        f"agent {who}, silent for {ago_s:.0f} s" for who, ago_s in silent.items() if who not in {*behind, *view.down}
    ]
    more = f"; and {len(said) - _NAMED_LATE} more" if len(said) > _NAMED_LATE else ""
    return "; ".join(said[:_NAMED_LATE]) + more


def _spent(status: Status) -> str:
    """The ε of one reward of who has spent most, where agents have told it."""
    told = [agent.epsilon for agent in status.agents if agent.epsilon]
    return f"{epsilon_text(max(told), 4)} of one reward" if told else ""


def _who(down: tuple[int, ...]) -> str:
    if not down:
        return "nobody"
    named = ", ".join(str(agent) for agent in down[:_NAMED_DOWN])
    return named if len(down) <= _NAMED_DOWN else f"{named} and {len(down) - _NAMED_DOWN} more"
