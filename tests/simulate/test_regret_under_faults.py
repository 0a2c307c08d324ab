"""How much regret faults cost; the runs are in regret_under_faults.py."""

from __future__ import annotations

import pytest
from regret_under_faults import FIRST_SEED, SCENARIOS, Ratio, Size, ratios_of

KILLED_FEW, KILLED_HALF, _, _, ROUGH, _ = SCENARIOS
MOST = {KILLED_FEW: 1.10, KILLED_HALF: 1.15, ROUGH: 1.15}
"""The mean ratio that is allowed."""
SMALL = Size(agents=20, edges=0.3, rounds=300)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_faults_cost_little_regret_per_pull() -> None:
    found = [ratios_of(seed, MOST) for seed in range(FIRST_SEED, FIRST_SEED + 40)]
    for (name, most), ratios in zip(MOST.items(), zip(*found, strict=True), strict=True):
        mean, error = Ratio.over(ratios)
        print(f"{name}: {mean:.3f} ± {error:.3f} of {most}")
        assert mean <= most


def test_in_small_runs_those_who_were_killed_are_soon_as_good_as_before() -> None:
    found = [ratios_of(seed, [KILLED_FEW], SMALL)[0] for seed in range(FIRST_SEED, FIRST_SEED + 3)]
    assert Ratio.over(found).mean <= 1.2
