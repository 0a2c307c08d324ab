"""agentd experiment: the paper's figures, from seeds to pictures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from agentd import __version__
from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.configuration.forms import Values
from agentd.cli.configuration.reading import config_option
from agentd.cli.in_memory.cluster_options import chosen_cluster, cluster_options
from agentd.cli.options import FROM_ENVIRONMENT
from agentd.cli.progress import duration, jobs_option, progress
from agentd.cluster.dask_client import carry_out_on
from agentd.cluster.scheduler_place import SchedulerPlace
from agentd.core.chance import SEED_LIMIT
from agentd.core.lies import Attack
from agentd.core.policy import ALGORITHMS
from agentd.errors import ConfigurationError, SettingsError, install_with
from agentd.experiment import catalogue, figures
from agentd.experiment import report as figure_report
from agentd.experiment.catalogue import FIGURES
from agentd.experiment.figures import ARMS, Figure, Knobs
from agentd.experiment.joining import joined_by
from agentd.experiment.parallel import carry_out, load_joblib
from agentd.experiment.parcels import MEASURE
from agentd.experiment.repeated_runs import Repetitions, Setup, Unit
from agentd.experiment.result_cache import ResultCache, UnitResult
from agentd.files import require_own
from agentd.interrupts import termination_as_interrupt
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.scenario import network_of
from agentd.runs.spec import Network
from agentd.runs.summary import NOT_PRIVATE
from agentd.settings import TestbedSettings
from agentd.simulation.engine import has_twin

DEFAULT_SEED = 2020
DEFAULT_PLACE = "figures"
WITH_LIARS = ("fig3", "fig4")
"""Figures whose liars the operator chooses."""
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, by the custom of shells."""


class _FigureName(click.Choice):  # type: ignore[type-arg]
    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        return "It is one of " + ", ".join(self.choices)  # in one line, as all our complaints


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@click.argument("figure", type=_FigureName(list(FIGURES)))
@click.option(
    "--repetitions",
    "--trials",
    "repetitions",
    type=int,
    default=100,
    show_default=True,
    envvar=["AGENTD_REPETITIONS", "AGENTD_TRIALS"],
    help="Graphs and sets of arms to average over.",
)
@click.option(
    "--algorithm",
    "algorithms",
    type=Values(click.Choice(list(ALGORITHMS))),
    help="Show these, too, under the conditions of the figure's first; also mine.py:MyPolicy.",
)
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
    "--attack",
    "attacks",
    type=Values(click.STRING),
    help="What liars say: in fig3 a panel each, in fig4 one.  [default: promote-worst,demote-best,both,adaptive-leader "
    "in fig3, both in fig4]",
)
@click.option(
    "--byzantine",
    type=int,
    help="How many agents lie, in fig3 and fig4.  [default: none and 10, 20, 30, 40 % in fig3, none in fig4]",
)
@click.option(
    "--seed",
    type=int,
    default=DEFAULT_SEED,
    show_default=True,
    help="Seed of the first repetition; the next ones add 1 each.",
)
@jobs_option
@cluster_options
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
    fig2   regret and traffic at equal composed ε: sealed against private-ucb and dp-ucb-int, and what privacy costs
    fig3   regret of honest agents against the share of liars, attack by attack: who stands what
    fig4   regret of honest agents over ε: sealed, shielded, and the same rule without privacy

    agentd experiment fig1a --algorithm mine.py:MyPolicy --repetitions 10    one of yours beside them

    Work that was finished before an interrupt is kept in DIR/parts: the same command goes on from there. With --cluster
    the workers of a Dask cluster do the work, and the figure is the same to the byte.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    cluster = chosen_cluster(jobs, flags)
    order = replace(_Order.check(figure, jobs, **flags), cluster=cluster)
    _require_analysis(joblib_too=cluster is None)
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
    algorithms: tuple[str, ...]
    """What joins the figure."""
    cluster: SchedulerPlace | None = None
    """Who does the work; None: processes of this machine."""

    @classmethod
    def check(
        cls,
        name: str,
        jobs: int | None,
        *,
        repetitions: int,
        rounds: int,
        agents: int,
        seed: int,
        algorithms: Sequence[str] | None,
        attacks: Sequence[str] | None,
        byzantine: int | None,
        **knobs: float,
    ) -> _Order:
        faults = list(_faults_of_liars(name, agents, attacks, byzantine))
        if repetitions < 1:
            faults.append(f"--repetitions must be at least 1, got {repetitions}")
        if 0 <= seed < SEED_LIMIT <= seed + repetitions - 1:
            faults.append(f"--seed {seed} leaves no room for {repetitions} repetitions below 2^64")
        try:
            TestbedSettings(agents=agents, rounds=rounds, seed=seed, random_arms=ARMS, **knobs)  # type: ignore[arg-type]
        except SettingsError as fault:
            faults.append(str(fault))
        if faults:
            raise SettingsError("; ".join(faults))
        chance = knobs.pop("edge_probability")
        turned = Knobs(
            epsilon=knobs["epsilon"],
            contamination=knobs["contamination"],
            rounds=rounds,
            attacks=tuple(attacks or ()),
            liars=None if byzantine is None else byzantine / agents,
        )
        graphs = f"Erdős–Rényi graphs with p = {chance:g}"
        settings: dict[str, Any] = {"agents": agents, "rounds": rounds, "repetitions": repetitions, "arms": ARMS}
        settings["edge_probability"] = chance
        return cls(
            figure=joined_by(FIGURES[name](turned), algorithms or ()),
            setup=Setup(agents, rounds, repetitions, seed, graphs, made_by=__version__),
            jobs=jobs or os.cpu_count() or 1,
            settings={**settings, **knobs, **_told(attacks, byzantine)},
            edge_probability=chance,
            algorithms=tuple(algorithms or ()),
        )


