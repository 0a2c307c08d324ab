"""agentd sweep: many simulated runs over a grid of settings, in one table."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any

import click

from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.configuration.forms import Values
from agentd.cli.configuration.reading import config_option
from agentd.cli.in_memory.cluster_options import chosen_cluster, cluster_options
from agentd.cli.options import FROM_ENVIRONMENT, in_order, option
from agentd.cli.progress import jobs_option, progress
from agentd.core.chance import SEED_LIMIT
from agentd.core.policy.knobs import about, flag_of
from agentd.errors import SettingsError
from agentd.interrupts import termination_as_interrupt
from agentd.runs.directory import finite
from agentd.settings import TestbedSettings, ordered
from agentd.sweeps.combinations import grid
from agentd.sweeps.mean_and_spread import spread_of
from agentd.sweeps.measuring import COLUMNS, Row, uses_core_agents
from agentd.sweeps.rows_on_disk import RowStore, write_table
from agentd.sweeps.sweep_picture import draw_sweep
from agentd.sweeps.sweeping import Sweep, carry_out_sweep, how_many_left

REPETITIONS, SEED, OUT = 10, 2020, "sweep"
INTERRUPTED = 130
_BESIDE = {"alone_per_agent": "alone", "lower_bound_per_agent": "lower bound"}
"""What regret is held against, by column: the same arms and seeds, every agent for itself; and what nobody beats."""
_ONE_VALUE = ("topology", "policies", "arms", "arm_range", "seed", "noise")
"""Settings that are one value in a whole sweep: they are lists themselves, or are not for sweeping."""
_INNER = {"int": click.INT, "float": click.FLOAT, "str": click.STRING}


def _swept(one: Field[Any]) -> Any:
    """The flag of a setting, which takes several values where a sweep can vary it."""
    if one.name in _ONE_VALUE or str(one.type) == "bool":
        return option(one, testbed=True)
    said = about(one)
    inner: Any = click.Choice(list(said.choices)) if said.choices else _INNER[str(one.type).removesuffix(" | None")]
    return option(one, testbed=True, type=Values(inner))


_sweep_options = in_order([_swept(one) for one in ordered(TestbedSettings) if one.name != "noise"])


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@_sweep_options
@click.option(
    "--repetitions", type=click.IntRange(1), default=REPETITIONS, show_default=True, help="Of each combination."
)
@jobs_option
@cluster_options
@click.option(
    "--plot", "axis", metavar="SETTING", help="What the picture has on its axis.  [default: what varies first]"
)
@click.option(
    "--out", metavar="DIR", default=OUT, show_default=True, help="Where to write; what is done there is kept."
)
@click.option(
    "--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print a summary as JSON, and nothing else."
)
@config_option
@click.pass_context
def sweep(ctx: click.Context, /, *, repetitions: int, jobs: int | None, out: str, as_json: bool, **flags: Any) -> None:
    """Simulate every combination of settings, each several times, and put everything into one tidy table.

    \b
    agentd sweep --agents 20,50,200 --gamma 1,half,full --algorithm sealed,private-ucb --repetitions 20
    agentd sweep --epsilon 0.1,0.3,1,3 --algorithm sealed --plot epsilon --out by-epsilon

    Settings take one value or several, separated by commas. Repetition i has the seed --seed + i in every combination,
    so that combinations meet the same graphs, arms and rewards. A trial is one pull of one agent; what is done several
    times is called a repetition. sweep.csv has one row for each, sweep.parquet too where pyarrow is installed. Beside
    the regret stands what every agent comes to alone (ucb1, same arms and seeds), and the lower bound of coins.

    Combinations that are done are kept in DIR/parts: after an interrupt the same command goes on from there, and the
    table is the same to the byte. So it is when the workers of a Dask cluster do it (--cluster).
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    cluster = chosen_cluster(jobs, flags)
    axis, seed = flags.pop("axis"), flags.pop("seed")
    if axis is not None and axis not in COLUMNS:
        raise SettingsError(f"--plot {axis}: there is no such column; choose from {', '.join(COLUMNS)}")
    configurations = grid(*_base_and_axes(flags), SEED if seed is None else seed)
    _require_room(configurations[0].settings.seed or 0, repetitions)
    wanted = Sweep.on_cores(configurations, repetitions, jobs, cluster)
    place, varied = Path(out), configurations[0].varied
    store, began_s = RowStore(place), time.perf_counter()
    left = how_many_left(wanted, store)
    if not as_json:
        click.echo(_opening(wanted, left))
    try:
        with termination_as_interrupt(), progress("combinations", left, quiet=as_json) as advance:
            rows = carry_out_sweep(wanted, store, advance)
    except KeyboardInterrupt:
        click.echo(f"interrupted: what is done is kept in {place}; the same command goes on there", err=True)
        ctx.exit(INTERRUPTED)
    written = [*write_table(place, rows), draw_sweep(place, rows, axis or (varied or ("agents",))[0], varied).name]
    summary = _summary(wanted, rows, varied) | {"wall_s": round(time.perf_counter() - began_s, 3)}
    told = summary | {"files": [str(place / name) for name in written]}
    click.echo(json.dumps(finite(told), ensure_ascii=False) if as_json else _table(told, varied))


