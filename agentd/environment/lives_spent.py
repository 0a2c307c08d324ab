"""What the lives of an agent spent before its present one: whoever takes a state away does not take back what it told.

An agent that comes back without its state keeps a new ledger. Its rewards are other ones: one reward was in the
releases of one life only, and is exposed to what the largest of them spent. Whoever is behind one reward in each life
is exposed to their sum. What a life spent is what it reported last; if it was killed, that is up to a few seconds old.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentd.wire.environment_messages import MAX_COUNT, Report

KEY = "lives_before"


class LivesSpent(NamedTuple):
    """In millionths of ε; `MAX_COUNT` has no bound."""

    lives: int = 0
    largest: int = 0
    total: int = 0

    def and_one(self, report: Report) -> LivesSpent:
        """The same after one more life, by its last report."""
        spent = report.epsilon_micro
        return LivesSpent(self.lives + 1, max(self.largest, spent), min(self.total + spent, MAX_COUNT))

    def with_present(self, report: Report | None) -> LivesSpent:
        """All lives, the present one among them."""
        return self if report is None else self.and_one(report)

    def to_json(self, life: int) -> dict[str, Any]:
        """Beside the report of an agent, in reports.json: whose report that is, and what there was before."""
        return {"life": life, KEY: list(self)}


NO_LIFE = LivesSpent()


def from_json(data: Mapping[str, Any]) -> tuple[int | None, LivesSpent]:
    """The life that a report in reports.json is of, None where it does not say, and what there was before it."""
    life, before = data.get("life"), data.get(KEY, [0, 0, 0])
    numbers = [*before, 0 if life is None else life]
    if len(numbers) != 4 or any(type(each) is not int or not 0 <= each <= MAX_COUNT for each in numbers):
        raise ValueError(f"it says of earlier lives {before}")
    return life, LivesSpent(*before)
