"""From settings to the run they describe: the graph drawn or read, the arms dealt, the liars chosen."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentd.core.chance import Purpose, stream
from agentd.core.lies import Attack
from agentd.core.message import MAX_AGENT_ID
from agentd.errors import SettingsError
from agentd.runs.arms import Arms
from agentd.runs.spec import Network, RunSpec, draw_liars
from agentd.settings import TestbedSettings

if TYPE_CHECKING:
    from topology.graph import Graph


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run with everything decided."""

    settings: TestbedSettings
    graph: Graph
    spec: RunSpec

    @property
    def reproducible(self) -> bool:
        """Whether the operator chose the seed; then noise follows from it and nothing is private."""
        return self.settings.seed is not None


def network_of(graph: Graph) -> Network:
    """The graph as the engines see it."""
    return Network(tuple(graph.neighbours(node) for node in range(graph.nodes)))


def network_in(content: bytes) -> Network:
    """The graph of a topology.json, which somebody else may have written; ValueError where it is none."""
    from topology.node_link import parse

    return network_of(parse(content))


def require_ids(agents: int) -> None:
    """Refuse more agents than the wire has ids for; the vectorised engine alone needs none."""
    if agents > MAX_AGENT_ID + 1:
        raise SettingsError(
            f"{agents} agents are more than the {MAX_AGENT_ID + 1} ids that there are on the wire; so many run in "
            "memory only: agentd simulate --engine vector"
        )


def draw_graph(settings: TestbedSettings, seed: int) -> Graph:
    """The graph that the settings name: read from a file, or drawn from the seed."""
    from topology.generate import FAMILIES, erdos_renyi, topology_stream
    from topology.graph_files import read

    if settings.topology is None:
        return erdos_renyi(settings.agents, settings.edge_probability, topology_stream(seed))
    if settings.topology in FAMILIES and not Path(settings.topology).exists():
        raise SettingsError(
            f"--topology takes a file, and {settings.topology} is a family of graphs; draw one first: agentd topology "
            f"generate {settings.topology} --agents {settings.agents} --out {settings.topology}.json, then "
            f"--topology {settings.topology}.json"
        )
    return read(settings.topology)


def draw_arms(settings: TestbedSettings, seed: int) -> Arms:
    """The arms that the settings name: given, or drawn from the seed."""
    if settings.arms:
        return Arms.fixed(settings.arms, settings.reward)
    low, high = settings.arm_range
    return Arms.random(settings.random_arms, stream(seed, Purpose.ARMS), low, high, settings.reward)


def make_scenario(settings: TestbedSettings) -> Scenario:
    """Decide everything that is still open."""
    seed = settings.seed if settings.seed is not None else secrets.randbits(63)
    graph = draw_graph(settings, seed)
    if settings.topology is not None:
        settings = settings.for_agents(graph.nodes)
    drawn = draw_liars(seed, graph.nodes, settings.byzantine)
    return decided(settings, graph, draw_arms(settings, seed), seed=seed, liars=drawn)


def decided(
    settings: TestbedSettings,
    graph: Graph,
    arms: Arms,
    *,
    seed: int,
    liars: frozenset[int],
) -> Scenario:
    """The scenario of settings of which nothing is open any more."""
    network = network_of(graph)
    spec = RunSpec(
        network=network,
        arms=arms,
        algorithm=settings.algorithm,
        rounds=settings.rounds,
        gamma=settings.lifetime(network.known_diameter() if settings.gamma in {"half", "full"} else 0),
        policy=settings.policy,
        seed=seed,
        liars=liars,
        attack=Attack.parse(settings.attack),
        overrides=settings.policies,
    )
    return Scenario(settings, graph, spec)
