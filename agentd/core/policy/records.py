"""Records of what was released of an arm, and the pool of those heard: per origin and arm the one with most pulls."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agentd.core.grid import UNIT
from agentd.core.message import Batch, Columns
from agentd.core.origins import grown
from agentd.core.privacy.release import NOTHING as NOTHING_RELEASED
from agentd.core.privacy.release import Noised, computed
from agentd.core.privacy.sealing import SealedBatch, Weighting


class Record(NamedTuple):
    """All that one origin has released of one arm: N, B, A and S."""

    pulls: int
    batches: int
    samples: int
    """Noiseless samples that the batches are worth, in grid steps."""
    total: Noised
    """Weighted noised sum, in grid steps."""

    def after(self, sealed: SealedBatch, weighting: Weighting) -> Record:
        """The record with one more batch."""
        return Record(
            self.pulls + sealed.pulls,
            self.batches + 1,
            self.samples + weighting.samples(sealed.pulls),
            computed(lambda total, noised: total + weighting.weighed(sealed.pulls, noised), self.total, sealed.noised),
        )


NOTHING = Record(0, 0, 0, NOTHING_RELEASED)

_PULLS, _SAMPLES, _TOTAL = 0, 2, 3
_FEW = 12
"""So many records are taken in faster one after the other than column by column."""
_MOST_SAMPLES = 1 << 44
"""Of a record, beyond which numbers of 64 bits may not hold the sum of all that a round can bring."""
_DEVIATION = UNIT // 4
"""Variance of a sum per grid step of its samples, at most."""


def counted_sum(samples: int, total: int) -> int:
    """The sum of a record as far as it counts: what its samples can have been paid, and one deviation beyond.

    A samples pay 0…A, and the sum of an honest record deviates by √(A/4) at most (see `core.privacy.sealing`). What
    lies further outside is noise, or a lie: so nobody's luck, true or claimed, counts for much more than its pulls.
    Honest groups lose nothing by it (M = 200, T = 1,000, ε from 0.1 to 3: the same regret or a little less), and a liar
    that has all the luck which no check can refuse costs a twentieth. √ rounds correctly, so every engine agrees.
    """
    beyond = math.floor(math.sqrt(samples * _DEVIATION))
    return min(max(total, -beyond), samples + beyond)


def counted_sums(samples: Columns, totals: Columns) -> Columns:
    """The same of many records, as long as their samples are below 2^44 steps, and their sum fits into 64 bits."""
    beyond = np.floor(np.sqrt((samples * _DEVIATION).astype(np.float64))).astype(np.int64)
    counted: Columns = np.minimum(np.maximum(totals, -beyond), samples + beyond)
    return counted


class RecordPool:
    """The largest record per origin and arm, and their sums per arm."""

    def __init__(self, arms: int) -> None:
        self.samples = [0] * arms
        """ΣA per arm over the origins heard."""
        self.sums = [0] * arms
        """ΣS per arm, as far as each counts."""
        self.origins = 0
        """How many origins were heard, hellos included."""
        self.held = np.zeros((0, arms, len(NOTHING)), dtype=np.int64)
        """The records themselves: row of the origin, arm, field."""
        self._heard = np.zeros(0, dtype=np.int64)

    def replace(self, batch: Batch, rows: Columns) -> list[tuple[int, int]]:
        """Take in records; the row and arm of those that said more than what was held."""
        self._make_room(rows)
        self._greet(rows)
        if len(rows) <= _FEW:
            return self._replace_one_by_one(rows, batch.body)
        arm, fields = batch.body[:, 0], batch.body[:, 1:]
        held = self.held[rows, arm]
        larger = (fields[:, _PULLS] > held[:, _PULLS]).nonzero()[0]
        rows, arm, fields, held = rows[larger], arm[larger], fields[larger], held[larger]
        news = list(zip(rows.tolist(), arm.tolist(), strict=True))
        most = np.maximum(fields[:, _SAMPLES], held[:, _SAMPLES]).max(initial=0)
        if most >= _MOST_SAMPLES or len(set(news)) < len(news):  # of some origin and arm one record replaces another
            return self._replace_one_by_one(rows, batch.body[larger])
        self.held[rows, arm] = fields
        _add(self.samples, arm, fields[:, _SAMPLES] - held[:, _SAMPLES])
        _add(self.sums, arm, counted_sums(*fields.T[_SAMPLES:]) - counted_sums(*held.T[_SAMPLES:]))
        return news

    def _replace_one_by_one(self, rows: Columns, body: Columns) -> list[tuple[int, int]]:
        news = []
        for row, (arm, *fields) in zip(rows.tolist(), body.tolist(), strict=True):
            held = self.held[row, arm].tolist()
            if fields[_PULLS] > held[_PULLS]:
                self.held[row, arm] = fields
                self.samples[arm] += fields[_SAMPLES] - held[_SAMPLES]
                self.sums[arm] += counted_sum(*fields[_SAMPLES:]) - counted_sum(*held[_SAMPLES:])
                news.append((row, arm))
        return news

    def forget(self, rows: Columns) -> None:
        """Drop the records of some origins; that they were heard stays."""
        self._make_room(rows)
        for row in rows.tolist():
            for arm, held in enumerate(self.held[row].tolist()):
                self.samples[arm] -= held[_SAMPLES]
                self.sums[arm] -= counted_sum(*held[_SAMPLES:])
        self.held[rows] = 0

    def _greet(self, rows: Columns) -> None:
        self._heard[rows] = 1
        self.origins = int(np.count_nonzero(self._heard))

    def _make_room(self, rows: Columns) -> None:
        if len(rows) and (top := int(rows.max())) >= len(self._heard):
            room = (
                top + 8 + top // 4
            )  # thousands of agents may share a machine: rather grow again than hold twice as much
            self._heard = grown(self._heard, room)
            self.held = grown(self.held, room)


def _add(totals: list[int], arm: Columns, amounts: Columns) -> None:
    """Add to the totals of arms, which are of any size."""
    grown_by = np.zeros(len(totals), dtype=np.int64)
    np.add.at(grown_by, arm, amounts)
    for number, amount in enumerate(grown_by.tolist()):
        totals[number] += amount
