"""What a testbed or a simulation is asked to be: frozen, validated once, all faults reported together.

Precedence, from strong to weak: a flag, an AGENTD_* variable, the TOML file of `--config`, the default below. The
command line merges the first three (click does it) and hands the result here.

The table of knobs: each field says here, or for the algorithms' own in `agentd.core.policy.knobs`, all there is to say
about it. Flags, files, variables, plans and the words of child processes follow from the fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, asdict, dataclass, fields, replace
from typing import Any

from agentd.addresses import address_fault, admit_fault, is_loopback
from agentd.core.chance import SEED_LIMIT
from agentd.core.lies import Attack, known_attacks, known_schemes
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_INCARNATION, MAX_LIFETIME, MAX_TRIAL
from agentd.core.policy import ALGORITHMS, first_release
from agentd.core.policy.knobs import (
    MIN_EPSILON,
    Budget,
    PolicyKnobs,
    PolicySettings,
    faults_of,
    knob,
    values_of,
    within,
)
from agentd.core.privacy.sealing import share_of
from agentd.core.rewards import DISTRIBUTIONS
from agentd.core.signed import VERIFY_EVERY
from agentd.core.upwards import shown
from agentd.errors import SettingsError
from agentd.keys.keying import Keying, keying_faults
from agentd.real_arms.kinds import fault_of, is_real
from agentd.watching import Watching, watching_faults

NOISES = ("exact", "opendp")
"""Where running agents take their noise from: the exact sampler of `core.privacy`, or OpenDP's."""

MAX_SIMULATED = 1 << 20
"""Agents of a run in memory; those that are processes have ids of 16 bits."""
CLOCKS = ("lockstep", "free")
ON_BUDGET = ("listen", "stop")
LOG_LEVELS = ("debug", "info", "warning", "error")

_MAX_DIGITS = 9
"""More than any number of hops has; Python refuses to read integers of thousands of digits."""
_SECONDS: dict[str, Any] = {
    "fits": lambda value: 0.0 < value < 1e6,
    "must": "be a positive number of seconds",
    "unit": "s",
}
_SHARE: dict[str, Any] = {"fits": lambda value: 0.0 <= value <= 1.0, "must": "be in [0, 1]"}


def _attack_fault(attack: str) -> str | None:
    try:
        Attack.parse(attack)
    except ValueError as fault:
        return str(fault)
    return None


def _means_fault(means: tuple[float, ...] | None) -> str | None:
    outside = [mean for mean in means or () if not 0.0 <= mean <= 1.0]
    return f"--arm-means must be numbers in [0, 1], got {outside[0]:g}" if outside else None


def _bounds_fault(bounds: tuple[float, float]) -> str | None:
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low) and low < high):
        return f"--bounds must be two finite numbers, the lower one first, got {low:g},{high:g}"
    return None


def _gamma_fault(gamma: str) -> str | None:
    if gamma not in ("half", "full") and not (gamma.isascii() and gamma.isdigit()):
        return f"--gamma must be a number of hops ≥ 0, 'half' or 'full', got {gamma!r}"
    if gamma.isdigit() and (len(gamma) > _MAX_DIGITS or int(gamma) > MAX_LIFETIME):
        return f"--gamma must be at most {MAX_LIFETIME}, got {gamma}"
    return None


