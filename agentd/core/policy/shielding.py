"""What records are worth where some of their origins may lie: a centre, how much it may count, and who disagrees.

The scale of an honest record is known: with A samples its mean deviates by ½/√A at most. So disagreement can be
measured, and robustness is paid for only as far as records disagree. Of one arm, in words:

1. Who has the arm as its duty counts as much as the middle one of them at most; volunteers, who chose the arm, count
   together a part of that. So nobody gains by claiming many pulls, and liars cannot choose where they count.
2. The centre P is where clipped disagreement cancels (Huber's estimate): nobody moves it by more than its weight times
   hk deviations.
3. Each record is held against the centre without it, and against what the agent released itself. z² far beyond what
   chance explains lowers the trust in its origin, on all arms, softly, and for as long as the records say so.
4. As far as the records disagree more than chance explains, what they can have moved the centre by is taken off what
   they count: A = 1/(1/Σw + 4(κb)²).

One row is one agent, one column one origin, those on duty first. The core asks for one row and the vectorised engine
for many, by the same operations in the same order, so that both get the same numbers; what decides is rounded to the
grid. Numbers are samples and means in doubles. See docs/algorithms.md for what it stands.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT
from agentd.core.message import Columns

Floats = NDArray[np.float64]

CLIP = 0.8
"""hk: deviations beyond which disagreement moves the centre no further."""
VOLUNTEERS = 0.1
"""k1: of what those on duty count together, the part that f volunteers may count."""
CROWD = 3
"""k2 and k3: so many times f volunteers bound each other, and so many reporters tell upward lies from luck."""
BY_CHANCE = 4.0
"""s0: z² up to which disagreement is luck."""
OWN_DOUBT = 9.0
"""z² against own data counts beyond this only: own data are few."""
SOFTNESS = 0.1
"""r0: how slowly trust begins to fall."""
CAUTION = 3.0
"""κ: how many times the possible bias is taken off."""
ENOUGH = 2.5
"""Of those who have an arm as their duty, so many are enough to explore it; where there are more, others do so less."""
MOVED = 0.2
"""Trust that has moved by more than this is a reason to look at all arms of its origin again."""
_LEAST = 0.001
_PASSES = 10
_SETTLED = 1e-8
"""Of a mean, far below the grid."""
_FAR = 1e9
_LARGEST_POWER = 600.0


class Own(NamedTuple):
    """What the agents themselves have released of the arm, and how many they may have to do with."""

    samples: Floats
    mean: Floats
    group: Floats
    """m, themselves included."""
    liars: Floats
    """f: how many of the others may lie."""


class Told(NamedTuple):
    """What the agents hold of an arm, a row each; those who have it as their duty come first."""

    samples: Floats
    """0 where nothing was told."""
    means: Floats
    inverse: Floats
    """1/samples, 0 where nothing was told."""
    trust: Floats
    duties: int
    """How many have it as their duty."""


class Settled(NamedTuple):
    """What some agents make of the records of an arm."""

    mean: Columns
    """Own data and others' together, in grid steps."""
    samples: Columns
    """What that counts, in grid steps; 0 where there is nothing to go by."""
    weight: Columns
    """Σw, what others have told as far as it is believed, in grid steps: batches are closed by it."""
    centre: Floats
    """P: what the records of others agree on, with own data."""
    dissent: Floats
    """z² of each record; 0 where there is none."""


def duty_of(beacon: bytes, agent: int, arms: int) -> int:
    """The arm that an agent has to report on first: public, and not its own choice."""
    return int.from_bytes(hashlib.sha256(beacon + agent.to_bytes(4, "big")).digest(), "big") % arms


def duty_by(algorithm: str, beacon: bytes, agent: int, arms: int) -> int | None:
    """The same for who may run another algorithm, which knows no duties; None there."""
    return duty_of(beacon, agent, arms) if algorithm == "shielded" else None


def columns_of(duties: Columns, arm: int) -> Columns:
    """The order in which origins stand in the table of an arm: those on duty first, each part as it is."""
    return np.argsort(duties != arm, kind="stable")


def zeal(duties: int) -> float:
    """How far coins may move the index of an arm that is not one's duty, where so many have it as theirs."""
    return min(1.0, math.sqrt(ENOUGH / duties)) if duties else 1.0


def settled_every(trial: int) -> int:
    """So many rounds apart an arm is looked at, at most: what is known changes ever more slowly."""
    return 1 + trial // 32


def liars_among(group: Columns, share: float) -> Floats:
    """F = ⌈ρ(m − 1)⌉; what multiplying rounds off is no liar."""
    liars: Floats = np.ceil(share * (group - 1) - 1e-9)
    return liars


def beyond_chance(dissent: Floats) -> Floats:
    """What of z² luck does not explain."""
    return np.maximum(0.0, dissent - BY_CHANCE)


