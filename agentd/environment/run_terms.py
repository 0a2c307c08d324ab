"""The terms of a run as its environment holds them: what all agree on, and what it alone knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from agentd.core.chance import SEED_LIMIT
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_TRIAL
from agentd.core.terms import BEACON_BYTES, RUN_BYTES, PolicyTerms, Terms
from agentd.errors import SettingsError
from agentd.runs.arms import Arms
from agentd.terms_file import terms_from_json, terms_to_json
from agentd.wire.terms_digest import ranges_text

OPEN_AGENTS_LIMIT = 4096
"""Different agents that a run of an unknown number of agents has room for, so that no peer can fill the memory."""
FORMAT = 2
"""Of environment.json; 1 had no terms."""
CREATED = "%Y-%m-%dT%H:%M:%S%z"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """Which run this is, what its arms pay, and who may pull them how often."""

    agreed: Terms
    """What agents are told."""
    seed: int
    """Of the rewards; whoever knows it knows every reward, so it stays with the environment."""
    arms: Arms
    started_ms: int = 0
    """When the environment first served this run, in milliseconds since 1970, by its own clock."""
    max_outstanding: int = 1
    """Trials of an agent that may be dealt and not committed."""

    def __post_init__(self) -> None:
        run = self.agreed.run
        faults = list(term_faults(self.arms, None, None, self.seed, run, max_outstanding=self.max_outstanding))
        if self.agreed.arms != self.arms.count:
            faults.append(f"the terms are about {self.agreed.arms} arms, and there are {self.arms.count}")
        if faults:
            raise SettingsError("; ".join(faults))

    @property
    def run(self) -> bytes:
        """The run's id."""
        return self.agreed.run

    @property
    def rounds(self) -> int | None:
        """The last trial of each agent, T; None: no end."""
        return self.agreed.horizon or None

    @property
    def agents(self) -> int | None:
        """How many agents there are; None: whoever comes."""
        if not self.agreed.closed:
            return None
        return sum(last - first + 1 for policy in self.agreed.policies for first, last in policy.ids)

    @property
    def members(self) -> list[int] | None:
        """Who takes part, in ascending order; None: whoever comes."""
        return list(self.agreed.ids()) if self.agreed.closed else None

    @property
    def members_text(self) -> str:
        """Who takes part, as in 0…4, 7."""
        return ranges_text(sorted(pair for policy in self.agreed.policies for pair in policy.ids))

    def admits(self, agent: int, known: int) -> bool:
        """Whether a new agent may join, when so many are known."""
        return self.agreed.policy_of(agent) is not None if self.agreed.closed else known < OPEN_AGENTS_LIMIT

    def age_ms(self, now_ms: int) -> int:
        """How long ago the run began; a clock that was set back makes it no younger than new."""
        return max(0, now_ms - self.started_ms)

    def to_json(self) -> dict[str, Any]:
        """All that `from_json` needs."""
        return {
            "run": self.run.hex(),
            "seed": self.seed,
            "arms": self.arms.to_json(),
            "started_ms": self.started_ms,
            "max_outstanding": self.max_outstanding,
            "terms": terms_to_json(self.agreed),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunTerms:
        """The terms that `to_json` described, also in format 1; ValueError where it cannot be."""
        try:
            seed, arms = _whole(data["seed"]), Arms.from_json(data["arms"])
            if data.get("format", 1) == 1 and "terms" not in data:
                return cls(**_of_format_1(data, seed, arms))
            return cls(
                agreed=terms_from_json(data["terms"]),
                seed=seed,
                arms=arms,
                started_ms=_whole(data["started_ms"]),
                max_outstanding=_whole(data["max_outstanding"]),
            )
        except KeyError as missing:
            raise ValueError(f"it lacks {missing}") from None
        except (TypeError, AttributeError, SettingsError) as wrong:
            raise ValueError(str(wrong)) from None


def declared(
    run: bytes,
    arms: int,
    agents: int | None,
    rounds: int | None,
    *,
    start_ms: int = 0,
    beacon: bytes = bytes(BEACON_BYTES),
) -> Terms:
    """The terms of a run of which only this is known: the number of its agents, if that, and how long it is."""
    anything = () if agents is None else (PolicyTerms("", None, None, None, ((0, agents - 1),)),)
    return Terms(
        run=run,
        arms=arms,
        lifetime=None,
        horizon=rounds or 0,
        start_ms=start_ms,
        beacon=beacon,
        policies=anything,
    )


def completed(terms: Terms, drawn: Terms) -> Terms:
    """A draft as the terms of one run: with the id, the start and, where it has none, the beacon that were drawn."""
    if terms.drawn:
        return terms
    beacon = terms.beacon if any(terms.beacon) else drawn.beacon
    return replace(terms, run=drawn.run, start_ms=drawn.start_ms, beacon=beacon)


def term_faults(
    arms: Arms,
    agents: int | None,
    rounds: int | None,
    seed: int | None,
    run: bytes | None,
    *,
    max_outstanding: int | None = None,
) -> Iterator[str]:
    """What no run can be held under; None is what is still open."""
    if arms.count > MAX_ARMS:
        yield f"the number of arms must be in 1…{MAX_ARMS}, got {arms.count}"
    if agents is not None and not 1 <= agents <= MAX_AGENT_ID + 1:
        yield f"--agents must be in 1…{MAX_AGENT_ID + 1}, got {agents}"
    if rounds is not None and not 1 <= rounds <= MAX_TRIAL:
        yield f"--rounds must be in 1…{MAX_TRIAL}, got {rounds}"
    if seed is not None and not 0 <= seed < SEED_LIMIT:
        yield f"--seed must be in [0, 2^64), got {seed}"
    if run is not None and len(run) != RUN_BYTES:
        yield f"a run id has {RUN_BYTES} bytes, got {len(run)}"
    if max_outstanding is not None and not 1 <= max_outstanding <= MAX_TRIAL:
        yield f"--max-outstanding must be in 1…{MAX_TRIAL}, got {max_outstanding}"


def _of_format_1(data: Mapping[str, Any], seed: int, arms: Arms) -> dict[str, Any]:
    """What a program of before there were terms has written down, as far as it goes."""
    agents = None if data["agents"] is None else _whole(data["agents"])
    rounds = None if data["rounds"] is None else _whole(data["rounds"])
    run = bytes.fromhex(data["run"])
    if faults := list(term_faults(arms, agents, rounds, seed, run)):
        raise SettingsError("; ".join(faults))
    started_ms = _milliseconds(data.get("created"))
    agreed = declared(run, arms.count, agents, rounds, start_ms=started_ms)
    return {"agreed": agreed, "seed": seed, "arms": arms, "started_ms": started_ms}


def _milliseconds(created: Any) -> int:
    """The time that format 1 has as text; 0 where that cannot be read, and the run is then very old."""
    try:
        return max(0, int(datetime.strptime(created, CREATED).timestamp() * 1000))
    except (TypeError, ValueError, OverflowError):
        return 0


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
