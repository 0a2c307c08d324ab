"""The picture of a soak: one panel below the other over the same time, with what happened marked in each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from agentd.plot.curves import Curve
from agentd.plot.plain_svg import plain_svg
from deploy.soak.driver import Record
from deploy.soak.happenings import Happening
from deploy.soak.samples import Process, Sample

_TIME = "seconds"
_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


def soak_svg(record: Record, agents: int, regret: Sequence[Curve]) -> str:
    """All panels as one SVG."""
    samples, events = record.samples, _events(record.happened)
    panels = [
        _panel("Memory of the agents", "MB", _spread(samples, agents, lambda process: process.rss_mb), events),
        _panel("Descriptors of the agents", "open", _spread(samples, agents, lambda p: float(p.descriptors))),
        _panel("Time of a round", "milliseconds", [_rate("round", samples, _round_ms)]),
        _panel("Messages dropped", "a second", [_rate("dropped", samples, _dropped_per_s)]),
    ]
    if regret:
        panels.append(plain_svg(regret, "Regret with faults and without", "of all agents together"))
    return _stacked(panels)


def _panel(title: str, unit: str, curves: Sequence[Curve], events: Sequence[tuple[int, str]] = ()) -> str:
    return plain_svg(curves, title, x_label=_TIME, y_label=unit, events=events)


def _events(happened: Sequence[Happening]) -> list[tuple[int, str]]:
    return [(round(each.at_s), str(each)) for each in happened]


def _seconds(samples: Sequence[Sample]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([sample.at_s for sample in samples])


def _spread(samples: Sequence[Sample], agents: int, of: Callable[[Process], float]) -> list[Curve]:
    """The largest, the mean and the environment."""
    seen = [[of(process) for agent in range(agents) if (process := s.agent(agent))] or [0.0] for s in samples]
    curves = [
        Curve("largest", _seconds(samples), np.array([max(each) for each in seen])),
        Curve("mean", _seconds(samples), np.array([float(np.mean(each)) for each in seen])),
    ]
    served = [s for s in samples if s.environment is not None]
    if served:
        values = np.array([of(s.environment) for s in served if s.environment is not None])
        curves.append(Curve("environment", _seconds(served), values))
    return curves


def _rate(label: str, samples: Sequence[Sample], of: Callable[[Sample, Sample], float]) -> Curve:
    """Something between two samples, far enough apart: the status that they look at is written once a second."""
    step = max(1, len(samples) // 200)
    step = max(step, next((n for n, s in enumerate(samples) if s.at_s - samples[0].at_s >= 3.0), 1))
    chosen = samples[::step]
    pairs = list(pairwise(chosen)) or [(samples[0], samples[-1])]
    return Curve(label, _seconds([later for _, later in pairs]), np.array([of(*pair) for pair in pairs]))


def _round_ms(before: Sample, after: Sample) -> float:
    """By the pulls that were made: who was held has made none; where nobody made one, there is no time to show."""
    pulls = after.pulls - before.pulls
    return 1e3 * (after.at_s - before.at_s) * len(after.trials) / pulls if pulls > 0 else math.inf


def _dropped_per_s(before: Sample, after: Sample) -> float:
    return max(0, after.dropped - before.dropped) / max(after.at_s - before.at_s, 1e-9)


def _stacked(panels: Sequence[str]) -> str:
    """Pictures below each other; each keeps its own coordinates."""
    sizes = [(int(found[1]), int(found[2])) for panel in panels if (found := _SIZE.search(panel))]
    width, parts, top = max(w for w, _ in sizes), [], 0
    for panel, (_, height) in zip(panels, sizes, strict=True):
        parts.append(panel.replace("<svg ", f'<svg y="{top}" ', 1))
        top += height
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"
