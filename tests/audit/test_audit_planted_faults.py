"""The audit finds what is planted and clears what is sound; a few hundred or thousand runs instead of twenty thousand.

Where a verdict is a matter of chance, the bytes that noise is made of are the same in every run (`repeatable_noise`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agentd.audit import restart
from agentd.audit.case import TARGET, Case
from agentd.audit.distinguish import Table, choose, distinguish
from agentd.audit.examine import Verdict, Workers, examine, with_enough_trials
from agentd.audit.features import Column, columns, features
from agentd.audit.transcript import record
from agentd.core.bodies import SEALED
from agentd.wire.codec import decode_frame


def audited(case: Case, runs: int, *, real: bool = False) -> Verdict:
    return examine(replace(case, seed=7), runs, Workers(None), real=real)


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize(
    ("fault", "runs", "families"),
    [
        ("no-noise", 200, {"values"}),
        ("half-noise", 1500, {"values"}),
        ("reused-noise", 200, {"differences"}),
        ("float-noise", 800, {"low bits"}),
        ("shared-seed", 200, {"differences"}),
    ],
)
def test_a_quiet_neighbour_finds_faulty_noise(fault: str, runs: int, families: set[str]) -> None:
    verdict = audited(Case(fault=fault, adversary=False), runs)
    assert verdict.violated
    assert families <= {finding.family for finding in verdict.findings if finding.p < 1e-6}
    assert verdict.claimed == 1.0  # the ledger knows nothing of it


@pytest.mark.usefixtures("repeatable_noise")
def test_a_neighbour_that_steers_finds_choices_that_follow_raw_rewards() -> None:
    assert not audited(Case(fault="raw-choices", adversary=False), 200).findings[0].p < 1e-6
    verdict = audited(Case(fault="raw-choices"), 200)
    assert verdict.violated
    assert {f.event for f in verdict.findings if f.family == "arms"} == {"the arm of trial 3 is at least 1"}


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("adversary", [False, True])
def test_private_ucb_is_violated_at_the_total_that_its_ledger_holds(adversary: bool) -> None:
    verdict = audited(Case("private-ucb", adversary=adversary), 200)
    assert verdict.violated
    assert verdict.claimed > 1.6
    assert {"counts", "arms"} <= {finding.family for finding in verdict.findings if finding.p < 1e-6}


def test_private_ucb_is_watched_until_it_chooses_by_what_it_knows() -> None:
    """At a rate of 0.1 it plays in turns for 20 trials; the audit must look further than that."""
    assert with_enough_trials(Case("private-ucb", 0.1))[0].trials > 20
    assert with_enough_trials(Case("private-ucb", restart=True))[0].trials > 2


@pytest.mark.usefixtures("repeatable_noise")
def test_noise_that_is_drawn_again_after_a_restart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the agent dies five times where it hurts; of two deaths at random places it takes more runs."""
    monkeypatch.setattr(restart, "deaths", lambda case, side, number, release: [(release, "before the commit")] * 5)
    verdict = audited(Case(fault="redrawn-noise", restart=True), 320)
    assert verdict.noised_twice == 640
    assert verdict.p < 1e-3  # about 10⁻⁶ over many such audits
    assert verdict.findings[0].family == "values"


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("case", [Case(), Case(arms=5), Case(adversary=False)], ids=lambda case: case.name)
def test_sealed_holds_and_the_bound_comes_near_to_its_claim(case: Case) -> None:
    verdict = audited(case, 600)
    assert not verdict.violated
    assert 0.2 < verdict.epsilon <= 1.0  # proved at 95 %; 0.55 ± 0.12 over many such audits


@pytest.mark.usefixtures("repeatable_noise")
def test_sealed_holds_through_simulated_deaths() -> None:
    verdict = audited(Case(restart=True), 150)
    assert not verdict.violated
    assert verdict.noised_twice == 0


@pytest.mark.system
def test_after_real_deaths_sealed_says_the_same_again_and_a_faulty_order_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert audited(Case(restart=True), 5, real=True).noised_twice == 0
    monkeypatch.setattr(
        "agentd.audit.killed.deaths", lambda case, side, number, release: [(release, "within the commit")]
    )
    assert audited(Case(restart=True), 2, real=True).noised_twice == 0
    assert audited(Case(restart=True, fault="redrawn-noise"), 2, real=True).noised_twice == 4


def test_the_transcript_is_every_frame_in_bytes_and_every_arm() -> None:
    case = Case(trials=6, seed=7)
    seen = record(case, 1, 0)
    frames = [decode_frame(data, arms=2) for data in seen.frames]
    assert [frame.round for frame in frames] == [1, 2, 3, 4, 5, 6]
    assert len(seen.arms) == 6
    assert seen.arms[:2] == [0, 0]
    (batch,) = frames[1].batches
    (message,) = batch.messages()
    assert (batch.kind, message.origin, message.trial, message.body[:3]) == (SEALED, TARGET, 2, (0, 2, 1))


def test_features_compute_a_release_back_from_its_record() -> None:
    case = Case(trials=17, adversary=False, fault="no-noise", seed=7)
    names = [column.words for column in columns(case)]
    for side, rest in ((0, -0.5), (1, 0.5)):
        numbers = dict(zip(names, features(case, record(case, side, 0)), strict=True))
        assert numbers["release 1 less the known rewards"] == pytest.approx(rest, abs=1e-5)
        assert numbers["release 2 less the known rewards"] == pytest.approx(0.0, abs=1e-5)
        assert (numbers["the trial of release 1"], numbers["the trial of release 2"]) == (8, 16)


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