def _told(attacks: Sequence[str] | None, byzantine: int | None) -> dict[str, Any]:
    """The same for the summary; what was not said is left out."""
    told = {"attack": list(attacks) if attacks else None, "byzantine": byzantine}
    return {name: value for name, value in told.items() if value is not None}


def _faults_of_liars(figure: str, agents: int, attacks: Sequence[str] | None, byzantine: int | None) -> Iterator[str]:
    if (attacks or byzantine is not None) and figure not in WITH_LIARS:
        yield f"--attack and --byzantine are for {' and '.join(WITH_LIARS)}; {figure} has none, or its own liars"
    if byzantine is not None and not 0 <= byzantine < agents:
        yield f"--byzantine must be in 0…{agents - 1}, so that somebody is honest, got {byzantine}"
    if figure == "fig3" and byzantine == 0:
        yield "fig3 is about liars: --byzantine must be at least 1"
    if figure == "fig4" and len(attacks or ()) > 1:
        yield f"fig4 shows one attack, got {len(attacks or ())}"
    for attack in attacks or ():
        try:
            Attack.parse(attack)
        except ValueError as fault:
            yield str(fault)


def draw_network(agents: int, edge_probability: float, seed: int) -> Network:
    """The Erdős–Rényi graph of a seed, the same that `agentd simulate --seed` draws."""
    from topology.generate import erdos_renyi, topology_stream

    return network_of(erdos_renyi(agents, edge_probability, topology_stream(seed)))


def count_cliques(network: Network, gamma: int) -> int:
    """How many cliques cover the power graph G_γ; a greedy cover, which bounds the best one from above."""
    from topology.measure import clique_cover, power_graph

    return len(clique_cover(power_graph(network.distances, gamma)))


def _require_analysis(*, joblib_too: bool) -> None:
    """Refuse at once what would fail after minutes of work."""
    if joblib_too:
        load_joblib()
    try:
        import_module("matplotlib")
    except ImportError:
        raise SettingsError(f"figures need matplotlib, which is not installed: {install_with('analysis')}") from None


