"""What was spent: the composed, true ε of everything an agent has released.

The paper's ε is a rate. What an observer can learn is the composition of all releases, and this is what the ledger
adds up and reports. Who is protected decides what to add:

- One reward belongs to one arm, and a changed reward can only show in the releases of that arm. So the promise for
  one changed reward is the largest composed ε over the arms: `epsilon_one_reward`.
- A change on every arm at once shows in all releases. Its promise is the sum over the arms: `epsilon_all_arms`.
- Where each reward enters one release only (disjoint batches, `sealed`), one changed reward shows in one release and
  costs what this one costs, however many others there are: parallel composition. A `disjoint` ledger therefore says
  the largest single release for one reward, and the sum of each arm's largest for one reward on every arm. It is no
  promise for sums that run on from release to release.

The ledger speaks of released sums. Where an agent's pulls follow from raw rewards, as with `private-ucb`, it speaks of
them given the sequence of pulls, which itself leaks: more than any sum of ε can say.

What may be spent can be limited. The budget bounds the promise for one changed reward: the sum over an arm's releases
where sums run on, the largest single release where batches are disjoint. A release that would go past it is not to be
made (`admits`), and cannot be recorded.

The sums are integers in units of 2^−128, each release rounded up: exact, of constant cost per release, kept per arm
and not per release, equal in any order, and never below the truth. They outgrow 64 bits: journal them as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from agentd.core.grid import UNIT
from agentd.core.privacy.series import cost, require_epsilon, require_v

UNIT_BITS = 128
"""Sums are kept in units of 2^−UNIT_BITS."""

_ROUND_UP = 1 + 2.0**-48
"""More than the relative error of the few double operations it follows."""


@dataclass(frozen=True, slots=True)
class Release:
    """One noised sum that left its source: of which arm, when, over how many pulls, with what noise scale."""

    arm: int
    trial: int
    pulls: int
    scale: int
    """In grid steps."""

    def __post_init__(self) -> None:
        if self.arm < 0 or self.trial < 1 or self.pulls < 1 or self.scale < 1:
            raise ValueError(f"no release looks like this: {self}")

    @property
    def epsilon(self) -> Fraction:
        """What this release alone costs."""
        return cost(self.scale)


@dataclass(slots=True)
class _Account:
    """Running sums over releases; integers, so that they are exact and add up in any order."""

    releases: int = 0
    linear: int = 0
    """Σ ε."""
    square: int = 0
    """Σ ε²."""
    drift: int = 0
    """Σ ε·(e^ε − 1)/(e^ε + 1), the mean privacy loss of the worst mechanism."""
    largest: int = 0
    """max ε."""
    least_scale: int = 0
    """Of the release that costs max ε, which it tells exactly; 0: there is none."""

    def charge(self, scale: int) -> None:
        """Add one release."""
        linear, square, drift = _charge(scale)
        self.releases += 1
        self.linear += linear
        self.square += square
        self.drift += drift
        if scale < self.least_scale or not self.least_scale:  # the less noise, the more it costs
            self.least_scale, self.largest = scale, linear

    def take_in(self, other: _Account) -> None:
        """Add the releases of another account, which has some."""
        self.releases += other.releases
        self.linear += other.linear
        self.square += other.square
        self.drift += other.drift
        self.largest = max(self.largest, other.largest)
        self.least_scale = min(self.least_scale or other.least_scale, other.least_scale)

    def pure(self) -> float:
        return _upper(self.linear)

    def advanced(self, delta: float) -> float:
        """Kairouz, Oh and Viswanath 2015, Theorem 3.5: the better of the plain sum and the bound with ln(1/δ)."""
        spread = math.sqrt(2 * math.log(1 / delta) * _upper(self.square))
        return min(self.pure(), (_upper(self.drift) + spread) * _ROUND_UP)


class Ledger:
    """The privacy an agent has spent, per arm and in all.

    The pure ε holds along every path. The (ε, δ) values hold for a number of releases that was fixed before the first
    reward, and so for the ledger of a schedule (`schedule.py`) and not for that of a run.
    """

    def __init__(self, *, disjoint: bool = False, budget: float | None = None) -> None:
        self.disjoint = disjoint
        """Whether each reward enters one release only."""
        self.refused = 0
        """Releases that the budget did not admit."""
        self._budget = None if budget is None else math.floor(Fraction(budget) * (1 << UNIT_BITS))
        self.made = 0
        """Releases that were charged."""
        self._arms: dict[int, _Account] = {}

    def admits(self, release: Release) -> bool:
        """Whether the budget has room for a release; one that it has no room for is counted, and must not be made."""
        if self._budget is None or self._has_room(release):
            return True
        self.refused += 1
        return False

    def record(self, release: Release) -> None:
        """Charge one release; call it before the release leaves, once."""
        if self._budget is not None and not self._has_room(release):
            raise ValueError(f"{release} goes past the privacy budget")
        self.take_back(release)

    def take_back(self, release: Release) -> None:
        """Charge a release that was made in the past, whatever the budget says by now."""
        account = self._arms.get(release.arm)
        if account is None:
            account = self._arms[release.arm] = _Account()
        account.charge(release.scale)
        self.made += 1

    def _has_room(self, release: Release) -> bool:
        if self._budget is None:
            return True
        before = 0 if self.disjoint else self._account(release.arm).linear
        return before + _ceil_ratio(UNIT, release.scale) <= self._budget

    @property
    def arms(self) -> list[int]:
        return sorted(self._arms)

    def releases(self, arm: int | None = None) -> int:
        """Count the releases of an arm, or of all."""
        return self.made if arm is None else self._account(arm).releases

    def spent(self, arm: int | None = None) -> Fraction:
        """Return Σ ε of an arm or of all arms: the exact value of the ledger, each release rounded up."""
        return Fraction(self._account(arm).linear, 1 << UNIT_BITS)

    def pure_epsilon(self, arm: int | None = None) -> float:
        """Return Σ ε of an arm or of all arms, rounded up to a double."""
        return self._account(arm).pure()

    def advanced_epsilon(self, delta: float, arm: int | None = None) -> float:
        """Return the ε that holds but for probability δ, for an arm or for all; never above the pure one."""
        _require_delta(delta)
        return self._account(arm).advanced(delta)

    def epsilon_one_reward(self, delta: float | None = None) -> float:
        """Return the promise for one changed reward, pure or at δ: the largest over the arms, or over the releases."""
        if self.disjoint:
            return self.epsilon_largest_release()
        if delta is None:
            return max(map(self.pure_epsilon, self._arms), default=0.0)
        return max((self.advanced_epsilon(delta, arm) for arm in self._arms), default=0.0)

    def cost_of_rewards(self, rewards: int = 1) -> Fraction:
        """Return what so many changed rewards cost together, and nothing lost on the way where batches are disjoint."""
        if not self.disjoint:
            return rewards * Fraction(self.epsilon_one_reward())
        scale = self._account(None).least_scale
        return rewards * cost(scale) if scale else Fraction(0)

    def epsilon_all_arms(self, delta: float | None = None) -> float:
        """Return the promise for a change on every arm, pure or at δ."""
        if self.disjoint:
            return _upper(sum(account.largest for account in self._arms.values()))
        return self.pure_epsilon() if delta is None else self.advanced_epsilon(delta)

    def epsilon_largest_release(self) -> float:
        """Return the promise for one changed reward where no reward enters two releases."""
        return _upper(max([account.largest for account in self._arms.values()], default=0))

    def _account(self, arm: int | None) -> _Account:
        """That of an arm, or of all: added up when it is asked for, which is seldom, and not at each release."""
        if arm is not None:
            return self._arms.get(arm, _NOTHING)
        total = _Account()
        for account in self._arms.values():
            total.take_in(account)
        return total


_NOTHING = _Account()


def composed_epsilons(scales: Sequence[int], numbers: Iterable[int]) -> list[float]:
    """The pure ε of one reward after each of these numbers of releases of its arm, as a ledger says it."""
    spent = list(accumulate((_ceil_ratio(UNIT, scale) for scale in scales), initial=0))
    return [_upper(spent[number]) for number in numbers]


def paper_bound(epsilon: float, v: float, trials: int, delta: float) -> float:
    """Return the bound of the paper's Lemma "Privacy Guarantee" after so many trials, as published.

    It is what the paper claims, not what was spent; the ledger stands beside it.
    """
    require_epsilon(epsilon)
    require_v(v)
    _require_delta(delta)
    growing = epsilon * math.pow(trials, 1 - v / 2) / (1 - v / 2)
    settled = epsilon * zeta(v)
    return min(growing, 2 * settled + math.sqrt(2 * settled * math.log(1 / delta)))


# B_2j / (2j)!, j = 1…6: with 20 terms before the tail, the first one left out is below 10^−19 for s up to 2.
_BERNOULLI_RATIOS = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def zeta(s: float) -> float:
    """Return Riemann's ζ(s) for s > 1, by Euler and Maclaurin's formula from the twentieth term on."""
    if not s > 1:
        raise ValueError(f"zeta needs an argument above 1, got {s!r}")
    n = 20
    tail = math.pow(n, 1 - s) / (s - 1) + math.pow(n, -s) / 2
    rising = s * math.pow(n, -s - 1)  # s·(s+1)·…·(s+2j−2)·n^(−s−2j+1), for j = 1
    for j, ratio in enumerate(_BERNOULLI_RATIOS, start=1):
        tail += ratio * rising
        rising *= (s + 2 * j - 1) * (s + 2 * j) / (n * n)
    return math.fsum(math.pow(k, -s) for k in range(1, n)) + tail


def _charge(scale: int) -> tuple[int, int, int]:
    """What a release adds to Σ ε, Σ ε² and the drift."""
    epsilon = UNIT / scale
    drift = math.ceil(math.ldexp(epsilon * math.tanh(epsilon / 2) * _ROUND_UP, UNIT_BITS))
    return _ceil_ratio(UNIT, scale), _ceil_ratio(UNIT * UNIT, scale * scale), drift


def _ceil_ratio(numerator: int, denominator: int) -> int:
    return -((-numerator << UNIT_BITS) // denominator)


def _upper(units: int) -> float:
    """Read units as a double that is not below them."""
    nearest = units / (1 << UNIT_BITS)
    return nearest if Fraction(nearest) * (1 << UNIT_BITS) >= units else math.nextafter(nearest, math.inf)


def _require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