@dataclass(frozen=True, kw_only=True)
class RunKnobs(PolicyKnobs):
    """What a whole testbed is told and each of its agents is told again."""

    algorithm: str = knob("sealed", choices=ALGORITHMS, known_as="algorithm", testbed_help="What the agents run.")
    rewards_per_person: int = knob(
        1,
        **within(1, MAX_TRIAL),
        help="sealed: rewards that one person may be behind; each is noised for ε over this.",
        testbed_help="sealed: how many rewards one person may be behind. Each is noised for ε divided by this, so that "
        "--epsilon is what a person is promised.",
    )
    noise: str = knob(
        "exact",
        choices=NOISES,
        known_as="noise",
        help="Whose noise sampler.",
        testbed_help="Where agents that are processes take their noise from; opendp needs the extra of that name.",
    )
    attack: str = knob(
        "worst",
        check=_attack_fault,
        help="How to lie; see agentd simulate --help.",
        testbed_help=f"What liars say: {known_attacks()}; relay-… corrupts what they forward instead. These lie about "
        f"rewards, as often as --contamination says. Made up altogether, and all that passes: {known_schemes()}.",
    )
    seed: int | None = knob(
        None,
        fits=lambda value: 0 <= value < SEED_LIMIT,
        must="be in [0, 2^64)",
        help="Reproducible noise, and so not private; for testbeds.",
        testbed_help="Make the run reproducible (and not private: whoever knows the seed knows the noise).",
    )
    """None: a fresh, secret one for rewards; agents that are processes take their noise from the operating system."""

    @property
    def reward_epsilon(self) -> float:
        """The ε that the noise of one reward is made for: so many of them as a person has cost no more than ε."""
        return share_of(self.epsilon, self.rewards_per_person)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How agents keep time."""

    clock: str = knob(
        "lockstep",
        choices=CLOCKS,
        help="Rounds, or own pace.",
        testbed_help="Rounds in step with the neighbours, or each agent on its own.",
    )
    interval_s: float = knob(
        1.0, **_SECONDS, help="Own pace: seconds per pull.", testbed_help="Seconds between pulls with --clock free."
    )
    round_timeout_s: float = knob(
        5.0,
        **_SECONDS,
        help="Longest wait for a round.",
        testbed_help="Seconds a round waits for a neighbour before it goes on without it.",
    )
    ready_timeout_s: float = knob(
        30.0,
        fits=lambda value: 0.0 <= value < 1e6,
        must="be a number of seconds, or 0 to wait for ever",
        unit="s",
        help="Longest wait for neighbours and environment at the start; 0: for ever.",
        testbed_help="Seconds to wait for neighbours and the environment at the start; 0: for ever.",
    )

    verify_every: int = knob(
        VERIFY_EVERY,
        **within(1, 64),
        help="Where the roster requires signatures: trials within which what is told in every round is verified; all "
        "agents of a run must say the same.",
        testbed_help="With --keys: trials within which what is told in every round is verified; 1: before it counts.",
    )

    @property
    def ready_s(self) -> float:
        """For how long to wait at the start."""
        return self.ready_timeout_s or math.inf


@dataclass(frozen=True, kw_only=True)
class Spending(Budget):
    """How much an agent may spend, and what then."""

    on_budget: str = knob(
        "listen",
        choices=ON_BUDGET,
        help="When the budget is spent: go on learning from others, or stop with exit code 75.",
        testbed_help="What an agent does when its budget is spent.",
    )


def _per_process_fault(per_process: str) -> str | None:
    if per_process == "auto" or (per_process.isascii() and per_process.isdigit() and int(per_process[:6]) > 0):
        return None
    return f"--per-process must be a number of agents ≥ 1, or 'auto', got {per_process!r}"


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """How the agents of a testbed are spread over processes."""

    per_process: str = knob(
        "1",
        check=_per_process_fault,
        metavar="INT|auto",
        testbed_help="Agents that share a process, or a container; auto: as many of these as cores, and as the limit "
        "on open files allows. Thousands of agents need this.",
    )

    def __post_init__(self) -> None:
        if faults := list(faults_of(self)):
            raise SettingsError("; ".join(faults))


@dataclass(frozen=True, kw_only=True)
class TestbedSettings(RunKnobs):
    """Agents, arms, algorithm: everything that decides what a run does."""

    __test__ = False  # not a test class, whatever pytest makes of the name

    agents: int = knob(
        20, **within(1, MAX_SIMULATED), help="Number of agents, M; beyond 65536, which is all ids, in memory only."
    )
    edge_probability: float = knob(
        0.3, **_SHARE, help="Edge probability of the Erdős–Rényi graph; it is redrawn until it is connected."
    )
    topology: str | None = knob(
        None, metavar="FILE", help="Graph file (.edges, .json, .graphml) instead of a drawn graph."
    )
    policies: Mapping[int, str] = knob(
        default_factory=dict,
        flag="--policy",
        reads="assignments",
        help="Another algorithm for one agent, as in 3=ucb1; may be repeated.",
    )
    rounds: int = knob(1000, **within(1, MAX_TRIAL), help="Pulls of each agent, T.")
    gamma: str = knob(
        "half",
        check=_gamma_fault,
        metavar="INT|half|full",
        help="Hops a message lives: a number, or half or full of the graph's diameter.",
    )
    arms: tuple[float, ...] = knob((), reads="numbers", help="Means of the arms, as in 0.9,0.8,0.5.")
    random_arms: int = knob(5, help="Draw the means of this many arms instead.")
    arm_range: tuple[float, float] = knob(
        (0.0, 1.0), reads="range", help="Where the means of random arms are drawn from."
    )
    reward: str = knob("bernoulli", choices=DISTRIBUTIONS, help="How rewards are distributed around the mean.")
    byzantine: int = knob(0, help="How many agents lie (seeded choice).")

    def __post_init__(self) -> None:
        if faults := [*faults_of(self), *_testbed_faults(self)]:
            raise SettingsError("; ".join(faults))

    @property
    def arm_count(self) -> int:
        """The number of arms, K."""
        return len(self.arms) or self.random_arms

    @property
    def policy(self) -> PolicySettings:
        """The part the algorithms read."""
        return PolicySettings(arms=self.arm_count, **(values_of(PolicyKnobs, self) | {"epsilon": self.reward_epsilon}))

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
        return _plain(self)


def _testbed_faults(s: TestbedSettings) -> Iterator[str]:
    low, high = s.arm_range
    if not 1 <= s.arm_count <= MAX_ARMS:
        yield f"the number of arms must be in 1…{MAX_ARMS}, got {s.arm_count}"
    for number, mean in enumerate(s.arms):
        if not 0.0 <= mean <= 1.0:
            yield f"--arms: the mean of arm {number} must be in [0, 1], got {mean}"
    if not 0.0 <= low <= high <= 1.0:
        yield f"--arm-range must lie within [0, 1], low before high, got {low}…{high}"
    for name in s.policies.values():
        if name not in ALGORITHMS:
            yield f"unknown algorithm {name!r}; choose one of {', '.join(ALGORITHMS)}"
    yield from _noise_faults(s)
    yield from person_faults(s, {s.algorithm, *s.policies.values()})
    if s.topology is None:  # else the file says how many agents there are, and `for_agents` asks then
        yield from _head_count_faults(s)


def _noise_faults(s: RunKnobs) -> Iterator[str]:
    if s.noise == "opendp" and s.seed is not None:
        yield "--noise opendp takes no seed, and --seed promises a run that can be repeated; leave one of them out"


def person_faults(s: RunKnobs, algorithms: Iterable[str]) -> Iterator[str]:
    """Where ε over the rewards of a person would promise nothing: only where each reward is told once it is true."""
    if s.rewards_per_person <= 1 or not MIN_EPSILON <= s.epsilon < math.inf:
        return
    for name in sorted(algorithms):
        if name in ALGORITHMS and not ALGORITHMS[name].disjoint:
            yield (
                f"--rewards-per-person divides the ε of each reward among those of a person, and {name} promises no ε "
                "per reward; run --algorithm sealed, or leave it out"
            )
    if s.reward_epsilon < MIN_EPSILON:
        yield f"--epsilon {s.epsilon:g} over --rewards-per-person {s.rewards_per_person} is below {MIN_EPSILON:g}"


def budget_fault(name: str, budget: float | None, policy: PolicySettings) -> str | None:
    """A budget that the first release would exceed: whoever sets it means to say something, and nothing would be."""
    cost = None if budget is None else first_release(name, policy)
    if budget is None or cost is None or cost <= budget:
        return None
    least = shown(cost, 6)
    return (
        f"--epsilon-budget {budget:g} is less than the first release of {name} costs (ε = {least}, noised for an ε of "
        f"{policy.epsilon:g}), so it could never be made. Give {least} at least, or a smaller --epsilon"
    )


def _head_count_faults(s: TestbedSettings) -> Iterator[str]:
    for agent in s.policies:
        if s.agents >= 1 and not 0 <= agent < s.agents:
            yield f"--policy names agent {agent}, but agents are numbered 0…{s.agents - 1}"
    if s.agents >= 1 and not 0 <= s.byzantine <= s.agents:  # else that is the fault
        yield f"--byzantine must be in 0…{s.agents} (the number of agents), got {s.byzantine}"


@dataclass(frozen=True, kw_only=True)
class AgentSettings(RunKnobs, Pace, Spending, Watching, Keying):
    """One agent: who it is, whom it hears, where it pulls, what it runs."""

    id: int = knob(**within(0, MAX_AGENT_ID), help="This agent's number, unique in its run.")
    listen: str = knob(metavar="ADDRESS", help="Where neighbours hear this agent: tcp://*:7003.")
    environment: str = knob(
        metavar="ADDRESS",
        help="Where arms are pulled: tcp://hub:7000; or arms of its own: exec:COMMAND, http://…, python:MODULE:MAKER.",
    )
    peers: Mapping[int, str] = knob(
        default_factory=dict, reads="peers", help="The neighbours: number and address of each."
    )
    gamma: int = knob(2, **within(0, MAX_LIFETIME), help="Hops that messages of this agent live.")
    rounds: int | None = knob(
        None,
        **within(1, MAX_TRIAL),
        help="Pulls to make.  [default: as many as the environment allows]",
    )
    terms: str | None = knob(None, metavar="FILE", help="What the run is agreed on; see agentd terms make.")
    """None: what the environment says, as far as these settings allow it."""
    bounds: tuple[float, float] = knob(
        (0.0, 1.0),
        reads="range",
        check=_bounds_fault,
        help="Own arms: the least and the most that a pull can pay; all agents of a run must say the same.",
    )
    max_outstanding: int = knob(
        1,
        **within(1, 64),
        help="Own arms on the free clock: pulls under way at a time; a reward may come so many ticks later.",
    )
    lies: bool = knob(False, help="Lie as --attack says; for testbeds.")
    arm_means: tuple[float, ...] | None = knob(
        None,
        reads="numbers",
        check=_means_fault,
        help="What the arms pay, for an --attack that must know; for testbeds.",
    )
    """None for all but liars of a testbed who make up what they say."""
    incarnation: int | None = knob(None, flag="")
    """None: the environment counts how often this agent came back."""
    agreed_epsilon: float | None = knob(None, flag="")
    """The ε of one reward by the terms of the run, where that is smaller than by these settings."""
    admit: tuple[str, ...] = knob(
        (),
        reads="networks",
        metavar="CIDR,…",
        check=admit_fault,
        help="Who may connect over TCP beside the addresses of --peers, as in 10.0.0.0/8; may be repeated. With "
        "--keys: only from there.",
    )
    """For neighbours behind address translation, whose connections come from elsewhere than --peers says."""
    insecure: bool = knob(False, help="Listen beyond this machine although links are not encrypted.")
    state: str | None = knob(None, metavar="DIR", help="Keep the ledger and all that must survive a restart here.")
    """None: a restart is a new incarnation with a new ledger."""
    seat: str | None = knob(
        None,
        metavar="FILE",
        help="Keep the secret of this agent's seat here.  [default: seat in --state DIR, else none]",
    )
    """None, and no state: whoever comes back needs `agentd env release` first."""
    log_file: str | None = knob(None, metavar="FILE", help="JSON lines.  [default: standard error]")
    faults_file: str | None = knob(
        None, metavar="FILE", help="Faults to inject into the links; for testbeds, see agentd chaos."
    )
    """Looked for while the agent runs."""
    log_level: str = knob("info", choices=LOG_LEVELS)
    health_file: str | None = knob(
        None, metavar="FILE", help="Say there how it goes, for agentd health; best in /dev/shm or /run."
    )

    def __post_init__(self) -> None:
        if faults := [*faults_of(self), *_agent_faults(self)]:
            raise SettingsError("; ".join(faults))

    @property
    def has_own_arms(self) -> bool:
        """Whether arms are pulled here, and not at an environment that counts pulls."""
        return is_real(self.environment)

    def policy(self, arms: int) -> PolicySettings:
        """The part the algorithm reads, once the environment has said how many arms there are."""
        told = values_of(PolicyKnobs, self) | values_of(Budget, self) | {"epsilon": self.reward_epsilon}
        return PolicySettings(arms=arms, **told)

    @property
    def reward_epsilon(self) -> float:
        """The ε that the noise of one reward is made for: by the terms of the run, or by these settings."""
        return super().reward_epsilon if self.agreed_epsilon is None else self.agreed_epsilon

    def to_json(self) -> dict[str, Any]:
        """Plain values for plan.json."""
        return _plain(self)


Order = tuple[str | type, ...]
"""Names of fields, and groups that stand for all their fields that are not named."""

_IN_FILES: dict[type, Order] = {
    TestbedSettings: (
        *("agents", "edge_probability", "topology", "algorithm", "policies", "rounds", "gamma"),
        *("arms", "random_arms", "arm_range", "reward", PolicyKnobs, "noise", "byzantine", "contamination"),
    ),
    AgentSettings: (
        *("id", "listen", "environment", "peers", "algorithm", "gamma", "rounds", PolicyKnobs, "noise"),
        *("contamination", "lies", "attack", "seed", "incarnation", Pace, "insecure", "state", Spending),
    ),
}
"""The order in which files have always had them; what is not named comes last."""


def ordered(settings: type, order: Order = ()) -> list[Field[Any]]:
    """The fields of settings in the order of files, or in another."""
    every = {one.name: one for one in fields(settings)}
    order = order or _IN_FILES[settings]
    named = [name for name in order if isinstance(name, str)]
    names: list[str] = []
    for each in (*order, settings):
        group = [each] if isinstance(each, str) else [one.name for one in fields(each) if one.name not in named]
        names += [name for name in group if name not in names]
    return [every[name] for name in names]


def as_typed(value: Any) -> str:
    """A value as it is typed after its flag."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _plain(settings: TestbedSettings | AgentSettings) -> dict[str, Any]:
    values = asdict(settings)
    plain = {one.name: values[one.name] for one in ordered(type(settings))}
    return {name: _with_text_keys(value) if isinstance(value, dict) else value for name, value in plain.items()}


