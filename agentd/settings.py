"""What a testbed or a simulation is asked to be: frozen, validated once, all faults reported together.

Precedence, from strong to weak: a flag, an AGENTD_* variable, the TOML file of `--config`, the default below. The
command line merges the first three (click does it) and hands the result here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from agentd.core.chance import SEED_LIMIT
from agentd.core.estimate import ESTIMATORS
from agentd.core.lies import Attack
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_INCARNATION, MAX_LIFETIME, MAX_TRIAL
from agentd.core.policy import ALGORITHMS, RULES, PolicySettings
from agentd.errors import SettingsError

NOISES = ("exact", "opendp")
"""Where running agents take their noise from: the exact sampler of `core.privacy`, or OpenDP's."""
REWARDS = ("bernoulli", "beta", "uniform", "normal")
MIN_EPSILON = 1e-6
"""Below this a first release needs more pulls than any agent lives to make."""


_MAX_DIGITS = 9
"""More than any number of hops has; Python refuses to read integers of thousands of digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedSettings:
    """Agents, arms, algorithm: everything that decides what a run does."""

    __test__ = False  # not a test class, whatever pytest makes of the name

    agents: int = 20
    edge_probability: float = 0.3
    topology: str | None = None
    """A graph file instead of a drawn Erdős–Rényi graph."""
    algorithm: str = "private-ucb"
    policies: Mapping[int, str] = field(default_factory=dict)
    """Algorithms of single agents that differ from the rest."""
    rounds: int = 1000
    gamma: str = "half"
    """Hops a message lives: a number, or half or full of the graph's diameter."""
    arms: tuple[float, ...] = ()
    random_arms: int = 5
    arm_range: tuple[float, float] = (0.0, 1.0)
    """Where the means of random arms are drawn from."""
    reward: str = "bernoulli"
    epsilon: float = 1.0
    v: float = 1.1
    sigma: float = 0.5
    estimator: str = "trimmed"
    rule: str = "thompson"
    refresh: int = 100
    noise: str = "exact"
    byzantine: int = 0
    contamination: float = 1e-3
    attack: str = "worst"
    seed: int | None = None
    """None: a fresh, secret one for rewards; agents that are processes take their noise from the operating system."""

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise SettingsError("; ".join(faults))

    @property
    def arm_count(self) -> int:
        """The number of arms, K."""
        return len(self.arms) or self.random_arms

    @property
    def policy(self) -> PolicySettings:
        """The part the algorithms read."""
        return PolicySettings(
            arms=self.arm_count,
            epsilon=self.epsilon,
            v=self.v,
            contamination=self.contamination,
            sigma=self.sigma,
            estimator=self.estimator,
            rule=self.rule,
            refresh=self.refresh,
        )

    def lifetime(self, diameter: int) -> int:
        """γ as a number of hops."""
        if self.gamma == "full":
            return diameter
        return math.ceil(diameter / 2) if self.gamma == "half" else int(self.gamma)

    def for_agents(self, agents: int) -> TestbedSettings:
        """The settings for as many agents as the topology file has."""
        settings = replace(self, agents=agents)
        if faults := list(_head_count_faults(settings)):
            raise SettingsError(f"{self.topology} has {agents} agents: {'; '.join(faults)}")
        return settings

    def to_json(self) -> dict[str, Any]:
        """Plain values for the manifest."""
        plain = asdict(self)
        plain["policies"] = {str(agent): name for agent, name in self.policies.items()}
        return plain

    def _faults(self) -> Iterator[str]:
        yield from _size_faults(self)
        yield from _arm_faults(self)
        yield from _algorithm_faults(self)
        yield from _liar_faults(self)
        if self.topology is None:  # else the file says how many agents there are, and `for_agents` asks then
            yield from _head_count_faults(self)
        if self.seed is not None and not 0 <= self.seed < SEED_LIMIT:
            yield f"--seed must be in [0, 2^64), got {self.seed}"


def _size_faults(s: TestbedSettings) -> Iterator[str]:
    if not 1 <= s.agents <= MAX_AGENT_ID + 1:
        yield f"--agents must be in 1…{MAX_AGENT_ID + 1}, got {s.agents}"
    if not 0.0 <= s.edge_probability <= 1.0:
        yield f"--edge-probability must be in [0, 1], got {s.edge_probability}"
    if not 1 <= s.rounds <= MAX_TRIAL:
        yield f"--rounds must be in 1…{MAX_TRIAL}, got {s.rounds}"
    if s.gamma not in ("half", "full") and not (s.gamma.isascii() and s.gamma.isdigit()):
        yield f"--gamma must be a number of hops ≥ 0, 'half' or 'full', got {s.gamma!r}"
    elif s.gamma.isdigit() and (len(s.gamma) > _MAX_DIGITS or int(s.gamma) > MAX_LIFETIME):
        yield f"--gamma must be at most {MAX_LIFETIME}, got {s.gamma}"


