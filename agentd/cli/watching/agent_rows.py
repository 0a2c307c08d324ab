"""A row for each agent of a run, as its environment sees it: who is where, and who lags."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from agentd.core.upwards import shown
from agentd.runs.status import LAGS_ROUNDS, AgentStatus, Status

SILENT_S = 10.0
MOST_ROWS = 20
_COLUMNS = ("agent", "is", "round", "behind", "trial", "seen", "messages", "dropped", "ε")


def rows_of(status: Status, down: Collection[int] = (), age_s: float = 0.0) -> list[dict[str, Any]]:
    """A row for each agent; the status was written so long ago."""
    furthest = max((agent.round for agent in status.agents), default=0)
    return [_row(agent, furthest, agent.id in down, age_s) for agent in status.agents]


def _row(agent: AgentStatus, furthest: int, is_down: bool, age_s: float) -> dict[str, Any]:
    lag = 0 if agent.done else furthest - agent.round
    silent_s = None if agent.last_seen_s_ago is None else round(agent.last_seen_s_ago + age_s, 1)
    return {
        "id": agent.id,
        "is": _word(agent, lag, silent_s, is_down),
        "round": agent.round,
        "lag": lag,
        "trial": agent.trial,
        "silent_s": silent_s,
        "messages": agent.messages,
        "dropped": agent.dropped,
        "epsilon": agent.epsilon,
    }


def _word(agent: AgentStatus, lag: int, silent_s: float | None, is_down: bool) -> str:
    if agent.done:
        return "done"
    if is_down:
        return "down"
    if silent_s is None:
        return "not seen"
    if silent_s > SILENT_S:
        return "silent"
    return "lags" if lag >= LAGS_ROUNDS else "well"


def rows_text(rows: list[dict[str, Any]]) -> list[str]:
    """The rows for people, who lags most first."""
    if not rows:
        return []
    first = sorted(rows, key=lambda row: (-row["lag"], row["id"]))[:MOST_ROWS]
    table = [_COLUMNS, *map(_cells, first)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    if more := len(rows) - len(first):
        lines.append(f"and {more} more, who lag no more than these; --json has them all")
    return lines


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    seen = "never" if row["silent_s"] is None else f"{row['silent_s']:.0f} s ago"
    epsilon = "-" if row["epsilon"] is None else shown(row["epsilon"], 4)
    counts = (f"{row['messages']:,}", f"{row['dropped']:,}")
    return (
        str(row["id"]),
        row["is"],
        f"{row['round']:,}",
        f"{row['lag']:,}",
        f"{row['trial']:,}",
        seen,
        *counts,
        epsilon,
    )
