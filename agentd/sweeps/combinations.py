"""The grid of a sweep: every combination of the values that were named, and the seeds that all of them share.

Repetition r of every configuration has the seed `base + r`: configurations of equally many agents meet the same graph,
arms and reward streams in it, so they can be compared pair by pair.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from agentd.errors import SettingsError
from agentd.runs.proofs import source_digest
from agentd.settings import TestbedSettings

FORMAT = 1
"""Raised whenever rows written before no longer mean the same."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One cell of the grid."""

    number: int
    settings: TestbedSettings
    """Its seed is that of the first repetition."""
    varied: tuple[str, ...]
    """The settings that the grid varies."""

    def values(self) -> dict[str, Any]:
        """What it has of the settings that vary."""
        return {name: getattr(self.settings, name) for name in self.varied}

    def repetition(self, number: int) -> TestbedSettings:
        """The settings of one repetition, from 0 on."""
        assert self.settings.seed is not None  # noqa: S101 - a grid has one
        return replace(self.settings, seed=self.settings.seed + number)

    def digest(self, repetitions: int, made_by: str) -> str:
        """Names the rows of this configuration: everything that decides them, and nothing else."""
        content = {"format": FORMAT, "made_by": made_by, "repetitions": repetitions, **self.settings.to_json()}
        sources = {
            name: source
            for name in (self.settings.algorithm, *self.settings.policies.values())
            if (source := source_digest(name)) is not None
        }
        if sources:
            content["sources"] = sources
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def grid(base: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], seed: int) -> list[Configuration]:
    """Every combination of the axes' values, in the order in which they were named; what cannot be is refused."""
    known = {one.name for one in fields(TestbedSettings)}
    if unknown := sorted((set(base) | set(axes)) - known):
        raise SettingsError(f"there is no setting {', '.join(unknown)}")
    for name, values in axes.items():
        if not values:
            raise SettingsError(f"the axis {name} has no value")
        if len(set(values)) != len(values):
            raise SettingsError(f"the axis {name} names a value twice")
    varied = tuple(name for name, values in axes.items() if len(values) > 1)
    made, faults = [], []
    for number, values in enumerate(itertools.product(*axes.values())):
        chosen = dict(zip(axes, values, strict=True))
        try:
            made.append(Configuration(number, TestbedSettings(**{**base, **chosen, "seed": seed}), varied))
        except SettingsError as fault:
            faults.append(f"{_named(chosen, varied)}: {fault}")
    if faults:
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise SettingsError("; ".join(faults[:3]) + more)
    return made


def _named(chosen: Mapping[str, Any], varied: Sequence[str]) -> str:
    return ", ".join(f"{name} {chosen[name]}" for name in varied) or "the sweep"
