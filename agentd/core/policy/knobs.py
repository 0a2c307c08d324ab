"""The knobs of the algorithms: one field each, and beside it all that is said about it anywhere. Pure.

A knob is one edit. Its default, its unit, its range or choices, its help and who reads it stand here; flags, keys of
TOML files, AGENTD_… variables, plans, manifests and the words of child processes follow from the fields. The settings
of a testbed and of an agent have these fields too (they inherit them) and add others, made in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from agentd.core.estimate import ESTIMATORS
from agentd.core.message import MAX_TRIAL

RULES = ("thompson", "ucb")
"""How sealed chooses an arm from records: a draw around each mean, or the largest upper bound."""
MIN_EPSILON = 1e-6
"""Below this a first release needs more pulls than any agent lives to make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What there is to say about a field of settings beyond its type and default."""

    help: str | None = None
    """On the help page of one agent."""
    testbed_help: str | None = None
    """On the help pages of testbeds; None: the same."""
    unit: str = ""
    """Of a number; the names of fields may end in it, those of flags do not."""
    flag: str | None = None
    """None: named after the field; empty: there is none."""
    metavar: str | None = None
    reads: str = ""
    """The form of a flag's text; empty: the field's type."""
    choices: Collection[str] = ()
    known_as: str = ""
    """What a choice is called where an unknown one is refused; empty: the flag is."""
    fits: Callable[[Any], bool] | None = None
    must: str = ""
    """The range in words, as in "be in 1…9"."""
    check: Callable[[Any], str | None] | None = None
    """Where neither choices nor a range say it: the fault of a value, in a sentence."""
    read_by: tuple[str, ...] = ()
    """The algorithms that read it."""

    def fault(self, flag: str, value: Any) -> str | None:
        """What is wrong with a value, if anything."""
        if value is None:
            return None
        if self.choices and value not in self.choices:
            known = ", ".join(self.choices)
            if self.known_as:
                return f"unknown {self.known_as} {value!r}; choose one of {known}"
            return f"{flag} must be one of {known}, got {value!r}"
        if self.fits is not None and not self.fits(value):
            return f"{flag} must {self.must}, got {value}"
        return self.check(value) if self.check is not None else None


def knob(default: Any = MISSING, *, default_factory: Any = MISSING, **about: Any) -> Any:
    """A field of settings with what `Knob` holds."""
    metadata = {"knob": Knob(**about)}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def within(low: int, high: int, unit: str = "") -> dict[str, Any]:
    """The range of a whole number."""
    return {"fits": lambda value: low <= value <= high, "must": f"be in {low}…{high}{unit and ' '}{unit}", "unit": unit}


def about(one: Field[Any]) -> Knob:
    """What is said about a field."""
    said: Knob = one.metadata["knob"]
    return said


def flag_of(one: Field[Any]) -> str:
    """The flag of a field, or where it has none its name."""
    said = about(one)
    if said.flag:
        return said.flag
    return f"--{one.name.removesuffix(f'_{said.unit}').replace('_', '-')}" if said.flag is None else one.name


def faults_of(settings: Any) -> Iterator[str]:
    """What is wrong with each knob of some settings by itself."""
    for one in fields(settings):
        if "knob" in one.metadata and (fault := about(one).fault(flag_of(one), getattr(settings, one.name))):
            yield fault


def values_of(group: Any, settings: Any) -> dict[str, Any]:
    """The values that settings have for the knobs of one group."""
    return {one.name: getattr(settings, one.name) for one in fields(group)}


@dataclass(frozen=True, kw_only=True)
class PolicyKnobs:
    """What algorithms are told, by those who run a testbed or an agent; each reads the knobs it knows."""

    epsilon: float = knob(
        1.0,
        fits=lambda value: MIN_EPSILON <= value < math.inf,
        must=f"be positive (at least {MIN_EPSILON:g}) and finite",
        help="sealed: ε per reward. Else a rate.",
        testbed_help="sealed: the ε of each reward, whatever is observed for however long. Elsewhere the paper's "
        "nominal ε, which is a rate; the summary reports the ε that was really spent.",
        read_by=("dp-ucb-int", "private-ucb", "sealed", "shielded"),
    )
    v: float = knob(
        1.1,
        fits=lambda value: 1.0 < value < 1.5,
        must="lie strictly between 1 and 1.5",
        help="The paper's v in (1, 1.5).",
        testbed_help="The paper's v in (1, 1.5): noise per release.",
        read_by=("dp-ucb-int", "private-ucb"),
    )
    """How fast noise grows with the pulls behind a release."""
    sigma: float = knob(
        0.5,
        fits=lambda value: 0.0 < value < math.inf,
        must="be positive and finite",
        help="Reward deviation byzantine-ucb assumes.",
        testbed_help="Standard deviation of rewards that byzantine-ucb assumes.",
        read_by=("byzantine-ucb",),
    )
    estimator: str = knob(
        "trimmed",
        choices=ESTIMATORS,
        known_as="estimator",
        testbed_help="The robust mean of byzantine-ucb.",
        read_by=("byzantine-ucb",),
    )
    rule: str = knob(
        "thompson",
        choices=RULES,
        known_as="rule",
        help="How sealed chooses.",
        testbed_help="How sealed chooses an arm from what was released: by a draw around each mean, or by an upper "
        "bound.",
        read_by=("sealed", "shielded"),
    )
    refresh: int = knob(
        100,
        **within(1, MAX_TRIAL, "rounds"),
        help="sealed: silent rounds before a repetition.",
        testbed_help="Rounds without a message after which sealed repeats one, so that a lost one is made good.",
        read_by=("sealed", "shielded"),
    )
    half_life: int | None = knob(
        None,
        **within(1, MAX_TRIAL, "rounds"),
        metavar="ROUNDS",
        help="sealed: what was released counts half after so many rounds, for arms that change.  [default: for ever]",
        testbed_help="sealed: rounds after which what was released counts half, for arms that change; runs on the core "
        "agents.  [default: it counts for ever]",
        read_by=("sealed",),
    )
    tolerate: float = knob(
        0.3,
        fits=lambda value: 0.0 <= value < 0.5,
        must="be a share in [0, 0.5)",
        metavar="SHARE",
        help="shielded: the share of the others that may lie.",
        testbed_help="shielded: the share of the others that each agent prepares to be lied to by.",
        read_by=("shielded",),
    )
    contamination: float = knob(
        1e-3,
        fits=lambda value: 0.0 <= value <= 1.0,
        must="be a probability in [0, 1]",
        help="Share of lies to prepare for.",
        testbed_help="How often a liar lies, and what byzantine-ucb prepares for.",
        read_by=("byzantine-ucb",),
    )


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much an agent may spend."""

    epsilon_budget: float | None = knob(
        None,
        fits=lambda value: 0.0 < value < math.inf,
        must="be positive and finite",
        help="Release nothing that would expose a reward to more than this true ε.",
        testbed_help="The true ε that one reward of an agent may be exposed to.",
        read_by=("dp-ucb-int", "private-ucb", "sealed", "shielded"),
    )
    """None: no limit."""


@dataclass(frozen=True)
class PolicySettings(PolicyKnobs, Budget):
    """The knobs of the algorithms, once it is known how many arms there are."""

    arms: int

    def __post_init__(self) -> None:
        if faults := list(faults_of(self)):
            raise ValueError("; ".join(faults))
