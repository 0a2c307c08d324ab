"""Messages in columns: what they hold, and how they are stacked."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import sample, samples, totals

from agentd.core.bodies import KINDS, RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.bodies.cumulative import Cumulative
from agentd.core.message import Batch, Message, batch_of, by_kind, join


@pytest.mark.parametrize(("kind", "cumulative"), [(RELEASED, True), (TOTALS, True), (SAMPLE, False), (SEALED, False)])
def test_bodies_about_all_arms_repeat_what_came_before(kind: Kind, cumulative: bool) -> None:
    assert isinstance(kind, Cumulative) is cumulative


def test_the_numbers_of_the_kinds_are_on_the_wire_and_stay() -> None:
    assert {kind.name: kind.tag for kind in KINDS.values()} == {"RELEASED": 1, "TOTALS": 2, "SAMPLE": 3, "SEALED": 4}


@pytest.mark.parametrize(("kind", "width"), [(RELEASED, 15), (TOTALS, 10), (SAMPLE, 2), (SEALED, 5)])
def test_the_width_of_a_body_follows_from_its_kind_and_the_arms(kind: Kind, width: int) -> None:
    assert kind.width(5) == width


def test_messages_come_out_of_columns_as_they_went_in() -> None:
    told = [Message(3, 7, 1, (0, 5), 4, 2), Message(9, 1, 2, (1, 6), 2, 0)]
    batch = batch_of(SAMPLE, told)
    assert batch.messages() == told
    assert len(batch) == 2
    assert batch.origin.tolist() == [3, 9]
    assert batch.incarnation.tolist() == [2, 0]
    assert batch.trial.tolist() == [7, 1]
    assert batch.lifetime.tolist() == [4, 2]
    assert batch.life.tolist() == [1, 2]
    assert batch.signature.shape == (2, 0)


def test_a_message_without_a_lifetime_gets_the_life_it_has() -> None:
    assert samples(sample(1, 1, 3)).lifetime.tolist() == [3]


def test_a_batch_of_nothing_has_no_rows() -> None:
    nothing = batch_of(TOTALS, [])
    assert len(nothing) == 0
    assert nothing.messages() == []


def test_ageing_takes_one_hop_and_leaves_the_original_alone() -> None:
    batch = samples(sample(1, 1, 3), sample(2, 1, 2))
    assert batch.aged().life.tolist() == [2, 1]
    assert batch.life.tolist() == [3, 2]
    assert batch.aged().lifetime.tolist() == [3, 2]


def test_rows_are_chosen_by_mask_or_by_number() -> None:
    batch = samples(sample(1, 1), sample(2, 1), sample(3, 1))
    assert batch.rows(np.array([True, False, True])).origin.tolist() == [1, 3]
    assert batch.rows(np.array([2, 0])).origin.tolist() == [3, 1]


def test_joining_one_batch_copies_nothing() -> None:
    batch = samples(sample(1, 1))
    assert join([batch]) is batch


def test_batches_are_grouped_by_kind_in_order_of_appearance() -> None:
    first, second = samples(sample(1, 1)), samples(sample(2, 1))
    other = totals(Message(3, 1, 1, (1, 0)))
    grouped = by_kind([first, other, batch_of(SAMPLE, []), second])
    assert [(batch.kind, batch.origin.tolist()) for batch in grouped] == [(SAMPLE, [1, 2]), (TOTALS, [3])]


def test_batches_of_one_kind_and_different_widths_stay_apart() -> None:
    """A hostile neighbour must not be able to make stacking fail for the honest ones."""
    narrow, wide = totals(Message(1, 1, 1, (1, 0))), totals(Message(2, 1, 1, (1, 0, 0, 0)))
    assert [batch.body.shape for batch in by_kind([narrow, wide])] == [(1, 2), (1, 4)]


def test_signed_and_unsigned_batches_stay_apart() -> None:
    plain = samples(sample(1, 1))
    signed = Batch(plain.kind, plain.head, plain.body, np.zeros((1, 64), dtype=np.uint8))
    assert [batch.signature.shape[1] for batch in by_kind([plain, signed, plain])] == [0, 64]
