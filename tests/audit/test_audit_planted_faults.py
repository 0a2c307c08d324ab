"""The audit finds what is planted and clears what is sound; a few hundred or thousand runs instead of twenty thousand.

Where a verdict is a matter of chance, the bytes that noise is made of are the same in every run (`repeatable_noise`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from agentd.audit.case import TARGET, Case
from agentd.audit.distinguish import Table, choose, distinguish
from agentd.audit.examine import Verdict, examine, with_enough_trials
from agentd.audit.features import Column, columns, features
from agentd.audit.transcript import record
from agentd.audit.workers import Workers
from agentd.core.bodies import SEALED
from agentd.core.grid import UNIT
from agentd.core.message import batch_of
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import Frame


def audited(case: Case, runs: int, *, real: bool = False) -> Verdict:
    return examine(replace(case, seed=7), runs, Workers(None), real=real)


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize(
    ("fault", "runs", "families"),
    [
        ("no-noise", 200, {"values"}),
        ("half-noise", 2500, {"values"}),
        pytest.param("half-noise-agreed", 2500, {"values"}, marks=pytest.mark.long),
        ("reused-noise", 700, {"differences"}),
        pytest.param("half-noise-arm-1", 3000, {"values"}, marks=pytest.mark.long),
        pytest.param("float-noise", 4000, {"low bits"}, marks=pytest.mark.long),
        ("shared-seed", 200, {"differences"}),
        ("skipped-sequence", 200, {"frames"}),
    ],
)
def test_a_quiet_neighbour_finds_faulty_noise(fault: str, runs: int, families: set[str]) -> None:
    verdict = audited(Case(fault=fault, adversary=False), runs)
    assert verdict.word == "violated"
    assert families <= {finding.family for finding in verdict.findings if finding.p < 1e-6}
    assert verdict.claimed == 1.0  # the ledger knows nothing of it, or is not believed
    assert verdict.ledger == (2.0 if fault == "half-noise-agreed" else 1.0)


FEW = [
    ("reused-noise-lag-2", 800, "differences"),
    ("zero-unnoised", 700, "values"),
    ("bit-in-samples", 600, "fields"),
    ("withheld-relays", 400, "frames"),
]
MANY = [
    ("half-noise-later", 8000, "values"),
    ("carried-reward", 10_000, "values"),
    ("missing-goodbye", 1500, "frames"),
]


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize(
    ("fault", "runs", "family"), [*FEW, *(pytest.param(*each, marks=pytest.mark.long) for each in MANY)]
)
def test_a_neighbour_that_steers_finds_what_an_audit_of_the_first_trial_did_not(
    fault: str, runs: int, family: str
) -> None:
    """Each of these passed when trial 1 was flipped, all other rewards were a half and two releases were read."""
    verdict = audited(Case(fault=fault), runs)
    assert verdict.word == "violated"
    assert family in {finding.family for finding in verdict.findings if finding.p < 1e-6}


@pytest.mark.usefixtures("repeatable_noise")
def test_a_neighbour_that_steers_finds_choices_that_follow_raw_rewards() -> None:
    assert not audited(Case(fault="raw-choices", adversary=False), 200).findings[0].p < 1e-6
    verdict = audited(Case(fault="raw-choices"), 700)
    assert verdict.violated
    assert {f.family for f in verdict.findings if f.p < 1e-6} >= {"arms"}


@pytest.mark.usefixtures("repeatable_noise")
def test_what_so_many_runs_cannot_refute_is_not_said_to_hold() -> None:
    """At ε = 8 even no noise at all is within e^8; the ceiling of 100 tested runs is 1.7."""
    verdict = audited(Case(epsilon=8.0, fault="no-noise", adversary=False), 200)
    assert verdict.word == "cannot tell"
    assert verdict.ceiling == pytest.approx(1.71, abs=0.01)
    assert verdict.epsilon > 1.0  # it is told apart all the same


def test_inputs_differ_from_run_to_run_in_trial_and_known_rewards_and_never_between_sides() -> None:
    case = Case(trials=7, seed=7)
    inputs = [case.input_of(number) for number in range(200)]
    assert {given.flipped for given in inputs} == set(range(1, 8))
    assert {given.known for given in inputs} == {0, UNIT // 2, UNIT}
    for given in inputs[:20]:
        zero, one = ([given.reward(side, trial) for trial in range(1, 8)] for side in (0, 1))
        assert [place + 1 for place in range(7) if zero[place] != one[place]] == [given.flipped]
        assert (zero[given.flipped - 1], one[given.flipped - 1]) == (0, UNIT)


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("adversary", [False, pytest.param(True, marks=pytest.mark.long)])
def test_private_ucb_is_violated_at_the_total_that_its_ledger_holds(adversary: bool) -> None:
    verdict = audited(Case("private-ucb", adversary=adversary), 1500)
    assert verdict.violated
    assert verdict.claimed > 1.6
    assert "arms" in {finding.family for finding in verdict.findings if finding.p < 1e-6}


def test_private_ucb_is_watched_until_it_chooses_by_what_it_knows() -> None:
    """At a rate of 0.1 it plays in turns for 20 trials; the audit must look further than that."""
    assert with_enough_trials(Case("private-ucb", 0.1))[0].trials > 20
    assert with_enough_trials(Case("private-ucb", restart=True))[0].trials > 2


@pytest.mark.usefixtures("repeatable_noise")
def test_noise_that_is_drawn_again_after_a_restart_is_a_violation_however_few_the_runs() -> None:
    verdict = audited(Case(fault="redrawn-noise", restart=True), 20)
    assert verdict.noised_twice > 5
    assert verdict.p > 1e-6  # statistics alone could not tell
    assert verdict.word == "violated"


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize(
    "case",
    [Case(), pytest.param(Case(arms=5), marks=pytest.mark.long), Case(adversary=False)],
    ids=lambda case: case.name,
)
def test_sealed_holds_and_the_bound_comes_near_to_its_claim(case: Case) -> None:
    verdict = audited(case, 600)
    assert verdict.word == "holds"
    assert verdict.noised_twice == 0
    assert 0.1 < verdict.epsilon <= 1.0  # proved at 95 %


@pytest.mark.usefixtures("repeatable_noise")
def test_sealed_holds_through_simulated_deaths() -> None:
    verdict = audited(Case(restart=True), 150)
    assert not verdict.violated
    assert verdict.noised_twice == 0


@pytest.mark.system
def test_after_real_deaths_sealed_says_the_same_again_and_a_faulty_order_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert audited(Case(restart=True), 5, real=True).word != "violated"
    monkeypatch.setattr(
        "agentd.audit.killed.deaths", lambda case, side, number, release: [(release, "within the commit")]
    )
    assert audited(Case(restart=True), 2, real=True).noised_twice == 0
    faulty = audited(Case(restart=True, fault="redrawn-noise"), 2, real=True)
    assert (faulty.noised_twice, faulty.word) == (4, "violated")


def test_the_transcript_is_every_frame_in_bytes_and_every_arm() -> None:
    case = Case(trials=6, seed=7)
    seen = record(case, 1, 0)
    frames = [decode_frame(data, arms=2) for data in seen.frames]
    assert [frame.round for frame in frames] == [1, 2, 3, 4, 5, 6]
    assert len(seen.arms) == 6
    assert seen.arms[:2] == [0, 0]
    (batch,) = frames[1].batches
    (message,) = [message for message in batch.messages() if message.origin == TARGET]
    assert (batch.kind, message.origin, message.trial, message.body[:3]) == (SEALED, TARGET, 2, (0, 2, 1))


def test_features_follow_the_release_that_holds_the_unknown_reward() -> None:
    """A quiet neighbour hears a release after eight pulls of the first arm, and eight of the second."""
    case = Case(trials=17, adversary=False, fault="no-noise", seed=7)
    names = [column.words for column in columns(case)]
    followed = set()
    for number in range(12):
        given = case.input_of(number)
        for side, rest in ((0, -0.5), (1, 0.5)):
            row, noised_twice = features(case, record(case, side, number))
            numbers = dict(zip(names, row, strict=True))
            value = numbers["the release that holds it less the known rewards"]
            assert not noised_twice
            assert numbers["the samples of all releases beyond what their pulls are worth"] == 0
            if given.flipped > 16:
                assert math.isnan(value)
                continue
            assert value == pytest.approx(rest, abs=1e-5)
            followed.add(numbers["the trials from the flipped one to its release"] + given.flipped)
    assert followed == {8, 16}


def test_a_release_that_is_told_with_another_value_is_noticed_whichever_it_is() -> None:
    case = Case(trials=5, seed=7)
    honest = record(case, 0, 0)
    assert not features(case, honest)[1]
    last = decode_frame(honest.frames[-1], arms=2)
    batches = [batch for data in honest.frames[:-1] for batch in decode_frame(data, arms=2).batches]
    said = [m for batch in batches for m in batch.messages() if m.origin == TARGET and m.body[1]][-1]
    arm, pulls, number, samples, total = said.body
    again = said._replace(trial=5, body=(arm, pulls, number, samples, total + 1))
    forged = encode_frame(Frame(last.run, TARGET, 0, 5, 5, 0, (batch_of(SEALED, [again]),), 2))
    assert features(case, replace(honest, frames=[*honest.frames[:-1], forged]))[1]


def tables(seed: int, shift: float) -> tuple[Table, Table]:
    chance = np.random.Generator(np.random.Philox(key=seed))
    return chance.laplace(size=(2000, 1)), chance.laplace(size=(2000, 1)) + shift


def test_an_event_is_chosen_on_the_first_half_and_tested_on_the_second() -> None:
    zero, one = tables(1, 0.0)
    zero[:1000] = -1.0  # a difference that only the first half has
    one[:1000] = 1.0
    (finding,) = distinguish([Column("values", "it")], (zero, one), 0.5)
    assert finding.p == 1.0
    assert finding.runs == 1000


def test_random_tables_of_one_distribution_are_hardly_ever_told_apart() -> None:
    """100 audits of equal sides at a claim of 0: at the level of 0.05 about five may fail; twelve would be too many."""
    found = [distinguish([Column("values", "it")], tables(seed, 0.0), 0.0)[0].p for seed in range(100)]
    assert sum(p < 0.05 for p in found) < 12


def test_the_chosen_event_names_the_side_where_it_is_frequent() -> None:
    event = choose([0], tables(2, 3.0))
    assert event is not None
    assert (event.relation, event.likely) in {("is at least", 1), ("is at most", 0)}


def test_a_feature_that_never_occurs_gives_no_event() -> None:
    nothing = np.full((10, 1), np.nan)
    assert choose([0], (nothing, nothing)) is None
