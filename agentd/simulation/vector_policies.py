"""The policies again, for all agents of several runs at once: state in columns, one call per round.

Every array has one row per arm and one place per (run, agent). What `core/policy` does with integers and one logarithm
per trial is done here with the same integers and the same logarithm; in between stand only operations that IEEE 754
rounds exactly. So the arms are the same, bit for bit; `tests/simulate/test_engines_agree.py` holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT
from agentd.core.policy.base import widened_log
from agentd.core.privacy.series import ReleaseSeries, scale_steps
from agentd.runs.spec import RunSpec
from agentd.simulation.draws import LaplaceNoise
from agentd.simulation.spread import Packing, spread_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)

LARGEST_NOISE = 48
"""Noise scales that a seeded draw stays below: an exponential exceeds 48 with chance e^−48."""


class VectorPolicy(Protocol):
    """One algorithm for all agents of several runs."""

    def choose(self, trial: int) -> Ints:
        """The arm of every agent."""
        ...

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:
        """Take in every agent's reward; `place` indexes (arm, agent) arrays laid flat."""
        ...


class Layout:
    """How runs and agents share one axis."""

    def __init__(self, specs: Sequence[RunSpec]) -> None:
        self.specs = specs
        self.runs = len(specs)
        self.agents = specs[0].network.agents
        self.arms = specs[0].arms.count
        self.rounds = specs[0].rounds
        self.width = self.runs * self.agents
        self._run_offset = np.repeat(np.arange(self.runs), self.agents)
        self.nowhere: list[list[int]] = [[] for _ in specs]
        """Per run, that no row is in use."""

    def zeros(self) -> Floats:
        """A float per (arm, agent)."""
        return np.zeros((self.arms, self.width))

    def integers(self) -> Ints:
        """An integer per (arm, agent), laid flat."""
        return np.zeros(self.arms * self.width, dtype=np.int64)

    def round_robin(self, trial: int) -> Ints:
        """The same arm for everybody, in turn."""
        return np.full(self.width, (trial - 1) % self.arms, dtype=np.int64)

    def per_run(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """A value per agent as one row per run."""
        return values.reshape(self.runs, self.agents)

    def active(self, rows: Ints, number: int, who: Ints | None = None) -> list[list[int]]:
        """Per run, which of `number` rows anybody used; `rows` are those of everybody, or of `who`."""
        cells = rows
        if self.runs > 1:
            cells = number * (self._run_offset if who is None else self._run_offset[who]) + rows
        used = np.bincount(cells, minlength=self.runs * number)
        active: list[list[int]] = [[] for _ in range(self.runs)]
        for cell in used.nonzero()[0].tolist():
            active[cell // number].append(cell % number)
        return active


def best_of(index: Floats) -> Ints:
    """Per agent the arm with the largest index, ties to the lowest."""
    arm: Ints = index.argmax(axis=0)
    return arm


class UcbIndex:
    """S/N + √(2 ln t / N) in grid steps, again and again in the same place."""

    def __init__(self, layout: Layout) -> None:
        self._index, self._mean = layout.zeros(), layout.zeros()

    def at(self, trial: int, sums: Floats, counts: Floats) -> Floats:
        """The index of each arm for each agent; what was returned before is overwritten."""
        index = np.divide(widened_log(trial), counts, out=self._index)
        np.sqrt(index, out=index)
        index += np.divide(sums, counts, out=self._mean)
        return index


class Alone:
    """ucb1: every agent learns from its own rewards only."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._sums, self._counts = layout.zeros(), layout.zeros()
        self._index = UcbIndex(layout)

    def choose(self, trial: int) -> Ints:
        """Each arm once, then the largest index."""
        if trial <= self._layout.arms:
            return self._layout.round_robin(trial)
        return best_of(self._index.at(trial, self._sums, self._counts))

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:  # noqa: ARG002
        self._sums.ravel()[place] += reward
        self._counts.ravel()[place] += 1.0


class AlonePrivate:
    """dp-ucb-int: every agent by itself, from noised sums."""

    def __init__(self, layout: Layout) -> None:
        policy = layout.specs[0].policy
        self._layout = layout
        self._interval = math.ceil(1.0 / policy.epsilon)
        releases = range(self._interval, layout.rounds + 1, self._interval)
        self._noise = LaplaceNoise(noise_keys(layout), release_scales(tuple(releases), policy.v))
        self._pulls, self._sums = layout.zeros(), layout.integers()
        self._mean = layout.zeros()

    def choose(self, trial: int) -> Ints:
        """Round robin until every arm had its first refresh, then the largest index."""
        if trial <= self._layout.arms * self._interval:
            return self._layout.round_robin(trial)
        return best_of(self._mean + np.sqrt(widened_log(trial) / self._pulls))

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:  # noqa: ARG002
        """Count; refresh the noised means that are due."""
        pulls = self._pulls.ravel()[place] + 1.0
        self._pulls.ravel()[place] = pulls
        self._sums[place] += reward
        due = pulls % self._interval == 0
        where, pulls = place[due], pulls[due]
        self._mean.ravel()[where] = (self._sums[where] + self._noise.take(where)) / pulls

    def released_pulls(self) -> Ints:
        """Own pulls per (arm, agent)."""
        return self._pulls.astype(np.int64)


class Together:
    """coop-ucb: what all cooperating policies share, told with exact sums."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._sums, self._counts = layout.zeros(), layout.zeros()
        largest_sum, largest_count = self.largest_changes()
        self._packing = Packing(largest_sum * layout.agents, largest_count * layout.agents)
        # Where two integers do not fit one float64, counts travel in rows of their own, above the sums.
        self._rows = layout.arms if self._packing.fits else 2 * layout.arms
        self._spread = spread_of(layout.specs, self._rows)
        self._arrived = np.zeros((1, self._rows, layout.runs, layout.agents))
        self._index = UcbIndex(layout)

    def largest_changes(self) -> tuple[int, int]:
        """How much one agent's told sum and told pulls can change in one trial."""
        return UNIT, 1

    def warm_up(self) -> int:
        return self._layout.arms

    def choose(self, trial: int) -> Ints:
        """Round robin at first, then the largest index over the group's data."""
        if trial <= self.warm_up():
            return self._layout.round_robin(trial)
        return best_of(self._index.at(trial, self._sums, self._counts))

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:
        """Count one's own, say it, and take in what arrives before the next trial."""
        pulls, sums = self._changes(place, told)
        active = self._layout.active(arm, self._layout.arms)
        said = np.zeros(self._rows * self._layout.width)
        if self._packing.fits:
            said[place] = self._packing.pack(pulls, sums)
        else:
            said[place] = sums
            said[place + self._layout.arms * self._layout.width] = pulls
            active = [rows + [row + self._layout.arms for row in rows] for rows in active]
        self._spread.say(trial, said.reshape(self._arrived.shape[1:]), active)
        changed = self._spread.arrive(trial + 1, self._arrived)  # of most arms nobody has told anything new
        self._take_in(sorted({*changed, *chain.from_iterable(active)}), place, reward)

    def _changes(self, place: Ints, told: Ints) -> tuple[Ints | int, Ints]:  # noqa: ARG002
        """By how much the pulls and the sum that each agent tells have changed."""
        return 1, told

    def _take_in(self, changed: list[int], place: Ints, reward: Ints) -> None:
        """Count what has arrived, in some rows, and every agent's own reward with it."""
        flat = self._arrived.reshape(self._rows, self._layout.width)
        if self._packing.fits:
            flat.ravel()[place] += self._packing.pack(1, reward)
        else:
            flat.ravel()[place] += reward
            flat.ravel()[place + self._layout.arms * self._layout.width] += 1.0
        for row in changed:
            arrived = flat[row]
            if self._packing.fits:
                count, total = self._packing.unpack(arrived)
                self._counts[row] += count
                self._sums[row] += total
            elif row < self._layout.arms:
                self._sums[row] += arrived
            else:
                self._counts[row - self._layout.arms] += arrived
            arrived.fill(0.0)


class TogetherPrivate(Together):
    """private-ucb: the told sums are releases, extrapolated to the pulls of now."""

    def __init__(self, layout: Layout) -> None:
        policy = layout.specs[0].policy
        self._warm_up = layout.arms * math.ceil(1.0 / policy.epsilon)
        self._thresholds = release_pulls(policy.epsilon, policy.v, layout.rounds)
        scales = release_scales(self._thresholds, policy.v)
        self._largest_noise = LARGEST_NOISE * scale_steps(max(1, layout.rounds), policy.v)
        super().__init__(layout)
        self._always = len(self._thresholds) == layout.rounds
        self._releases = np.zeros(layout.rounds + 1, dtype=np.bool_)
        self._releases[list(self._thresholds)] = True
        self._noise = LaplaceNoise(noise_keys(layout), scales)
        self._pulls, self._told = layout.integers(), layout.integers()
        self._at_release, self._noised = layout.integers(), layout.integers()
        self._said = layout.integers()

    def largest_changes(self) -> tuple[int, int]:
        """Two releases apart: what the pulls between them can have paid, and the noise of both."""
        gap = int(np.diff([0, *self._thresholds]).max(initial=1))
        return gap * UNIT + 2 * self._largest_noise, gap

    def warm_up(self) -> int:
        return self._warm_up

    def released_pulls(self) -> Ints:
        """Own pulls per (arm, agent)."""
        pulls = self._noise.taken() if self._always else self._pulls
        return pulls.reshape(self._layout.arms, self._layout.width)

    def _changes(self, place: Ints, told: Ints) -> tuple[Ints | int, Ints]:
        if self._always:  # by the reward, and by what the noise is now instead of the noise before
            noise = self._noise.take(place)
            told = told + (noise - self._noised[place])
            self._noised[place] = noise
            return 1, told
        pulls = self._pulls[place] + 1
        self._pulls[place] = pulls
        self._told[place] += told
        before = self._at_release[place]
        due = self._releases[pulls]
        where = place[due]
        self._at_release[where] = pulls[due]
        self._noised[where] = self._told[where] + self._noise.take(where)
        sums = self._extrapolated(place, pulls)
        changes = sums - self._said[place]
        self._said[place] = sums
        # The first release of an arm brings all pulls before it; until then nothing is told.
        return np.where(before > 0, 1, np.where(due, pulls, 0)), changes

    def _extrapolated(self, place: Ints, pulls: Ints) -> Ints:
        """What the last release says about all pulls so far; 0 where there is none."""
        sums: Ints = pulls * self._noised[place] // np.maximum(self._at_release[place], 1)
        return sums


def noise_keys(layout: Layout) -> list[tuple[int, int, int]]:
    """The noise stream of each (arm, run, agent)."""
    return [
        (spec.seed, agent, arm) for arm in range(layout.arms) for spec in layout.specs for agent in range(layout.agents)
    ]


@lru_cache(maxsize=8)
def release_pulls(epsilon: float, v: float, rounds: int) -> tuple[int, ...]:
    """After how many pulls of an arm private-ucb releases."""
    return tuple(ReleaseSeries(epsilon, v).thresholds(rounds))


@lru_cache(maxsize=8)
def release_scales(pulls: tuple[int, ...], v: float) -> Floats:
    """The noise scales of releases after so many pulls, in grid steps; whole numbers, so floats hold them exactly."""
    return np.array([scale_steps(number, v) for number in pulls], dtype=np.float64)
