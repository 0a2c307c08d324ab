"""Who listens where and who peers with whom: a scenario and a place, turned into every process's settings.

Pure: the same arguments give the same plan. What is random (the run's id, where ports are free) is decided outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from agentd.core.lies import in_memory_only
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.knobs import values_of
from agentd.errors import SettingsError
from agentd.runs.scenario import Scenario, require_ids
from agentd.settings import AgentSettings, Pace, RunKnobs, Spending
from deploy.plan.hosts import members

HOST = "127.0.0.1"
RUN_BYTES = 8
NOT_DRAWN = bytes(RUN_BYTES)
"""Instead of a run's id, where the environment will draw it: in files that may be used again and again."""
LAST_PORT = 65_535
SEAT_HASHES = "seats.jsonl"
"""Which secret holds which seat: what the environment is told before anybody connects, and no secret itself."""
ROSTER = "roster.json"
ENVIRONMENT_KEYS = "environment.key"
"""In the directory of keys, beside those of the agents."""
LINK_FAULTS = "chaos/links.json"
"""Where agents look for faults to inject into their links; in a directory of its own, which containers can mount."""


class Places(Protocol):
    """Where a runtime puts the processes of a testbed."""

    @property
    def base_port(self) -> int | None:
        """The first of the ports in a row, where they share a machine."""
        ...

    @property
    def sockets(self) -> str | None:
        """The directory of their sockets, where they speak ipc."""
        ...

    @property
    def environment(self) -> str:
        """Where agents find the environment."""
        ...

    @property
    def insecure(self) -> bool:
        """Whether agents listen beyond loopback, on links that are not encrypted."""
        ...

    def listen(self, agent: int) -> str:
        """Where an agent listens."""
        ...

    def address(self, agent: int) -> str:
        """Where its neighbours find it."""
        ...

    def inside(self, name: str) -> str:
        """A file of the run directory, as agents see it."""
        ...

    def log(self, agent: int) -> str:
        """The log of an agent, as it sees it."""
        ...


@dataclass(frozen=True, slots=True)
class Loopback:
    """All processes on this machine, side by side: the environment's port first, then the agents' by their ids."""

    base_port: int
    run_dir: Path
    insecure: bool = False
    sockets: None = None

    @property
    def environment(self) -> str:
        """Where agents find the environment."""
        return _address(self.base_port)

    def listen(self, agent: int) -> str:
        """Where an agent listens."""
        return _address(self.base_port + 1 + agent)

    def address(self, agent: int) -> str:
        """Where its neighbours find it: there, too."""
        return self.listen(agent)

    def inside(self, name: str) -> str:
        """A file of the run directory, which all see alike."""
        return str(self.run_dir / name)

    def log(self, agent: int) -> str:
        """The log of an agent, beside all others."""
        return self.inside(log_name(agent))


@dataclass(frozen=True, slots=True)
class Sockets:
    """All processes on this machine, each with a socket in a directory that only their user may enter.

    Names are short: the kernel takes 107 bytes of a path at most.
    """

    sockets: str
    run_dir: Path
    insecure: bool = False
    base_port: None = None

    @property
    def environment(self) -> str:
        """Where agents find the environment."""
        return f"ipc://{self.sockets}/e"

    def listen(self, agent: int) -> str:
        """Where an agent listens."""
        return f"ipc://{self.sockets}/a{agent}"

    def address(self, agent: int) -> str:
        """Where its neighbours find it: there, too."""
        return self.listen(agent)

    def inside(self, name: str) -> str:
        """A file of the run directory, which all see alike."""
        return str(self.run_dir / name)

    def log(self, agent: int) -> str:
        """The log of an agent, beside all others."""
        return self.inside(log_name(agent))