def _base_and_axes(flags: dict[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    base: dict[str, Any] = {}
    axes: dict[str, tuple[Any, ...]] = {}
    for one in ordered(TestbedSettings):
        if (flag := flag_of(one).removeprefix("--").replace("-", "_")) not in flags:
            continue
        value = flags.pop(flag)
        if one.name == "policies":
            base[one.name] = dict(value)
        elif one.name == "arms":
            base[one.name] = tuple(value or ())
        elif one.name in _ONE_VALUE or not isinstance(value, tuple):
            base[one.name] = value
        else:
            axes[one.name] = value
    return base, axes


def _require_room(seed: int, repetitions: int) -> None:
    if seed + repetitions > SEED_LIMIT:
        raise SettingsError(f"--seed {seed} leaves no room for {repetitions} repetitions below 2^64")


def _opening(wanted: Sweep, left: int) -> str:
    many, kept = len(wanted.configurations), len(wanted.configurations) - left
    lines = [f"{many} combinations × {wanted.repetitions} repetitions" + (f", {kept} done before" if kept else "")]
    slow = sorted({each.settings.algorithm for each in wanted.configurations if uses_core_agents(each)})
    if slow:
        lines.append(f"{', '.join(slow)}: no vectorised twin for this, it runs on the core agents, which is slower")
    return "\n".join(lines)


def _summary(wanted: Sweep, rows: Sequence[Row], varied: Sequence[str]) -> dict[str, Any]:
    lines = []
    for number, configuration in enumerate(wanted.configurations):
        mine = rows[number * wanted.repetitions : (number + 1) * wanted.repetitions]
        spread = spread_of([row["regret_per_agent"] for row in mine])
        assert spread is not None  # noqa: S101 - every row has a regret
        told: dict[str, Any] = {"regret_per_agent": spread.mean, "standard_error": spread.standard_error or 0.0}
        for name in _BESIDE:
            beside = spread_of([row[name] for row in mine])
            told[name] = beside.mean if beside is not None else None
        lines.append(configuration.values() | told)
    return {"combinations": lines, "varied": list(varied), "repetitions": wanted.repetitions}


def _table(told: dict[str, Any], varied: Sequence[str]) -> str:
    head = [*varied, "regret per agent", *_BESIDE.values()]
    body = [
        [
            *(str(line[name]) for name in varied),
            f"{line['regret_per_agent']:.2f} ± {line['standard_error']:.2f}",
            *("–" if line[name] is None else f"{line[name]:.2f}" for name in _BESIDE),
        ]
        for line in told["combinations"]
    ]
    widths = [max(len(row[column]) for row in [head, *body]) for column in range(len(head))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *body]
    ]
    return "\n".join([*lines, f"took {told['wall_s']:.1f} s; written: {', '.join(told['files'])}"])
