"""The terms of a run: what is settled before the first pull and never changes afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentd.core.chance import SEED_LIMIT
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS, MAX_TRIAL
from agentd.errors import SettingsError
from agentd.run.arms import Arms
from agentd.wire.frame import RUN_BYTES

OPEN_AGENTS_LIMIT = 4096
"""Different agents that a run of an unknown number of agents has room for, so that no peer can fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """Which run this is, what its arms pay, and who may pull them how often."""

    run: bytes
    seed: int
    """Of the rewards; whoever knows it knows every reward, so it stays with the environment."""
    arms: Arms
    agents: int | None = None
    """Agents are numbered 0 … agents − 1; None: whoever comes."""
    rounds: int | None = None
    """The last trial of each agent, T; None: no end."""

    def __post_init__(self) -> None:
        if faults := list(term_faults(self.arms, self.agents, self.rounds, self.seed, self.run)):
            raise SettingsError("; ".join(faults))

    def admits(self, agent: int, known: int) -> bool:
        """Whether a new agent may join, when so many are known."""
        return agent < self.agents if self.agents is not None else known < OPEN_AGENTS_LIMIT

    def to_json(self) -> dict[str, Any]:
        """All that `from_json` needs."""
        return {
            "run": self.run.hex(),
            "seed": self.seed,
            "arms": self.arms.to_json(),
            "agents": self.agents,
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunTerms:
        """The terms that `to_json` described; ValueError where it cannot be."""
        try:
            return cls(
                run=bytes.fromhex(data["run"]),
                seed=_whole(data["seed"]),
                arms=Arms.from_json(data["arms"]),
                agents=None if data["agents"] is None else _whole(data["agents"]),
                rounds=None if data["rounds"] is None else _whole(data["rounds"]),
            )
        except KeyError as missing:
            raise ValueError(f"it lacks {missing}") from None
        except (TypeError, SettingsError) as wrong:
            raise ValueError(str(wrong)) from None


def term_faults(
    arms: Arms, agents: int | None, rounds: int | None, seed: int | None, run: bytes | None
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


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