def _arm_faults(s: TestbedSettings) -> Iterator[str]:
    low, high = s.arm_range
    if not 1 <= s.arm_count <= MAX_ARMS:
        yield f"the number of arms must be in 1…{MAX_ARMS}, got {s.arm_count}"
    for number, mean in enumerate(s.arms):
        if not 0.0 <= mean <= 1.0:
            yield f"--arms: the mean of arm {number} must be in [0, 1], got {mean}"
    if not 0.0 <= low <= high <= 1.0:
        yield f"--arm-range must lie within [0, 1], low before high, got {low}…{high}"
    if s.reward not in REWARDS:
        yield f"--reward must be one of {', '.join(REWARDS)}, got {s.reward!r}"


def _algorithm_faults(s: TestbedSettings) -> Iterator[str]:
    for name in [s.algorithm, *s.policies.values()]:
        if name not in ALGORITHMS:
            yield f"unknown algorithm {name!r}; choose one of {', '.join(ALGORITHMS)}"
    if not MIN_EPSILON <= s.epsilon < math.inf:
        yield f"--epsilon must be positive (at least {MIN_EPSILON:g}) and finite, got {s.epsilon}"
    if not 1.0 < s.v < 1.5:
        yield f"--v must lie strictly between 1 and 1.5, got {s.v}"
    if not 0.0 < s.sigma < math.inf:
        yield f"--sigma must be positive and finite, got {s.sigma}"
    if s.estimator not in ESTIMATORS:
        yield f"unknown estimator {s.estimator!r}; choose one of {', '.join(ESTIMATORS)}"
    if s.rule not in RULES:
        yield f"unknown rule {s.rule!r}; choose one of {', '.join(RULES)}"
    if s.noise not in NOISES:
        yield f"unknown noise {s.noise!r}; choose one of {', '.join(NOISES)}"
    if s.noise == "opendp" and s.seed is not None:
        yield "--noise opendp takes no seed, and --seed promises a run that can be repeated; leave one of them out"
    if not 1 <= s.refresh <= MAX_TRIAL:
        yield f"--refresh must be in 1…{MAX_TRIAL} rounds, got {s.refresh}"


def _head_count_faults(s: TestbedSettings) -> Iterator[str]:
    for agent in s.policies:
        if not 0 <= agent < s.agents:
            yield f"--policy names agent {agent}, but agents are numbered 0…{s.agents - 1}"
    if not 0 <= s.byzantine <= s.agents:
        yield f"--byzantine must be in 0…{s.agents} (the number of agents), got {s.byzantine}"


def _liar_faults(s: TestbedSettings) -> Iterator[str]:
    if not 0.0 <= s.contamination <= 1.0:
        yield f"--contamination must be a probability in [0, 1], got {s.contamination}"
    try:
        Attack.parse(s.attack)
    except ValueError as fault:
        yield str(fault)


CLOCKS = ("lockstep", "free")
ON_BUDGET = ("listen", "stop")
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """One agent: who it is, whom it hears, where it pulls, what it runs."""

    id: int
    listen: str
    """Where neighbours subscribe, as in tcp://127.0.0.1:7003."""
    environment: str
    """Where the environment answers, as in tcp://hub:7000."""
    peers: Mapping[int, str] = field(default_factory=dict)
    """Neighbours by id, and where they listen."""
    algorithm: str = "private-ucb"
    gamma: int = 2
    """Hops this agent's messages live."""
    rounds: int | None = None
    """Pulls to make in all; None: as many as the environment allows."""
    epsilon: float = 1.0
    v: float = 1.1
    sigma: float = 0.5
    estimator: str = "trimmed"
    rule: str = "thompson"
    refresh: int = 100
    noise: str = "exact"
    contamination: float = 1e-3
    lies: bool = False
    attack: str = "worst"
    seed: int | None = None
    """Reproducible and not private; None: noise from the operating system."""
    incarnation: int | None = None
    """None: the environment counts how often this agent came back."""
    clock: str = "lockstep"
    interval_s: float = 1.0
    """Free-running: time between pulls."""
    round_timeout_s: float = 5.0
    """Lockstep: how long a round waits for a neighbour before it goes on without it."""
    ready_timeout_s: float = 30.0
    """How long to wait for neighbours and the environment at the start."""
    insecure: bool = False
    """Allow listening beyond loopback without keys."""
    state: str | None = None
    """The directory of what must survive a crash; None: a restart is a new incarnation with a new ledger."""
    epsilon_budget: float | None = None
    """The true ε that one reward may be exposed to; None: no limit."""
    on_budget: str = "listen"
    """What to do when it is spent: release nothing more and go on learning, or stop."""
    log_file: str | None = None
    """JSON lines; None: standard error."""
    faults_file: str | None = None
    """Faults to inject into the links, looked for while the agent runs; None: there are none."""
    log_level: str = "info"
    health_file: str | None = None
    """Where to say with every report how it goes, for `agentd health`; None: nowhere."""

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise SettingsError("; ".join(faults))

    def policy(self, arms: int) -> PolicySettings:
        """The part the algorithm reads, once the environment has said how many arms there are."""
        return PolicySettings(
            arms=arms,
            epsilon=self.epsilon,
            v=self.v,
            contamination=self.contamination,
            sigma=self.sigma,
            estimator=self.estimator,
            rule=self.rule,
            refresh=self.refresh,
            epsilon_budget=self.epsilon_budget,
        )

    def _faults(self) -> Iterator[str]:
        yield from _identity_faults(self)
        yield from _address_faults(self)
        yield from _timing_faults(self)
        yield from _knob_faults(self)
        yield from _state_faults(self)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address; a name other than localhost may lead anywhere."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("ipc", "inproc") or parts.hostname == "localhost" or _loopback_ip(parts.hostname or "")
    except ValueError:  # not an address at all, which is another fault
        return False


