"""agentd bench: measure this machine."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from agentd.cli.options import FROM_ENVIRONMENT
from agentd.core.signed import VERIFY_EVERY
from agentd.errors import SettingsError
from agentd.runs.spec import Network

PARTS = ("codec", "simulate", "environment", "lockstep", "flat")
TRANSPORTS = ("ipc", "tcp")
BOTH = "both"
EDGE_PROBABILITY = 0.1


def draw_network(agents: int, seed: int) -> Network:
    """An Erdős–Rényi graph as in the paper."""
    from agentd.runs.scenario import draw_graph, network_of
    from agentd.settings import TestbedSettings

    return network_of(draw_graph(TestbedSettings(agents=agents, edge_probability=_dense_enough(agents)), seed))


@click.command(context_settings=FROM_ENVIRONMENT)
@click.argument("parts", nargs=-1, metavar="[codec|simulate|environment|lockstep|flat]...")
@click.option("--agents", type=int, default=200, show_default=True, help="Agents of the simulate and lockstep parts.")
@click.option("--rounds", type=int, default=100, show_default=True, help="Rounds of a lockstep repetition.")
@click.option("--repetitions", type=int, default=3, show_default=True, help="Interleaved repetitions.")
@click.option(
    "--transport",
    type=click.Choice([*TRANSPORTS, BOTH]),
    default=BOTH,
    show_default=True,
    help="What the environment and lockstep parts are measured over.",
)
@click.option(
    "--per-process",
    default="1",
    show_default=True,
    metavar="INT|auto",
    help="Agents that share a process in the lockstep part, over ipc; the bare loop has a process for each.",
)
@click.option(
    "--compare", "baseline", metavar="FILE", help="Hold it against what --json has written before; exit 1 when worse."
)
@click.option(
    "--worse-than",
    type=click.FloatRange(1.0, 100.0),
    default=1.25,
    show_default=True,
    help="How many times worse a figure must be, and beyond its own spread.",
)
@click.option("--keys", is_flag=True, help="lockstep: with and without keys instead, interleaved.")
@click.option("--algorithm", default="sealed", show_default=True, help="With --keys: what the agents run.")
@click.option(
    "--verify-every", type=int, default=VERIFY_EVERY, show_default=True, help="With --keys: as for agentd up."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; progress goes to standard error.")
@click.pass_context
def bench(  # noqa: PLR0917
    ctx: click.Context,
    parts: tuple[str, ...],
    agents: int,
    rounds: int,
    repetitions: int,
    transport: str,
    per_process: str,
    baseline: str | None,
    worse_than: float,
    keys: bool,
    algorithm: str,
    verify_every: int,
    as_json: bool,
) -> None:
    """Measure this machine: all parts, or those named.

    codec: microseconds per message. simulate: agent-trials per second of the vectorised engine, and whether a round
    grows dearer with the history. environment: pulls per second. lockstep: rounds per second of real agents against a
    bare loop with the same processes, graph, sockets and bytes; start-up time; memory per agent. Both over ipc, which
    local testbeds speak, and over tcp, each against its own bare loop. flat: what rounds 2,000–2,200 of 20 real agents
    cost against rounds 200–400, measured in pulls of the environment. With --keys lockstep measures what keys and
    signatures cost instead, as a share of the same without. Figures are medians of interleaved repetitions;
    compare them within one run only, or with --compare: it makes them ratios to the bare loop, or to a reference of
    fixed work that is measured beside them, so that other hardware compares; what lies within its own spread is noisy.
    """
    if unknown := set(parts) - set(PARTS):
        raise SettingsError(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if agents < 2 or rounds < 10 or repetitions < 1:
        raise SettingsError("a benchmark needs at least 2 agents, 10 rounds and 1 repetition")
    keyed = {"algorithm": algorithm, "verify_every": verify_every} if keys else None
    if keys and (parts != ("lockstep",) or baseline is not None):
        raise SettingsError("--keys is for lockstep alone, and compares by itself: agentd bench lockstep --keys")
    from agentd.bench import regressions

    then = regressions.read_baseline(baseline) if baseline is not None else None
    results: dict[str, Any] = _about()
    for part in parts or PARTS:
        click.echo(f"{part} …", err=True)
        over = TRANSPORTS if transport == BOTH else (transport,)
        if per_process != "1" and part == "lockstep":
            over = ("ipc",)
        if keyed is not None:
            results[part] = _measure_keyed(agents, rounds, repetitions, over, keyed)
        else:
            results[part] = _measure(part, agents, rounds, repetitions, over, per_process)
        if not as_json:
            click.echo(_lines(part, results[part]))
    changes = regressions.compare(results, then) if then is not None else []
    if as_json:
        told = [{"figure": one.name, "times_worse": one.times_worse, "word": one.word(worse_than)} for one in changes]
        click.echo(json.dumps(results | ({"comparison": told} if changes else {})))
    elif changes:
        click.echo(regressions.table(changes, worse_than))
    if any(change.regressed(worse_than) for change in changes):
        ctx.exit(1)


def _about() -> dict[str, Any]:
    """What a later bench needs to be held against this one."""
    from agentd import __version__
    from agentd.bench.reference import reference_units_per_cpu_s
    from agentd.bench.regressions import FORMAT
    from agentd.bench.repetitions import spread

    units = spread([reference_units_per_cpu_s() for _ in range(5)])
    return {"format": FORMAT, "made_by": __version__, "reference": {"units_per_cpu_s": units}}


def _measure(  # noqa: PLR0917
    part: str, agents: int, rounds: int, repetitions: int, over: Sequence[str], per_process: str
) -> dict[str, Any]:
    say = partial(click.echo, err=True)
    if part == "codec":
        from agentd.bench.coding_cost import bench_codec

        return bench_codec()
    if part == "simulate":
        from agentd.bench.engine_speed import bench_simulate

        return bench_simulate(partial(draw_network, agents), repetitions=max(3, repetitions))
    if part == "environment":
        return {transport: _measure_environment(transport, repetitions) for transport in over}
    if part == "flat":
        from agentd.bench.flat import bench_flatness

        return bench_flatness(repetitions)
    lockstep = partial(_measure_lockstep, agents, rounds, repetitions, per_process=per_process, say=say)
    return {transport: lockstep(transport) for transport in over}


def _measure_environment(transport: str, repetitions: int) -> dict[str, Any]:
    from agentd.bench.pull_rate import bench_environment

    with _places(transport, 1) as (place,):
        return bench_environment(place, repetitions)


def _measure_lockstep(
    agents: int, rounds: int, repetitions: int, transport: str, *, per_process: str, say: Any
) -> dict[str, Any]:
    from agentd.bench.lockstep import bench_lockstep
    from agentd.runs.scenario import draw_graph, network_of
    from agentd.settings import TestbedSettings
    from topology.graph_files import write

    graph = draw_graph(TestbedSettings(agents=agents, edge_probability=_dense_enough(agents)), seed=1)
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "graph.json"
        write(graph, file)
        places, about = partial(_places, transport), {"rounds": rounds, "repetitions": repetitions}
        return bench_lockstep(network_of(graph), file, transport, places, per_process=per_process, say=say, **about)


def _measure_keyed(
    agents: int, rounds: int, repetitions: int, over: Sequence[str], keyed: dict[str, Any]
) -> dict[str, Any]:
    from agentd.bench.keyed import bench_keyed
    from agentd.runs.scenario import draw_graph
    from agentd.settings import TestbedSettings
    from topology.graph_files import write

    graph = draw_graph(TestbedSettings(agents=agents, edge_probability=_dense_enough(agents)), seed=1)
    about = {"rounds": rounds, "repetitions": repetitions, "say": partial(click.echo, err=True), **keyed}
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "graph.json"
        write(graph, file)
        return {transport: bench_keyed(agents, file, transport, **about) for transport in over}


def _dense_enough(agents: int) -> float:
    """The paper's 0.1, or more where so few agents would hardly ever be connected."""
    return max(EDGE_PROBABILITY, min(1.0, 8 / agents))


@contextmanager
def _places(transport: str, count: int) -> Iterator[list[tuple[str, socket.socket]]]:
    """Addresses of one transport, and sockets that listen there already."""
    from deploy.local.ports import reserve
    from deploy.local.socket_files import SocketFiles

    opened = SocketFiles(count - 1) if transport == "ipc" else reserve(count - 1)
    try:
        yield list(opened.listeners.items())
    finally:
        opened.release()


def _lines(part: str, result: dict[str, Any]) -> str:
    """Results for a person: one figure per line."""
    lines: list[str] = []

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict) and "median" in value:
            lines.append(f"  {prefix:48} {value['median']:,.4g}   ({value['least']:,.4g} … {value['most']:,.4g})")
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(f"{prefix}.{key}" if prefix else key, item)
        else:
            lines.append(f"  {prefix:48} {value:,.4g}" if isinstance(value, (int, float)) else f"  {prefix:48} {value}")

    walk("", result)
    return "\n".join([part, *lines])
