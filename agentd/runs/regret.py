"""Group regret: R(T) = T·M·μ* − Σ_m Σ_t μ_{A(m,t)}, over the pulls that were made.

Regret is measured with the true means, not with the rewards that happened to fall, so it has no noise of its
own. A trial that an agent never pulled (it crashed, or the run was stopped) adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NOT_PULLED = 65_535
"""Stands in an array of arms for a trial that was not pulled."""

NO_REWARD = -1
"""Stands in an array of rewards for a trial that was not pulled."""

LEDGER_LIMIT_PULLS = 1 << 26
"""Pulls a ledger without a horizon has room for: 400 MB at 6 bytes each, and twice that while it grows."""

_FIRST_CAPACITY = 256
_BLOCK_PULLS = 1 << 20  # pulls looked up at once; bounds the temporary memory of a curve to 8 MB


def regret_curve(arm: NDArray[np.integer[Any]], means: Sequence[float]) -> NDArray[np.float64]:
    """Cumulative group regret after each round, from the arms pulled (agents × rounds)."""
    price = _price_by_arm(means)
    rounds = arm.shape[1]
    block = max(1, _BLOCK_PULLS // max(1, arm.shape[0]))
    per_round = np.zeros(rounds, dtype=np.float64)
    for first in range(0, rounds, block):
        per_round[first : first + block] = price[arm[:, first : first + block]].sum(axis=0)
    if np.isnan(per_round).any():
        raise ValueError(f"the pulls name an arm beyond the {len(means)} that exist")
    return np.cumsum(per_round)


def group_regret(arm: NDArray[np.integer[Any]], means: Sequence[float]) -> float:
    """Group regret of all pulls (agents × rounds), from counts, so it does not depend on their order."""
    counts = np.zeros(NOT_PULLED + 1, dtype=np.int64)
    block = max(1, _BLOCK_PULLS // max(1, arm.shape[1]))
    for first in range(0, len(arm), block):
        counts += np.bincount(arm[first : first + block].ravel(), minlength=NOT_PULLED + 1)
    if counts[len(means) : NOT_PULLED].any():
        raise ValueError(f"the pulls name an arm beyond the {len(means)} that exist")
    return _regret_of_counts(counts[: len(means)], means)


def honest_regret(arm: NDArray[np.integer[Any]], means: Sequence[float], liars: Collection[int]) -> float:
    """Regret of one honest agent on average, from the pulls of all; NaN where everybody lies."""
    if not liars:
        return group_regret(arm, means) / len(arm) if len(arm) else math.nan
    honest = [agent for agent in range(len(arm)) if agent not in liars]
    return group_regret(arm[honest], means) / len(honest) if honest else math.nan


def rounds_made(arm: NDArray[np.integer[Any]]) -> int:
    """The last round in which anybody pulled, from the arms pulled (agents × rounds); 0: none."""
    pulled = np.flatnonzero((arm != NOT_PULLED).any(axis=0))
    return int(pulled[-1]) + 1 if len(pulled) else 0


class RegretLedger:
    """Every pull of a run, counted exactly once however often it is reported.

    Storage is 6 bytes per agent and trial. It starts small and doubles up to `rounds`; without a horizon, up
    to LEDGER_LIMIT_PULLS in all. Beyond that a pull is refused, so no peer can make it eat the machine.
    """

    def __init__(self, means: Sequence[float], agents: int, rounds: int | None = None) -> None:
        if not 1 <= len(means) <= NOT_PULLED:
            raise ValueError(f"a ledger needs 1…{NOT_PULLED} arms, got {len(means)}")
        if agents < 1 or (rounds is not None and rounds < 1):
            raise ValueError(f"a ledger needs agents and rounds, got {agents} agents and {rounds} rounds")
        self.means = tuple(means)
        self.agents = agents
        self.trials_limit = rounds if rounds is not None else max(1, LEDGER_LIMIT_PULLS // agents)
        self.rounds_seen = 0
        self._counts = np.zeros(len(means), dtype=np.int64)
        capacity = min(_FIRST_CAPACITY, self.trials_limit)
        self._arm = np.full((agents, capacity), NOT_PULLED, dtype=np.uint16)
        self._reward = np.full((agents, capacity), NO_REWARD, dtype=np.int32)

    def count(self, agent: int, trial: int, arm: int, reward: int) -> bool:
        """Enter one pull (trials count from 1); False if it is in the ledger already.

        The same trial with another arm or another reward is refused.
        """
        if not 0 <= arm < len(self.means):
            raise ValueError(f"there are {len(self.means)} arms, numbered from 0; got arm {arm}")
        if reward < 0:
            raise ValueError(f"a reward on the grid is not negative, got {reward}")
        known = self.pulled(agent, trial)
        if known is not None:
            return self._recount(agent, trial, known, (arm, reward))
        self._grow(trial)
        self._arm[agent, trial - 1] = arm
        self._reward[agent, trial - 1] = reward
        self._counts[arm] += 1
        self.rounds_seen = max(self.rounds_seen, trial)
        return True

    def pulled(self, agent: int, trial: int) -> tuple[int, int] | None:
        """The arm and the reward that an agent's trial has in the ledger."""
        if not 0 <= agent < self.agents:
            raise ValueError(f"there are {self.agents} agents, numbered from 0; got agent {agent}")
        if not 1 <= trial <= self.trials_limit:
            raise ValueError(f"trial {trial} is outside 1…{self.trials_limit}")
        if trial > self._arm.shape[1] or self._arm[agent, trial - 1] == NOT_PULLED:
            return None
        return int(self._arm[agent, trial - 1]), int(self._reward[agent, trial - 1])

    @property
    def pulls(self) -> int:
        """How many pulls were counted."""
        return int(self._counts.sum())

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many pulls each arm got."""
        return self._counts.copy()

    @property
    def group_regret(self) -> float:
        """Group regret of all pulls so far; equal, bit for bit, to `group_regret` of the pulls."""
        return _regret_of_counts(self._counts, self.means)

    @property
    def arm(self) -> NDArray[np.uint16]:
        """Arms by agent and trial, up to the last round anyone reached; NOT_PULLED where there was none."""
        return self._arm[:, : self.rounds_seen].copy()

    @property
    def reward(self) -> NDArray[np.int32]:
        """Rewards by agent and trial on the grid; NO_REWARD where a pull is missing."""
        return self._reward[:, : self.rounds_seen].copy()

    def curve(self) -> NDArray[np.float64]:
        """Cumulative group regret after each round so far."""
        return regret_curve(self._arm[:, : self.rounds_seen], self.means)

    def _recount(self, agent: int, trial: int, known: tuple[int, int], told: tuple[int, int]) -> bool:
        if known != told:
            what = "arm" if known[0] != told[0] else "reward"
            raise ValueError(f"trial {trial} of agent {agent} was counted with another {what}: {known} is not {told}")
        return False

    def _grow(self, trial: int) -> None:
        """Make room for a trial; doubling keeps the cost of a pull constant on average."""
        capacity = self._arm.shape[1]
        if trial <= capacity:
            return
        added = (self.agents, min(max(trial, 2 * capacity), self.trials_limit) - capacity)
        self._arm = np.concatenate([self._arm, np.full(added, NOT_PULLED, dtype=np.uint16)], axis=1)
        self._reward = np.concatenate([self._reward, np.full(added, NO_REWARD, dtype=np.int32)], axis=1)


def _price_by_arm(means: Sequence[float]) -> NDArray[np.float64]:
    """What one pull costs, for every uint16: the arm's gap, nothing for no pull, NaN where there is no arm."""
    price = np.full(NOT_PULLED + 1, np.nan)
    price[: len(means)] = max(means) - np.asarray(means, dtype=np.float64)
    price[NOT_PULLED] = 0.0
    return price


def _regret_of_counts(counts: NDArray[np.integer[Any]], means: Sequence[float]) -> float:
    best = max(means)
    return math.fsum(int(count) * (best - mean) for count, mean in zip(counts, means, strict=True))