def _reproduce(
    order: _Order, place: Path, store: ResultCache, say: Callable[[str], None], *, quiet: bool
) -> dict[str, Any]:
    started = time.perf_counter()
    setup, figure = order.setup, order.figure
    say(f"{figure.name}: {setup.agents} agents, {setup.rounds} rounds, {setup.repetitions} repetitions, {setup.graphs}")
    say(f"seeds {setup.seed}…{setup.seed + setup.repetitions - 1}: {NOT_PRIVATE}")
    if slow := [name for name in order.algorithms if not has_twin(name)]:
        say(f"{', '.join(slow)}: no vectorised twin, runs on the core agents, which is slower")
    repetitions = Repetitions(setup, partial(draw_network, setup.agents, order.edge_probability))
    units = repetitions.units(figure.series)
    results = _resume(store, repetitions, units)
    resumed = len(results)
    if resumed or store.damaged:
        again = f"; {store.damaged} damaged ones are made again" if store.damaged else ""
        say(f"resumed {resumed} of {len(units)} units of work from {place / 'parts'}{again}")
    _work_off(order, repetitions, [unit for unit in units if unit not in results], store, results, quiet=quiet)
    summary = _write(order, place, repetitions, results)
    summary["units"] = {"total": len(units), "resumed": resumed, "damaged": store.damaged}
    summary |= {"jobs": order.jobs} if order.cluster is None else {"cluster": order.cluster.address}
    summary["wall_s"] = round(time.perf_counter() - started, 3)
    RunDirectory(place).write_json("summary.json", summary)
    return summary


def _resume(store: ResultCache, repetitions: Repetitions, units: Sequence[Unit]) -> dict[Unit, UnitResult]:
    """The results of units that were finished before."""
    found = {
        unit: store.load(repetitions.describe(unit), len(unit.repetitions), repetitions.setup.rounds) for unit in units
    }
    return {unit: result for unit, result in found.items() if result is not None}


def _work_off(
    order: _Order,
    repetitions: Repetitions,
    todo: Sequence[Unit],
    store: ResultCache,
    results: dict[Unit, UnitResult],
    *,
    quiet: bool,
) -> None:
    """Measure what is missing, and keep each part as soon as it is there."""
    tasks = ((unit, repetitions.specs(unit)) for unit in todo)
    jobs = max(1, min(order.jobs, len(todo)))
    away = order.cluster if todo else None  # nobody is connected to for nothing
    working = carry_out(MEASURE.work, tasks, jobs) if away is None else carry_out_on(away, MEASURE, tasks)
    with progress(order.figure.name, len(todo), quiet=quiet) as advance, closing(working) as finished:
        for unit, result in finished:
            store.save(repetitions.describe(unit), result)
            results[unit] = result
            advance()


def _write(order: _Order, place: Path, repetitions: Repetitions, results: dict[Unit, UnitResult]) -> dict[str, Any]:
    figure = order.figure
    measured = figures.gather(figure, repetitions, results)
    bounds = figures.average_bounds(figure, repetitions, count_cliques)
    try:
        figure_report.write_csv(place / f"{figure.name}.csv", figure, measured)
        path_svg, path_png = place / f"{figure.name}.svg", place / f"{figure.name}.png"
        catalogue.draw(figure, order.setup, measured, bounds, path_svg=path_svg, path_png=path_png)
    except OSError as fault:
        raise ConfigurationError(
            f"cannot write to {place}: {fault.strerror or fault}; name another place with --out"
        ) from None
    return figure_report.summarise(figure, repetitions, measured, bounds, order.settings)


def _closing_words(summary: dict[str, Any], place: Path) -> str:
    name = summary["figure"]
    where = f"on {summary['cluster']}" if "cluster" in summary else f"with up to {summary['jobs']} processes"
    return "\n".join(
        [
            "",
            figure_report.table(summary),
            "",
            f"took {duration(summary['wall_s'])} {where}",
            f"written to {place}: {name}.csv, {name}.svg, {name}.png, summary.json",
        ]
    )
