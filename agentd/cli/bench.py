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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; progress goes to standard error.")
def bench(  # noqa: PLR0917
    parts: tuple[str, ...], agents: int, rounds: int, repetitions: int, transport: str, as_json: bool
) -> None:
    """Measure this machine: all parts, or those named.

    codec: microseconds per message. simulate: agent-trials per second of the vectorised engine, and whether a round
    grows dearer with the history. environment: pulls per second. lockstep: rounds per second of real agents against a
    bare loop with the same processes, graph, sockets and bytes; start-up time; memory per agent. Both over ipc, which
    local testbeds speak, and over tcp, each against its own bare loop. flat: what rounds 2,000–2,200 of 20 real agents
    cost against rounds 200–400, measured in pulls of the environment. Figures are medians of interleaved repetitions;
    compare them within one run only.
    """
    if unknown := set(parts) - set(PARTS):
        raise SettingsError(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if agents < 2 or rounds < 10 or repetitions < 1:
        raise SettingsError("a benchmark needs at least 2 agents, 10 rounds and 1 repetition")
    results: dict[str, Any] = {}
    for part in parts or PARTS:
        click.echo(f"{part} …", err=True)
        over = TRANSPORTS if transport == BOTH else (transport,)
        results[part] = _measure(part, agents, rounds, repetitions, over)
        if not as_json:
            click.echo(_lines(part, results[part]))
    if as_json:
        click.echo(json.dumps(results))


def _measure(part: str, agents: int, rounds: int, repetitions: int, over: Sequence[str]) -> dict[str, Any]:
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
    return {transport: _measure_lockstep(agents, rounds, repetitions, transport, say) for transport in over}


def _measure_environment(transport: str, repetitions: int) -> dict[str, Any]:
    from agentd.bench.pull_rate import bench_environment

    with _places(transport, 1) as (place,):
        return bench_environment(place, repetitions)


def _measure_lockstep(agents: int, rounds: int, repetitions: int, transport: str, say: Any) -> dict[str, Any]:
    from agentd.bench.lockstep import bench_lockstep
    from agentd.runs.scenario import draw_graph, network_of
    from agentd.settings import TestbedSettings
    from topology.graph_files import write

    graph = draw_graph(TestbedSettings(agents=agents, edge_probability=_dense_enough(agents)), seed=1)
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "graph.json"
        write(graph, file)
        places, about = partial(_places, transport), {"rounds": rounds, "repetitions": repetitions}
        return bench_lockstep(network_of(graph), file, transport, places, say=say, **about)


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
