"""`agentd topology`: draw graphs, measure them, look at them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from topology.generate import FAMILIES, topology_stream
from topology.generate import generate as draw_graph
from topology.graph import Graph
from topology.graph_files import SUFFIXES, read, write, write_text
from topology.measure import MAX_MEASURED_NODES, Measures, PowerMeasures, diameter
from topology.measure import measure as measure_graph
from topology.picture import draw as draw_picture
from topology.validation import TopologyError

_DEFAULT_FAMILY = "erdos-renyi"
_DEFAULT_AGENTS = 20
_FORMATS = ", ".join(SUFFIXES)


_GENERATE_EXAMPLES = """\b
Examples:
  agentd topology generate --agents 20 --edge-probability 0.3 --out net.json
  agentd topology generate ring --agents 12 --svg ring.svg
"""

_MEASURE_EXAMPLES = """\b
Examples:
  agentd topology measure net.json
  agentd topology measure net.graphml --gamma 2 --json
"""


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn a TopologyError into one line and the exit code of whose fault it is."""
    try:
        yield
    except TopologyError as error:
        click.echo(f"error: {error}", err=True)
        click.get_current_context().exit(error.exit_code)


@click.group()
def topology() -> None:
    """Draw, measure and picture the graphs that agents sit on."""


@topology.command(short_help="Draw a connected graph.", epilog=_GENERATE_EXAMPLES)
@click.argument("family", required=False, type=click.Choice(tuple(FAMILIES)), metavar="[FAMILY]")
@click.option("--family", "named_family", type=click.Choice(tuple(FAMILIES)), metavar="FAMILY", help="The same.")
@click.option("--agents", type=int, metavar="N", help=f"Nodes of the graph [default: {_DEFAULT_AGENTS}].")
@click.option("--edge-probability", type=float, metavar="P", help="erdos-renyi [default: 2·ln(N)/N].")
@click.option("--degree", type=int, metavar="D", help="random-regular, watts-strogatz [default: 4].")
@click.option("--rewire", type=float, metavar="P", help="watts-strogatz [default: 0.1].")
@click.option("--attach", type=int, metavar="A", help="barabasi-albert: edges per newcomer [default: 2].")
@click.option("--rows", type=int, metavar="R", help="grid [default: near-square].")
@click.option("--columns", type=int, metavar="C", help="grid [default: near-square].")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), metavar="S", help="Draw the same graph again.")
@click.option("--out", metavar="FILE", help=f"Write the graph; the suffix decides how: {_FORMATS}.")
@click.option("--svg", metavar="FILE", help="Write a picture of it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def generate(
    family: str | None,
    named_family: str | None,
    *,
    agents: int | None,
    seed: int | None,
    out: str | None,
    svg: str | None,
    as_json: bool,
    **parameters: int | float | None,
) -> None:
    """Draw a connected graph of a FAMILY and say what came out.

    Families: erdos-renyi (the default), ring, line, star, complete, grid, random-regular, watts-strogatz,
    barabasi-albert.

    A random graph that is not connected is drawn again and the redraws are counted. Without --seed a fresh one is
    drawn and printed. The same seed draws the same graph here, in `agentd up` and in `agentd simulate`.
    """
    if family and named_family and family != named_family:
        raise click.UsageError(f"two families are named, {family} and {named_family}; leave one out")
    chosen_seed = secrets.randbits(63) if seed is None else seed
    with _refusing():
        nodes = _agents(agents, parameters)
        name = family or named_family or _DEFAULT_FAMILY
        graph = draw_graph(name, nodes, topology_stream(chosen_seed), **parameters)
        _save(graph, out, svg)
        _show_rows(_summary(graph, chosen_seed), as_json=as_json)


@topology.command(short_help="Measure the graph in a file.", epilog=_MEASURE_EXAMPLES)
@click.argument("file")
@click.option("--gamma", type=int, metavar="G", help="Measure one lifetime only [default: 1 to the diameter].")
@click.option("--svg", metavar="FILE", help="Write a picture of the graph.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def measure(file: str, gamma: int | None, svg: str | None, as_json: bool) -> None:
    """Measure the graph in FILE: degrees, distances, and what a message lifetime γ reaches.

    For each γ: how many agents hear a message on average, its origin included, and a bound on the clique covering
    number of the power graph, which the regret of the group grows with. A graph that is not connected is refused.
    """
    with _refusing():
        graph = read(file)
        measures = measure_graph(graph, gamma)
        _save(graph, None, svg)
    if as_json:
        click.echo(json.dumps(measures.as_json()))
    else:
        _show_rows(_headline(measures), as_json=False)
        _show_powers(measures.powers)


def _agents(agents: int | None, parameters: Mapping[str, object]) -> int | None:
    """How many nodes to draw; None where rows and columns say it."""
    if agents is None and (parameters["rows"] is None or parameters["columns"] is None):
        return _DEFAULT_AGENTS
    return agents


def _save(graph: Graph, out: str | None, svg: str | None) -> None:
    if out is not None:
        write(graph, out)
    if svg is not None:
        title = graph.family if graph.family != "file" else ""
        write_text(draw_picture(graph, title=title), svg)


def _summary(graph: Graph, seed: int) -> dict[str, object]:
    degrees = graph.degrees()
    measurable = graph.nodes <= MAX_MEASURED_NODES
    return {
        "family": graph.family,
        **dict(graph.parameters),
        "nodes": graph.nodes,
        "edges": len(graph.edges),
        "min_degree": min(degrees),
        "mean_degree": 2 * len(graph.edges) / graph.nodes,
        "max_degree": max(degrees),
        "diameter": diameter(graph) if measurable else None,
        "redraws": graph.redraws,
        "seed": seed,
    }


def _headline(measures: Measures) -> dict[str, object]:
    return {name: value for name, value in measures.as_json().items() if name != "powers"}


def _show_rows(rows: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows))
        return
    width = max(len(name) for name in rows) + 2
    for name, value in rows.items():
        click.echo(f"{name.replace('_', ' '):<{width}}{_text(value)}")


def _show_powers(powers: tuple[PowerMeasures, ...]) -> None:
    if powers:
        click.echo(f"\n{'gamma':>5}  {'mean ball':>9}  {'cliques at most':>15}")
    for power in powers:
        click.echo(f"{power.gamma:>5}  {power.mean_ball_size:>9.2f}  {power.clique_cover:>15}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "not measured" if value is None else str(value)
