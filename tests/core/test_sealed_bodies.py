"""Records of sealed as they are judged: all at once, as nearly always, or one after the other."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.bodies import SEALED
from agentd.core.message import Message, batch_of
from agentd.core.privacy.sealing import Weighting
from agentd.core.terms import PolicyTerms, Terms

ARMS = 3
TERMS = Terms(arms=ARMS, lifetime=2, policies=(PolicyTerms("sealed", SEALED.tag, 1.0, None, ((0, 9),)),))
SAMPLES = Weighting.of(1.0).samples(20)


def mostly(usual: int, *others: int) -> st.SearchStrategy[int]:
    return st.sampled_from([usual] * 20 + list(others))


class Told(NamedTuple):
    """What an origin says in a round."""

    closed: int
    """Batches more than in the round before; nobody has pulls for very many."""
    late: int
    arm: int
    incarnation: int
    wrong: int
    """How many samples it claims too many."""
    times: int


TOLD = st.builds(
    Told,
    mostly(1, 0, 0, 3, 3, -1, 20),
    mostly(0, 25, 25),
    mostly(0, 1, 1, 1, ARMS),
    mostly(0, 15),
    mostly(0, 1 << 40),
    mostly(1, 2),
)
ROUNDS = st.lists(st.tuples(TOLD, TOLD), min_size=2, max_size=8)


def messages(round_: int, said: tuple[Told, ...], closed: Counter[tuple[int, int]]) -> list[Message]:
    """What all say in a round; `closed` counts the batches of each origin and arm."""
    all_said: list[Message] = []
    for origin, told in enumerate(said):
        closed[origin, told.arm] = batches = max(0, closed[origin, told.arm] + told.closed)
        samples = SAMPLES * batches
        body = told.arm, 20 * batches, batches, samples + told.wrong, samples // 2
        trial = 100 + 20 * round_ - told.late
        all_said += [Message(origin, trial + n, 1, body, 2, told.incarnation) for n in range(told.times)]
    return all_said


@given(ROUNDS)
def test_what_is_found_out_for_all_records_at_once_is_what_each_of_them_is_judged_to_be(
    rounds: list[list[Told]],
) -> None:
    at_once, one_by_one = SEALED.memory(TERMS), SEALED.memory(TERMS)
    closed: Counter[tuple[int, int]] = Counter()
    for round_, said in enumerate(rounds):
        batch = batch_of(SEALED, messages(round_, said, closed))
        plausible = one_by_one.plausible(batch)
        accepted = at_once.accepts_all(batch, batch.origin)
        assert accepted == plausible.all()
        honest = batch if accepted else batch.rows(plausible)
        if not len(honest):
            continue
        found, expected = (memory.continued_by(honest, honest.origin) for memory in (at_once, one_by_one))
        assert (found.honest is None) == (expected.honest is None)
        assert found.honest is None or np.array_equal(found.honest, expected.honest)
        assert found.news.batch.messages() == expected.news.batch.messages()
        extents = [memory.extent_of(honest, honest.origin) for memory in (at_once, one_by_one)]
        assert all(np.array_equal(one, other) for one, other in zip(*extents, strict=True))


def test_the_pulls_of_all_arms_together_are_no_more_than_trials_also_where_all_is_looked_at_at_once() -> None:
    memory = SEALED.memory(TERMS)
    for trial, arm, honest in ((100, 0, True), (120, 1, True), (121, 2, False), (140, 2, True)):
        batches = 5 if arm == 0 else 1
        body = (arm, 20 * batches, batches, SAMPLES * batches, 0)
        batch = batch_of(SEALED, [Message(3, trial, 1, body, 2)])
        assert memory.accepts_all(batch, batch.origin), "by itself it is honest"
        assert (memory.continued_by(batch, batch.origin).honest is None) == honest
