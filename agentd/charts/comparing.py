"""Several runs side by side: their curves on one axis, and the settings in which they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.charts.chart import Chart, Series, series_of
from agentd.charts.of_run import ENVIRONMENTS_VIEW, regret_of, share_of_arms
from agentd.charts.over_time import rounds_of
from agentd.charts.run_facts import RunFacts, mapping, read_facts, text
from agentd.plot.curves import REGRET_LABEL, ROUND_LABEL

Runs = Sequence[str | Path | RunFacts]
Points = tuple[NDArray[np.float64], NDArray[np.float64]]

_NOT_THERE = "–"


def compared(runs: Runs) -> list[Chart]:
    """The curves of several runs on one axis; one without data is empty, so that colours are the same."""
    facts = _read(runs)
    names = labels_of(facts)
    agents = {one.agents for one in facts}
    about: list[tuple[str, str, str, Callable[[RunFacts], Points | None], str]] = [
        ("regret", "Group regret", REGRET_LABEL, _regret, ENVIRONMENTS_VIEW),
        ("best_arm", "Pulls of the best arm", "share of pulls (%)", _best_share, ENVIRONMENTS_VIEW),
        ("round_time", "Time of a round", "milliseconds", _round_time, "The median of the agents, by their logs."),
        ("messages_over_time", "Messages sent", "messages", _messages, "All agents together, since the beginning."),
    ]
    if len(agents) > 1:
        per_agent = ("regret_per_agent", "Regret per agent", "regret of an agent (reward units)")
        about.insert(1, (*per_agent, _regret_per_agent, "Of runs with different numbers of agents."))
    charts = []
    for name, title, y_label, points_of, note in about:
        if lines := _lines(facts, names, points_of):
            charts.append(Chart(name, title, ROUND_LABEL, y_label, lines, note=note))
    return charts


def differing_settings(runs: Runs) -> list[tuple[str, tuple[str, ...]]]:
    """What differs between the runs: a setting, and its value in each of them, as text."""
    told = [_settings(one) for one in _read(runs)]
    names = dict.fromkeys(name for each in told for name in each)
    rows = [(name, tuple(each.get(name, _NOT_THERE) for each in told)) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def labels_of(facts: Sequence[RunFacts]) -> list[str]:
    """A name for each run; those that share one are numbered."""
    often = Counter(one.name for one in facts)
    return [one.name if often[one.name] == 1 else f"{one.name} ({place})" for place, one in enumerate(facts, start=1)]


def _read(runs: Runs) -> list[RunFacts]:
    return [run if isinstance(run, RunFacts) else read_facts(run) for run in runs]


def _lines(
    facts: Sequence[RunFacts], names: Sequence[str], points_of: Callable[[RunFacts], Points | None]
) -> tuple[Series, ...]:
    told = [points_of(one) for one in facts]
    if not any(points is not None for points in told):
        return ()
    nothing: Points = (np.empty(0), np.empty(0))
    return tuple(series_of(name, *(points or nothing)) for name, points in zip(names, told, strict=True))


def _regret(facts: RunFacts) -> Points | None:
    curve = regret_of(facts)
    return None if curve is None else (np.arange(1.0, len(curve) + 1.0), curve)


def _regret_per_agent(facts: RunFacts) -> Points | None:
    points = _regret(facts)
    return None if points is None else (points[0], points[1] / max(1, facts.agents))


def _best_share(facts: RunFacts) -> Points | None:
    if not facts.means or not facts.rounds:
        return None
    ends, counts = share_of_arms(facts)
    best = np.array(facts.means) == max(facts.means)
    total = counts.sum(axis=1)
    pulled = 100.0 * counts[:, best].sum(axis=1)
    return ends, np.divide(pulled, total, out=np.full(len(ends), np.nan), where=total > 0)


def _round_time(facts: RunFacts) -> Points | None:
    if facts.pace is None:
        return None
    return np.array(facts.pace.rounds, dtype=np.float64), 1000.0 * np.array(facts.pace.usual_s)


def _messages(facts: RunFacts) -> Points | None:
    sent = np.array([look.messages for look in facts.history], dtype=np.float64)
    return (rounds_of(facts), sent) if sent.any() else None


def _settings(facts: RunFacts) -> dict[str, str]:
    """All that may differ, as text: what was asked for, and what was drawn."""
    manifest = facts.manifest
    told: dict[str, Any] = dict(mapping(manifest.get("settings")))
    told |= {name: manifest[name] for name in ("runtime", "seed", "liars") if name in manifest}
    told |= {f"graph: {name}": value for name, value in mapping(manifest.get("topology")).items()}
    told |= {f"arms: {name}": value for name, value in mapping(manifest.get("arms")).items() if name == "means"}
    told |= {f"version: {name}": value for name, value in mapping(manifest.get("versions")).items()}
    return {text(name): value_text(value) for name, value in told.items()}


def value_text(value: Any) -> str:
    """A value of a setting, for people."""
    if value is None:
        return _NOT_THERE
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(each, (int, float)) for each in value):
        return text(", ".join(f"{each:.4g}" for each in value))
    return text(json.dumps(value, ensure_ascii=False))
