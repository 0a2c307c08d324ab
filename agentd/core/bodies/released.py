"""RELEASED, of private-ucb: per arm (pulls now, pulls at the release, noised sum)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.bodies.cumulative import Cumulative, bend_sums
from agentd.core.bodies.kind import Field, Lie, Mask, all_of
from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL, Batch, Cells, Columns
from agentd.core.terms import Terms

NOISE_SCALES = 64
"""How many noise scales a release may lie outside what its pulls can pay; honest noise exceeds it with chance e^−64."""
MAX_GAP = 4
"""pulls now / pulls at the newest release; the widest release series (ε → 0, v → 1.5) stays below 3.7."""


class _Released(Cumulative):
    """Zeros where nothing of an arm is released yet."""

    tag = 1
    name = "RELEASED"
    fields = (Field("pulls", "u4"), Field("pulls_at_release", "u4"), Field("sum", "i8", noised=True))
    per_arm = True

    def plausible(self, batch: Batch, terms: Terms) -> Mask:  # noqa: ARG002
        """Releases not too far behind the pulls, and no further from what these can pay than noise reaches."""
        # As unsigned numbers, so that a negative one is far too large; and sums of pulls that are too many may wrap.
        now, at_release, _ = batch.cells.view(np.uint64)
        all_honest: Mask = now <= MAX_TRIAL
        all_honest &= at_release <= now
        all_honest &= now <= at_release * MAX_GAP
        all_honest &= _noise_is_plausible(at_release.astype(np.float64), batch.cells[2].astype(np.float64))
        all_honest &= np.add.reduce(now, axis=0) <= batch.trial
        return np.asarray(all_honest.all(axis=0))

    def continues(self, grown_by: Cells) -> Mask:
        """Pulls only grow, and a release that was not renewed keeps its value."""
        more, renewed, changed = grown_by
        all_honest: Mask = renewed >= (changed != 0)
        all_honest &= more >= 0
        return all_honest

    def all_honest(self, batch: Batch, grown_by: Cells, terms: Terms) -> bool:  # noqa: ARG002
        """The two above at once: numbers of one type, few passes, because every round of every agent comes here."""
        cells = batch.cells
        now, at_release = cells[0], cells[1]
        # The bits that occur in any of them: beyond the limit, or negative, exactly when one of them is.
        if not 0 <= np.bitwise_or.reduce(cells[:2], axis=None) <= MAX_TRIAL:
            return False
        if np.bitwise_or.reduce(grown_by[:2], axis=None) < 0:
            return False
        renewed = grown_by[1] > 0
        renewed |= grown_by[2] == 0
        if not all_of(renewed):
            return False
        if not all_of(now == at_release) and not all_of((at_release <= now) & (now <= at_release * MAX_GAP)):
            return False
        counted, noised = cells[1:].astype(np.float64)
        return all_of(np.add.reduce(now, axis=0) <= batch.trial) and all_of(_noise_is_plausible(counted, noised))

    def bend(self, body: Columns, lie: Lie) -> None:
        """As many pulls of the lie as were released."""
        bend_sums(self, body, lie)


def _noise_is_plausible(at_release: NDArray[np.float64], noised: NDArray[np.float64]) -> Mask:
    # n^(3/4) rewards is the largest noise scale (v → 1.5), and the square root of a square root is cheap.
    slack = np.sqrt(at_release)
    slack *= at_release
    np.sqrt(slack, out=slack)
    slack *= NOISE_SCALES * UNIT
    middle = at_release * (UNIT / 2)
    slack += middle
    np.subtract(noised, middle, out=middle)
    np.abs(middle, out=middle)
    verdict: Mask = middle <= slack
    return verdict


RELEASED = _Released()
