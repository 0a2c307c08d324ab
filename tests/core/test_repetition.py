"""Rounds that repeat the one before: taken the short way or the long way, the same comes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import sample, samples

from agentd.core import repetition
from agentd.core.bodies import SAMPLE, TOTALS
from agentd.core.bodies.kind import Extent
from agentd.core.gossip import Gossip
from agentd.core.message import Batch, Columns, Message, batch_of, by_kind
from agentd.core.origins import Origins
from agentd.core.sequel import Sequel, follows
from agentd.wire.layout import HeadReader, read_columns, write_batch

OWN = 0


class Picky:
    """Refuses what pays nothing; or nothing at all."""

    def __init__(self, *, tells_extents: bool) -> None:
        self.refused = 0
        self.tells_extents = tells_extents

    def accepts_all(self, batch: Batch, rows: Columns) -> bool:
        assert len(rows) == len(batch)
        return bool((batch.body[:, 1] != 0).all())

    def judge_bodies(self, batch: Batch) -> Batch:
        fine = batch.body[:, 1] != 0
        self.refused += int((~fine).sum())
        return batch.rows(fine)

    def extent_of(self, batch: Batch, rows: Columns) -> Extent | None:
        """Of the bodies' first number, the more the better; everybody holds 1 of it, and who says 9 is refused."""
        if not self.tells_extents:
            return None
        amount, nothing = batch.body[:, 0], np.zeros(len(rows), dtype=np.int64)
        return Extent(nothing, amount, nothing + 1, amount != 9)


class Pair:
    """Two agents that hear the same; one of them goes without the fast path."""

    def __init__(self, window: int = 8, *, from_wire: bool = False, tells_extents: bool = False) -> None:
        self.gossips = [Gossip(Origins(OWN, limit=4), window=window, fast_path=fast) for fast in (True, False)]
        self.judges = [Picky(tells_extents=tells_extents) for _ in self.gossips]
        self.reader = HeadReader() if from_wire else None

    def hear(self, batch: Batch) -> None:
        quick, slow = self.gossips
        told = self._read(batch) if self.reader else batch
        one, other = (gossip.hear(told, judge) for gossip, judge in zip(self.gossips, self.judges, strict=True))
        assert not slow._last
        assert one.fresh.messages() == other.fresh.messages()
        assert one.rows.tolist() == other.rows.tolist()
        assert one.renewed.tolist() == other.renewed.tolist()
        assert [b.messages() for b in quick.take_relays()] == [b.messages() for b in slow.take_relays()]
        assert quick.dropped == slow.dropped
        assert quick.redundant == slow.redundant
        assert np.array_equal(quick._ring, slow._ring)
        assert quick._latecomers._travelled == slow._latecomers._travelled
        assert self.judges[0].refused == self.judges[1].refused

    def _read(self, batch: Batch) -> Batch:
        """As the wire hands it over: with the number of its round, and of the round that it repeats."""
        _, arms, _, head, body, _ = write_batch(batch, 1)
        read = read_columns(batch.kind, arms, [head], [body], self.reader)
        assert read is not None
        assert read.sequel is not None
        return read


copies = st.lists(
    st.builds(
        lambda origin, trial, life, more, incarnation, reward, amount: Message(
            origin, trial, life, (amount, reward), life + more, incarnation
        ),
        st.integers(0, 5),
        st.integers(1, 20),
        st.integers(1, 3),
        st.integers(0, 1),
        st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1]),
        st.sampled_from([1] * 15 + [0]),
        st.sampled_from([0, 1, 1, 2, 3, 9]),
    ),
    min_size=1,
    max_size=6,
)
steps = st.lists(st.one_of(st.just("again"), st.just("again"), st.just("again"), copies), max_size=25)


def later(message: Message) -> Message:
    return message._replace(trial=message.trial + 1)


@given(copies, steps, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=300)
def test_the_short_way_comes_to_the_same_as_the_long_way(
    first: list[Message], rest: list[str | list[Message]], from_wire: bool, tells_extents: bool
) -> None:
    """Rounds that repeat each other, and in between whatever else: new origins, new lives, old trials, forgeries."""
    pair, now = Pair(from_wire=from_wire, tells_extents=tells_extents), first
    pair.hear(batch_of(SAMPLE, now))
    for step in rest:
        now = [later(message) for message in now] if isinstance(step, str) else step
        pair.hear(batch_of(SAMPLE, now))


