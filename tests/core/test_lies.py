"""Lies: what an attack may be, what a liar tells, and what a lying relay forwards."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import released, sample, samples, totals

from agentd.core.bodies import SEALED
from agentd.core.chance import Purpose, stream
from agentd.core.checks import Checks
from agentd.core.grid import UNIT
from agentd.core.lies import Attack, Liar
from agentd.core.message import Message, batch_of
from agentd.core.terms import Terms


def liar(attack: str, contamination: float = 1.0, seed: int = 5) -> Liar:
    return Liar(Attack.parse(attack), contamination, stream(seed, Purpose.LIE).random)


@pytest.mark.parametrize(
    ("text", "attack"),
    [
        ("worst", Attack("worst")),
        ("uniform", Attack("uniform")),
        ("bernoulli", Attack("bernoulli", 0.5)),
        ("bernoulli:0.2", Attack("bernoulli", 0.2)),
        ("point", Attack("point", 1.0)),
        ("point:0", Attack("point", 0.0)),
        ("relay-worst", Attack("worst", 0.0, on_relay=True)),
        ("relay-point:0.25", Attack("point", 0.25, on_relay=True)),
    ],
)
def test_attacks_are_read_from_their_names(text: str, attack: Attack) -> None:
    assert Attack.parse(text) == attack


@pytest.mark.parametrize("text", ["", "best", "worst:1", "uniform:0.5", "relay-", "relay-relay-worst", "Worst"])
def test_unknown_attacks_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown attack .*worst, uniform, bernoulli\[:p\], point\[:x\]"):
        Attack.parse(text)


@pytest.mark.parametrize("text", ["point:1.1", "point:-0.1", "bernoulli:nan", "bernoulli:x", "relay-point:inf"])
def test_a_value_outside_the_unit_interval_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a number in \[0, 1\]"):
        Attack.parse(text)


def lies(attack: str, honest: list[int], u: list[float]) -> list[int]:
    told: list[int] = Attack.parse(attack).lies(np.array(honest), np.array(u)).tolist()
    return told


def test_the_worst_lie_is_the_far_end_of_the_range() -> None:
    assert lies("worst", [0, UNIT // 2 - 1, UNIT // 2, UNIT], [0.0] * 4) == [UNIT, UNIT, 0, 0]


def test_uniform_lies_reach_both_ends_of_the_grid() -> None:
    assert lies("uniform", [5, 5, 5], [0.0, 0.5, np.nextafter(1, 0)]) == [0, UNIT // 2, UNIT]


def test_coin_lies_show_heads_with_their_chance() -> None:
    assert lies("bernoulli:0.3", [5, 5], [0.29, 0.3]) == [UNIT, 0]


def test_point_lies_are_always_the_same() -> None:
    assert lies("point:0.25", [5, 6], [0.1, 0.9]) == [UNIT // 4, UNIT // 4]


def test_a_liar_lies_as_often_as_it_is_said_to() -> None:
    """4000 tellings at 0.3: five standard deviations are 145."""
    some = liar("worst", 0.3)
    told = [some.tell(0) for _ in range(4000)]
    assert abs(told.count(UNIT) - 1200) < 145
    assert some.lies_told == told.count(UNIT)


@pytest.mark.parametrize(("contamination", "told"), [(0.0, 7), (1.0, UNIT)])
def test_never_and_always_are_exact(contamination: float, told: int) -> None:
    some = liar("worst", contamination)
    assert {some.tell(7) for _ in range(100)} == {told}


def test_a_liar_draws_twice_per_telling_whether_it_lies_or_not() -> None:
    """The vectorised engine draws two rows per trial; the streams must not drift apart."""
    draws = stream(5, Purpose.LIE).random(20).reshape(10, 2)
    expected = [int(u[1] * (UNIT + 1)) if u[0] < 0.5 else 3 for u in draws]
    some = liar("uniform", 0.5)
    assert [some.tell(3) for _ in range(10)] == expected


def test_a_liar_at_the_source_forwards_faithfully() -> None:
    batch = samples(sample(1, 1, 2, reward=5))
    assert liar("worst").forward(batch) is batch


def test_a_lying_relay_tells_its_own_rewards_truthfully() -> None:
    some = liar("relay-worst")
    assert some.tell(5) == 5
    assert some.lies_told == 0


def test_a_lying_relay_has_nothing_to_say_of_nothing() -> None:
    batch = samples()
    assert liar("relay-worst").forward(batch) is batch


def test_a_lying_relay_replaces_the_reward_of_a_sample_and_nothing_else() -> None:
    batch = samples(sample(1, 9, 2, arm=1, reward=5, lifetime=3, incarnation=2))
    some = liar("relay-worst")
    assert some.forward(batch).messages() == [Message(1, 9, 2, (1, UNIT), 3, 2)]
    assert batch.messages() == [Message(1, 9, 2, (1, 5), 3, 2)]
    assert some.lies_told == 1


def test_a_lying_relay_strikes_some_rows_and_leaves_the_others() -> None:
    batch = samples(*(sample(1, trial, 2, reward=5) for trial in range(1, 401)))
    some = liar("relay-worst", 0.25)
    rewards = some.forward(batch).body[:, 1].tolist()
    struck = stream(5, Purpose.LIE).random(400) < 0.25
    assert rewards == [UNIT if hit else 5 for hit in struck]
    assert some.lies_told == int(struck.sum())


def test_a_lying_relay_turns_a_sealed_sum_into_as_many_lies_as_it_is_worth() -> None:
    told = [Message(1, 30, 2, (1, 20, 2, 10 * UNIT, 9 * UNIT), 3), Message(2, 1, 2, (0, 0, 0, 0, 0), 3)]
    forwarded = liar("relay-worst").forward(batch_of(SEALED, told)).messages()
    assert [message.body for message in forwarded] == [(1, 20, 2, 10 * UNIT, 0), (0, 0, 0, 0, 0)]
    (upwards,) = liar("relay-point:1").forward(batch_of(SEALED, told[:1])).messages()
    assert upwards.body == (1, 20, 2, 10 * UNIT, 10 * UNIT)


def test_a_lying_relay_turns_sums_into_as_many_lies() -> None:
    exact = totals(Message(1, 9, 2, (3, 3 * UNIT, 4, 0, 0, 0)))
    assert liar("relay-worst").forward(exact).body.tolist() == [[3, 0, 4, 4 * UNIT, 0, 0]]


def test_a_lying_relay_turns_releases_into_as_many_lies_as_were_released() -> None:
    noised = released(Message(1, 9, 2, (5, 4, 4 * UNIT + 17, 3, 2, -9, 0, 0, 0)))
    assert liar("relay-worst").forward(noised).body.tolist() == [[5, 4, 0, 3, 2, 2 * UNIT, 0, 0, 0]]


@pytest.mark.parametrize("attack", ["worst", "uniform", "bernoulli", "point:0.3"])
def test_no_single_message_gives_a_lying_relay_away(attack: str) -> None:
    """Lies look honest by themselves; otherwise they would only be dropped and test nothing."""
    for batch in (totals(Message(1, 99, 1, (9, 5, 7, 7))), released(Message(1, 99, 1, (9, 8, -40, 7, 7, 7)))):
        assert len(Checks(Terms(2, 1)).judge(liar(f"relay-{attack}").forward(batch))) == 1
