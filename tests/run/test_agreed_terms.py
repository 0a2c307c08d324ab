"""The terms that a run's spec comes to."""

from __future__ import annotations

from small_runs import ring, spec

from agentd.core.terms import Clock, PolicyTerms
from agentd.runs.agreed_terms import terms_of


def test_everybody_is_in_the_terms_with_what_it_does() -> None:
    run = spec(ring(6), "private-ucb", rounds=50, overrides={3: "ucb1", 1: "sealed"})
    terms = terms_of(run, run=b"run id 1", clock=Clock.FREE, interval_us=1000, start_ms=5, beacon=bytes(range(32)))
    epsilon, v = run.policy.epsilon, run.policy.v
    assert terms.policies == (
        PolicyTerms("private-ucb", 1, epsilon, v, ((0, 0), (2, 2), (4, 5))),
        PolicyTerms("sealed", 4, epsilon, None, ((1, 1),)),
        PolicyTerms("ucb1", 0, None, None, ((3, 3),)),
    )
    assert (terms.arms, terms.lifetime, terms.horizon) == (run.arms.count, 2, 50)
    assert (terms.run, terms.clock, terms.interval_us, terms.start_ms) == (b"run id 1", Clock.FREE, 1000, 5)
    assert terms.beacon == bytes(range(32))
    assert list(terms.ids()) == list(range(6))


def test_terms_of_a_spec_alone_are_those_of_a_lockstep() -> None:
    terms = terms_of(spec(ring(3)))
    assert terms.clock is Clock.LOCKSTEP
    assert terms.closed
