"""byzantine-ucb for all agents of several runs at once; `agentd.core.policy.byzantine_ucb` says what it does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.estimate import BUCKETS, Confidence, buckets_of
from agentd.core.estimate.vectorised import VECTOR_ESTIMATORS, PairHistograms
from agentd.core.grid import UNIT
from agentd.core.policy.byzantine_ucb import bias_steps, width_steps
from agentd.simulation.forgeries import Forgeries
from agentd.simulation.spread import Packing, spread_of
from agentd.simulation.vector_policies import Floats, Ints, Layout, best_of


class TogetherRobust:
    """byzantine-ucb: samples spread one by one into histograms, from which robust means are taken."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._policy = layout.specs[0].policy
        self._estimator = VECTOR_ESTIMATORS[self._policy.estimator]
        self._spread = spread_of(layout.specs, 0, halves=2)
        self._packing = Packing(layout.agents * UNIT, layout.agents)
        self._parity = np.tile(np.arange(layout.agents), layout.runs) & 1
        self._row_of_bucket = np.full(BUCKETS, -1, dtype=np.int64)
        self._buckets: list[int] = []
        # half, (count or sum), bucket in order of appearance, arm and agent
        self._tables = np.zeros((2, 2, 0, layout.arms * layout.width))
        self._see_buckets([0, BUCKETS - 1])
        self._forgeries = Forgeries(layout)
        self.fallbacks = np.zeros(layout.runs, dtype=np.int64)
        """Per run."""
        self.estimates = 0
        """Of each run."""

    def choose(self, trial: int) -> Ints:
        """Each arm once, then the largest robust mean + σ√ε + √(σ ln(1/δ)/n)."""
        layout = self._layout
        if trial <= layout.arms:
            return layout.round_robin(trial)
        confidence = Confidence.at(trial)
        (x_count, x_sum), (y_count, y_sum) = self._ascending()
        columns = PairHistograms(np.sort(np.array(self._buckets)), x_count, x_sum, y_count, y_sum)
        value, fallback = self._estimator(columns, confidence, self._policy.contamination)
        self.fallbacks += np.count_nonzero(fallback.reshape(layout.arms, layout.runs, layout.agents), axis=(0, 2))
        self.estimates += layout.arms * layout.agents
        size = x_count.sum(axis=0) + y_count.sum(axis=0)
        index = (value + bias_steps(self._policy)) + np.sqrt(width_steps(self._policy, confidence) / size)
        return best_of(index.reshape(layout.arms, layout.width))

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:
        """Count one's own sample as it was, say what is told of it, and take in what arrives before the next trial."""
        layout = self._layout
        half = (self._parity + trial) & 1
        own_row = self._rows(reward)
        self._tables[half, 0, own_row, place] += 1.0
        self._tables[half, 1, own_row, place] += reward
        arm, told, speaking = self._forgeries.samples(trial, arm, told)
        rows = self._rows(told) * layout.arms + arm
        number = len(self._buckets) * layout.arms
        said = np.zeros((number, layout.width))
        said[rows, np.arange(layout.width)] = np.where(speaking, self._packing.pack(1, told), 0.0)
        self._spread.say(trial, said.reshape(number, layout.runs, layout.agents), layout.active(rows, number))
        self._hear(trial + 1)

    def sent_by(self, agents: slice) -> NDArray[np.bool_] | None:
        """Which of some agents said something at which trial, agents × rounds; None: all of them, always."""
        if not self._forgeries:
            return None
        speaking = self._forgeries.sent[:, agents] | ~self._forgeries.liars[agents]
        return np.ascontiguousarray(speaking.T)

    def _hear(self, trial: int) -> None:
        layout = self._layout
        arrived = np.zeros((2, len(self._buckets) * layout.arms, layout.runs, layout.agents))
        self._spread.arrive(trial, arrived)
        counts, sums = self._packing.unpack(arrived)
        shape = (2, len(self._buckets), layout.arms * layout.width)
        self._tables[:, 0] += counts.reshape(shape)
        self._tables[:, 1] += sums.reshape(shape)

    def _rows(self, reward: Ints) -> Ints:
        """The table row of each reward's bucket; buckets never seen before get one."""
        buckets = buckets_of(reward)
        rows = self._row_of_bucket[buckets]
        if (rows < 0).any():
            self._see_buckets(np.unique(buckets[rows < 0]).tolist())
            rows = self._row_of_bucket[buckets]
        return rows

    def _see_buckets(self, buckets: list[int]) -> None:
        for bucket in buckets:
            self._row_of_bucket[bucket] = len(self._buckets)
            self._buckets.append(bucket)
        more = np.zeros((2, 2, len(buckets), self._tables.shape[3]))
        self._tables = np.concatenate([self._tables, more], axis=2)
        self._spread.grow(len(self._buckets) * self._layout.arms)

    def _ascending(self) -> Floats:
        """The tables with their buckets in ascending order, which for coins is how they stand."""
        if len(self._buckets) == 2:
            return self._tables
        return self._tables[:, :, np.argsort(self._buckets)]
