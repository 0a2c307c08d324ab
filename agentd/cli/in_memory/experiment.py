"""agentd experiment: the paper's figures, from seeds to pictures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from agentd import __version__
from agentd.cli.options import FROM_ENVIRONMENT, config_option
from agentd.cli.progress import duration, progress
from agentd.core.chance import SEED_LIMIT
from agentd.errors import ConfigurationError, SettingsError
from agentd.experiment import fig2, figures
from agentd.experiment import report as figure_report
from agentd.experiment.figures import ARMS, FIGURES, Axis, Figure, Knobs
from agentd.experiment.parallel import carry_out, load_joblib
from agentd.experiment.result_cache import ResultCache, UnitResult
from agentd.experiment.trials import Setup, Trials, Unit, measure_unit
from agentd.files import require_own
from agentd.interrupts import termination_as_interrupt
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.scenario import network_of
from agentd.runs.spec import Network
from agentd.runs.summary import NOT_PRIVATE
from agentd.settings import TestbedSettings

DEFAULT_SEED = 2020
DEFAULT_PLACE = "figures"
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, by the custom of shells."""


class _FigureName(click.Choice):  # type: ignore[type-arg]
    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        return "It is one of " + ", ".join(self.choices)  # in one line, as all our complaints


@click.command(context_settings=FROM_ENVIRONMENT)
@click.argument("figure", type=_FigureName(list(FIGURES)))
@click.option("--trials", type=int, default=100, show_default=True, help="Graphs and sets of arms to average over.")
@click.option("--rounds", type=int, default=1000, show_default=True, help="Pulls of each agent, T.")
@click.option("--agents", type=int, default=200, show_default=True, help="Number of agents, M.")
@click.option(
    "--edge-probability",
    type=float,
    default=0.1,
    show_default=True,
    help="Edge probability of the Erdős–Rényi graphs; each is redrawn until it is connected.",
)
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="Nominal ε of the private algorithms. It is a rate; the table reports the ε that was really spent. "
    "fig2 chooses its own.",
)
@click.option(
    "--contamination",
    type=float,
    default=1e-3,
    show_default=True,
    help="How often agents lie in fig1b and fig1c, and what byzantine-ucb prepares for.",
)
@click.option(
    "--seed", type=int, default=DEFAULT_SEED, show_default=True, help="Seed of the first trial; trial i adds i."
)
@click.option("--jobs", type=int, default=None, help="Processes to work with.  [default: one per core]")
@click.option(
    "--out",
    metavar="DIR",
    help="Where to write; finished work in it is kept and used again.  [default: figures/FIGURE]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, and nothing else.")
