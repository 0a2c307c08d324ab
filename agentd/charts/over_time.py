"""Charts of what a run has said, dropped and spent by each of its rounds, from the history that it left."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from agentd.charts.chart import Chart, Series, series_of
from agentd.charts.run_facts import RunFacts
from agentd.plot.curves import ROUND_LABEL

MOST_LINES = 8
_ALL = "All agents together, since the beginning, as they reported it about once a second."
_SIMULATED = "All agents together, since the beginning; counted exactly, because it was simulated."


def over_time(lines: list[Series], *words: str) -> Chart:
    """A chart over rounds: name, title, what is upwards, note."""
    name, title, y_label, note = words
    return Chart(name, title, ROUND_LABEL, y_label, tuple(lines), note=note)


def rounds_of(facts: RunFacts) -> NDArray[np.float64]:
    """The round of each look."""
    return np.array([look.round for look in facts.history], dtype=np.float64)


def messages_over_time(facts: RunFacts) -> Chart | None:
    """Messages sent; None where nobody counted, or nobody spoke."""
    sent = [float(look.messages) for look in facts.history]
    note = f"{_note(facts)} Each message counts once for each neighbour that it was sent to."
    return _one_line(facts, sent, "messages_over_time", "Messages sent", "messages", note)


def bytes_over_time(facts: RunFacts) -> Chart | None:
    """Bytes sent."""
    sent = [math.nan if look.bytes is None else float(look.bytes) for look in facts.history]
    return _one_line(facts, sent, "bytes_over_time", "Bytes sent", "bytes", _note(facts))


def dropped_over_time(facts: RunFacts) -> Chart | None:
    """What was dropped, a line for each reason."""
    most: Counter[str] = Counter()
    for look in facts.history:
        most |= Counter(look.dropped)
    reasons = [reason for reason, _ in most.most_common()]
    if not reasons:
        return None
    shown, rest = reasons[:MOST_LINES], set(reasons[MOST_LINES:])
    lines = [
        series_of(reason, rounds_of(facts), np.array([float(look.dropped.get(reason, 0)) for look in facts.history]))
        for reason in shown
    ]
    if rest:
        others = [float(sum(n for why, n in look.dropped.items() if why in rest)) for look in facts.history]
        lines.append(series_of("the rest", rounds_of(facts), np.array(others), dashed=True))
    return over_time(lines, "dropped_over_time", "Dropped, by reason", "messages", _note(facts))


def epsilon_over_time(facts: RunFacts) -> Chart | None:
    """ε spent on a reward, of the agent that spent most and of the usual one, and the budget where all have one."""
    spent = np.array([_or_nan(look.epsilon) for look in facts.history])
    if not np.nansum(spent):
        return None
    usual = np.array([_or_nan(look.epsilon_median) for look in facts.history])
    rounds = rounds_of(facts)
    lines = [series_of("agent that spent most", rounds, spent), series_of("agent in the middle", rounds, usual)]
    if facts.budgets:
        least = min(facts.budgets.values())
        lines.append(series_of("smallest budget", rounds, np.full(len(rounds), least), dashed=True))
    note = "As agents reported it, of values that they have released. A person behind r rewards has spent r times that."
    return over_time(lines, "epsilon_over_time", "Privacy spent on one reward", "ε", note)


def _one_line(facts: RunFacts, values: list[float], *words: str) -> Chart | None:
    if not any(value > 0 for value in values):
        return None
    return over_time([series_of("all agents", rounds_of(facts), np.array(values))], *words)


def _note(facts: RunFacts) -> str:
    return _SIMULATED if facts.history and facts.history[-1].written is None else _ALL


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
