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

One row is one arm of one agent, one column one origin. The core asks for the rows of one agent and the vectorised
engine for those of many, by the same operations in the same order, so that both get the same numbers; what decides is
rounded to the grid. Numbers are samples and means in doubles. See docs/algorithms.md for what it stands.
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
Mask = NDArray[np.bool_]

CLIP = 0.6
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
_FEW, _MANY = 50, 200
"""Where so few origins take part, a duty's batch is worth four times what first batches are with `sealed`: all trust
rests on what is known when liars begin. From so many on their number does as well."""
MOVED = 0.2
"""Trust that has moved by more than this is a reason to look at all arms of its origin again."""
_LEAST = 0.001
_NONE = 1e-300
_PASSES = 3
"""Each takes the centre two thirds of its way, or more."""
_ROUNDING = 1e-8
"""Of all weight; no more than this is nothing."""
_LARGEST_POWER = 600.0


class Own(NamedTuple):
    """What the agents themselves have released of the arms, and how many they may have to do with; a number a row."""

    samples: Floats
    mean: Floats
    group: Floats
    """m, themselves included."""
    liars: Floats
    """f: how many of the others may lie."""


class Told(NamedTuple):
    """What the agents hold of arms, a row each; a column per origin."""

    samples: Floats
    """0 where nothing was told."""
    means: Floats
    inverse: Floats
    """1/samples, 0 where nothing was told."""
    trust: Floats
    duty: Floats
    """1 where the origin has the arm as its duty, else 0."""
    volunteers: Floats
    """The opposite."""


class Settled(NamedTuple):
    """What some agents make of the records of arms."""

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


