"""Small graphs, specs and hypothesis strategies that several test files share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import networkx
import numpy as np
from hypothesis import strategies as st

from agentd.core.agent import Agent
from agentd.core.bodies import RELEASED, SAMPLE, TOTALS
from agentd.core.checks import Accepted
from agentd.core.lies import Attack
from agentd.core.message import Batch, Columns, Message, News, batch_of
from agentd.core.policy import Policy, PolicySettings, intend
from agentd.core.policy.base import Released
from agentd.core.privacy.laplace import Noise
from agentd.core.privacy.ledger import Release
from agentd.core.privacy.release import DrawnNoise
from agentd.runs.arms import Arms
from agentd.runs.scenario import network_of
from agentd.runs.spec import Network, Outcome, RunSpec
from agentd.simulation.engine import run_vector
from agentd.simulation.network import run_agents
from agentd.simulation.traffic import count_bytes
from topology.graph import Graph

Edges = list[tuple[int, int]]
GraphShape = tuple[int, Edges]


def network(nodes: int, edges: Iterable[tuple[int, int]]) -> Network:
    """The graph with these edges, as the engines see it."""
    return network_of(Graph.of(nodes, edges))


def line(nodes: int) -> Network:
    return network(nodes, [(node, node + 1) for node in range(nodes - 1)])


def ring(nodes: int) -> Network:
    return network(nodes, [(node, (node + 1) % nodes) for node in range(nodes)])


def complete(nodes: int) -> Network:
    return network(nodes, [(one, other) for one in range(nodes) for other in range(one)])


def sparse(nodes: int, probability: float, seed: int) -> Network:
    """A random connected graph: a random tree, and every other edge with the given probability."""
    chance = np.random.Generator(np.random.Philox(seed))
    tree = {(int(chance.integers(0, node)), node) for node in range(1, nodes)}
    others = {(a, b) for b in range(nodes) for a in range(b) if chance.random() < probability}
    return network(nodes, sorted(tree | others))


def spec(
    graph: Network,
    algorithm: str = "coop-ucb",
    *,
    rounds: int = 20,
    gamma: int = 2,
    means: tuple[float, ...] = (0.9, 0.5),
    reward: str = "bernoulli",
    seed: int = 7,
    liars: Iterable[int] = (),
    attack: str = "worst",
    overrides: Mapping[int, str] | None = None,
    **policy: Any,
) -> RunSpec:
    """A run with small numbers where nothing else is said."""
    return RunSpec(
        network=graph,
        arms=Arms.fixed(means, reward),
        algorithm=algorithm,
        rounds=rounds,
        gamma=gamma,
        policy=PolicySettings(arms=len(means), **policy),
        seed=seed,
        liars=frozenset(liars),
        attack=Attack.parse(attack),
        overrides=overrides or {},
    )


class Silence:
    """Noise that is always zero."""

    def draw(self, arm: int, scale: int) -> int:
        return 0


def drawn(release: Release, noise: Noise) -> DrawnNoise:
    """Noise for a release, as its agent draws it."""
    made = DrawnNoise(release)
    made.draw(noise)
    return made


def observe(
    policy: Policy, trial: int, arm: int, reward: int, told: int, *, noise: Noise | None = None
) -> Released | None:
    """Let a policy pull an arm, as its agent would; what that released."""
    intent = intend(policy, trial, arm)
    if intent.noise is not None:
        intent.noise.draw(noise or Silence())
    return policy.observe(intent, reward, told)


def sample(origin: int, trial: int, life: int = 1, *, arm: int = 0, reward: int = 0, **head: int) -> Message:
    """What byzantine-ucb says of one trial."""
    return Message(origin, trial, life, (arm, reward), **head)


def samples(*messages: Message) -> Batch:
    return batch_of(SAMPLE, messages)


def totals(*messages: Message) -> Batch:
    return batch_of(TOTALS, messages)


def released(*messages: Message) -> Batch:
    return batch_of(RELEASED, messages)


@st.composite
def connected_graphs(draw: st.DrawFn, most_nodes: int = 14) -> GraphShape:
    """Any connected graph: a random tree and some edges more."""
    nodes = draw(st.integers(1, most_nodes))
    edges = {(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)}
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges |= {(min(pair), max(pair)) for pair in draw(st.lists(pairs, max_size=nodes)) if pair[0] != pair[1]}
    return nodes, sorted(edges)


def hops(shape: GraphShape) -> dict[int, dict[int, int]]:
    """Distances between all pairs, by somebody else's code."""
    nodes, edges = shape
    graph = networkx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges)
    return {source: dict(found) for source, found in networkx.all_pairs_shortest_path_length(graph)}


def news(batch: Batch, *rows: int, before: Batch | None = None) -> News:
    """Messages as a policy is given them: of origins at these rows (or 0, 1, …), instead of what they said before."""
    cells = np.zeros_like(batch.cells) if before is None else before.cells
    return News(batch, np.array(rows or range(len(batch)), dtype=np.int64), cells, batch.cells - cells)


class Overheard:
    """What an agent's policy has learned, and what it knew when it chose."""

    def __init__(self, agent: Agent) -> None:
        self.counted: Counter[tuple[int, int]] = Counter()
        """How often each (origin, trial) was learned."""
        self.learned: list[Batch] = []
        self.known_at: dict[int, frozenset[tuple[int, int]]] = {}
        """The keys learned before the choice of each trial."""
        policy: Any = agent.policy
        checks: Any = agent._checks
        self._continues, self._choose = checks.continues, policy.choose
        checks.continues, policy.choose = self.continues, self.choose

    def continues(self, batch: Batch, rows: Columns) -> Accepted:
        passed: Accepted = self._continues(batch, rows)
        batch = passed.honest
        self.counted.update(zip(batch.origin.tolist(), batch.trial.tolist(), strict=True))
        self.learned.append(batch)
        return passed

    def choose(self, trial: int) -> int:
        self.known_at[trial] = frozenset(self.counted)
        arm: int = self._choose(trial)
        return arm


def assert_same(vector: Outcome, agents: Outcome) -> None:
    """Everything an outcome says, but for the faults that only agents can have."""
    assert np.array_equal(vector.arm, agents.arm)
    assert np.array_equal(vector.reward, agents.reward)
    assert (vector.arm.dtype, vector.reward.dtype) == (agents.arm.dtype, agents.reward.dtype)
    assert vector.messages == agents.messages
    assert (vector.releases, vector.fallbacks, vector.estimates) == (
        agents.releases,
        agents.fallbacks,
        agents.estimates,
    )
    for one, other in ((vector.epsilon, agents.epsilon), (vector.epsilon_at_delta, agents.epsilon_at_delta)):
        assert (one is None) == (other is None)
        assert one is None or other is None or one.tolist() == other.tolist()
    assert not vector.dropped
    assert not agents.dropped


def assert_engines_agree(*specs: RunSpec) -> None:
    for vector, one in zip(run_vector(specs), specs, strict=True):
        agents = run_agents(one)
        assert_same(vector, agents)
        assert count_bytes(one, vector.sent) == agents.bytes
