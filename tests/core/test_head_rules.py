"""What is refused of heads, reason by reason, under the terms of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_runs import sample, samples, totals

from agentd.core.bodies import SAMPLE
from agentd.core.checks import Checks
from agentd.core.message import MAX_AGENT_ID, MAX_TRIAL, Batch, Message
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.core.trust.heads import HeadRules, only_said_by
from agentd.core.trust.lives import Lives

GAMMA = 3
POLICIES = (
    PolicyTerms("byzantine-ucb", SAMPLE.tag, None, None, ((0, 2), (9, 9))),
    PolicyTerms("ucb1", 0, None, None, ((3, 3),)),
    PolicyTerms("", None, None, None, ((4, 4),)),
)
CLOSED = Terms(2, GAMMA, horizon=100, clock=Clock.LOCKSTEP, policies=POLICIES)
OPEN = Terms(2, None)


def said(origin: int = 1, trial: int = 5, life: int = GAMMA, *, lifetime: int = GAMMA, incarnation: int = 0) -> Message:
    return sample(origin, trial, life, lifetime=lifetime, incarnation=incarnation)


def refused(terms: Terms, *messages: Message, latest: int = MAX_TRIAL, lives: Lives | None = None) -> dict[str, int]:
    """What is counted; and what is not counted passes."""
    checks = Checks(terms, lives)
    passed = checks.judge_heads(samples(*messages), latest)
    assert len(passed) + checks.dropped.total() == len(messages)
    return dict(checks.dropped)


def test_what_the_terms_allow_passes() -> None:
    assert refused(CLOSED, *(said(origin) for origin in (0, 1, 2, 4, 9))) == {}


@pytest.mark.parametrize("origin", [5, 8, 10, MAX_AGENT_ID])
def test_who_does_not_take_part_is_refused(origin: int) -> None:
    assert refused(CLOSED, said(origin)) == {"origin": 1}
    assert refused(replace(CLOSED, policies=()), said(origin)) == {}


def test_a_kind_that_its_origin_does_not_publish_is_refused() -> None:
    assert refused(CLOSED, said(3)) == {"kind": 1}
    checks = Checks(CLOSED)
    passed = checks.judge_heads(totals(*(Message(origin, 5, 1, (0, 0, 0, 0), GAMMA) for origin in (0, 3, 4))))
    assert (passed.origin.tolist(), checks.dropped) == ([4], {"kind": 2})


@pytest.mark.parametrize("lifetime", [1, GAMMA - 1, GAMMA + 1, 65_535])
def test_another_lifetime_is_refused(lifetime: int) -> None:
    assert refused(CLOSED, said(life=1, lifetime=lifetime)) == {"lifetime": 1}
    assert refused(replace(OPEN, lifetime=GAMMA), said(life=1, lifetime=lifetime)) == {"lifetime": 1}
    assert refused(OPEN, said(life=1, lifetime=lifetime)) == {}


@pytest.mark.parametrize("terms", [OPEN, CLOSED])
def test_an_incarnation_is_smaller_than_its_trials_in_any_case(terms: Terms) -> None:
    assert refused(terms, said(incarnation=4)) == {}
    assert refused(terms, said(incarnation=5), said(incarnation=1 << 52)) == {"incarnation": 2}


@pytest.mark.parametrize("terms", [OPEN, CLOSED])
def test_only_the_life_that_was_told_is_believed(terms: Terms) -> None:
    lives = Lives([(1, 3)])
    assert refused(terms, said(1, incarnation=3), said(2), lives=lives) == {}
    assert not lives.ask
    assert refused(terms, said(1), said(1, incarnation=2), lives=lives) == {"incarnation": 2}
    assert not lives.ask
    assert refused(terms, said(2, incarnation=1), lives=lives) == {"incarnation": 1}
    assert lives.ask


def test_where_everybody_is_in_its_first_life_no_other_is_believed() -> None:
    lives = Lives()
    assert refused(CLOSED, said(2), lives=lives) == {}
    assert refused(CLOSED, said(2), said(2, incarnation=1), lives=lives) == {"incarnation": 1}
    assert lives.ask


def test_an_incarnation_that_nobody_can_have_is_not_asked_about() -> None:
    lives = Lives()
    assert refused(CLOSED, said(2, incarnation=5), lives=lives) == {"incarnation": 1}
    assert not lives.ask


def test_no_trial_is_beyond_the_horizon() -> None:
    assert refused(CLOSED, said(trial=100), said(trial=101), said(trial=MAX_TRIAL)) == {"future": 2}
    free = replace(CLOSED, clock=Clock.FREE)
    assert refused(free, said(trial=100, life=1), said(trial=101)) == {"future": 1}
    assert refused(OPEN, said(trial=MAX_TRIAL)) == {}


@pytest.mark.parametrize(("life", "latest"), [(3, 5), (2, 6), (1, 7)])
def test_in_lockstep_every_hop_takes_a_round(life: int, latest: int) -> None:
    assert refused(CLOSED, said(life=life), latest=latest) == {}
    assert refused(CLOSED, said(life=life), latest=latest - 1) == {"future": 1}


@pytest.mark.parametrize("clock", [Clock.OPEN, Clock.FREE])
def test_elsewhere_hops_take_no_time(clock: Clock) -> None:
    terms = replace(CLOSED, clock=clock)
    assert refused(terms, said(life=1), latest=5) == {}
    assert refused(terms, said(life=3), latest=4) == {"future": 1}


def later(batch: Batch, trials: int) -> Batch:
    head = batch.head.copy()
    head[:, 2] += trials
    return Batch(batch.kind, head, batch.body, batch.signature)


def test_heads_that_repeat_are_still_held_against_the_latest_trial() -> None:
    checks = Checks(CLOSED)
    batch = samples(said(1), said(2, trial=3, life=1))
    for round_ in range(5, 9):
        assert len(checks.judge_heads(later(batch, round_ - 5), round_)) == 2
    assert checks.judge_heads(later(batch, 4), 8).origin.tolist() == []
    assert checks.dropped == {"future": 2}


def test_heads_that_repeat_say_so() -> None:
    checks = Checks(CLOSED)
    batch = samples(said(1), said(2, trial=3, life=1))
    first, second = checks.judge_heads(batch, 5), checks.judge_heads(later(batch, 1), 6)
    assert first.sequel is not None
    assert second.sequel is not None
    assert second.sequel.repeats == first.sequel.number
    third = checks.judge_heads(later(batch, 3), 9)
    assert third.sequel is not None
    assert third.sequel.repeats == 0
    slow = Checks(CLOSED, fast_path=False)
    assert slow.judge_heads(batch, 5).sequel is None


def test_heads_that_repeat_are_judged_anew_when_somebody_came_back() -> None:
    lives = Lives()
    checks = Checks(CLOSED, lives)
    batch = samples(said(1), said(2))
    checks.judge_heads(batch, 5)
    lives.told([(2, 4)])
    checks.lives_changed()
    assert checks.judge_heads(later(batch, 1), 6).origin.tolist() == [1]
    assert checks.dropped == {"incarnation": 1}


def test_senders_say_their_own_with_all_its_life_and_others_with_less() -> None:
    batch = samples(said(1), said(2, life=2), said(2), said(1, life=2))
    assert only_said_by(batch, 1).messages() == batch.messages()[:2]
    assert only_said_by(batch, np.array([1, 1, 2, 2])) is batch
    assert only_said_by(batch, np.array([2, 2, 1, 1])).messages() == []


def test_agents_of_one_process_share_what_is_known_of_all_ids() -> None:
    """A table of ten thousand ids for each of ten thousand agents would be most of their memory."""
    one, other = HeadRules(CLOSED, None), HeadRules(replace(CLOSED), None)
    assert one._tags is other._tags
    assert not one._tags.flags.writeable
    assert HeadRules(replace(CLOSED, policies=POLICIES[:1]), None)._tags is not one._tags
