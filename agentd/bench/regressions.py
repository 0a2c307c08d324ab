"""A bench held against an earlier one, as ratios: what has become worse, and what only varies that much.

Figures of two machines, or of one machine on two days, do not compare. So each is first made a ratio within its own
run: to the bare loop, to an early stretch of the same run, or to a reference of fixed work (`reference`). What is told
is how many times worse that ratio is now. A change that is no larger than the figure's own spread is called noisy,
however large it is: more repetitions tell more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from agentd.errors import ConfigurationError
from agentd.untrusted import decode_json, printable, read_named

FORMAT = 1
"""Raised whenever figures of before no longer mean the same."""
LONGEST_BASELINE = 1 << 20
_MOST_VALUES = 20_000
_REFERENCE = "reference.units_per_cpu_s"
_SIZES = ("agents", "rounds", "arms", "gamma", "algorithm", "transport")
"""What two figures must have been measured with alike."""


class _Kind(NamedTuple):
    """Which figures are compared: more is better or worse, and whether they grow with the speed of the machine."""

    pattern: str
    more_is_better: bool
    power: int
    """Of the reference that is divided by: 1 for a speed, −1 for a time, 0 for what is a ratio already."""
    wobble: float = 1.0
    """By how much a figure without a spread of its own may vary."""


_KINDS = (
    _Kind("codec.*.bytes_per_message", False, 0),
    _Kind("codec.*_us_per_message", False, -1),
    _Kind("simulate.*.agent_trials_per_cpu_second", True, 1),
    _Kind("simulate.*.growth.late_over_early", False, 0, 1.25),
    _Kind("environment.*.pulls_per_s", True, 1, 1.25),
    _Kind("lockstep.*.ratio", True, 0),
    _Kind("lockstep.*.pss_mb_per_agent", False, 0),
    _Kind("flat.late_over_early", False, 0),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure: median, least and most; all positive."""

    median: float
    least: float
    most: float

    def over(self, reference: Figure, power: int) -> Figure:
        """In units of the reference."""
        by = reference.median**power
        return Figure(self.median / by, self.least / by, self.most / by)


@dataclass(frozen=True, slots=True)
class Change:
    """One figure, then and now."""

    name: str
    times_worse: float
    """1: as before; below: better."""
    noisy: bool
    """Whether then and now overlap."""

    def regressed(self, threshold: float) -> bool:
        return self.times_worse > threshold and not self.noisy

    def word(self, threshold: float) -> str:
        """What to call it."""
        if 1 / threshold <= self.times_worse <= threshold:
            return "as before"
        if self.noisy:
            return "noisy"
        return "WORSE" if self.times_worse > 1 else "better"


Bench = Mapping[str, Any]


def read_baseline(path: str) -> Bench:
    """What `agentd bench --json` has written; a refusal in one sentence for anything else."""
    try:
        found = decode_json(read_named(path, LONGEST_BASELINE), _MOST_VALUES)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("it is not what `agentd bench --json` writes today")
        if not list(_figures(found)) or not _reference(found):
            raise ValueError("it holds no figure")
    except OSError as fault:
        raise ConfigurationError(f"cannot read the baseline {path}: {fault.strerror}") from None
    except ValueError as fault:
        raise ConfigurationError(f"the baseline {path} cannot be used: {printable(str(fault))[:200]}") from None
    return found


def compare(now: Bench, then: Bench) -> list[Change]:
    """Every figure that both have, measured alike; in the order of this run."""
    before, reference_then, reference_now = dict(_figures(then)), _reference(then), _reference(now)
    changes = []
    for name, (kind, figure) in _figures(now):
        if name not in before or _sizes_of(now, name) != _sizes_of(then, name):
            continue
        mine, theirs = figure.over(reference_now, kind.power), before[name][1].over(reference_then, kind.power)
        ratio = mine.median / theirs.median
        noisy = mine.least <= theirs.most and theirs.least <= mine.most
        changes.append(Change(name, 1 / ratio if kind.more_is_better else ratio, noisy))
    if not changes:
        raise ConfigurationError(
            "the baseline has nothing that this bench measured alike: name the same parts and sizes"
        )
    return changes


def table(changes: list[Change], threshold: float) -> str:
    """For people: one line each."""
    width = max(len(change.name) for change in changes)
    lines = [f"  {each.name:<{width}}  × {each.times_worse:.2f}  {each.word(threshold)}" for each in changes]
    return "\n".join([f"against the baseline, how many times worse (beyond {threshold:g} it is told)", *lines])


def _figures(bench: Bench) -> Iterator[tuple[str, tuple[_Kind, Figure]]]:
    """What can be compared; nothing where it could not be measured, which is written as 0."""
    for name, value in _leaves(bench, ""):
        kind = next((kind for kind in _KINDS if fnmatchcase(name, kind.pattern)), None)
        if kind is not None and (value.get("median") if isinstance(value, dict) else value) != 0:
            yield name, (kind, _figure(name, value, kind.wobble))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and "median" not in value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _reference(bench: Bench) -> Figure:
    return _figure(_REFERENCE, dict(_leaves(bench, "")).get(_REFERENCE))


def _figure(name: str, value: Any, wobble: float = 1.0) -> Figure:
    parts: list[Any]
    parts = [value.get(part) for part in ("median", "least", "most")] if isinstance(value, dict) else [value] * 3
    numbers = [float(part) for part in parts if type(part) in (int, float) and 1e-12 < part < 1e15]
    if len(numbers) != 3:
        raise ValueError(f"{name[:80]} is no positive number")
    median, least, most = numbers
    if not least <= median <= most:
        raise ValueError(f"{name[:80]} has its median out of its range")
    return Figure(median, least, most) if isinstance(value, dict) else Figure(median, least / wobble, most * wobble)


def _sizes_of(bench: Bench, name: str) -> dict[str, Any]:
    """What the figure was measured with, as the objects around it tell."""
    sizes: dict[str, Any] = {}
    inside: Any = bench
    for part in name.split("."):
        if not isinstance(inside, dict):
            break
        sizes |= {key: inside[key] for key in _SIZES if key in inside}
        inside = inside.get(part)
    return sizes
