"""agentd simulate --repetitions: the same settings with one seed after another, in one table, with mean and spread."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import click

from agentd.cli.progress import progress
from agentd.core.chance import SEED_LIMIT
from agentd.errors import SettingsError
from agentd.interrupts import termination_as_interrupt
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.versions import versions
from agentd.settings import TestbedSettings
from agentd.sweeps.combinations import Configuration
from agentd.sweeps.mean_and_spread import Spread, spread_of
from agentd.sweeps.measuring import Row, rows_of
from agentd.sweeps.rows_on_disk import write_table

TABLE = "repetitions"
INTERRUPTED = 130
SHOWN = (
    *("regret_per_agent", "alone_per_agent", "lower_bound_per_agent", "group_regret", "best_arm_share"),
    *("messages", "bytes", "composed_epsilon"),
)
"""Figures of a repetition whose mean and spread are told."""


def simulate_repeated(settings: TestbedSettings, repetitions: int, run_dir: str | None, *, as_json: bool) -> None:
    """Carry out every repetition, write their table and print what they have in common."""
    seed = settings.seed if settings.seed is not None else secrets.randbits(62)
    if seed + repetitions > SEED_LIMIT:
        raise SettingsError(f"--seed {seed} leaves no room for {repetitions} repetitions below 2^64")
    directory = RunDirectory.create(run_dir, f"simulate-{settings.algorithm}-repetitions")
    started_s = time.perf_counter()
    rows = _carried_out(Configuration(0, replace(settings, seed=seed), ()), repetitions, quiet=as_json)
    if not rows:
        raise click.Abort
    summary = summarise(settings, seed, rows) | {"wall_s": round(time.perf_counter() - started_s, 3)}
    directory.write_json(
        "manifest.json", {"runtime": "simulate/repetitions", "versions": versions(), "settings": settings.to_json()}
    )
    written = write_table(directory.path, rows, TABLE)
    directory.write_json("summary.json", summary)
    told = summary | {"files": [str(directory.path / name) for name in written]}
    click.echo(json.dumps(finite(told), ensure_ascii=False) if as_json else table(told))
    if len(rows) < repetitions:
        click.echo(f"interrupted: {len(rows)} of {repetitions} repetitions were made", err=True)
        click.get_current_context().exit(INTERRUPTED)


def _carried_out(configuration: Configuration, repetitions: int, *, quiet: bool) -> list[Row]:
    """The rows of all repetitions, or of those that were made before an interrupt."""
    rows: list[Row] = []
    with (
        suppress(KeyboardInterrupt),
        termination_as_interrupt(),
        progress("repetitions", repetitions, quiet=quiet) as advance,
    ):
        for row in rows_of(configuration, range(repetitions)):
            rows.append(row)
            advance()
    return rows


def summarise(settings: TestbedSettings, seed: int, rows: Sequence[Row]) -> dict[str, Any]:
    """What a script may ask about all repetitions together."""
    figures = {name: spread_of([row[name] for row in rows]) for name in SHOWN}
    return {
        "algorithm": settings.algorithm,
        "agents": settings.agents,
        "rounds": settings.rounds,
        "repetitions": len(rows),
        "seed": seed,
        "last_seed": seed + len(rows) - 1,
        "simulated": True,
        "figures": {name: figure._asdict() for name, figure in figures.items() if figure is not None},
    }


def table(told: dict[str, Any]) -> str:
    """Mean ± standard error, how far single repetitions lie apart, and the ends."""
    rows = [("", "mean ± s.e.", "s.d.", "least", "most")]
    for name, values in told["figures"].items():
        one = Spread(**values)
        mean = f"{one.mean:,.2f} ± {one.standard_error:,.2f}" if one.standard_error is not None else f"{one.mean:,.2f}"
        spread = f"{one.standard_deviation:,.2f}" if one.standard_deviation is not None else ""
        rows.append((name.replace("_", " "), mean, spread, f"{one.least:,.2f}", f"{one.most:,.2f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    seeds = f"{told['repetitions']} repetitions of {told['algorithm']}, seeds {told['seed']}…{told['last_seed']}"
    return "\n".join([seeds, *lines, f"took {told['wall_s']:.1f} s; written: {', '.join(told['files'])}"])
