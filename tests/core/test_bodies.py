"""A further kind of body, registered while everything is already imported, is known everywhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from agentd.core.bodies import KINDS, SAMPLE, Cumulative, Field, Kind, register
from agentd.core.bodies.kind import Lie, Mask
from agentd.core.checks import Checks
from agentd.core.grid import UNIT
from agentd.core.lies import Attack, Liar
from agentd.core.message import Batch, Cells, Columns, Message, batch_of
from agentd.core.terms import Terms
from agentd.errors import PeerError
from agentd.wire.codec import decode_frame, decode_frames, encode_frame
from agentd.wire.frame import Frame, Reason
from agentd.wire.layout import message_bytes
from agentd.wire.size import LONGEST_FRAMING, LONGEST_HEADER, encoded_bytes, fitting

TERMS = Terms(arms=3, lifetime=2)


class Losses(Cumulative):
    """How often each arm paid nothing."""

    tag = 130
    name = "LOSSES"
    fields = (Field("losses", "u4"),)
    per_arm = True

    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        return np.asarray((batch.body.min(axis=1) >= 0) & (batch.body.sum(axis=1) <= batch.trial))

    def continues(self, grown_by: Cells) -> Mask:
        return np.asarray(grown_by[0] >= 0)

    def bend(self, body: Columns, lie: Lie) -> None:
        body[:, 0] = lie(body[:, 0])


class Guess(Kind):
    """An arm that an agent thinks well of."""

    tag = 255
    name = "GUESS"
    fields = (Field("arm", "u2"), Field("surely", "i8"))

    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        return np.asarray(batch.body[:, 0] < terms.arms)

    def bend(self, body: Columns, lie: Lie) -> None:
        body[:, 1] = -body[:, 1]


@pytest.fixture(params=[Losses, Guess])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    yield from registered(request.param())


@pytest.fixture
def losses() -> Iterator[Kind]:
    yield from registered(Losses())


def registered(kind: Kind) -> Iterator[Kind]:
    yield register(kind)
    del KINDS[kind.tag]


def a_frame(batch: Batch) -> Frame:
    return Frame(bytes(8), 1, 0, 1, 1, 0, (batch,), TERMS.arms)


def ones(kind: Kind, *trials: int) -> Batch:
    return batch_of(kind, [Message(1, trial, 1, (1,) * kind.width(TERMS.arms), 2) for trial in trials])


def test_it_crosses_the_wire_and_is_as_long_as_computed(kind: Kind) -> None:
    data = encode_frame(a_frame(ones(kind, 7, 8)))
    frame = decode_frame(data, arms=TERMS.arms)
    assert frame.batches[0].kind is kind
    assert frame.batches[0].messages() == ones(kind, 7, 8).messages()
    assert encoded_bytes(frame) == len(data)
    assert [one.batches[0].messages() for one in decode_frames([data, data])] == [ones(kind, 7, 8).messages()] * 2


def test_a_batch_is_cut_to_what_fits_with_its_longer_tag(kind: Kind) -> None:
    batch, limit = ones(kind, *range(1, 6)), LONGEST_HEADER + LONGEST_FRAMING + 3 * message_bytes(kind, TERMS.arms)
    assert fitting([batch], TERMS.arms, limit=limit)[1] == 3
    (kept,), left_out = fitting([batch], TERMS.arms, limit=limit + 1)
    assert (len(kept), left_out) == (3, 2)


def test_nobody_understands_it_before_and_after(kind: Kind) -> None:
    data = encode_frame(a_frame(ones(kind, 7)))
    del KINDS[kind.tag]
    with pytest.raises(PeerError) as caught:
        decode_frame(data)
    assert caught.value.reason == Reason.TAG
    register(kind)


def test_what_it_calls_implausible_is_dropped(kind: Kind) -> None:
    checks = Checks(TERMS)
    bad = (9, 9, 9) if isinstance(kind, Cumulative) else (3, 0)
    judged = checks.judge(batch_of(kind, [Message(1, 8, 1, bad, 2), *ones(kind, 9).messages()]))
    assert judged.trial.tolist() == [9]
    assert checks.dropped == {"body": 1}


def test_what_does_not_continue_what_came_before_is_dropped(losses: Kind) -> None:
    checks, row = Checks(TERMS), np.zeros(1, dtype=np.int64)
    first = checks.continues(batch_of(losses, [Message(1, 8, 1, (2, 0, 1))]), row).news
    assert first.grown_by.tolist() == [[[2], [0], [1]]]
    second = batch_of(losses, [Message(1, 9, 1, (2, 1, 1))])
    assert checks.accepts_all(second, row)
    assert checks.continues(second, row).news.grown_by.tolist() == [[[0], [1], [0]]]
    assert len(checks.continues(batch_of(losses, [Message(1, 10, 1, (1, 1, 1))]), row).news.batch) == 0
    assert checks.dropped == {"history": 1}
    assert checks.forget(row)[losses].tolist() == [[[2], [1], [1]]]


def test_a_lying_relay_bends_it_as_it_says(kind: Kind) -> None:
    liar = Liar(Attack.parse("relay-point:1"), 1.0, np.zeros)
    (bent,) = liar.forward(ones(kind, 7)).messages()
    assert bent.body == ((UNIT, 1, 1) if isinstance(kind, Cumulative) else (1, -1))


@pytest.mark.parametrize("tag", [0, 1, 4, 5, 127, 256])
def test_tags_of_the_protocol_are_not_for_users(tag: int) -> None:
    kind = Guess()
    kind.tag = tag
    with pytest.raises(ValueError, match="tags for users are 128…255"):
        register(kind)
    assert KINDS.get(tag) is not kind


def test_a_tag_has_one_kind_only(kind: Kind) -> None:
    assert register(kind) is kind
    with pytest.raises(ValueError, match=f"is taken by {kind.name}"):
        register(type(kind)())


@pytest.mark.parametrize("fields", [(), (Field("share", "f8"),)])
def test_fields_are_whole_numbers_of_the_wire(fields: tuple[Field, ...]) -> None:
    kind = Guess()
    kind.fields = fields
    with pytest.raises(ValueError, match="each of a type among u2, u4, u8, i8"):
        register(kind)


def test_kinds_are_told_apart_by_identity_and_shown_by_name() -> None:
    assert Guess() != Guess()
    assert repr(SAMPLE) == "SAMPLE"
