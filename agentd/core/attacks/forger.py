"""From what a liar claims to bodies that pass every check: the strongest that do, of each kind there is.

Claims are about all that was said of an arm so far. Where a body tells of one pull, the pull paid or did not, whichever
brings the whole nearer to the claim; where it tells of a batch, the batch's sum does. Everything follows from the
trial numbers, what the liar knows and its own chance: a liar that is started again says what it would have said.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial

import numpy as np

from agentd.core.attacks.basis.scheme import Claim, Scheme
from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.bodies.sealed_limits import Amounts, limits_of
from agentd.core.grid import UNIT
from agentd.core.privacy.release import restored
from agentd.core.privacy.sealing import Weighting
from agentd.core.privacy.series import ReleaseSeries

Body = list[int]

_HAIR = 1e-9
"""What a sum stays inside its limits by, relatively: both sides round."""


class Forger(ABC):
    """What one liar has said, and what it says next."""

    kind: Kind

    def __init__(self, scheme: Scheme) -> None:
        arms = len(scheme.known.means)
        self._scheme = scheme
        self._pulls = [0] * arms
        self._sums = [0] * arms

    @abstractmethod
    def body(self, trial: int) -> Body | None:
        """What to say at this trial; trials come in order, each once."""

    def said(self, trial: int) -> tuple[Kind, Body] | None:
        """The same with the mark of what was released: a liar's own program would not insist on it."""
        body = self.body(trial)
        if body is None:
            return None
        noised, width = self.kind.noised_places, len(self.kind.fields)
        return self.kind, [restored([n])[0] if place % width in noised else n for place, n in enumerate(body)]

    def catch_up(self, trial: int) -> None:
        """Say again, to nobody, what was said until this trial."""
        for before in range(1, trial + 1):
            self.body(before)

    def _pull(self, claim: Claim) -> int:
        """One more pull of an arm: whether it paid."""
        arm = claim.arm
        self._pulls[arm] += 1
        paid = UNIT if self._sums[arm] < _target(claim, self._pulls[arm]) * self._pulls[arm] * UNIT else 0
        self._sums[arm] += paid
        return paid


class ForgedSamples(Forger):
    """byzantine-ucb: the pull of a trial was of another arm and paid something else."""

    kind = SAMPLE

    def body(self, trial: int) -> Body | None:
        claim = self._scheme.claim(trial)
        return None if claim is None else [claim.arm, self._pull(claim)]


class ForgedTotals(Forger):
    """coop-ucb and coop-thompson: all that was said so far, and one pull more."""

    kind = TOTALS

    def body(self, trial: int) -> Body | None:
        claim = self._scheme.claim(trial)
        if claim is None:
            return None
        self._pull(claim)
        return [number for cell in zip(self._pulls, self._sums, strict=True) for number in cell]


class ForgedReleases(Forger):
    """private-ucb: pulls as claimed, and releases whenever the series has one."""

    kind = RELEASED

    def __init__(self, scheme: Scheme, epsilon: float, v: float) -> None:
        super().__init__(scheme)
        self._series = ReleaseSeries(epsilon, v)
        self._at_release = [0] * len(self._pulls)
        self._released = [0] * len(self._pulls)

    def body(self, trial: int) -> Body | None:
        claim = self._scheme.claim(trial)
        if claim is None:
            return None
        self._pull(claim)
        arm = claim.arm
        pulls = self._pulls[arm]
        if pulls in self._series.thresholds(pulls)[-1:]:
            self._at_release[arm], self._released[arm] = pulls, self._sums[arm]
        cells = zip(self._pulls, self._at_release, self._released, strict=True)
        return [number for cell in cells for number in (cell if cell[1] else (0, 0, 0))]


class ForgedRecords(Forger):
    """sealed and its kin: now and then a batch of all trials since the one before, worth what such a batch is worth."""

    kind = SEALED

    def __init__(self, scheme: Scheme, epsilon: float) -> None:
        super().__init__(scheme)
        arms = len(self._pulls)
        self._batches = [0] * arms
        self._samples = [0] * arms
        self._weighting = Weighting.of(epsilon)
        self._reach = partial(_reach, epsilon)
        self._next = scheme.first
        self._on_duty = scheme.known.duty is not None

    def body(self, trial: int) -> Body | None:
        """A record; in the first round at least a hello, so that everybody counts this agent in."""
        claim = self._scheme.claim(trial) if trial >= self._next else None
        if claim is None:
            return [0] * len(SEALED.fields) if trial == 1 else None
        self._next = self._scheme.after(trial)
        return self._batch(trial, self._dutiful(claim))

    def _dutiful(self, claim: Claim) -> Claim:
        """The claim, but first of all a record of the duty arm: nobody would hear others before."""
        duty, first = self._scheme.known.duty, self._on_duty
        self._on_duty = False
        if not first or duty is None or claim.arm == duty:
            return claim
        return Claim(duty, self._scheme.known.means[duty])

    def _batch(self, trial: int, claim: Claim) -> Body:
        arm, pulls = claim.arm, trial - sum(self._pulls)
        worth = self._weighting.samples(pulls)
        self._pulls[arm] += pulls
        self._batches[arm] += 1
        self._samples[arm] += worth
        samples = self._samples[arm]
        wanted = round(_target(claim, samples / UNIT) * samples)
        change = self._within(wanted - self._sums[arm], pulls, 1, worth)
        self._sums[arm] = self._within(self._sums[arm] + change, self._pulls[arm], self._batches[arm], samples)
        return [arm, self._pulls[arm], self._batches[arm], samples, self._sums[arm]]

    def _within(self, total: int, pulls: int, batches: int, samples: int) -> int:
        """The sum nearest to a wanted one that such batches can have."""
        if 0 <= total <= samples:
            return total
        beyond = self._reach(pulls, batches, samples)
        return min(max(total, -beyond), samples + beyond)


def forger_of(kind: Kind, scheme: Scheme, epsilon: float, v: float) -> Forger:
    """Who makes bodies of a kind; ValueError for one that only its own program can make."""
    if kind is SEALED:
        return ForgedRecords(scheme, epsilon)
    if kind is RELEASED:
        return ForgedReleases(scheme, epsilon, v)
    if kind is SAMPLE:
        return ForgedSamples(scheme)
    if kind is TOTALS:
        return ForgedTotals(scheme)
    raise ValueError(f"no attack knows how to forge {kind.name} bodies; lie about rewards instead: --attack huber")


def _target(claim: Claim, samples: float) -> float:
    """What all that was said of the arm is to look like, once it is worth so many samples."""
    if not claim.deviations:
        return claim.mean
    return claim.mean + claim.deviations * 0.5 * math.sqrt(1.0 / samples + 1.0 / claim.against)


def _reach(epsilon: float, pulls: int, batches: int, samples: int) -> int:
    """How far outside what was paid the sum of such batches may lie, in grid steps."""
    numbers = (np.array([float(number)]) for number in (pulls, batches, samples / UNIT, batches / UNIT))
    slack = float(limits_of(epsilon).slack(Amounts(*numbers))[0])
    return max(0, math.floor(slack * UNIT * (1 - _HAIR)) - batches)