def summed(parts: Sequence[Floats]) -> Floats:
    """The sum of some tables, one after the other: in another order the last bits may be others."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def believed(excess: Floats) -> Floats:
    """Trust from the z² beyond chance, summed over arms: 1 without any, and never quite 0; on the grid."""
    power = np.exp(np.minimum(0.5 * excess, _LARGEST_POWER))
    trust: Floats = np.floor((1.0 + SOFTNESS) / (1.0 + SOFTNESS * power) * UNIT + 0.5) / UNIT
    return trust


def told_of(samples: Floats, sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Samples, means and 1/samples of records, from what they say in grid steps."""
    nothing = samples <= 0.0
    some = np.where(nothing, 1.0, samples)
    return samples / UNIT, np.where(nothing, 0.0, sums / some), np.where(nothing, 0.0, UNIT / some)


def settle(told: Told, own: Own, distrust: Floats) -> Settled:
    """What comes of the records of an arm; `distrust` is Σ(1 − U) over all origins."""
    return _Arm(told, own).settled(distrust)


class _Arm:
    """One arm while it is settled; one row per agent, one column per origin."""

    def __init__(self, told: Told, own: Own) -> None:
        self._told, self._own = told, own
        duties = told.duties
        cap = _cap_of_duty(told.samples[:, :duties], own)
        weights = np.minimum(told.samples, cap[:, np.newaxis])
        weights *= told.trust
        on_duty = weights[:, :duties].sum(axis=1)
        volunteers = told.samples[:, duties:], told.trust[:, duties:]
        self._cap = _cap_of_volunteers(*volunteers, on_duty, own)
        np.minimum(volunteers[0], self._cap[:, np.newaxis], out=weights[:, duties:])
        weights[:, duties:] *= volunteers[1]
        self._weights, self._weight = weights, weights.sum(axis=1)
        everything = own.samples + self._weight
        self._everything = np.where(everything > 0.0, everything, 1.0)
        self._capped = np.maximum(told.inverse, (1.0 / cap)[:, np.newaxis])  # 1/min(A, cD)
        bounds = self._capped + (1.0 / self._everything)[:, np.newaxis]
        np.sqrt(bounds, out=bounds)
        bounds *= 0.5 * CLIP
        self._bounds = bounds
        """hk·s: how far a record may lie from the centre and still pull with all its weight."""

    def settled(self, distrust: Floats) -> Settled:
        own, weight = self._own, self._weight
        centre = self._centre()
        away = self._told.means - centre[:, np.newaxis]
        pull = np.minimum(np.maximum(away, -self._bounds), self._bounds)
        pull *= self._weights
        some = np.where(weight > 0.0, weight, 1.0)
        of_others = centre + pull.sum(axis=1) / some
        dissent = self._dissent(away)
        bias = self._bias(dissent, distrust, some)
        counted = np.where(weight > 0.0, 1.0 / (1.0 / some + 4.0 * np.square(CAUTION * bias)), 0.0)
        total = own.samples + counted
        mean = (own.samples * own.mean + counted * of_others) / np.where(total > 0.0, total, 1.0)
        return Settled(_on_grid(mean), _on_grid(total), _on_grid(weight), centre, dissent)

    def _centre(self) -> Floats:
        """P with Ao(po − P) + Σ w·clip(p − P, ±hk·s) = 0, from the weighted mean on.

        The left side falls with P and consists of straight pieces, so Newton's step is exact once the piece is found. A
        step that leaves what is known to enclose P is replaced by halving that. Rows that are done are left alone.
        """
        own, means, weights, bounds = self._own, self._told.means, self._weights, self._bounds
        mine, my_mean = own.samples, own.mean
        centre: Floats = (mine * my_mean + (weights * means).sum(axis=1)) / self._everything
        low, high = np.full_like(centre, -_FAR), np.full_like(centre, _FAR)
        rows = np.arange(len(centre))
        for _ in range(_PASSES):
            here = centre[rows]
            away = means - here[:, np.newaxis]
            pull = np.minimum(np.maximum(away, -bounds), bounds)
            inside = pull == away
            pull *= weights
            force = mine * (my_mean - here) + pull.sum(axis=1)
            slope = mine + (weights * inside).sum(axis=1)
            low, high = np.where(force > 0.0, here, low), np.where(force < 0.0, here, high)
            there = here + np.where(slope > 0.0, force / np.where(slope > 0.0, slope, 1.0), np.sign(force))
            there = np.where((there >= low) & (there <= high), there, 0.5 * (low + high))
            there = np.where(force == 0.0, here, there)
            centre[rows] = there
            going_on = np.abs(there - here) > _SETTLED
            if not going_on.any():
                break
            if not going_on.all():
                rows, mine, my_mean = rows[going_on], mine[going_on], my_mean[going_on]
                low, high = low[going_on], high[going_on]
                means, weights, bounds = means[going_on], weights[going_on], bounds[going_on]
        return centre

    def _dissent(self, away: Floats) -> Floats:
        """z² of each record against the centre without it, and against own data."""
        told, own = self._told, self._own
        rest = self._everything[:, np.newaxis] - self._weights
        alone = rest <= _SETTLED * self._everything[:, np.newaxis]
        rest[alone] = 1.0
        rest = 1.0 / rest
        # Without a record that was not clipped, the centre lies further away from it.
        further = np.where(np.abs(away) > self._bounds, 1.0, self._everything[:, np.newaxis] * rest)
        reporters = np.count_nonzero(told.samples, axis=1)
        few = (reporters < CROWD * own.liars)[:, np.newaxis]
        rest += np.where(few & (away > 0.0), self._capped, told.inverse)
        dissent = np.square(2.0 * away * further) / rest
        dissent[alone] = 0.0
        mine = np.flatnonzero(own.samples > 0.0)
        if len(mine):
            apart = np.square(2.0 * (told.means[mine] - own.mean[mine, np.newaxis]))
            apart /= told.inverse[mine] + (1.0 / own.samples[mine])[:, np.newaxis]
            apart += BY_CHANCE - OWN_DOUBT
            dissent[mine] = np.maximum(dissent[mine], apart)
        dissent *= told.samples > 0.0
        return dissent

    def _bias(self, dissent: Floats, distrust: Floats, some: Floats) -> Floats:
        """b: by how much f liars can have moved the centre, as far as records disagree more than chance explains."""
        own, duties = self._own, self._told.duties
        disagreement = (self._weights * dissent).sum(axis=1) / some
        evidence = np.minimum(1.0, np.sqrt(np.maximum(0.0, disagreement - 1.0)))
        others = np.maximum(own.group - 1.0 - distrust, np.maximum(own.liars, 1.0))
        of_duty = own.liars / others * (self._weights[:, :duties] * self._bounds[:, :duties]).sum(axis=1)
        heard = self._told.samples[:, duties:] > 0.0
        volunteers = np.count_nonzero(heard, axis=1)
        bound = (self._bounds[:, duties:] * heard).sum(axis=1) / np.maximum(volunteers, 1)
        liars = np.minimum(own.liars, volunteers)
        of_volunteers = liars * np.where(liars > 0.0, self._cap, 0.0) * bound
        bias: Floats = (of_duty + of_volunteers) / self._everything * evidence
        return bias


