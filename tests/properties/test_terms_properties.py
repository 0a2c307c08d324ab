"""Judging by terms: nothing honest is refused, whatever happens on the way; nothing that breaks them gets through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_runs import ring, sparse, spec

from agentd.core.bodies import KINDS, SAMPLE, TOTALS
from agentd.core.message import MAX_TRIAL, Batch, Message, batch_of
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.sealed import Sealed
from agentd.core.policy.shielded import Shielded
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives
from agentd.runs.spec import Outcome, RunSpec
from agentd.simulation.network import InMemoryNetwork, make_agent
from agentd.simulation.network_faults import NO_FAULTS, Crash, Faults, Partition

BY_TERMS = {"origin", "kind", "lifetime", "incarnation", "future"}
TELLING = [name for name, algorithm in ALGORITHMS.items() if algorithm.tells]

faults = st.builds(
    Faults,
    loss=st.sampled_from([0.0, 0.05, 0.4]),
    duplication=st.sampled_from([0.0, 0.2]),
    max_delay=st.sampled_from([0, 0, 3]),
    reorder=st.booleans(),
    crashes=st.sampled_from(
        [
            (),
            (Crash(1, 9, 12),),
            (Crash(2, 8, 15, keeps_state=False), Crash(1, 1, 4, keeps_state=False)),
            (Crash(2, 3, 5, keeps_state=False), Crash(2, 9, 10, keeps_state=False), Crash(0, 6)),
        ]
    ),
    partitions=st.sampled_from([(), (Partition(frozenset({0, 2}), 4, 11),)]),
)


def refused(network: InMemoryNetwork) -> Counter[str]:
    """What all agents refused by their terms."""
    counted = sum([agent.dropped for agent in network.agents], Counter[str]())
    counted += sum([rounds.dropped for rounds in network.rounds], Counter[str]())
    return Counter({reason: count for reason, count in counted.items() if reason in BY_TERMS})


def under(terms: Terms, run: RunSpec, trouble: Faults) -> Outcome:
    """The same run where agents refuse by other terms; policies still know who takes part, which they decide by."""
    network = InMemoryNetwork(run, trouble)
    agreed, network._terms = network._terms, terms
    with pytest.MonkeyPatch.context() as patch:
        for policy in (Sealed, Shielded):
            agree = policy.agree
            patch.setattr(policy, "agree", lambda self, _, lifetime, agree=agree: agree(self, agreed, lifetime))
        network.agents = [make_agent(run, own, lives=Lives(), terms=terms) for own in range(run.network.agents)]
        return network.run()


@given(st.sampled_from(list(ALGORITHMS)), st.integers(0, 5), st.integers(0, 1 << 16), faults)
@example(
    "sealed",
    2,
    85,
    Faults(
        crashes=(Crash(2, 8, 15, keeps_state=False), Crash(1, 1, 4, keeps_state=False)),
        partitions=(Partition(frozenset({0, 2}), 4, 11),),
    ),
)
@settings(deadline=None, max_examples=40)
def test_nothing_honest_is_refused_whatever_happens_on_the_way(
    algorithm: str, gamma: int, seed: int, trouble: Faults
) -> None:
    run = spec(sparse(6, 0.3, seed), algorithm, rounds=25, gamma=gamma, seed=seed, overrides={4: "coop-ucb", 5: "ucb1"})
    network = InMemoryNetwork(run, trouble)
    outcome = network.run()
    came_back = any(not crash.keeps_state and crash.back for crash in trouble.crashes)
    assert set(refused(network)) <= ({"incarnation"} if came_back else set())
    without = Terms(run.arms.count, gamma).assuming(run.policy.epsilon, run.policy.v)
    assert np.array_equal(under(without, run, trouble).arm, outcome.arm)


class Forger(InMemoryNetwork):
    """A network in which agent 5 adds to everything it says what it should not."""

    def __init__(self, run: RunSpec, forge: Callable[[int], Sequence[Batch]], trouble: Faults = NO_FAULTS) -> None:
        self._forge = forge
        super().__init__(run, trouble)

    def _publish(self, sender: int, batches: Sequence[Batch]) -> None:
        forged = self._forge(self.round) if sender == 5 else []
        super()._publish(sender, [*forged, *batches])


GAMMA, ROUNDS = 3, 40
BODIES = {"coop-ucb": TOTALS, "byzantine-ucb": SAMPLE}


class Lie(NamedTuple):
    """A head that breaks the terms, in a round, and the reason."""

    head: Callable[[int], tuple[int, int, int, int, int]]
    """Origin, incarnation, trial, lifetime and life."""
    reason: str


LIES = {
    "invented origin": Lie(lambda t: (6 + t, 0, t, GAMMA, GAMMA - 1), "origin"),
    "largest origin": Lie(lambda t: (65_535, 0, t, GAMMA, GAMMA - 1), "origin"),
    "as if it were the origin": Lie(lambda t: (2, 0, t, GAMMA, GAMMA), "lifetime"),
    "itself, relayed": Lie(lambda t: (5, 0, t, GAMMA, GAMMA - 1), "lifetime"),
    "for ever": Lie(lambda t: (2, 0, t, 65_535, 65_534), "lifetime"),
    "short": Lie(lambda t: (2, 0, t, 2, 1), "lifetime"),
    "new life": Lie(lambda t: (2, t - 2, t - 1, GAMMA, GAMMA - 1), "incarnation"),
    "impossible life": Lie(lambda t: (2, 1 << 50, t - 1, GAMMA, GAMMA - 1), "incarnation"),
    "one trial early": Lie(lambda t: (2, 0, t, GAMMA, GAMMA - 1), "future"),
    "last hop early": Lie(lambda t: (2, 0, t - 1, GAMMA, GAMMA - 2), "future"),
    "itself, early": Lie(lambda t: (5, 0, t + 1, GAMMA, GAMMA), "future"),
    "after the end": Lie(lambda _: (5, 0, ROUNDS + 1, GAMMA, GAMMA), "future"),
    "the last trial there is": Lie(lambda _: (2, 0, MAX_TRIAL, GAMMA, 1), "future"),
    "silent origin": Lie(lambda t: (3, 0, t - 1, GAMMA, GAMMA - 1), "kind"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
@pytest.mark.parametrize("algorithm", BODIES)
@pytest.mark.parametrize("trouble", [NO_FAULTS, Faults(loss=0.1, duplication=0.2)], ids=["calm", "stormy"])
def test_what_breaks_the_terms_changes_nothing(algorithm: str, lie: Lie, trouble: Faults) -> None:
    """To the last pull, the run is the one without it."""
    run = spec(ring(6), algorithm, rounds=ROUNDS, gamma=GAMMA, overrides={3: "ucb1"})
    kind = BODIES[algorithm]
    width = kind.width(2)

    def forge(round_: int) -> list[Batch]:
        origin, incarnation, trial, lifetime, life = lie.head(round_)
        return (
            [batch_of(kind, [Message(origin, trial, life, (0,) * width, lifetime, incarnation)])] if round_ > 2 else []
        )

    attacked = Forger(run, forge, trouble)
    outcome = attacked.run()
    assert np.array_equal(outcome.arm, InMemoryNetwork(run, trouble).run().arm)
    assert set(refused(attacked)) == {lie.reason}
    told = sum(agent.lives is not None and agent.lives.ask for agent in attacked.agents)
    assert bool(told) == (lie is LIES["new life"])


@pytest.mark.parametrize("algorithm", TELLING)
def test_other_kinds_of_bodies_change_nothing(algorithm: str) -> None:
    run = spec(ring(6), algorithm, rounds=ROUNDS, gamma=GAMMA)
    tells = ALGORITHMS[algorithm].tells
    others = [kind for kind in KINDS.values() if kind is not tells]

    def forge(round_: int) -> list[Batch]:
        return [batch_of(kind, [Message(5, round_, GAMMA, (0,) * kind.width(2), GAMMA)]) for kind in others]

    attacked = Forger(run, forge)
    outcome = attacked.run()
    assert np.array_equal(outcome.arm, InMemoryNetwork(run).run().arm)
    assert set(refused(attacked)) == {"kind"}


def test_a_flood_of_names_takes_nobodys_place() -> None:
    run = spec(ring(6), "byzantine-ucb", rounds=12, gamma=GAMMA)
    names = range(6, 65_536)
    flood = batch_of(SAMPLE, [Message(name, 1, GAMMA - 1, (0, 0), GAMMA) for name in names])

    def forge(round_: int) -> list[Batch]:
        return [flood] if round_ == 2 else []

    attacked = Forger(run, forge)
    outcome = attacked.run()
    assert np.array_equal(outcome.arm, InMemoryNetwork(run).run().arm)
    assert refused(attacked) == {"origin": 2 * len(names)}
    assert all(len(agent._origins) == 5 for agent in attacked.agents)