def _with_text_keys(mapping: Mapping[int, str]) -> dict[str, str]:
    return {str(key): value for key, value in mapping.items()}


def _agent_faults(s: AgentSettings) -> Iterator[str]:
    for peer in s.peers:
        if not 0 <= peer <= MAX_AGENT_ID:
            yield f"--peers: an id must be in 0…{MAX_AGENT_ID}, got {peer}"
    if s.id in s.peers:
        yield f"--peers names agent {s.id} itself; an agent is not its own neighbour"
    if s.incarnation is not None and not 0 <= s.incarnation <= MAX_INCARNATION:
        yield f"an incarnation must be in 0…{MAX_INCARNATION}, got {s.incarnation}"
    yield from _address_faults(s)
    yield from _noise_faults(s)
    yield from person_faults(s, (s.algorithm,))
    yield from _state_faults(s)
    yield from watching_faults(s)
    yield from keying_faults(s)


def _address_faults(s: AgentSettings) -> Iterator[str]:
    named = [("--listen", s.listen), *(("--peers", a) for a in s.peers.values())]
    if s.has_own_arms:
        yield from _own_arms_faults(s)
    else:
        named.insert(1, ("--environment", s.environment))
    for flag, address in named:
        if fault := address_fault(address, listening=flag == "--listen"):
            yield f"{flag}: {address!r} {fault}"
    if len(set(s.peers.values())) < len(s.peers):
        yield "--peers gives the same address to two neighbours"
    if not s.insecure and not s.has_keys and not address_fault(s.listen, listening=True) and not is_loopback(s.listen):
        yield (
            f"--listen {s.listen} is reachable from other machines and links are not encrypted; give --keys and "
            "--roster, or add --insecure if that is what you want"
        )


