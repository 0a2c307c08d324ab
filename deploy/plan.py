"""Who listens where and who peers with whom: a scenario and a first port, turned into every process's settings.

Pure: the same arguments give the same plan. What is random (the run's id, where ports are free) is decided outside.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentd.commands.scenario import Scenario
from agentd.errors import SettingsError
from agentd.settings import AgentSettings

HOST = "127.0.0.1"
RUN_BYTES = 8
LAST_PORT = 65_535
LINK_FAULTS = "chaos/links.json"
"""Where agents look for faults to inject into their links; in a directory of its own, which containers can mount."""

_AGENT_DEFAULTS = AgentSettings(id=0, listen=f"tcp://{HOST}:1", environment=f"tcp://{HOST}:2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How the agents of a testbed keep time."""

    clock: str = _AGENT_DEFAULTS.clock
    interval_s: float = _AGENT_DEFAULTS.interval_s
    round_timeout_s: float = _AGENT_DEFAULTS.round_timeout_s
    ready_timeout_s: float = _AGENT_DEFAULTS.ready_timeout_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every process of a testbed, before any of them runs."""

    run: bytes
    """What frames of this run carry, so that those of another are recognised."""
    base_port: int
    environment: str
    """Where the environment listens."""
    agents: tuple[AgentSettings, ...]
    links: int
    """Edges of the graph; each is a connection in both directions."""

    @property
    def ports(self) -> range:
        """Every port the testbed listens on."""
        return range(self.base_port, self.base_port + port_count(len(self.agents)))

    @property
    def largest_degree(self) -> int:
        """The neighbours of the agent that has most of them."""
        return max((len(agent.peers) for agent in self.agents), default=0)

    def to_json(self) -> dict[str, Any]:
        """Plain values for plan.json; the seed of the rewards is in it only where the operator chose it."""
        return {
            "run": self.run.hex(),
            "base_port": self.base_port,
            "environment": self.environment,
            "agents": [_plain(agent) for agent in self.agents],
        }


def port_count(agents: int) -> int:
    """How many ports in a row a testbed needs: the environment's, then one per agent."""
    return agents + 1


def require_ports(base_port: int, agents: int) -> None:
    """Refuse a first port after which there are not enough others."""
    count = port_count(agents)
    if not 1 <= base_port <= LAST_PORT + 1 - count:
        raise SettingsError(f"--base-port must leave room for {count} ports up to {LAST_PORT}, got {base_port}")


def run_of_seed(seed: int) -> bytes:
    """The id of a reproducible run."""
    return hashlib.sha256(f"agentd run {seed}".encode()).digest()[:RUN_BYTES]


def make_plan(scenario: Scenario, *, run: bytes, base_port: int, run_dir: Path, pace: Pace) -> Plan:
    """Lay a scenario out over the ports from `base_port` on: the environment first, then the agents by their ids."""
    graph = scenario.graph
    require_ports(base_port, graph.nodes)
    return Plan(
        run=run,
        base_port=base_port,
        environment=_address(base_port),
        agents=tuple(_agent(scenario, own, base_port, run_dir, pace) for own in range(graph.nodes)),
        links=len(graph.edges),
    )


def log_name(agent: int) -> str:
    """The log of an agent, inside the run directory."""
    return f"logs/agent-{agent}.jsonl"


def _agent(scenario: Scenario, own: int, base_port: int, run_dir: Path, pace: Pace) -> AgentSettings:
    settings, spec = scenario.settings, scenario.spec
    return AgentSettings(
        id=own,
        listen=_listen(base_port, own),
        environment=_address(base_port),
        peers={peer: _listen(base_port, peer) for peer in scenario.graph.neighbours(own)},
        algorithm=spec.algorithm_of(own),
        gamma=spec.gamma,
        rounds=spec.rounds,
        epsilon=settings.epsilon,
        v=settings.v,
        sigma=settings.sigma,
        estimator=settings.estimator,
        contamination=settings.contamination,
        lies=own in spec.liars,
        attack=settings.attack,
        seed=settings.seed,  # not spec.seed: only an operator's own choice makes noise reproducible
        clock=pace.clock,
        interval_s=pace.interval_s,
        round_timeout_s=pace.round_timeout_s,
        ready_timeout_s=pace.ready_timeout_s,
        log_file=str(run_dir / log_name(own)),
        faults_file=str(run_dir / LINK_FAULTS),
    )


def _listen(base_port: int, agent: int) -> str:
    return _address(base_port + 1 + agent)


def _address(port: int) -> str:
    return f"tcp://{HOST}:{port}"


def _plain(agent: AgentSettings) -> dict[str, Any]:
    plain = asdict(agent)
    plain["peers"] = {str(peer): address for peer, address in agent.peers.items()}
    return plain