@dataclass(frozen=True, kw_only=True)
class Keep(Spending):
    """What the agents of a testbed write down, and how much they may spend."""

    state: bool = False
    """Whether agents that release noised values keep their state; they then survive being killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every process of a testbed, before any of them runs."""

    run: bytes
    """What frames of this run carry, so that those of another are recognised."""
    base_port: int | None
    """The first of the ports in a row; None: they have sockets, or every process has a machine of its own."""
    sockets: str | None = None
    """The directory of their sockets; None: they speak TCP."""
    environment: str
    """Where agents find the environment."""
    agents: tuple[AgentSettings, ...]
    links: int
    """Edges of the graph; each is a connection in both directions."""
    keys: str | None = None
    """The directory of their keys, which is none of the run's; None: their links have none."""
    keys_inside: str | None = None
    """Where each process sees its own of them, if it has a file system of its own; None: there, too."""
    per_process: int = 1
    """Agents that share a process; 1: each has its own."""
    hosts: tuple[str, ...] = ()
    """Where processes of many agents listen to each other; none where each has its own."""

    @property
    def ports(self) -> range:
        """Every port the testbed listens on."""
        return range(0) if self.base_port is None else range(self.base_port, self.base_port + self._port_count)

    @property
    def _port_count(self) -> int:
        return port_count(len(self.agents))

    @property
    def largest_degree(self) -> int:
        """The neighbours of the agent that has most of them."""
        return max((len(agent.peers) for agent in self.agents), default=0)

    def to_json(self) -> dict[str, Any]:
        """Plain values for plan.json; the seed of the rewards is in it only where the operator chose it."""
        return {
            "run": self.run.hex(),
            "base_port": self.base_port,
            "sockets": self.sockets,
            "environment": self.environment,
            "agents": [agent.to_json() for agent in self.agents],
            **({"keys": self.keys} if self.keys is not None else {}),
            **({"per_process": self.per_process} if self.per_process > 1 else {}),
        }

    def companions(self, agent: int) -> tuple[int, ...]:
        """The agents that share a process with this one, and itself."""
        return tuple(members(agent // self.per_process, self.per_process, len(self.agents)))

    def hosted(self, per_process: int) -> Plan:
        """The same with so many agents in a process; sockets are named after processes then."""
        if per_process == 1:
            return replace(self, per_process=1, hosts=())
        count = -(-len(self.agents) // per_process)
        return replace(
            self, per_process=per_process, hosts=tuple(host_socket(self.sockets or "", host) for host in range(count))
        )

    def hosted_at(self, per_process: int, addresses: tuple[str, ...]) -> Plan:
        """The same with so many agents in a process, each of which is found at an address of its own."""
        return replace(self, per_process=per_process, hosts=addresses)

    def with_keys(
        self,
        directory: str,
        operator_fingerprint: str,
        *,
        inside: str | None = None,
        note: Callable[[int], str] | None = None,
    ) -> Plan:
        """The same with keys, which lie in a directory; they take the place of the secrets of seats.

        `inside` is what each process sees of it, and `note` where an agent writes down which roster it took up: where
        it cannot write beside its keys.
        """
        seen = inside or directory
        common: dict[str, Any] = {
            "roster": f"{seen}/{ROSTER}",
            "operator_fingerprint": operator_fingerprint,
            "seat": None,
            "insecure": False,
        }
        agents = (
            replace(
                each,
                keys=f"{seen}/{keys_name(each.id)}",
                roster_note=None if note is None else note(each.id),
                **common,
            )
            for each in self.agents
        )
        return replace(self, keys=directory, keys_inside=inside, agents=tuple(agents))

    @property
    def keying(self) -> dict[str, str | None]:
        """What the environment is told of keys; nothing where there are none."""
        if self.keys is None:
            return {}
        pinned = self.agents[0].operator_fingerprint
        seen = self.keys_inside or self.keys
        here = {"keys": f"{seen}/{ENVIRONMENT_KEYS}", "roster": f"{seen}/{ROSTER}"}
        return {**here, "operator_fingerprint": pinned}


def host_socket(directory: str, host: int) -> str:
    """Where a process of many agents listens."""
    return f"ipc://{directory}/h{host}"


def port_count(agents: int) -> int:
    """How many ports in a row a testbed needs: the environment's, then one per agent."""
    return agents + 1


def require_ports(base_port: int, agents: int) -> None:
    """Refuse a first port after which there are not enough others."""
    count = port_count(agents)
    if not 1 <= base_port <= LAST_PORT + 1 - count:
        raise SettingsError(f"--base-port must leave room for {count} ports up to {LAST_PORT}, got {base_port}")


def make_plan(
    scenario: Scenario, *, run: bytes, base_port: int, run_dir: Path, pace: Pace, keep: Keep | None = None
) -> Plan:
    """Lay a scenario out over the ports of this machine from `base_port` on."""
    require_ports(base_port, scenario.graph.nodes)
    return lay_out(scenario, Loopback(base_port, run_dir), run=run, pace=pace, keep=keep)


def lay_out(scenario: Scenario, places: Places, *, run: bytes, pace: Pace, keep: Keep | None = None) -> Plan:
    """Say for every process of a scenario where it listens, whom it hears, what it runs and what it writes down."""
    graph, spec = scenario.graph, scenario.spec
    require_ids(graph.nodes)
    if spec.liars and spec.attack.knows_everything:
        raise SettingsError(in_memory_only(scenario.settings.attack))
    keep = keep if keep is not None else Keep()
    return Plan(
        run=run,
        base_port=places.base_port,
        sockets=places.sockets,
        environment=places.environment,
        agents=tuple(_agent(scenario, own, places, pace, keep) for own in range(graph.nodes)),
        links=len(graph.edges),
    )


def log_name(agent: int) -> str:
    """The log of an agent, inside the run directory."""
    return f"logs/agent-{agent}.jsonl"


def own_log_name(agent: int) -> str:
    """The same in a place of its own, which a container can mount while it sees no other log."""
    return f"logs/agent-{agent}/agent-{agent}.jsonl"


def state_name(agent: int) -> str:
    """The state of an agent, inside the run directory."""
    return f"state/agent-{agent}"


def seat_name(agent: int) -> str:
    """The secret of an agent's seat, inside the run directory; in a place of its own, which containers can mount."""
    return f"seats/agent-{agent}/seat"


def keys_name(agent: int) -> str:
    """The secret keys of an agent, inside the directory of keys."""
    return f"agent-{agent}.key"


def note_name(agent: int) -> str:
    """Which roster an agent took up last, inside the run directory, where its seat would be."""
    return f"{seat_name(agent).rpartition('/')[0]}/roster"


def _agent(scenario: Scenario, own: int, places: Places, pace: Pace, keep: Keep) -> AgentSettings:
    settings, spec = scenario.settings, scenario.spec
    noised = ALGORITHMS[spec.algorithm_of(own)].noised
    # The seed is the settings' and not spec.seed: only an operator's own choice makes noise reproducible.
    told = {**values_of(RunKnobs, settings), **values_of(Pace, pace), **values_of(Spending, keep)}
    of_its_own = {
        "id": own,
        "listen": places.listen(own),
        "environment": places.environment,
        "peers": {peer: places.address(peer) for peer in scenario.graph.neighbours(own)},
        "algorithm": spec.algorithm_of(own),
        "gamma": spec.gamma,
        "rounds": spec.rounds,
        "lies": own in spec.liars,
        "arm_means": tuple(spec.arms.means) if own in spec.liars and spec.attack.forges else None,
        "insecure": places.insecure,
        "log_file": places.log(own),
        "faults_file": places.inside(LINK_FAULTS),
        "state": places.inside(state_name(own)) if keep.state and noised else None,
        "seat": places.inside(seat_name(own)),
        "epsilon_budget": keep.epsilon_budget if noised else None,
    }
    return AgentSettings(**(told | of_its_own))


def _address(port: int) -> str:
    return f"tcp://{HOST}:{port}"
