"""Gossip, rule by rule; the properties over whole graphs are in tests/properties."""

from __future__ import annotations

import pytest
from small_runs import sample, samples, totals

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS
from agentd.core.gossip import Gossip, window_under
from agentd.core.message import Batch, Message
from agentd.core.origins import MAX_ORIGINS, Origins
from agentd.core.terms import PolicyTerms, Terms

OWN = 0


def gossip(*, window: int = 128, max_queued: int = 1 << 16, origins: int = MAX_ORIGINS) -> Gossip:
    return Gossip(Origins(OWN, origins), window=window, max_queued=max_queued)


def counted(of: Gossip, *messages: Message) -> list[tuple[int, int]]:
    """Hear the messages in one call; what counts, as (origin, trial)."""
    return [(message.origin, message.trial) for message in of.hear(samples(*messages)).fresh.messages()]


def relayed(of: Gossip) -> list[tuple[int, int, int]]:
    """What goes out next, as (origin, trial, life)."""
    return [(m.origin, m.trial, m.life) for batch in of.take_relays() for m in batch.messages()]


def test_a_new_message_counts_and_goes_on_with_one_hop_less_to_live() -> None:
    some = gossip()
    assert counted(some, sample(3, 1, 4)) == [(3, 1)]
    assert relayed(some) == [(3, 1, 3)]
    assert relayed(some) == []


def test_a_message_in_its_last_life_counts_and_goes_no_further() -> None:
    some = gossip()
    assert counted(some, sample(3, 1, 1)) == [(3, 1)]
    assert relayed(some) == []


def test_a_copy_with_as_much_or_less_life_is_a_duplicate() -> None:
    some = gossip()
    counted(some, sample(3, 1, 4))
    relayed(some)
    assert counted(some, sample(3, 1, 4), sample(3, 1, 2)) == []
    assert relayed(some) == []
    assert some.redundant == {"duplicate": 2}
    assert not some.dropped


def test_a_later_copy_with_more_life_goes_on_again_and_counts_no_more() -> None:
    some = gossip()
    assert counted(some, sample(3, 1, 1, lifetime=3)) == [(3, 1)]
    assert counted(some, sample(3, 1, 2, lifetime=3)) == []
    assert relayed(some) == [(3, 1, 1)]
    assert not some.redundant


def test_among_copies_in_one_call_the_one_with_most_life_counts_and_goes_on() -> None:
    some = gossip()
    fresh = some.hear(samples(*(sample(3, 1, life, reward=life) for life in (2, 5, 3)))).fresh
    assert [(m.life, m.body) for m in fresh.messages()] == [(5, (0, 5))]
    assert relayed(some) == [(3, 1, 4)]
    assert some.redundant == {"duplicate": 2}


def test_among_equal_copies_in_one_call_the_first_counts() -> None:
    some = gossip()
    fresh = some.hear(samples(*(sample(3, 1, 2, reward=reward) for reward in (7, 8, 9)))).fresh
    assert [m.body for m in fresh.messages()] == [(0, 7)]
    assert some.redundant == {"duplicate": 2}


def test_what_counts_keeps_the_order_in_which_it_was_told() -> None:
    assert counted(gossip(), sample(9, 2), sample(3, 1), sample(9, 1)) == [(9, 2), (3, 1), (9, 1)]


def test_own_messages_that_come_back_are_neither_counted_nor_sent_on() -> None:
    some = gossip()
    assert counted(some, sample(OWN, 1, 3), sample(3, 1, 1)) == [(3, 1)]
    assert relayed(some) == []
    assert some.redundant == {"own": 1}


def test_nothing_heard_changes_nothing() -> None:
    some = gossip()
    assert counted(some) == []
    assert relayed(some) == []
    assert not some.dropped
    assert not some.redundant


def test_an_origin_heard_for_the_first_time_has_not_returned() -> None:
    assert gossip().hear(samples(sample(3, 1, incarnation=5))).renewed.tolist() == []


def test_a_new_incarnation_voids_what_was_known_of_the_old_one() -> None:
    some = gossip()
    counted(some, sample(3, 40), sample(5, 1))
    fresh, rows, renewed = some.hear(samples(sample(5, 2), sample(3, 40, incarnation=1), sample(3, 7, incarnation=1)))
    assert renewed.tolist() == [0]
    assert rows.tolist() == [1, 0, 0]
    assert [(m.origin, m.trial) for m in fresh.messages()] == [(5, 2), (3, 40), (3, 7)]


def test_a_new_incarnation_starts_with_an_empty_window() -> None:
    some = gossip(window=4)
    counted(some, sample(3, 100))
    assert counted(some, sample(3, 2, incarnation=1)) == [(3, 2)]
    assert counted(some, sample(3, 2, incarnation=1)) == []


def test_late_messages_of_an_old_incarnation_are_dropped() -> None:
    some = gossip()
    counted(some, sample(3, 1, incarnation=2))
    assert counted(some, sample(3, 2, incarnation=1), sample(3, 2, incarnation=2)) == [(3, 2)]
    assert some.dropped == {"incarnation": 1}


