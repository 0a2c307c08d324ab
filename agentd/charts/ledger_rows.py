"""What each agent of a run has spent: as its own ledger on disk has it, else as it reported it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from agentd.charts.run_facts import RunFacts
from agentd.core.upwards import shown
from agentd.errors import AgentdError
from agentd.quantities import as_bytes

MOST_LEDGERS = 256
"""Ledgers that are read; agents of larger runs are shown as they reported."""

HEADINGS = (
    "agent",
    "trial",
    "ε of one reward",
    "budget",
    "left",
    "releases",
    "messages",
    "bytes",
    "dropped",
    "blamed for",
)


@dataclass(frozen=True, slots=True)
class Spent:
    """What one agent's ledger says."""

    epsilon: float
    releases: int


def ledgers_of(place: Path) -> dict[int, Spent]:
    """The ledgers that agents keep in a run directory; what cannot be read is passed over."""
    from agentd.shell.state.reader import ledger_of, read_state  # of testbeds that kept state

    found: dict[int, Spent] = {}
    for agent in range(MOST_LEDGERS):
        directory = place / "state" / f"agent-{agent}"
        if not directory.is_dir() or directory.is_symlink() or directory.parent.is_symlink():
            continue
        try:
            ledger = ledger_of(read_state(directory))
            found[agent] = Spent(ledger.epsilon_one_reward(), ledger.releases())
        except (AgentdError, ValueError, KeyError, OverflowError, TypeError):
            continue
    return found


def rows_of(facts: RunFacts, ledgers: dict[int, Spent]) -> list[tuple[str, ...]]:
    """One row for each agent, in the order of `HEADINGS`."""
    rows: list[tuple[str, ...]] = []
    for agent in sorted(facts.status.agents if facts.status is not None else (), key=lambda each: each.id):
        own = ledgers.get(agent.id)
        epsilon = own.epsilon if own is not None else agent.epsilon
        budget = facts.budgets.get(agent.id)
        left = None if budget is None or epsilon is None else max(0.0, budget - epsilon)
        blamed = ", ".join(f"{why} (by {len(who)})" for why, who in agent.blamed.items())
        rows.append(
            (
                *(str(agent.id), f"{agent.trial:,}", _epsilon(epsilon), _epsilon(budget), _epsilon(left)),
                "–" if own is None else f"{own.releases:,}",
                *(f"{agent.messages:,}", as_bytes(max(0, agent.bytes)), f"{agent.dropped:,}", blamed or "–"),
            )
        )
    return rows


def _epsilon(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return shown(value, 4)
