from __future__ import annotations

import numpy as np
import pytest
from small_runs import news, observe, ring, spec

from agentd.core.bodies import SAMPLE, SEALED
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Message, batch_of
from agentd.core.policy import PolicySettings
from agentd.core.policy.coins import KeyedCoins, held_since
from agentd.core.policy.sealed import Sealed, thompson, upper_bounds
from agentd.core.privacy.sealing import Weighting
from agentd.core.terms import PolicyTerms, Terms
from agentd.simulation.network import InMemoryNetwork

NOISE = 5


class Constant:
    """Noise that is always the same."""

    def draw(self, arm: int, scale: int) -> int:
        return NOISE


class NoCoins:
    """Coins that show nothing, so that the largest mean wins."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def gauss(self, trial: int, number: int) -> list[float]:
        self.asked.append(trial)
        return [0.0] * number


def sealed(arms: int = 2, own: int = 0, **settings: object) -> Sealed:
    return Sealed(PolicySettings(arms=arms, **settings), own, NoCoins())  # type: ignore[arg-type]


def told(*bodies: tuple[int, ...], first_origin: int = 1) -> Batch:
    return batch_of(SEALED, [Message(first_origin + i, 50, 1, body) for i, body in enumerate(bodies)])


def hear(policy: Sealed, *bodies: tuple[int, ...], rows: list[int] | None = None) -> None:
    policy.learn(news(told(*bodies), *(rows or ())))


def greet(policy: Sealed, others: int) -> None:
    """Let it have heard so many others, for so long that no newcomers are expected."""
    hear(policy, *[(0, 0, 0, 0, 0)] * others)
    policy._heard = others + 1


def pull(policy: Sealed, trial: int, reward: int = UNIT) -> tuple[int, list[int] | None]:
    """One trial: the arm, and the body that is told."""
    arm = policy.choose(trial)
    observe(policy, trial, arm, reward, reward, noise=Constant())
    said = policy.body()
    return arm, said[1] if said else None


def first_batch(policy: Sealed) -> int:
    for trial in range(1, 10_000):
        if policy.ledger.releases():
            return trial - 1
        pull(policy, trial)
    raise AssertionError("no batch ever closed")


@pytest.mark.parametrize(
    ("epsilon", "origins", "pulls"), [(1, 200, 2), (1, 50, 3), (1, 10, 8), (0.1, 200, 13), (0.1, 50, 26), (0.1, 10, 59)]
)
def test_the_more_origins_were_heard_the_sooner_the_first_batch_closes(
    epsilon: float, origins: int, pulls: int
) -> None:
    policy = sealed(5, epsilon=epsilon)
    greet(policy, origins - 1)
    assert first_batch(policy) == pulls


def test_while_hellos_still_come_in_as_many_again_are_expected() -> None:
    """20 others heard between the first and the second trial stand for 40: at ε = 3, 41·4/(2 + 8/9) ≥ 8·5."""
    growing, settled = sealed(5, epsilon=3.0), sealed(5, epsilon=3.0)
    greet(settled, 20)
    for policy in (growing, settled):
        pull(policy, 1)
    hear(growing, *[(0, 0, 0, 0, 0)] * 20)
    assert first_batch(growing) == 1  # counted from here
    assert first_batch(settled) == 2


def agreed(agents: int, strangers: int = 0) -> Terms:
    """Terms with so many agents of sealed, and some whose bodies sealed does not read."""
    them = PolicyTerms("sealed", SEALED.tag, 3.0, None, ((0, agents - 1),))
    others = PolicyTerms("byzantine-ucb", SAMPLE.tag, None, None, ((agents, agents + strangers - 1),))
    return Terms(5, 4, policies=(them, others) if strangers else (them,))


def test_who_knows_from_the_terms_how_many_there_are_waits_for_no_hello() -> None:
    """At ε = 3 with 80 agents one pull each is worth 80/(1 + 8/9) ≥ 8·5 samples; for all that it knows it is alone."""
    told, untold = sealed(5, epsilon=3.0), sealed(5, epsilon=3.0)
    told.agree(agreed(80, strangers=400), 4)
    untold.agree(Terms(5, 4), 4)  # an open run
    assert first_batch(told) == 1
    assert first_batch(untold) > 4


def test_only_those_count_whose_bodies_it_reads() -> None:
    policy = sealed(5, epsilon=3.0)
    policy.agree(agreed(20, strangers=400), 4)
    assert first_batch(policy) == 3  # 20·9/(3 + 8/9) ≥ 8·5


def test_after_as_many_rounds_as_a_message_lives_those_count_that_were_heard() -> None:
    """Whoever of the terms is not there, or out of reach, was not heard by then."""
    policy = sealed(5, epsilon=3.0)
    policy.agree(agreed(80), 4)
    said = [pull(policy, trial)[1] for trial in range(1, 9)]
    assert [body is not None and body[1] > 0 for body in said] == [True] * 4 + [False] * 4


def test_the_first_word_is_a_hello_and_then_there_is_silence_until_a_batch_closes() -> None:
    policy = sealed(2)
    weighting = Weighting.of(1.0)
    said = [pull(policy, trial)[1] for trial in range(1, 9)]
    # One origin and two arms: the first batch is to be worth 4 samples, which at ε = 1 takes 8 pulls: 64/16.
    assert said[0] == [0, 0, 0, 0, 0]
    assert said[1:7] == [None] * 6
    assert said[7] == [0, 8, 1, 4 * UNIT, weighting.weighed(8, 8 * UNIT + NOISE)]


def test_records_are_cumulative_and_later_batches_must_double_what_is_known() -> None:
    policy = sealed(1)
    records = [said for said in (pull(policy, trial)[1] for trial in range(1, 60)) if said and said[1]]
    pulls = np.diff([0] + [record[1] for record in records])
    samples = np.diff([0] + [record[3] for record in records])
    assert pulls.tolist() == [8, 8, 13, 22]
    assert [record[2] for record in records] == [1, 2, 3, 4]
    known = 0
    for more in samples[1:]:
        known += int(samples[0]) if not known else 0
        assert more >= known
        known += int(more)


def test_agents_begin_on_different_arms_and_go_on_in_turn() -> None:
    policy = sealed(3, own=4)
    greet(policy, 69)
    arms = [pull(policy, trial)[0] for trial in range(1, 7)]
    assert arms == [1, 1, 2, 2, 0, 0]


def test_without_news_the_arm_stays_and_no_coin_is_tossed() -> None:
    coins = NoCoins()
    policy = Sealed(PolicySettings(arms=2), 0, coins)
    hear(policy, (0, 100, 1, 90 * UNIT, 10 * UNIT), (1, 100, 1, 90 * UNIT, 80 * UNIT))
    assert [pull(policy, trial)[0] for trial in range(1, 6)] == [1] * 5
    assert coins.asked == [1]
    hear(policy, (0, 200, 2, 180 * UNIT, 179 * UNIT))
    assert pull(policy, 6)[0] == 0
    assert coins.asked == [1, 6]


def test_hellos_and_old_records_are_no_news() -> None:
    coins = NoCoins()
    policy = Sealed(PolicySettings(arms=1), 0, coins)
    hear(policy, (0, 100, 1, 90 * UNIT, 10 * UNIT))
    pull(policy, 1)
    hear(policy, (0, 40, 1, 30 * UNIT, 30 * UNIT))
    hear(policy, (0, 100, 1, 90 * UNIT, 10 * UNIT))
    hear(policy, (0, 0, 0, 0, 0))
    pull(policy, 2)
    assert coins.asked == [1]


def test_other_kinds_are_ignored() -> None:
    policy = sealed(2)
    policy.learn(news(batch_of(SAMPLE, [Message(1, 1, 1, (0, 1))])))
    assert policy._pool.origins == 0


def test_what_a_returning_origin_said_before_is_forgotten() -> None:
    policy = sealed(2)
    hear(policy, (0, 100, 1, 90 * UNIT, 10 * UNIT), (1, 100, 1, 90 * UNIT, 80 * UNIT))
    policy.choose(1)
    policy.forget(np.array([1]), {})
    assert policy._pool.samples == [90 * UNIT, 0]
    assert policy._pool.sums == [10 * UNIT, 0]
    assert policy.choose(1) == 1  # nobody knows it any more
    assert policy._pool.origins == 2
    policy.forget(np.array([30]), {})  # never heard of
    assert policy._pool.samples == [90 * UNIT, 0]


def test_after_so_many_silent_trials_an_older_record_is_repeated_each_arm_in_turn() -> None:
    policy = sealed(2, refresh=3)
    greet(policy, 5)
    said = {trial: pull(policy, trial)[1] for trial in range(1, 15)}  # both arms close after seven pulls
    told_of = {trial: (body[0], body[1]) for trial, body in said.items() if body}
    assert told_of == {1: (0, 0), 4: (0, 0), 7: (0, 7), 10: (0, 7), 13: (0, 7), 14: (1, 7)}
    hear(policy, (0, 100, 1, 1000 * UNIT, 900 * UNIT), (1, 100, 1, 1000 * UNIT, 0))  # now nothing closes for long
    later = {trial: pull(policy, trial)[1] for trial in range(15, 24)}
    assert {trial: body for trial, body in later.items() if body} == {17: said[14], 20: said[7], 23: said[14]}


def test_while_nothing_is_released_the_hello_is_repeated() -> None:
    policy = sealed(5, epsilon=0.01, refresh=4)
    said = [pull(policy, trial)[1] for trial in range(1, 10)]
    assert [trial for trial, body in enumerate(said, start=1) if body] == [1, 5, 9]
    assert said[4] == [0, 0, 0, 0, 0]


def test_a_liar_seals_what_it_tells() -> None:
    policy = sealed(1)
    for trial in range(1, 9):
        observe(policy, trial, policy.choose(trial), UNIT, 0, noise=Constant())
    assert policy.body() == (SEALED, [0, 8, 1, 4 * UNIT, Weighting.of(1.0).weighed(8, NOISE)])


def test_however_many_batches_close_one_reward_costs_epsilon() -> None:
    policy = sealed(2, epsilon=0.5)
    assert policy.ledger.epsilon_one_reward() == 0.0
    for trial in range(1, 400):
        pull(policy, trial)
    assert policy.ledger.releases() > 4
    assert policy.ledger.epsilon_one_reward() == 0.5
    assert policy.ledger.epsilon_one_reward(1e-5) == 0.5


def test_the_draw_around_the_mean_narrows_with_the_samples() -> None:
    assert thompson([UNIT, UNIT], [2 * UNIT, 8 * UNIT], [1.0, -1.0]) == [0.5 + 8**-0.5, 0.125 - 32**-0.5]


def test_the_upper_bound_is_wider_where_less_is_known() -> None:
    few, many = upper_bounds([UNIT, 50 * UNIT], [2 * UNIT, 100 * UNIT])
    assert few == pytest.approx(0.5 + (0.6 * np.log(52) / 4) ** 0.5)
    assert many == pytest.approx(0.5 + (0.6 * np.log(2.02) / 200) ** 0.5)


def test_the_rule_can_be_the_upper_bound() -> None:
    policy = Sealed(PolicySettings(arms=2, rule="ucb"), 0, NoCoins())
    hear(policy, (0, 100, 1, 90 * UNIT, 50 * UNIT), (1, 4, 1, 2 * UNIT, UNIT))
    assert policy.choose(1) == 1


def test_coins_depend_on_seed_agent_and_trial_alone() -> None:
    coins = KeyedCoins(7, 3)
    first = coins.gauss(5, 4)
    coins.gauss(6, 9)
    assert coins.gauss(5, 4) == first == KeyedCoins(7, 3).gauss(5, 4)
    assert len({tuple(KeyedCoins(s, a).gauss(t, 2)) for s in (1, 2) for a in (1, 2) for t in (1, 2)}) == 8


def test_a_group_holds_its_coins_ever_longer_and_a_few_agents_do_not() -> None:
    assert [held_since(trial, 7) for trial in (1, 2, 7, 100)] == [1, 2, 7, 100]
    tossed = sorted({held_since(trial, 20) for trial in range(1, 1001)})
    assert tossed == [1, 20, 25, 31, 38, 47, 58, 72, 90, 112, 140, 175, 218, 272, 340, 425, 531, 663, 828]
    assert sorted({held_since(trial, 8) for trial in range(1, 20)}) == [1, 8, 10, 12, 15, 18]
    assert all(held_since(trial, 20) <= trial for trial in range(1, 1001))


def test_with_news_the_coins_are_those_that_are_held() -> None:
    coins = NoCoins()
    policy = Sealed(PolicySettings(arms=2), 0, coins)
    policy.agree(agreed(80), 4)
    hear(policy, (0, 100, 1, 90 * UNIT, 10 * UNIT), (1, 100, 1, 90 * UNIT, 80 * UNIT))
    greet(policy, 19)
    pull(policy, 3)
    for trial in (6, 30, 41, 90):
        hear(policy, (0, 200 + trial, 2, (180 + trial) * UNIT, 90 * UNIT))
        pull(policy, trial)
    assert coins.asked == [1, 1, 25, 38, 90]


def test_nothing_is_flushed_at_the_end() -> None:
    """What is in an open batch when a run ends has left no trace: other rewards there, the same transcript."""
    run = spec(ring(4), "sealed", rounds=30, means=(0.5, 0.4))
    net = InMemoryNetwork(run)
    net.run()
    for agent in net.agents:
        assert isinstance(agent.policy, Sealed)
        released = sum(record.pulls for record in agent.policy._own)
        still_open = sum(batch.pulls for batch in agent.policy._open)
        assert released + still_open == 30
        assert agent.policy.ledger.releases() == sum(record.batches for record in agent.policy._own)
    assert any(batch.pulls for agent in net.agents for batch in agent.policy._open)  # type: ignore[attr-defined]