def _own_arms_faults(s: AgentSettings) -> Iterator[str]:
    if fault := fault_of(s.environment):
        yield f"--environment: {s.environment!r} {fault}"
    if s.terms is None:
        yield "--environment names arms of this agent's own: then --terms FILE must say what is agreed on"
    if s.max_outstanding > 1 and (s.algorithm not in ("sealed", "shielded") or s.clock != "free"):
        yield (
            "--max-outstanding beyond 1 takes --algorithm sealed or shielded, which need not wait for rewards, "
            "and --clock free"
        )
    if s.state is None or s.algorithm not in ALGORITHMS or not ALGORITHMS[s.algorithm].noised:
        return
    if not ALGORITHMS[s.algorithm].disjoint:
        yield (
            f"--state: where nobody else counts pulls, an old copy of a state looks like the newest, and {s.algorithm} "
            "could release from it what it has released before; run --algorithm sealed, or leave --state out"
        )
    if s.clock != "free":
        yield "--state with arms of one's own needs --clock free, by which trials are numbered, none of them twice"


def _state_faults(s: AgentSettings) -> Iterator[str]:
    if s.algorithm not in ALGORITHMS:
        return
    noised = ALGORITHMS[s.algorithm].noised
    if s.state is not None and not noised:
        yield f"--state: {s.algorithm} adds no noise and keeps no ledger, so nothing of it must survive a restart"
    if s.state is not None and noised and not ALGORITHMS[s.algorithm].restorable:
        yield (
            f"--state: {s.algorithm} has no snapshot, restore and discard, so that nothing of it survives a restart; "
            "leave --state out, or start the testbed with --no-state"
        )
    if s.epsilon_budget is None:
        return
    if not noised:
        yield f"--epsilon-budget: {s.algorithm} adds no noise; no budget bounds what it tells"
    elif not list(faults_of(s)) and (fault := budget_fault(s.algorithm, s.epsilon_budget, s.policy(1))):
        yield fault
    if s.state is None and s.seed is None:
        yield "--epsilon-budget needs --state DIR: without it a restart would forget what is spent"
