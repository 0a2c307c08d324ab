"""The attacks of `core.attacks`: they pass every check, cost something, and are the same in every engine."""

from __future__ import annotations

import math

import pytest
from small_runs import assert_engines_agree, complete, sparse, spec

from agentd.core.assembly import seeded_forger
from agentd.core.attacks import ADAPTIVE, FIXED, SCHEMES
from agentd.core.attacks.basis.honest_pool import HonestPool
from agentd.core.attacks.basis.scheme import Known
from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.lies import Attack
from agentd.core.policy import PolicySettings
from agentd.runs.regret import honest_regret
from agentd.simulation.network import run_agents

MEANS = (0.2, 0.9, 0.5, 0.7)
CHEAP = ("both", "mixed", "adaptive-leader")


def forged(attack: str, kind: Kind, trials: int, *, duty: int | None = None, own: int = 3) -> list[list[int] | None]:
    settings = PolicySettings(arms=len(MEANS))
    known = Known(own, MEANS, duty, HonestPool(len(MEANS)))
    forger = seeded_forger(Attack.parse(attack), settings, 7, known, kind)
    return [forger.body(trial) for trial in range(1, trials + 1)]


@pytest.mark.parametrize(("algorithm", "epsilon"), [("sealed", 0.3), ("shielded", 3.0)])
@pytest.mark.parametrize("attack", SCHEMES)
def test_nothing_that_a_liar_says_is_refused(attack: str, algorithm: str, epsilon: float) -> None:
    run = spec(complete(5), algorithm, rounds=80, gamma=1, means=MEANS, liars=[4], attack=attack, epsilon=epsilon)
    assert not run_agents(run).dropped


@pytest.mark.parametrize("algorithm", ["coop-ucb", "private-ucb", "byzantine-ucb", "coop-thompson"])
@pytest.mark.parametrize("attack", CHEAP)
def test_nor_is_it_where_other_bodies_are_told(attack: str, algorithm: str) -> None:
    run = spec(complete(5), algorithm, rounds=60, gamma=1, means=MEANS, liars=[4], attack=attack, epsilon=0.4)
    assert not run_agents(run).dropped


@pytest.mark.parametrize("algorithm", ["sealed", "shielded", "byzantine-ucb", "ucb1"])
@pytest.mark.parametrize("attack", CHEAP)
def test_the_engines_agree_on_forgers(attack: str, algorithm: str) -> None:
    one = spec(sparse(9, 0.2, 5), algorithm, rounds=120, gamma=3, means=MEANS, liars=[1, 4], attack=attack, seed=2)
    other = spec(sparse(9, 0.3, 6), algorithm, rounds=120, gamma=1, means=MEANS, liars=[8], attack=attack, seed=3)
    assert_engines_agree(one, other)


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["sealed", "shielded", "byzantine-ucb"])
@pytest.mark.parametrize("attack", SCHEMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_engines_agree_on_every_forger(attack: str, algorithm: str, seed: int) -> None:
    assert_engines_agree(
        spec(
            sparse(13, 0.2, seed),
            algorithm,
            rounds=250,
            gamma=4,
            means=MEANS,
            liars=[0, 3, 7],
            attack=attack,
            seed=seed,
        )
    )


@pytest.mark.parametrize("attack", ["promote-worst", "demote-best", "both", "adaptive-bury"])
def test_liars_of_five_cost_the_honest(attack: str) -> None:
    lied, clean = (
        spec(complete(10), "sealed", rounds=300, gamma=1, means=MEANS, liars=liars, attack=attack)
        for liars in ((0, 1), ())
    )
    assert honest_regret(run_agents(lied).arm, MEANS, {0, 1}) > 2 * honest_regret(run_agents(clean).arm, MEANS, {0, 1})


def test_who_has_a_duty_reports_that_arm_first() -> None:
    for attack in SCHEMES:
        first = next(body for body in forged(attack, SEALED, 20, duty=2) if body is not None and body[1])
        assert first[0] == 2, attack


def test_everybody_says_something_in_the_first_round() -> None:
    """Or others would count on fewer origins."""
    for attack in SCHEMES:
        assert forged(attack, SEALED, 1)[0] is not None, attack


def test_a_strike_is_followed_by_silence() -> None:
    said = forged("adaptive-strike", SEALED, 60)
    assert all(said[:16])
    assert not any(said[16:])


def test_a_liar_claims_all_its_trials_and_no_more() -> None:
    for attack in FIXED:
        pulls = dict.fromkeys(range(len(MEANS)), 0)
        for trial, body in enumerate(forged(attack, SEALED, 200), start=1):
            if body is not None:
                pulls[body[0]] = body[1]
                assert sum(pulls.values()) in (trial, 0)


def test_a_liar_that_is_started_again_goes_on_with_its_lie() -> None:
    settings = PolicySettings(arms=len(MEANS))
    for attack in FIXED:
        through = forged(attack, SEALED, 60)
        again = seeded_forger(Attack.parse(attack), settings, 7, Known(3, MEANS), SEALED)
        again.catch_up(30)
        assert [again.body(trial) for trial in range(31, 61)] == through[30:]


@pytest.mark.parametrize("kind", [SAMPLE, TOTALS, RELEASED])
def test_both_praises_the_worst_arm_and_runs_down_the_best(kind: Kind) -> None:
    last = forged("both", kind, 40)
    if kind is SAMPLE:
        assert {tuple(body) for body in last if body} == {(0, 1 << 20), (1, 0)}
        return
    width = len(kind.fields)
    cells = [last[-1][arm * width : (arm + 1) * width] for arm in range(len(MEANS))]  # type: ignore[index]
    assert cells[0][-1] == cells[0][-2] << 20
    assert cells[1][-2:] == [20, 0]


def test_what_the_honest_have_released_is_added_up_once() -> None:
    pool = HonestPool(2)
    pool.hear(0, SEALED, [1, 3, 1, 100, 60])
    pool.hear(0, SEALED, [1, 3, 1, 100, 60])
    pool.hear(0, SEALED, [1, 9, 2, 300, 160])
    pool.hear(1, SEALED, [1, 4, 1, 100, 40])
    assert (pool.samples, pool.sums) == ([0, 400], [0, 200])
    assert pool.mean(1) == 0.5


def test_names_are_told_apart() -> None:
    assert set(FIXED) | set(ADAPTIVE) == set(SCHEMES)
    assert all(Attack.parse(name).forges for name in SCHEMES)
    assert not Attack.parse("huber").forges
    with pytest.raises(ValueError, match=r"^unknown attack 'promote-wurst': did you mean promote-worst\?; known are "):
        Attack.parse("promote-wurst")
    assert math.isnan(honest_regret(run_agents(spec(complete(2), rounds=2)).arm, (0.9, 0.5), {0, 1}))