@pytest.mark.parametrize("from_wire", [False, True])
def test_in_lockstep_every_round_but_the_first_few_takes_the_short_way(
    monkeypatch: pytest.MonkeyPatch, from_wire: bool
) -> None:
    """A neighbour's message with two hops to live, and relays of two origins, one of them the neighbour itself."""
    pair, confirmed = Pair(window=128, from_wire=from_wire), []
    plain = repetition.Repetition.is_confirmed_by

    def noted(self: repetition.Repetition, ring: Columns, width: int) -> bool:
        confirmed.append(plain(self, ring, width))
        return confirmed[-1]

    monkeypatch.setattr(repetition.Repetition, "is_confirmed_by", noted)
    for trial in range(2, 400):
        pair.hear(
            samples(
                Message(1, trial, 2, (0, 5), 2),
                Message(2, trial - 1, 1, (0, 5), 2),
                Message(1, trial - 1, 1, (0, 5), 2),
                Message(OWN, trial - 1, 1, (0, 5), 2),
                Message(2, trial - 1, 1, (0, 5), 2),
            )
        )
    assert confirmed.count(True) >= 390
    assert pair.gossips[0].redundant["own"] == 398


def test_a_round_that_was_partly_heard_already_takes_the_long_way() -> None:
    pair = Pair()
    for trial in (1, 2, 3):
        pair.hear(samples(sample(1, trial, reward=5), sample(2, trial, reward=5)))
    pair.hear(samples(sample(2, 4, reward=5)))
    pair.hear(samples(sample(1, 4, reward=5), sample(2, 4, reward=5)))
    pair.hear(samples(sample(1, 5, reward=5), sample(2, 5, reward=5)))
    assert pair.gossips[0].redundant["duplicate"] == 1


def test_an_origin_that_lags_far_behind_the_others_keeps_nobody_from_the_short_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, confirmed = Pair(), []
    plain = repetition.Repetition.is_confirmed_by
    monkeypatch.setattr(
        repetition.Repetition,
        "is_confirmed_by",
        lambda *arguments: confirmed.append(plain(*arguments)) or confirmed[-1],
    )
    for trial in range(1001, 1101):
        pair.hear(samples(sample(1, trial, reward=5), sample(2, trial - 1000, reward=5)))
    assert confirmed.count(True) >= 98
    assert not pair.gossips[0].dropped


def test_a_round_with_a_latecomer_is_not_repeated() -> None:
    pair = Pair(window=4, tells_extents=True)
    pair.hear(samples(sample(1, 9, 2, reward=5), sample(2, 9, 2, reward=5)))
    for trial in (10, 11, 12):
        pair.hear(samples(Message(1, trial - 8, 2, (trial, 5), 2), sample(2, trial, 2, reward=5)))
        assert (SAMPLE in pair.gossips[0]._last) is (trial - 8 != 5)


def test_a_kind_is_remembered_whatever_other_kinds_come_in_between() -> None:
    pair = Pair()
    for trial in range(1, 6):
        pair.hear(samples(sample(1, trial, reward=5)))
        pair.hear(batch_of(TOTALS, [Message(2, trial, 1, (trial, 1))]))
    assert set(pair.gossips[0]._last) == {SAMPLE, TOTALS}


def test_a_number_speaks_of_one_round_of_one_reader_only() -> None:
    """Another reader's rounds, or a round that was never taken in, are not what a batch repeats."""
    pair, other = Pair(from_wire=True), Pair(from_wire=True)
    pair.hear(samples(sample(1, 1, reward=5)))
    other._read(samples(sample(2, 1, reward=5)))
    pair.hear(other._read(samples(sample(2, 2, reward=5))))
    pair._read(samples(sample(1, 3, reward=5)))
    pair.hear(samples(sample(1, 4, reward=5)))
    assert pair.gossips[0].take_relays() == []


def test_a_sequel_goes_with_the_whole_batch_only() -> None:
    batch = Pair(from_wire=True)._read(samples(sample(1, 1, 2), sample(2, 1, 2)))
    assert batch.sequel is not None
    assert batch.rows(np.array([0, 1])).sequel is None
    assert batch.aged().sequel is None
    assert by_kind([batch, samples(sample(3, 1))])[0].sequel is None
    assert by_kind([batch])[0].sequel == batch.sequel


def test_rounds_follow_by_number() -> None:
    first = Sequel.to()
    second = Sequel.to(first.number)
    assert follows(second, first.number)
    assert not follows(first, second.number)
    assert not follows(first, 0)
    assert not follows(None, first.number)