def worth_of_duty(least: Columns | int, group: Columns | int) -> Columns:
    """What a duty's batch by everybody is to be worth, where that of other first batches is `least`."""
    worth: Columns = np.maximum(least, least * _MANY // np.maximum(group, _FEW))
    return worth


def zeal(duties: int) -> float:
    """How far coins may move the index of an arm that is not one's duty, where so many have it as theirs."""
    return min(1.0, math.sqrt(ENOUGH / duties)) if duties else 1.0


def settled_every(trial: int) -> int:
    """So many rounds apart an arm is looked at, at most: what is known changes ever more slowly."""
    return 1 + trial // 16


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
    """What comes of the records of some arms; `distrust` is Σ(1 − U) over all origins."""
    return _Settling(told, own).settled(distrust)


class _Settling:
    """Some arms of some agents while they are settled, a row each; one column per origin."""

    def __init__(self, told: Told, own: Own) -> None:
        self._told, self._own = told, own
        self._held = told.samples > 0.0
        self._few = np.count_nonzero(self._held, axis=1) < CROWD * own.liars
        cap = _cap_of_duty(told.samples * told.duty, own)
        self._of_duty = self._weighed(cap, told.duty)
        self._cap = _cap_of_volunteers(told, self._of_duty.sum(axis=1), own, self._few)
        self._weights = self._weighed(self._cap, told.volunteers)
        self._weights += self._of_duty
        self._weight = self._weights.sum(axis=1)
        everything = own.samples + self._weight
        self._everything = np.where(everything > 0.0, everything, 1.0)
        self._capped = np.maximum(told.inverse, _upright(1.0 / cap))  # 1/min(A, cD)
        bounds = self._capped + _upright(1.0 / self._everything)
        np.sqrt(bounds, out=bounds)
        bounds *= 0.5 * CLIP
        self._bounds = bounds
        """hk·s: how far a record may lie from the centre and still pull with all its weight."""

    def settled(self, distrust: Floats) -> Settled:
        own, weight = self._own, self._weight
        centre = self._centre()
        away = self._told.means - _upright(centre)
        far = np.abs(away)
        some = np.where(weight > 0.0, weight, 1.0)
        of_others = centre + (self._pulling(far) * away).sum(axis=1) / some
        dissent = self._dissent(away, far)
        disagreement = (self._weights * dissent).sum(axis=1) / some
        bias = self._bias(disagreement, distrust)
        counted = np.where(weight > 0.0, 1.0 / (1.0 / some + 4.0 * np.square(CAUTION * bias)), 0.0)
        total = own.samples + counted
        mean = (own.samples * own.mean + counted * of_others) / np.where(total > 0.0, total, 1.0)
        return Settled(_on_grid(mean), _on_grid(total), _on_grid(weight), centre, dissent)

    def _weighed(self, cap: Floats, part: Floats) -> Floats:
        """U·min(A, c) of a part of the reporters."""
        weights: Floats = np.minimum(self._told.samples, _upright(cap))
        weights *= self._told.trust
        weights *= part
        return weights

    def _centre(self) -> Floats:
        """P with Ao(po − P) + Σ w·clip(p − P, ±hk·s) = 0, nearly: the weighted mean, weighed anew a few times.

        Weighing by what clipping leaves of a record's pull leads towards P and never beyond, however far apart liars
        and others are. The way is as long for all, so that a row comes to the same whatever it is settled with.
        """
        own, means = self._own, self._told.means
        centre: Floats = (own.samples * own.mean + (self._weights * means).sum(axis=1)) / self._everything
        for _ in range(_PASSES):
            away = means - _upright(centre)
            pulling = self._pulling(np.abs(away))
            left = own.samples + pulling.sum(axis=1)
            pulling *= away
            pull = own.samples * (own.mean - centre) + pulling.sum(axis=1)
            centre += pull / np.where(left > 0.0, left, 1.0)
        return centre

    def _pulling(self, far: Floats) -> Floats:
        """w·min(1, hk·s/|p − P|): a record's weight, less what is clipped of its pull."""
        pulling: Floats = self._bounds / np.maximum(far, self._bounds)
        pulling *= self._weights
        return pulling

    def _dissent(self, away: Floats, far: Floats) -> Floats:
        """z² of each record against the centre without it, and against own data."""
        told, own, everything = self._told, self._own, _upright(self._everything)
        rest = everything - self._weights
        np.maximum(rest, _ROUNDING * everything, out=rest)
        np.divide(1.0, rest, out=rest)
        # Without a record that was not clipped, the centre lies further away from it.
        dissent: Floats = np.where(far > self._bounds, 1.0, everything * rest)
        dissent *= away
        dissent *= dissent
        rest += np.where((away > 0.0) & self._few[:, np.newaxis], self._capped, told.inverse)
        dissent /= rest
        apart = told.means - _upright(own.mean)
        apart *= apart
        # Who has no own data is as unsure as can be.
        apart /= told.inverse + _upright(1.0 / np.maximum(own.samples, _NONE))
        apart += (BY_CHANCE - OWN_DOUBT) / 4.0
        np.maximum(dissent, apart, out=dissent)
        dissent *= self._held
        dissent *= 4.0
        return dissent

    def _bias(self, disagreement: Floats, distrust: Floats) -> Floats:
        """b: by how much f liars can have moved the centre, as far as records disagree more than chance explains."""
        bias = np.zeros_like(disagreement)
        rows = np.flatnonzero(disagreement > 1.0)
        if not len(rows):
            return bias
        own, bounds = self._own, self._bounds[rows]
        evidence = np.minimum(1.0, np.sqrt(disagreement[rows] - 1.0))
        most = own.liars[rows]
        others = np.maximum(own.group[rows] - 1.0 - distrust[rows], np.maximum(most, 1.0))
        of_duty = most / others * (self._of_duty[rows] * bounds).sum(axis=1)
        heard = self._held[rows] * self._told.volunteers[rows]
        volunteers = heard.sum(axis=1)
        bound = (bounds * heard).sum(axis=1) / np.maximum(volunteers, 1.0)
        liars = np.minimum(most, volunteers)
        of_volunteers = liars * np.where(liars > 0.0, self._cap[rows], 0.0) * bound
        bias[rows] = (of_duty + of_volunteers) / self._everything[rows] * evidence
        return bias


def _upright(numbers: Floats) -> Floats:
    """A number a row, for all columns."""
    return numbers[:, np.newaxis]


def _on_grid(values: Floats) -> Columns:
    steps: Columns = np.floor(values * UNIT + 0.5).astype(np.int64)
    return steps


def _cap_of_duty(samples: Floats, own: Own) -> Floats:
    """cD: what the middle one of those on duty has, and at least what the agent has itself."""
    ordered = np.sort(samples, axis=1)  # who has told nothing comes first
    columns = samples.shape[1]
    number = np.count_nonzero(ordered, axis=1)
    middle = np.minimum(columns - number + (number - 1) // 2, columns - 1)
    lower_median = ordered[np.arange(len(ordered)), middle]  # 0 if there is none
    cap: Floats = np.maximum(np.maximum(own.samples, _LEAST), lower_median)
    return cap


def _cap_of_volunteers(told: Told, weight_of_duty: Floats, own: Own, few: Mask) -> Floats:
    """cV: so little that f volunteers cannot do much, unless there are many more of them; none where f is 0."""
    f = np.where(own.liars > 0.0, own.liars, 1.0)
    cap = np.maximum(own.samples, VOLUNTEERS * (weight_of_duty + own.samples) / f)
    many = np.flatnonzero(~few & (own.liars > 0.0) & (told.volunteers.sum(axis=1) >= CROWD * f))
    crowds = told.samples[many] * told.volunteers[many]
    crowded = np.count_nonzero(crowds, axis=1) >= CROWD * f[many]
    for row, crowd in zip(many[crowded].tolist(), crowds[crowded], strict=True):
        who = np.flatnonzero(crowd)
        cap[row] = max(cap[row], _bounding_each_other(crowd[who], told.trust[row, who], CROWD * float(f[row])))
    return np.where(own.liars > 0.0, cap, np.inf)


def _bounding_each_other(samples: Floats, trust: Floats, times: float) -> float:
    """The largest c with Σ U·min(A, c) ≥ times·c; 0 where there is none."""
    order = np.argsort(samples, kind="stable")
    held, trusted = samples[order], trust[order]
    below = np.cumsum(trusted * held)
    above = np.maximum(trusted.sum() - np.cumsum(trusted), 0.0)
    enough = np.flatnonzero(below + above * held >= times * held)
    if not len(enough):
        return 0.0
    last = int(enough[-1])
    return max(float(held[last]), float(below[last]) / max(times - float(above[last]), 1.0))
