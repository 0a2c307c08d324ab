"""A round that gossip took in, kept to recognise the next one: in lockstep it is the same, one trial later.

Theory of operation of the fast path
------------------------------------

In lockstep an agent hears, round after round, the same neighbours say the same things of the same origins, with every
trial one higher; only bodies differ. A machine full of agents spends most of its time on that. So each stage, on the
way from bytes to what a policy learns, recognises a round that repeats the one before and leaves out what it has worked
out already. There are five, and each stands by itself:

    bytes     `wire.expectation`   There is one way to write a frame. If a part is as long and begins as the frame must
                                   that continues its sender's last one, it is that one: nothing is decoded.
    heads     `wire.layout`        If the heads of a round are, byte for byte, those before with every trial one higher,
                                   they are in range because those before were, and their columns are the old ones plus
                                   one trial.
    verdict   `core.checks`        Heads that passed do so one trial later, unless they have come too soon by now: only
                                   their largest trial is looked at.
    outcome   here, for `gossip`   What gossip makes of a round depends on the heads of its copies and on what the ring
                                   holds in their cells. If the heads repeat, and each cell holds, measured from its
                                   copy's trial, what the cell held then, then the same copies win, the same of them
                                   are new, and the same travel on.
    history   `core.bodies`        The winners are of the same origins, in the same order: what they are held against
                                   is the last round's winners as they came, without a look into the table.

How one stage tells the next: by a value, a `Sequel` (number, repeats) that a batch carries. Whoever reads or takes in a
round gives it a number that no other round of this process has. A reader that recognised its heads says which number
they repeat; a `Repetition` knows the number of the heads it was made of, and if they agree, it need not compare heads
itself. (Batches without a sequel, as in memory, are compared head by head when they are judged, and get one.) Gossip in
turn numbers the winners that it shows to the judge, and the history that took in the winners before knows by their
number whether these repeat them.

Why it is right. A sequel is only ever made by the reader, the judge of heads or gossip, from what they compared;
nothing that a peer sends becomes a number. It goes with one `Batch` as a whole: rows taken out of it, copies joined to
it and batches aged have none. And a number says nothing about bodies: each body is unpacked and judged in every round.

What falls back, each time without a trace: another sender, order, length or kind of frame (bytes); a head that differs
anywhere, a trial past the last (heads); a trial that is not due, a life that the environment told of (verdict); a new
origin, incarnation or life, a cell that holds something else because a copy came early, late or twice, or a body that
the judge refuses (outcome); winners of which some are not new, a round of the same kind in between, an origin that is
forgotten (history). The long way then does the whole work, and its outcome is what the next round may repeat; unless
some copy came so late that a newer trial had its cell, for what becomes of that one depends on more than the ring.

The fast path can be turned off, with `fast_path=False` for an agent (or its gossip) and for a link (or its reader of
heads); nothing else changes, which the property tests check by running both ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import HEAD_WIDTH, LIFE, ONE_TRIAL_LATER, Batch, Columns, taken
from agentd.core.origins import OWN
from agentd.core.sequel import Sequel, follows

Indices = NDArray[np.intp]

TRIAL_STEP = 1 << 33
"""What a cell of one trial holds more than the same cell of the trial before."""
ONE_HOP = np.eye(HEAD_WIDTH, dtype=np.int64)[LIFE]


class RoundOutcome(NamedTuple):
    """What came of a round: which copies won, and what that changes in the ring."""

    cells: Columns
    """Of every copy, in the flat ring."""
    known: Columns
    """What was in those cells before."""
    unseen: Columns
    """What a cell holds at least once its copy's key was seen."""
    best: Indices
    """Which copies won."""
    closing: Columns
    """What closes the winners' cells."""
    fresh: NDArray[np.bool_]
    """Which winners' keys were never seen before."""
    outrun: int
    """How many copies' cells hold a newer trial: those of the agent's own echoes, and of latecomers."""


class Repetition:
    """The last round of one kind, and what the same one trial later comes to."""

    def __init__(self, batch: Batch, rows: Columns, outcome: RoundOutcome, winners: Sequel) -> None:
        self._head = head = batch.head
        self._number = batch.sequel.number if batch.sequel is not None else 0
        self.winners = winners
        """Which round the winners are, to those that are shown them."""
        self._outcome = outcome
        self._seen: Columns | None = None  # nothing is worked out before the first repetition: there may be none
        self.rows = rows
        """The origins' rows of the winners."""
        self.best = outcome.best
        self.best_head = self.relayed_head = head
        """The heads of the winners, and of those that travel on, with one hop less to live."""

    def is_told_again(self, batch: Batch) -> bool:
        """Whether these are the same heads, one trial later; if they are, they take the place of the old ones."""
        if not follows(batch.sequel, self._number) and not self._is_followed_by(batch.head):
            return False
        if self._seen is None:
            self._work_out()
        self._head = batch.head
        self._number = batch.sequel.number if batch.sequel is not None else 0
        self.best_head = self.best_head + ONE_TRIAL_LATER
        self.relayed_head = self.relayed_head + ONE_TRIAL_LATER
        return True

    def _is_followed_by(self, head: Columns) -> bool:
        return head.shape == self._head.shape and bool((head == self._head + ONE_TRIAL_LATER).all())

    def _work_out(self) -> None:
        best_head = taken(self._head, self.best)
        outcome = self._outcome
        self.own = int(np.count_nonzero(self.rows == OWN))
        """Copies that are echoes of what the agent itself said."""
        self.rows = self.rows[self.best]
        self.best_head = best_head
        self.relayed: Indices = (best_head[:, LIFE] > 1).nonzero()[0]
        """Which of the winners travel on."""
        self.relayed_head = taken(best_head, self.relayed) - ONE_HOP
        self.fresh: Indices | None = None if outcome.fresh.all() else outcome.fresh.nonzero()[0]
        """Which of the winners are new; None stands for all."""
        self._seen = _measured(outcome.known, outcome.unseen)

    def is_confirmed_by(self, ring: Columns, width: int) -> bool:
        """Whether the ring, `width` cells to a trial, holds for each copy what it held for the one before."""
        outcome = self._outcome
        np.add(outcome.cells, width, out=outcome.cells)
        np.remainder(outcome.cells, ring.size, out=outcome.cells)
        np.add(outcome.unseen, TRIAL_STEP, out=outcome.unseen)
        same = _measured(ring.take(outcome.cells), outcome.unseen) == self._seen
        return b"\0" not in same.tobytes()  # in a fifth of the time of same.all()

    def close(self, ring: Columns) -> None:
        """Close the winners' cells to copies that are no better."""
        outcome = self._outcome
        np.add(outcome.closing, TRIAL_STEP, out=outcome.closing)
        ring[outcome.cells[self.best]] = outcome.closing


def _measured(known: Columns, unseen: Columns) -> Columns:
    """What cells hold, from their copies' trial on: 0 for any older trial, one step for any newer one."""
    known = known - unseen
    np.maximum(known, 0, out=known)
    np.minimum(known, TRIAL_STEP, out=known)
    return known
