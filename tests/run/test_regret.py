"""Regret is counted once per pull, with the true means."""

from __future__ import annotations

import numpy as np
import pytest

from agentd.runs import regret
from agentd.runs.regret import NO_REWARD, NOT_PULLED, RegretLedger, group_regret, regret_curve

MEANS = (0.9, 0.5, 0.2)


def random_pulls(agents: int = 7, rounds: int = 300, arms: int = 3) -> np.ndarray:
    return np.random.default_rng(5).integers(0, arms, (agents, rounds)).astype(np.uint16)


def test_regret_is_the_sum_of_gaps_of_the_arms_pulled() -> None:
    arm = np.array([[0, 1, 2], [2, 0, 0]], dtype=np.uint16)
    assert regret_curve(arm, MEANS).tolist() == pytest.approx([0.7, 1.1, 1.8])
    assert group_regret(arm, MEANS) == pytest.approx(1.8)


def test_the_definition_of_the_paper_gives_the_same_regret() -> None:
    arm = random_pulls()
    agents, rounds = arm.shape
    by_definition = rounds * agents * max(MEANS) - np.array(MEANS)[arm].sum()
    assert group_regret(arm, MEANS) == pytest.approx(by_definition, rel=1e-12)
    assert regret_curve(arm, MEANS)[-1] == pytest.approx(by_definition, rel=1e-12)


def test_the_best_arm_costs_nothing_and_missing_pulls_cost_nothing() -> None:
    arm = np.array([[0, NOT_PULLED, 0]], dtype=np.uint16)
    assert regret_curve(arm, MEANS).tolist() == [0.0, 0.0, 0.0]
    assert group_regret(arm, MEANS) == 0.0


def test_a_curve_is_the_same_whatever_the_size_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = random_pulls()
    whole = regret_curve(arm, MEANS)
    monkeypatch.setattr(regret, "_BLOCK_PULLS", 50)
    assert regret_curve(arm, MEANS).tolist() == whole.tolist()


def test_no_rounds_give_an_empty_curve() -> None:
    assert regret_curve(np.zeros((4, 0), dtype=np.uint16), MEANS).tolist() == []
    assert group_regret(np.zeros((4, 0), dtype=np.uint16), MEANS) == 0.0


def test_arms_that_do_not_exist_are_refused() -> None:
    arm = np.array([[0, 3]], dtype=np.uint16)
    with pytest.raises(ValueError, match="beyond the 3"):
        regret_curve(arm, MEANS)
    with pytest.raises(ValueError, match="beyond the 3"):
        group_regret(arm, MEANS)


@pytest.mark.parametrize("rounds", [300, None])
def test_a_ledger_in_any_order_agrees_with_the_whole_table(rounds: int | None) -> None:
    arm = random_pulls()
    ledger = RegretLedger(MEANS, agents=7, rounds=rounds)
    order = np.random.default_rng(6).permutation(arm.size)
    for place in order:
        agent, trial = divmod(int(place), 300)
        assert ledger.count(agent, trial + 1, int(arm[agent, trial]), reward=10 * agent + trial)
    assert ledger.group_regret == group_regret(arm, MEANS)
    assert ledger.curve().tolist() == regret_curve(arm, MEANS).tolist()
    assert ledger.arm.tolist() == arm.tolist()
    assert ledger.reward.tolist() == [[10 * agent + trial for trial in range(300)] for agent in range(7)]
    assert ledger.pulls == arm.size
    assert ledger.counts.tolist() == np.bincount(arm.ravel()).tolist()


def test_a_pull_reported_again_is_counted_once() -> None:
    ledger = RegretLedger(MEANS, agents=2, rounds=10)
    assert ledger.count(1, 4, 2, 77)
    assert not ledger.count(1, 4, 2, 77)
    assert ledger.pulls == 1
    assert ledger.group_regret == pytest.approx(0.7)
    assert ledger.pulled(1, 4) == (2, 77)
    assert ledger.pulled(0, 4) is None