def _loopback_ip(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _identity_faults(s: AgentSettings) -> Iterator[str]:
    if not 0 <= s.id <= MAX_AGENT_ID:
        yield f"--id must be in 0…{MAX_AGENT_ID}, got {s.id}"
    for peer in s.peers:
        if not 0 <= peer <= MAX_AGENT_ID:
            yield f"--peers: an id must be in 0…{MAX_AGENT_ID}, got {peer}"
    if s.id in s.peers:
        yield f"--peers names agent {s.id} itself; an agent is not its own neighbour"
    if s.algorithm not in ALGORITHMS:
        yield f"unknown algorithm {s.algorithm!r}; choose one of {', '.join(ALGORITHMS)}"
    if not 0 <= s.gamma <= MAX_LIFETIME:
        yield f"--gamma must be in 0…{MAX_LIFETIME}, got {s.gamma}"
    if s.rounds is not None and not 1 <= s.rounds <= MAX_TRIAL:
        yield f"--rounds must be in 1…{MAX_TRIAL}, got {s.rounds}"
    if s.seed is not None and not 0 <= s.seed < SEED_LIMIT:
        yield f"--seed must be in [0, 2^64), got {s.seed}"
    if s.incarnation is not None and not 0 <= s.incarnation <= MAX_INCARNATION:
        yield f"an incarnation must be in 0…{MAX_INCARNATION}, got {s.incarnation}"
    if s.log_level not in LOG_LEVELS:
        yield f"--log-level must be one of {', '.join(LOG_LEVELS)}, got {s.log_level!r}"


def _address_faults(s: AgentSettings) -> Iterator[str]:
    named = [("--listen", s.listen), ("--environment", s.environment), *(("--peers", a) for a in s.peers.values())]
    for flag, address in named:
        if fault := _address_fault(address):
            yield f"{flag}: {address!r} {fault}"
    if len(set(s.peers.values())) < len(s.peers):
        yield "--peers gives the same address to two neighbours"
    if not s.insecure and not _address_fault(s.listen) and not is_loopback(s.listen):
        yield (
            f"--listen {s.listen} is reachable from other machines and links are not encrypted yet; "
            "add --insecure if that is what you want"
        )


def _address_fault(address: str) -> str | None:
    """What is wrong with a ZeroMQ address, if anything."""
    if address.startswith("ipc://") and len(address) > len("ipc://"):
        return None
    try:
        parts = urlsplit(address)
        fine = parts.scheme == "tcp" and bool(parts.hostname) and parts.port is not None and parts.port > 0
    except ValueError:
        fine = False
    return None if fine else "is not an address like tcp://127.0.0.1:7003"


def _timing_faults(s: AgentSettings) -> Iterator[str]:
    if s.clock not in CLOCKS:
        yield f"--clock must be one of {', '.join(CLOCKS)}, got {s.clock!r}"
    for flag, seconds in (
        ("--interval", s.interval_s),
        ("--round-timeout", s.round_timeout_s),
        ("--ready-timeout", s.ready_timeout_s),
    ):
        if not 0.0 < seconds < 1e6:
            yield f"{flag} must be a positive number of seconds, got {seconds}"


def _state_faults(s: AgentSettings) -> Iterator[str]:
    if s.algorithm not in ALGORITHMS:
        return
    noised = ALGORITHMS[s.algorithm].noised
    if s.state is not None and not noised:
        yield f"--state: {s.algorithm} adds no noise and keeps no ledger, so nothing of it must survive a restart"
    if s.on_budget not in ON_BUDGET:
        yield f"--on-budget must be one of {', '.join(ON_BUDGET)}, got {s.on_budget!r}"
    if s.epsilon_budget is None:
        return
    if not 0.0 < s.epsilon_budget < math.inf:
        yield f"--epsilon-budget must be positive and finite, got {s.epsilon_budget}"
    if not noised:
        yield f"--epsilon-budget: {s.algorithm} adds no noise; no budget bounds what it tells"
    if s.state is None and s.seed is None:
        yield "--epsilon-budget needs --state DIR: without it a restart would forget what is spent"


def _knob_faults(s: AgentSettings) -> Iterator[str]:
    try:  # the same knobs, the same rules as in a testbed
        TestbedSettings(
            epsilon=s.epsilon,
            v=s.v,
            sigma=s.sigma,
            estimator=s.estimator,
            rule=s.rule,
            refresh=s.refresh,
            noise=s.noise,
            seed=0 if s.seed is not None and s.noise == "opendp" else None,  # its value was looked at before
            contamination=s.contamination,
            attack=s.attack,
        )
    except SettingsError as fault:
        yield str(fault)