@config_option
@click.pass_context
def experiment(
    ctx: click.Context, /, figure: str, out: str | None, jobs: int | None, as_json: bool, **flags: Any
) -> None:
    """Reproduce a figure of the paper, or ours beside it: CSV, SVG, PNG and a summary.

    \b
    fig1a  regret over time: private-ucb against ucb1, dp-ucb-int and coop-ucb
    fig1b  regret over time with liars: byzantine-ucb against ucb1 and itself among honest agents
    fig1c  regret at the end as messages live longer, both algorithms
    fig2   regret and traffic at equal true ε: sealed against private-ucb and dp-ucb-int

    Work that was finished before an interrupt is kept in DIR/parts: the same command goes on from there.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    order = _Order.check(figure, jobs, **flags)
    _require_analysis()
    place = Path(out) if out is not None else Path(DEFAULT_PLACE) / figure
    if place.is_dir():
        require_own(place, others_may_write=True)  # only what is made anew is closed to others: it may be any place
    store = ResultCache(place / "parts")
    say: Callable[[str], None] = (lambda _line: None) if as_json else click.echo
    try:
        with termination_as_interrupt():
            summary = _reproduce(order, place, store, say, quiet=as_json)
    except KeyboardInterrupt:
        click.echo(f"interrupted: what is done is kept in {place / 'parts'}; the same command goes on there", err=True)
        ctx.exit(INTERRUPTED)
    click.echo(json.dumps(finite(summary)) if as_json else _closing_words(summary, place))


@dataclass(frozen=True, slots=True)
class _Order:
    """What was asked for, checked."""

    figure: Figure
    setup: Setup
    jobs: int
    settings: dict[str, Any]
    edge_probability: float

    @classmethod
    def check(
        cls, name: str, jobs: int | None, *, trials: int, rounds: int, agents: int, seed: int, **knobs: float
    ) -> _Order:
        faults = []
        if trials < 1:
            faults.append(f"--trials must be at least 1, got {trials}")
        if jobs is not None and jobs < 1:
            faults.append(f"--jobs must be at least 1, got {jobs}")
        if 0 <= seed < SEED_LIMIT <= seed + trials - 1:
            faults.append(f"--seed {seed} leaves no room for {trials} trials below 2^64")
        try:
            TestbedSettings(agents=agents, rounds=rounds, seed=seed, random_arms=ARMS, **knobs)  # type: ignore[arg-type]
        except SettingsError as fault:
            faults.append(str(fault))
        if faults:
            raise SettingsError("; ".join(faults))
        chance = knobs.pop("edge_probability")
        graphs = f"Erdős–Rényi graphs with p = {chance:g}"
        settings = {"agents": agents, "rounds": rounds, "trials": trials, "arms": ARMS, "edge_probability": chance}
        return cls(
            figure=FIGURES[name](Knobs(**knobs, rounds=rounds)),
            setup=Setup(agents, rounds, trials, seed, graphs, made_by=__version__),
            jobs=jobs or os.cpu_count() or 1,
            settings={**settings, **knobs},
            edge_probability=chance,
        )


def draw_network(agents: int, edge_probability: float, seed: int) -> Network:
    """The Erdős–Rényi graph of a seed, the same that `agentd simulate --seed` draws."""
    from topology.generate import erdos_renyi, topology_stream

    return network_of(erdos_renyi(agents, edge_probability, topology_stream(seed)))


def count_cliques(network: Network, gamma: int) -> int:
    """How many cliques cover the power graph G_γ; a greedy cover, which bounds the best one from above."""
    from topology.measure import clique_cover, power_graph

    return len(clique_cover(power_graph(network.distances, gamma)))


def _require_analysis() -> None:
    """Refuse at once what would fail after minutes of work."""
    load_joblib()
    try:
        import_module("matplotlib")
    except ImportError:
        raise SettingsError("figures need matplotlib, which is not installed: install agentd[analysis]") from None


def _reproduce(
    order: _Order, place: Path, store: ResultCache, say: Callable[[str], None], *, quiet: bool
) -> dict[str, Any]:
    started = time.perf_counter()
    setup, figure = order.setup, order.figure
    say(f"{figure.name}: {setup.agents} agents, {setup.rounds} rounds, {setup.trials} trials, {setup.graphs}")
    say(f"seeds {setup.seed}…{setup.seed + setup.trials - 1}: {NOT_PRIVATE}")
    trials = Trials(setup, partial(draw_network, setup.agents, order.edge_probability))
    units = trials.units(figure.series)
    results = _resume(store, trials, units)
    resumed = len(results)
    if resumed or store.damaged:
        again = f"; {store.damaged} damaged ones are made again" if store.damaged else ""
        say(f"resumed {resumed} of {len(units)} units of work from {place / 'parts'}{again}")
    _work_off(order, trials, [unit for unit in units if unit not in results], store, results, quiet=quiet)
    summary = _write(order, place, trials, results)
    summary["units"] = {"total": len(units), "resumed": resumed, "damaged": store.damaged}
    summary["jobs"] = order.jobs
    summary["wall_s"] = round(time.perf_counter() - started, 3)
    RunDirectory(place).write_json("summary.json", summary)
    return summary


def _resume(store: ResultCache, trials: Trials, units: Sequence[Unit]) -> dict[Unit, UnitResult]:
    """The results of units that were finished before."""
    found = {unit: store.load(trials.describe(unit), len(unit.trials), trials.setup.rounds) for unit in units}
    return {unit: result for unit, result in found.items() if result is not None}


def _work_off(
    order: _Order,
    trials: Trials,
    todo: Sequence[Unit],
    store: ResultCache,
    results: dict[Unit, UnitResult],
    *,
    quiet: bool,
) -> None:
    """Measure what is missing, and keep each part as soon as it is there."""
    tasks = ((unit, trials.specs(unit)) for unit in todo)
    jobs = max(1, min(order.jobs, len(todo)))
    with (
        progress(order.figure.name, len(todo), quiet=quiet) as advance,
        closing(carry_out(measure_unit, tasks, jobs)) as finished,
    ):
        for unit, result in finished:
            store.save(trials.describe(unit), result)
            results[unit] = result
            advance()


def _write(order: _Order, place: Path, trials: Trials, results: dict[Unit, UnitResult]) -> dict[str, Any]:
    figure = order.figure
    measured = figures.gather(figure, trials, results)
    bounds = figures.average_bounds(figure, trials, count_cliques)
    curves = [figures.curve_of(one, figure.axis) for one in measured]
    try:
        figure_report.write_csv(place / f"{figure.name}.csv", figure, measured)
        path_svg, path_png = place / f"{figure.name}.svg", place / f"{figure.name}.png"
        if figure.axis is Axis.EPSILON:
            fig2.draw(figure, order.setup, measured, path_svg=path_svg, path_png=path_png)
        else:
            figures.draw(figure, order.setup, curves, bounds, path_svg=path_svg, path_png=path_png)
    except OSError as fault:
        raise ConfigurationError(
            f"cannot write to {place}: {fault.strerror or fault}; name another place with --out"
        ) from None
    return figure_report.summarise(figure, trials, measured, bounds, order.settings)


def _closing_words(summary: dict[str, Any], place: Path) -> str:
    name = summary["figure"]
    return "\n".join(
        [
            "",
            figure_report.table(summary),
            "",
            f"took {duration(summary['wall_s'])} with up to {summary['jobs']} processes",
            f"written to {place}: {name}.csv, {name}.svg, {name}.png, summary.json",
        ]
    )
