"""Reward distributions, each a function of one uniform number per pull.

The service deals one pull at a time, the vectorised engine whole rounds; both go through the same arithmetic
on the same uniform of (seed, agent, trial), so both deal the same grid integer, bit for bit.

Every distribution that is not a coin is a piecewise-linear quantile table whose knots are grid integers.
Between two integers a and b, rounding a uniform point to the nearest step has mean (a + b) / 2 exactly, so the
true mean of what is dealt is a plain sum over the knots: `means` is no approximation of the table, and regret
measured against it is exact. It differs from the mean that was asked for by less than 1e-3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.rewards import DISTRIBUTIONS

ARMS_LIMIT = 65_535
"""Arms are stored as uint16 and the largest value means "not pulled"."""

TABLE_ARMS_LIMIT = 4_096
"""A quantile table takes 8 KB per arm; more arms than this with beta or normal rewards are refused."""

_WORDS_PER_BLOCK = 4  # Philox turns one counter value into four 64-bit words, and one uniform takes one word


@dataclass(frozen=True, slots=True)
class Arms:
    """K reward distributions on the grid; `means` are the true means of what is dealt, in [0, 1].

    `low` and `high` are the declared bounds in which a person reads rewards; they change nothing that is
    dealt. Near the edges of [0, 1] the spread shrinks until the distribution fits around its mean.
    """

    requested: tuple[float, ...]
    kind: str = "bernoulli"
    spread: float | None = None
    low: float = 0.0
    high: float = 1.0
    means: tuple[float, ...] = field(init=False, compare=False)
    are_coins: bool = field(init=False, repr=False, compare=False)
    """Whether each reward is all or nothing."""
    _means: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _knots: NDArray[np.int32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self)
        distribution = DISTRIBUTIONS[self.kind]
        object.__setattr__(self, "are_coins", distribution.knots is None)
        if self.spread is None:
            object.__setattr__(self, "spread", distribution.spread)
        knots = np.array([distribution.table(mean, self.spread) for mean in self.requested], dtype=np.int32)
        means = self.requested if self.are_coins else tuple(_mean_of(row) for row in knots)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "_means", np.array(means, dtype=np.float64))
        object.__setattr__(self, "_knots", knots)

    @classmethod
    def fixed(
        cls,
        means: Iterable[float],
        kind: str = "bernoulli",
        *,
        spread: float | None = None,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> Arms:
        """Arms with the given means in [0, 1]."""
        return cls(tuple(float(mean) for mean in means), kind, spread, *bounds)

    @classmethod
    def random(
        cls,
        count: int,
        stream: np.random.Generator,
        low: float = 0.0,
        high: float = 1.0,
        kind: str = "bernoulli",
        *,
        spread: float | None = None,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> Arms:
        """Arms whose means are drawn uniformly from [low, high]."""
        if not 1 <= count <= ARMS_LIMIT:
            raise ValueError(f"the number of arms must be in 1…{ARMS_LIMIT}, got {count}")
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(f"arm means must be drawn from a range within [0, 1], got [{low}, {high}]")
        return cls.fixed((low + (high - low) * stream.random(count)).tolist(), kind, spread=spread, bounds=bounds)

    @property
    def count(self) -> int:
        """The number of arms, K."""
        return len(self.means)

    def deal(self, arm: NDArray[np.integer[Any]], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Deal one reward per (arm, uniform in [0, 1)) pair, as grid integers."""
        if self.are_coins:
            return np.multiply(u < self._means.take(arm), UNIT, dtype=np.int64)
        segments = self._knots.shape[1] - 1
        place = u * segments
        segment = place.astype(np.int64)
        start = arm.astype(np.int64) * (segments + 1) + segment  # a uint16 arm would overflow here
        left, right = self._knots.take(start), self._knots.take(start + 1)
        dealt: NDArray[np.int64] = np.floor(left + (place - segment) * (right - left) + 0.5).astype(np.int64)
        return dealt

    def deal_one(self, arm: int, u: float) -> int:
        """Deal one reward exactly as `deal` does."""
        if not 0 <= arm < self.count:
            raise ValueError(f"there are {self.count} arms, numbered from 0; got arm {arm}")
        if not 0.0 <= u < 1.0:
            raise ValueError(f"a uniform must lie in [0, 1), got {u!r}")
        if self.are_coins:
            return UNIT if u < self.means[arm] else 0
        place = u * int(self._knots.shape[1] - 1)
        segment = int(place)
        left, right = int(self._knots[arm, segment]), int(self._knots[arm, segment + 1])
        return math.floor(left + (place - segment) * (right - left) + 0.5)

    def to_json(self) -> dict[str, Any]:
        """All that `from_json` needs, and the true means for whoever reads the manifest."""
        return {
            "kind": self.kind,
            "requested": list(self.requested),
            "means": list(self.means),
            "spread": self.spread,
            "low": self.low,
            "high": self.high,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Arms:
        """Rebuild the arms that `to_json` described; `means` follow from the rest and are not read."""
        try:
            requested = tuple(float(mean) for mean in data["requested"])
            spread = None if data["spread"] is None else float(data["spread"])
            return cls(requested, str(data["kind"]), spread, float(data["low"]), float(data["high"]))
        except KeyError as missing:
            raise ValueError(f"the description of the arms lacks {missing}") from None
        except TypeError as wrong:
            raise ValueError(f"the description of the arms is malformed: {wrong}") from None


def uniforms(seed: int, agent: int, first_trial: int, count: int) -> NDArray[np.float64]:
    """The uniforms of an agent's trials first_trial, first_trial + 1, … (trials count from 1).

    Trial t always gets draw t − 1 of the agent's reward stream, whatever blocks it is asked in.
    """
    if first_trial < 1 or count < 0 or agent < 0:
        raise ValueError(f"no such trials: agent {agent}, {count} from trial {first_trial}")
    block, word = divmod(first_trial - 1, _WORDS_PER_BLOCK)
    return stream(seed, Purpose.REWARD, agent, skip=block).random(word + count)[word:]


def _check(arms: Arms) -> None:
    """Refuse what cannot be dealt, in one line."""
    if arms.kind not in DISTRIBUTIONS:
        raise ValueError(f"unknown reward distribution {arms.kind!r}; choose one of {', '.join(DISTRIBUTIONS)}")
    limit = TABLE_ARMS_LIMIT if DISTRIBUTIONS[arms.kind].fine else ARMS_LIMIT
    if not 1 <= len(arms.requested) <= limit:
        raise ValueError(f"the number of {arms.kind} arms must be in 1…{limit}, got {len(arms.requested)}")
    for number, mean in enumerate(arms.requested):
        if not 0.0 <= mean <= 1.0:  # also refuses NaN
            raise ValueError(f"the mean of arm {number} must lie in [0, 1], got {mean!r}")
    if not (math.isfinite(arms.low) and math.isfinite(arms.high) and arms.low < arms.high):
        raise ValueError(f"the declared bounds need low < high, both finite; got [{arms.low}, {arms.high}]")
    if arms.spread is not None and DISTRIBUTIONS[arms.kind].knots is None:
        raise ValueError(f"{arms.kind} rewards take no spread; it follows from the mean")
    if arms.spread is not None and not 0.0 < arms.spread < math.inf:
        raise ValueError(f"the spread of rewards must be positive and finite, got {arms.spread!r}")


def _mean_of(knots: NDArray[np.int32]) -> float:
    """The exact mean of what a table deals: segments are equally likely, each has the mean of its ends."""
    doubled = 2 * int(knots.sum(dtype=np.int64)) - int(knots[0]) - int(knots[-1])
    return doubled / (2 * (len(knots) - 1) * UNIT)
