"""What an experiment leaves behind: the CSV of its lines, the summary for scripts, the table for people."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from agentd.core.policy import ALGORITHMS
from agentd.experiment.figures import Axis, Figure, Measured, curve_of, over_repetitions
from agentd.experiment.repeated_runs import Repetitions
from agentd.experiment.result_cache import Floats
from agentd.experiment.theory import Bound
from agentd.files import replace_text
from agentd.runs.spec import DELTA
from agentd.runs.summary import NOT_PRIVATE
from agentd.runs.versions import versions

POINTS_LIMIT = 500
"""Rounds per series in the CSV; both ends are kept."""

_ANALYSIS = ("joblib", "matplotlib")


def write_csv(path: Path, figure: Figure, measured: Sequence[Measured]) -> None:
    """One row per series and place: mean and standard error over the repetitions."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("series", figure.axis.value, "mean", "stderr", "repetitions"))
    for one in measured:
        curve = curve_of(one, figure.axis)
        errors = np.full(len(curve.x), math.nan) if curve.stderr is None else curve.stderr
        for place in _kept(len(curve.x)):
            row = (f"{curve.x[place]:g}", _decimal(curve.mean[place]), _decimal(errors[place]), one.final.shape[1])
            writer.writerow((one.series.name, *row))
    replace_text(path, text.getvalue())


def _kept(length: int) -> list[int]:
    """At most POINTS_LIMIT of the places 0…length−1, evenly spread, both ends among them."""
    spread = np.linspace(0, length - 1, min(length, POINTS_LIMIT)).round().astype(np.int64)
    kept: list[int] = np.unique(spread).tolist()
    return kept


def _decimal(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6f}"


def summarise(
    figure: Figure,
    repetitions: Repetitions,
    measured: Sequence[Measured],
    bounds: dict[str, Bound],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Everything about an experiment that a script may ask, but for how the run went."""
    setup = repetitions.setup
    return {
        "figure": figure.name,
        "title": figure.title,
        "settings": settings,
        "seed": setup.seed,
        "last_seed": setup.seed + setup.repetitions - 1,
        "privacy_note": NOT_PRIVATE,
        "versions": {**versions(), **{name: metadata.version(name) for name in _ANALYSIS}},
        "diameters": {str(hops): count for hops, count in sorted(Counter(repetitions.diameters).items())},
        "series": [_series(figure, one, measured[0], setup.agents) for one in measured],
        "bounds": [
            {"label": label, "slope": bound.slope, "constant": bound.constant, "last": bound.at(setup.rounds)}
            for label, bound in bounds.items()
        ],
    }


def _series(figure: Figure, one: Measured, first: Measured, agents: int) -> dict[str, Any]:
    series = one.series
    entry = {
        "name": series.name,
        "label": series.label,
        "algorithm": series.algorithm,
        "gamma": series.lifetime.value,
        "arm_range": list(series.arm_range),
        "liars": round(series.liars * agents),
        **_regret(one.final[-1], agents),
        **_privacy(one),
        **_traffic(one),
        "work_s": round(one.seconds, 3),
    }
    if figure.axis in (Axis.LIARS, Axis.PROMISE):
        honest, error = over_repetitions(one.honest[-1])
        entry["attack"] = series.attack if series.liars else None
        entry |= {"honest_regret_per_agent": float(honest), "honest_regret_per_agent_stderr": float(error)}
    if not np.isnan(one.fallbacks).all():
        entry["estimates_that_fell_back"] = float(one.fallbacks[-1].mean())
    if figure.axis is Axis.GAMMA:
        entry["by_gamma"] = [
            {"gamma": gamma, **_regret(final, agents)} for gamma, final in zip(one.points, one.final, strict=True)
        ]
    elif one is not first:
        difference, error = over_repetitions(one.final[-1] - first.final[-1])
        entry["more_than_first"] = {"group_regret": float(difference), "stderr": float(error)}
    return entry


def _regret(final: Floats, agents: int) -> dict[str, Any]:
    mean, error = over_repetitions(final)
    return {
        "group_regret": float(mean),
        "group_regret_stderr": float(error),
        "regret_per_agent": float(mean) / agents,
        "regret_per_agent_stderr": float(error) / agents,
    }


def _traffic(one: Measured) -> dict[str, Any]:
    """What was sent, where bytes were counted; frames go out in every round, so their headers are told apart."""
    if np.isnan(one.bytes).any():
        return {}
    counted = {"messages": one.messages, "bytes": one.bytes, "bytes_without_frame_headers": one.message_bytes}
    return {name: float(values[-1].mean()) for name, values in counted.items()}


def _privacy(one: Measured) -> dict[str, Any]:
    """The rate that was asked for and what it came to, for the worst agent of all repetitions."""
    if not ALGORITHMS[one.series.algorithm].noised:
        return {}
    return {
        "nominal_epsilon": one.series.policy.epsilon,
        "composed_epsilon": float(one.epsilon.max()),
        "composed_epsilon_at_delta": float(one.epsilon_at_delta.max()),
        "delta": DELTA,
        "covers": ALGORITHMS[one.series.algorithm].covers,
        "simulated": True,
    }


def table(summary: dict[str, Any]) -> str:
    """The final regrets for a person, mean ± standard error; columns that nobody fills are left out."""
    rows = [
        ("series", "γ", "group regret", "per agent", "per honest agent", "composed ε (nominal)", "messages", "bytes")
    ]
    for series in summary["series"]:
        for point in series.get("by_gamma", [series]):
            gamma = str(point["gamma"]) if "by_gamma" in series else ""
            told = (*_plus_minus(point), _honest(series), _spent(series), *_sent(series))
            rows.append((series["name"], gamma, *told))
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = [_aligned(row, widths) for row in zip(*columns, strict=True)]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _plus_minus(point: dict[str, Any]) -> tuple[str, str]:
    group, per_agent = point["group_regret"], point["regret_per_agent"]
    if math.isnan(point["group_regret_stderr"]):
        return f"{group:,.1f}", f"{per_agent:.2f}"
    return (
        f"{group:,.1f} ± {point['group_regret_stderr']:,.1f}",
        f"{per_agent:.2f} ± {point['regret_per_agent_stderr']:.2f}",
    )


def _honest(series: dict[str, Any]) -> str:
    if "honest_regret_per_agent" not in series:
        return ""
    mean, error = series["honest_regret_per_agent"], series["honest_regret_per_agent_stderr"]
    return f"{mean:.2f}" if math.isnan(error) else f"{mean:.2f} ± {error:.2f}"


def _spent(series: dict[str, Any]) -> str:
    if "composed_epsilon" not in series:
        return ""
    return f"{series['composed_epsilon']:.3g} ({series['nominal_epsilon']:.3g})"


def _sent(series: dict[str, Any]) -> tuple[str, str]:
    if "messages" not in series:
        return "", ""
    return f"{series['messages']:,.0f}", f"{series['bytes']:,.0f}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  ".join(cells)
