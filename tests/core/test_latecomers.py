"""What comes behind a newer trial of its own cell, kind by kind."""

from __future__ import annotations

import numpy as np
from small_runs import released, sample, samples, totals

from agentd.core.bodies import SAMPLE, SEALED
from agentd.core.bodies.kind import Extent
from agentd.core.bodies.latecomers import Latecomers
from agentd.core.checks import Checks
from agentd.core.gossip import Gossip
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Message, batch_of
from agentd.core.origins import Origins
from agentd.core.privacy.sealing import Weighting
from agentd.core.terms import Terms

ARMS, GAMMA, WINDOW = 2, 4, 4
WORTH = Weighting.of(1.0).samples(8)
"""What one batch of 8 pulls is worth at ε = 1."""


class Ear:
    """Gossip and checks as an agent joins them."""

    def __init__(self) -> None:
        self.gossip = Gossip(Origins(0), window=WINDOW)
        self.checks = Checks(Terms(ARMS, GAMMA).assuming(1.0, 1.1))

    def hear(self, batch: Batch) -> list[int]:
        """Which trials count."""
        fresh, rows, _ = self.gossip.hear(self.checks.judge_heads(batch), self.checks)
        return self.checks.continues(fresh, rows).honest.trial.tolist()

    def relayed(self) -> list[tuple[int, int]]:
        """What goes out next, as (trial, life)."""
        return [(m.trial, m.life) for batch in self.gossip.take_relays() for m in batch.messages()]


def record(trial: int, batches: int, life: int = 1, *, arm: int = 0, total: int = 0) -> Message:
    return Message(3, trial, life, (arm, 8 * batches, batches, batches * WORTH, total), GAMMA)


def sealed(*messages: Message) -> Batch:
    return batch_of(SEALED, messages)


def test_a_late_record_counts_and_travels_on_if_its_arm_has_more_pulls_than_are_held() -> None:
    ear = Ear()
    assert ear.hear(sealed(record(120, 1, 3))) == [120]
    ear.relayed()
    assert ear.hear(sealed(record(100, 2, 3, arm=1))) == [100]
    assert ear.relayed() == [(100, 2)]
    assert not ear.gossip.dropped


def test_a_late_record_that_says_no_more_does_not_count() -> None:
    ear = Ear()
    ear.hear(sealed(record(120, 2), record(119, 1, arm=1)))
    assert ear.hear(sealed(record(100, 1), record(99, 1, arm=1))) == []
    assert ear.gossip.redundant == {"outdated": 2}
    assert not ear.gossip.dropped + ear.checks.dropped


def test_a_late_copy_with_more_life_travels_on_again() -> None:
    ear = Ear()
    ear.hear(sealed(record(120, 1)))
    assert ear.hear(sealed(record(100, 1, 1, arm=1))) == [100]
    assert [ear.hear(sealed(record(100, 1, life, arm=1))) for life in (1, 2, 2, 4, 3)] == [[]] * 5
    assert ear.relayed() == [(100, 1), (100, 3)]
    assert ear.gossip.redundant == {"outdated": 3}


def test_what_counted_in_time_travels_on_once_more_if_it_comes_again_late() -> None:
    """With which life it travelled then, nobody remembers."""
    ear = Ear()
    ear.hear(sealed(record(100, 1, 3, arm=1)))
    ear.hear(sealed(record(120, 1)))
    ear.relayed()
    assert [ear.hear(sealed(record(100, 1, life, arm=1))) for life in (2, 2)] == [[], []]
    assert ear.relayed() == [(100, 1)]


def test_a_forgery_that_claims_most_does_not_take_the_place_of_an_honest_record() -> None:
    """More batches than the origin has trials for, beside what was said of the other arm."""
    ear = Ear()
    ear.hear(sealed(record(120, 8, arm=1)))
    assert ear.hear(sealed(record(100, 9), record(96, 2))) == [96]
    assert ear.checks.dropped == {"history": 1}


def test_a_late_record_with_more_pulls_than_a_later_one_is_refused() -> None:
    ear = Ear()
    ear.hear(sealed(record(120, 1)))
    assert ear.hear(sealed(record(100, 2))) == []
    assert ear.relayed() == []
    assert ear.checks.dropped == {"history": 1}


def test_late_bodies_are_judged_by_themselves_too() -> None:
    ear = Ear()
    ear.hear(sealed(record(120, 1)))
    assert ear.hear(sealed(record(100, 2, arm=1, total=99 * WORTH))) == []
    assert ear.checks.dropped == {"body": 1}


def test_where_everything_is_said_again_in_every_trial_latecomers_are_only_outdated() -> None:
    for batch_of_kind, body in ((totals, (5, UNIT, 0, 0)), (released, (0, 0, 0, 0, 0, 0))):
        ear = Ear()
        assert ear.hear(batch_of_kind(Message(3, 120, 2, body, GAMMA))) == [120]
        assert ear.hear(batch_of_kind(Message(3, 100, 3, body, GAMMA))) == []
        assert ear.relayed() == [(120, 1)]
        assert ear.gossip.redundant == {"outdated": 1}
        assert not ear.gossip.dropped


def test_samples_that_cannot_be_told_from_counted_ones_are_dropped() -> None:
    ear = Ear()
    ear.hear(samples(sample(3, 120, lifetime=GAMMA)))
    assert ear.hear(samples(sample(3, 100, 3, lifetime=GAMMA))) == []
    assert ear.gossip.dropped == {"stale": 1}


def test_in_a_new_life_nothing_has_travelled_yet() -> None:
    ear = Ear()
    ear.hear(sealed(record(120, 1)))
    ear.hear(sealed(record(100, 1, 3, arm=1)))
    assert len(ear.gossip._latecomers) == 1
    ear.gossip.renew({3: 90})
    assert len(ear.gossip._latecomers) == 0


def test_the_memory_is_bounded_and_what_is_forgotten_travels_once_more() -> None:
    some = Latecomers(most=2)

    def travels(row: int) -> bool:
        extent = Extent(*(np.array([number]) for number in (0, 5, 5)), np.array([True]))
        return len(some.admit(batch_of(SAMPLE, [sample(row, 1, 3)]), np.array([row]), extent).relayed) == 1

    assert [travels(row) for row in (1, 2, 1, 3, 2, 1)] == [True, True, False, True, False, True]
    assert len(some) == 2