@pytest.mark.parametrize(("arm", "reward", "what"), [(1, 77, "arm"), (2, 78, "reward")])
def test_the_same_trial_with_another_arm_or_reward_is_refused_and_changes_nothing(
    arm: int, reward: int, what: str
) -> None:
    ledger = RegretLedger(MEANS, agents=2, rounds=10)
    ledger.count(1, 4, 2, 77)
    with pytest.raises(ValueError, match=f"trial 4 of agent 1 was counted with another {what}"):
        ledger.count(1, 4, arm, reward)
    assert ledger.pulled(1, 4) == (2, 77)
    assert ledger.pulls == 1


def test_holes_are_marked_and_rounds_end_at_the_last_pull() -> None:
    ledger = RegretLedger(MEANS, agents=2)
    ledger.count(0, 1, 0, 5)
    ledger.count(1, 3, 1, 6)
    assert ledger.rounds_seen == 3
    assert ledger.arm.tolist() == [[0, NOT_PULLED, NOT_PULLED], [NOT_PULLED, NOT_PULLED, 1]]
    assert ledger.reward.tolist() == [[5, NO_REWARD, NO_REWARD], [NO_REWARD, NO_REWARD, 6]]
    assert ledger.curve().tolist() == pytest.approx([0.0, 0.0, 0.4])


def test_what_a_ledger_hands_out_is_a_copy() -> None:
    ledger = RegretLedger(MEANS, agents=1)
    ledger.count(0, 1, 2, 5)
    ledger.arm[0, 0] = ledger.reward[0, 0] = ledger.counts[2] = 0
    assert ledger.pulled(0, 1) == (2, 5)
    assert ledger.pulls == 1


def test_a_ledger_starts_small_and_doubles() -> None:
    """10,000 trials in order cost a handful of copies, not one per trial."""
    ledger = RegretLedger(MEANS, agents=1)
    buffers = set()
    for trial in range(1, 10_001):
        ledger.count(0, trial, 0, 1)
        buffers.add(ledger._arm.shape)
    assert sorted(shape[1] for shape in buffers) == [256, 512, 1024, 2048, 4096, 8192, 16384]


def test_a_ledger_never_grows_past_its_horizon() -> None:
    ledger = RegretLedger(MEANS, agents=2, rounds=300)
    assert ledger.count(0, 300, 0, 1)
    assert ledger._arm.shape == (2, 300)
    with pytest.raises(ValueError, match="trial 301 is outside 1…300"):
        ledger.count(0, 301, 0, 1)


def test_a_ledger_without_a_horizon_has_a_limit_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regret, "LEDGER_LIMIT_PULLS", 4000)
    ledger = RegretLedger(MEANS, agents=2)
    assert ledger.count(0, 2000, 0, 1)
    with pytest.raises(ValueError, match="trial 2001 is outside 1…2000"):
        ledger.count(0, 2001, 0, 1)
    assert ledger._arm.shape == (2, 2000)


@pytest.mark.parametrize(
    ("agent", "trial", "arm", "reward"),
    [(2, 1, 0, 0), (-1, 1, 0, 0), (0, 0, 0, 0), (0, 1, 3, 0), (0, 1, -1, 0), (0, 1, 0, -1)],
)
def test_pulls_that_cannot_be_are_refused_and_not_counted(agent: int, trial: int, arm: int, reward: int) -> None:
    ledger = RegretLedger(MEANS, agents=2, rounds=10)
    with pytest.raises(ValueError, match=r"agents, numbered|outside 1…10|arms, numbered|not negative"):
        ledger.count(agent, trial, arm, reward)
    assert ledger.pulls == 0


@pytest.mark.parametrize(("means", "agents", "rounds"), [((), 1, 1), (MEANS, 0, 1), (MEANS, 1, 0)])
def test_ledgers_of_nothing_are_refused(means: tuple[float, ...], agents: int, rounds: int) -> None:
    with pytest.raises(ValueError, match="a ledger needs"):
        RegretLedger(means, agents, rounds)