def _on_grid(values: Floats) -> Columns:
    steps: Columns = np.floor(values * UNIT + 0.5).astype(np.int64)
    return steps


def _cap_of_duty(samples: Floats, own: Own) -> Floats:
    """cD: what the middle one of those on duty has, and at least what the agent has itself."""
    cap = np.maximum(own.samples, _LEAST)
    if not samples.shape[1]:
        return cap
    ordered = np.sort(samples, axis=1)  # who has told nothing comes first
    number = np.count_nonzero(ordered, axis=1)
    middle = np.minimum(samples.shape[1] - number + (number - 1) // 2, samples.shape[1] - 1)
    lower_median = np.take_along_axis(ordered, middle[:, np.newaxis], axis=1)[:, 0]
    return np.maximum(cap, np.where(number > 0, lower_median, 0.0))


def _cap_of_volunteers(samples: Floats, trust: Floats, weight_of_duty: Floats, own: Own) -> Floats:
    """cV: so little that f volunteers cannot do much, unless there are many more of them; none where f is 0."""
    f = np.where(own.liars > 0.0, own.liars, 1.0)
    cap = np.maximum(own.samples, VOLUNTEERS * (weight_of_duty + own.samples) / f)
    crowded = np.flatnonzero((np.count_nonzero(samples, axis=1) >= CROWD * f) & (own.liars > 0.0))
    for row in crowded.tolist():
        cap[row] = max(cap[row], _bounding_each_other(samples[row], trust[row], CROWD * float(f[row])))
    return np.where(own.liars > 0.0, cap, np.inf)


def _bounding_each_other(samples: Floats, trust: Floats, times: float) -> float:
    """The largest c with Σ U·min(A, c) ≥ times·c; 0 where there is none."""
    order = np.argsort(samples, kind="stable")
    held, trusted = samples[order], trust[order]
    below = np.cumsum(trusted * held)
    above = np.maximum(trusted.sum() - np.cumsum(trusted), 0.0)
    enough = np.flatnonzero((held > 0.0) & (below + above * held >= times * held))
    if not len(enough):
        return 0.0
    last = int(enough[-1])
    return max(float(held[last]), float(below[last]) / max(times - float(above[last]), 1.0))
