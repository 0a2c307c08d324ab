"""What a neighbour may send: whole numbers, credited once per round, and never more than a bucket full."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.bodies import KINDS, RELEASED, SAMPLE, SEALED
from agentd.core.gossip import MAX_QUEUED, WINDOW
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.core.trust import quota
from agentd.core.trust.quota import Allowance, Quota, longest_message
from agentd.wire.frame import MAX_MESSAGES
from agentd.wire.layout import body_bytes, message_bytes


def terms(agents: int, *tags: int | None, lifetime: int | None = 2, arms: int = 5) -> Terms:
    """So many agents, divided among as many policies as there are kinds of bodies."""
    ends = [agents * share // len(tags) for share in range(len(tags) + 1)]
    shares = zip(tags, pairwise(ends), strict=True)
    policies = tuple(PolicyTerms("", tag, None, None, ((first, end - 1),)) for tag, (first, end) in shares)
    return Terms(arms, lifetime, clock=Clock.LOCKSTEP, policies=policies)


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_bodies_are_as_long_as_on_the_wire(kind: object) -> None:
    for arms in (1, 5, 1024):
        assert quota.body_bytes(kind, arms) == body_bytes(kind, arms)  # type: ignore[arg-type]


def test_the_longest_message_is_that_of_the_widest_kind_in_the_terms() -> None:
    signed = [message_bytes(kind, 5, signed=True) for kind in (RELEASED, SAMPLE, SEALED)]
    assert longest_message(terms(9, SAMPLE.tag)) == signed[1]
    assert longest_message(terms(9, SAMPLE.tag, RELEASED.tag, 0)) == signed[0]
    assert longest_message(terms(9, None)) == max(message_bytes(kind, 5, signed=True) for kind in KINDS.values())
    assert longest_message(terms(9, 0)) == 18 + 64, "nobody says anything"
    for unknown in (Terms(5, 2), terms(9, 250)):
        assert longest_message(unknown) == longest_message(terms(9, None))


@pytest.mark.parametrize(("lifetime", "copies"), [(0, 0), (1, 1), (2, 2), (4, 4), (5, 4), (99, 4), (None, 4)])
def test_each_round_adds_some_copies_of_everybodys_message(lifetime: int | None, copies: int) -> None:
    assert Quota.under(terms(20, 1, lifetime=lifetime)).messages == 20 * copies + 8


def test_on_free_clocks_a_neighbour_may_be_much_faster_than_we_are() -> None:
    """It pulls sixteen times while we pull once, and so do all whose messages it passes on."""
    free = replace(terms(20, RELEASED.tag), clock=Clock.FREE)
    allowance = Allowance(Quota.under(free))
    each = message_bytes(RELEASED, 5, signed=True)
    for _ in range(500):
        allowance.next_round()
        assert all(allowance.allows(21 * each, 21) for _ in range(16))


def test_an_honest_burst_fits_and_sixty_thousand_rows_do_not() -> None:
    rule = Quota.under(terms(200, RELEASED.tag))
    each = message_bytes(RELEASED, 5, signed=True)
    assert Allowance(rule).allows(each * WINDOW * 200 + 200, WINDOW * 200)
    assert not Allowance(rule).allows(60_000 * message_bytes(SAMPLE, 5), 60_000)
    assert not Allowance(rule).allows(each * 60_000, 1), "bytes count by themselves"


def test_an_open_run_leaves_much_and_not_everything() -> None:
    allowance = Allowance(Quota.under(Terms(5, None)))
    assert allowance.allows(24 * MAX_QUEUED, MAX_QUEUED)
    refused = 0
    for _ in range(100):
        allowance.next_round()
        refused += not allowance.allows(24 * 60_000, 60_000)
    assert refused >= 70
    assert not Allowance(Quota.under(Terms(5, None))).allows(24 * MAX_MESSAGES, MAX_MESSAGES)


def test_what_is_refused_costs_nothing() -> None:
    allowance = Allowance(Quota.under(terms(3, 1)))
    assert not allowance.allows(1, 1 << 30)
    assert not allowance.allows(1 << 40, 1)
    assert allowance.allows(100, Quota.under(terms(3, 1)).most_messages)
    assert not allowance.allows(100, 1)


def test_empty_frames_are_not_free() -> None:
    allowance = Allowance(Quota.under(terms(3, 1)))
    sent = 0
    while allowance.allows(40, 0):
        sent += 1
    assert WINDOW <= sent <= 10 * WINDOW
    allowance.next_round()
    again = 0
    while allowance.allows(40, 0):
        again += 1
    assert 1 <= again <= 8


def test_greetings_are_few_in_the_long_run() -> None:
    allowance = Allowance(Quota.under(terms(3, 1)))
    assert sum(allowance.greeting() for _ in range(10_000)) == quota.GREETINGS_BURST
    for _ in range(10):
        allowance.next_round()
        assert [allowance.greeting() for _ in range(6)] == [True] * 4 + [False] * 2


def test_whoever_claims_to_be_ahead_is_only_paid_in_advance() -> None:
    rule = Quota.under(terms(4, 1))
    honest, liar = Allowance(rule), Allowance(rule)
    taken = {honest: 0, liar: 0}
    for round_ in range(1, 500):
        for allowance in (honest, liar):
            allowance.reached(round_)
        liar.reached(min(round_ + 64, 499))
        for allowance in (honest, liar):
            while allowance.allows(0, 1):
                taken[allowance] += 1
    assert taken[liar] <= taken[honest]
    assert taken[honest] <= rule.most_messages + 499 * rule.messages


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 500), st.integers(0, 20_000)), max_size=60
    ),
    agents=st.integers(1, 30),
    lifetime=st.none() | st.integers(0, 6),
)
def test_nobody_gets_more_than_a_bucket_and_what_each_round_adds(
    steps: list[tuple[int, int, int, int]], agents: int, lifetime: int | None
) -> None:
    rule = Quota.under(terms(agents, 1, lifetime=lifetime))
    allowance = Allowance(rule)
    furthest = said = messages = size = 0
    for round_, late, count, length in steps:
        allowance.reached(round_)
        furthest = max(furthest, round_)
        if late:
            allowance.catches_up(round_ - late, said)
            said = max(said, round_ - late)
        if allowance.allows(length, count):
            messages, size = messages + count, size + length + quota.FRAME_BYTES
    assert messages <= rule.most_messages + furthest * rule.messages
    assert size <= rule.most_bytes + furthest * rule.bytes


def test_whoever_was_stopped_itself_finds_no_flood_in_what_waited_for_it() -> None:
    """A thousand honest frames, read within one round of ours."""
    rule = Quota.under(terms(20, 1))
    allowance = Allowance(rule)
    each = message_bytes(RELEASED, 5, signed=True)
    for round_ in range(1, 1001):
        allowance.reached(round_)
        assert allowance.allows(21 * each, 21)


def test_what_a_cut_has_stored_is_no_flood() -> None:
    """A frame of each of two thousand rounds, read when ours is the last of them; then it is as before."""
    rule = Quota.under(terms(12, 1))
    each = message_bytes(RELEASED, 5, signed=True)
    allowance = Allowance(rule)
    allowance.reached(50)
    assert allowance.allows(13 * each, 13)
    allowance.reached(2050)
    for round_ in range(51, 2051):
        allowance.catches_up(round_, round_ - 1)
        assert allowance.allows(13 * each, 13)
    allowance.reached(2051)
    while allowance.allows(rule.bytes - quota.FRAME_BYTES, 0):
        allowance.catches_up(2051, 2051)
    assert not allowance.allows(rule.bytes, 0)


def test_nothing_is_owed_for_rounds_that_were_heard_or_are_claimed_again() -> None:
    """Whoever says nothing wrong for long has not saved up anything by it."""
    rule = Quota.under(terms(12, 1))
    fat = rule.bytes - quota.FRAME_BYTES
    taken = []
    for before in (5000, 4999, 4000):
        allowance = Allowance(rule)
        allowance.reached(5000)
        said = before
        taken.append(0)
        for round_ in [*range(before + 1, 5001), *range(1, 5001)]:
            allowance.catches_up(round_, said)
            said = max(said, round_)
            taken[-1] += allowance.allows(fat, 0)
    full = 1  # what is owed first finds the bucket full
    assert taken == [taken[0], taken[0] + 1 - full, taken[0] + 1000 - full]