def test_old_and_new_incarnation_in_one_call_leave_the_new_one() -> None:
    some = gossip()
    fresh, _, renewed = some.hear(samples(sample(3, 9, incarnation=0), sample(3, 1, incarnation=1)))
    assert [(m.incarnation, m.trial) for m in fresh.messages()] == [(1, 1)]
    assert renewed.tolist() == []
    assert some.dropped == {"incarnation": 1}


def test_the_window_follows_the_newest_trial() -> None:
    some = gossip(window=4)
    assert counted(some, sample(3, 10)) == [(3, 10)]
    assert counted(some, sample(3, 6), sample(3, 7)) == [(3, 7)]
    assert some.dropped == {"stale": 1}
    assert counted(some, sample(3, 7)) == []
    assert some.redundant == {"duplicate": 1}


def test_a_trial_far_behind_counts_if_its_cell_shows_that_it_was_never_heard() -> None:
    some = gossip(window=4)
    assert counted(some, sample(3, 100)) == [(3, 100)]
    assert counted(some, sample(3, 1), sample(3, 2), sample(3, 4)) == [(3, 1), (3, 2)]
    assert counted(some, sample(3, 1), sample(3, 2)) == []
    assert some.dropped == {"stale": 1}
    assert some.redundant == {"duplicate": 2}


def test_an_origin_that_lags_behind_is_heard_like_the_others() -> None:
    some = gossip(window=4)
    for trial in range(1, 20):
        assert counted(some, sample(3, trial), sample(5, trial + 900)) == [(3, trial), (5, trial + 900)]
    assert not some.dropped


def test_a_cell_of_the_window_serves_one_trial_after_the_other() -> None:
    some = gossip(window=4)
    for trial in range(1, 13):
        assert counted(some, sample(3, trial)) == [(3, trial)]
    assert not some.dropped


def test_a_trial_that_falls_out_of_the_window_in_its_own_call_is_dropped() -> None:
    some = gossip(window=4)
    assert counted(some, sample(3, 1), sample(3, 5)) == [(3, 5)]
    assert some.dropped == {"stale": 1}


def test_origins_beyond_the_limit_are_dropped_and_counted() -> None:
    some = gossip(origins=2)
    assert counted(some, sample(1, 1), sample(2, 1), sample(3, 1), sample(OWN, 1)) == [(1, 1), (2, 1)]
    assert some.dropped == {"origins": 1}
    assert some.redundant == {"own": 1}


def test_a_full_queue_drops_relays_but_counts_the_messages() -> None:
    some = gossip(max_queued=2)
    assert len(counted(some, *(sample(3, trial, 2) for trial in (1, 2, 3)))) == 3
    assert len(counted(some, sample(3, 4, 2))) == 1
    assert some.dropped == {"overflow": 2}
    assert relayed(some) == [(3, 1, 1), (3, 2, 1)]


def test_an_emptied_queue_has_room_again() -> None:
    some = gossip(max_queued=1)
    counted(some, sample(3, 1, 2))
    relayed(some)
    counted(some, sample(3, 2, 2))
    assert relayed(some) == [(3, 2, 1)]
    assert not some.dropped


def test_relays_of_one_kind_leave_in_one_batch() -> None:
    some = gossip()
    batches: list[Batch] = [samples(sample(3, 1, 2)), totals(Message(4, 1, 2, (1, 0))), samples(sample(5, 1, 2))]
    for batch in batches:
        some.hear(batch)
    assert [batch.origin.tolist() for batch in some.take_relays()] == [[3, 5], [4]]


def test_memory_of_the_first_origins_survives_the_growth_for_more() -> None:
    some = gossip()
    counted(some, sample(1, 1, 3))
    counted(some, *(sample(origin, 1, 3) for origin in range(2, 40)))
    assert counted(some, *(sample(origin, 1, 3) for origin in range(1, 41))) == [(40, 1)]


@pytest.mark.parametrize(
    ("tags", "lifetime", "window"),
    [
        ([SEALED.tag], 2, 32),
        ([RELEASED.tag, TOTALS.tag, SEALED.tag], 16, 32),
        ([0, SEALED.tag], 2, 32),  # who tells nobody anything is not remembered at all
        ([SEALED.tag], 30, 60),
        ([SEALED.tag], 65_535, 128),
        ([SAMPLE.tag], 2, 128),
        ([SEALED.tag, SAMPLE.tag], 2, 128),
        ([SEALED.tag, None], 2, 128),
        ([250], 2, 128),
        ([], 2, 128),
    ],
)
def test_fewer_trials_are_remembered_where_bodies_tell_whether_they_are_old(
    tags: list[int | None], lifetime: int, window: int
) -> None:
    policies = tuple(PolicyTerms("", tag, 1.0, 1.1, ((place, place),)) for place, tag in enumerate(tags))
    assert window_under(Terms(5, lifetime, policies=policies), lifetime) == window
