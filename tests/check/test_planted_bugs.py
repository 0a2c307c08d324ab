"""Each bug that is planted is found within three hundred seeds, and made small."""

from __future__ import annotations

import pytest

from agentd.check.drawing import draw
from agentd.check.planted_bugs import BUGS, planted
from agentd.check.seeds import judge, play_once
from agentd.check.shrink import shrink

SEEDS = 300
MOST_AGENTS = 5
FOUND_AT = {
    "gamma-off-by-one": 7,
    "dedupe-without-trial": 0,
    "send-before-commit": 0,
    "noise-again": 26,
    "no-more-life": 21,
    "held-for-ever": 25,
    "terms-unchecked": 0,
    "token-unchecked": 3,
    "never-refilled": 3,
    "window-for-all": 17,
    "answers-mixed-up": 7,
    "first-listener": 7,
    "names-believed": 7,
}
"""The first seed at which each shows, so that `make test` need not look for it; the long tests do."""
INVARIANTS = {
    "gamma-off-by-one": {"exactly the γ-ball"},
    "dedupe-without-trial": {"sums equal to a recount"},
    "noise-again": {"no trial reused", "ledger and budget"},
    "no-more-life": {"exactly the γ-ball"},
    "send-before-commit": {"on disk before sent"},
    "held-for-ever": {"exactly the γ-ball", "nobody waits for ever", "progress after healing"},
    "terms-unchecked": {"terms", "nobody speaks for others", "sums equal to a recount", "life", "exactly the γ-ball"},
    "token-unchecked": {"seats", "no trial reused"},
    "never-refilled": {"patience"},
    "answers-mixed-up": {"rewards are one's own"},
    "first-listener": {"quotas"},
    "names-believed": {"quotas"},
    "window-for-all": {"sums equal to a recount", "nobody speaks for others"},
}
"""By what each may show."""


QUICKLY_MADE_SMALL = (
    "dedupe-without-trial",
    "gamma-off-by-one",
    "never-refilled",
    "send-before-commit",
    "token-unchecked",
)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    world = draw(FOUND_AT[bug])
    assert play_once(world) is None, "without the bug nothing is wrong"
    with planted(bug):
        violation = play_once(world)
    assert violation is not None
    assert violation.invariant in INVARIANTS[bug]


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=() if bug in QUICKLY_MADE_SMALL else pytest.mark.long) for bug in BUGS]
)
def test_a_planted_bug_is_made_small(bug: str) -> None:
    world = draw(FOUND_AT[bug])
    with planted(bug):
        violation = play_once(world)
        assert violation is not None
        small = shrink(world, violation)
        again = play_once(small.world)
    assert small.world.agents <= MOST_AGENTS
    assert len(small.world.faults) <= len(world.faults)
    assert str(again) == str(small.violation), "the script plays the same again"
    assert play_once(small.world) is None, "without the bug nothing is wrong in the small world either"


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_within_three_hundred_seeds(bug: str) -> None:
    found = next(
        (v for first in range(0, SEEDS, 10) for v in judge(range(first, first + 10), bug) if v.invariant), None
    )
    assert found is not None, "nobody would have noticed"
    assert found.invariant in INVARIANTS[bug]
    assert found.seed == FOUND_AT[bug], "the short test looks elsewhere"


def test_nothing_is_planted_once_it_is_over() -> None:
    before = [(owner, name, owner.__dict__[name]) for bug in BUGS for owner, name, _ in BUGS[bug]()]
    with planted("terms-unchecked"), planted("token-unchecked"):
        assert any(owner.__dict__[name] is not real for owner, name, real in before)
    assert all(owner.__dict__[name] is real for owner, name, real in before)
