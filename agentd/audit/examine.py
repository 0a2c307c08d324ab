"""The audit of one case: many runs of both inputs, on all cores, and the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from agentd.audit.bound import ceiling
from agentd.audit.case import Case
from agentd.audit.distinguish import CONFIDENCE, Finding, Table, distinguish
from agentd.audit.features import columns, features
from agentd.audit.killed import record_killed
from agentd.audit.planted_faults import SHOWN_BY_ONE
from agentd.audit.restart import record_restarts
from agentd.audit.told import release_trials
from agentd.audit.transcript import Transcript, record
from agentd.audit.workers import Workers
from agentd.core.bodies import SEALED
from agentd.core.policy import ALGORITHMS
from agentd.errors import SettingsError

SIGNIFICANCE = 1e-6
"""A case is violated when chance alone would say so less often than this."""
VIOLATED, HOLDS, CANNOT_TELL = "violated", "holds", "cannot tell"
BLOCK = 250
"""Runs that a worker makes at once."""
REAL_BLOCK = 25
"""The same where each run takes processes."""
_SEARCHED = 4000
"""Trials within which the releases that the audit looks at must come."""
_TRIAL_RUNS = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit found."""

    case: Case
    runs: int
    """Of each side."""
    claimed: float
    """The ε for one reward that is held against what was seen."""
    ledger: float
    """What the agents' own ledgers hold for one reward."""
    findings: list[Finding]
    """Of all distinguishers, the strongest first."""
    noised_twice: int
    """Runs in which a release was told with several values."""
    ceiling: float
    """The largest ε that so many runs could have refuted, had they told the inputs apart every time."""
    wall_s: float

    @property
    def word(self) -> str:
        """Violated where the claim is refuted, or anything was noised twice; else whether it could have been."""
        if self.noised_twice or self.p < SIGNIFICANCE:
            return VIOLATED
        return HOLDS if self.claimed <= self.ceiling else CANNOT_TELL

    @property
    def violated(self) -> bool:
        return self.word == VIOLATED

    @property
    def p(self) -> float:
        """Of the claim, over all distinguishers."""
        return self.findings[0].p if self.findings else 1.0

    @property
    def epsilon(self) -> float:
        """The largest ε that is proved, over all distinguishers."""
        return max((finding.epsilon for finding in self.findings), default=0.0)

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "verdict": self.word,
            "p": self.p,
            "epsilon_proved": self.epsilon,
            "confidence": CONFIDENCE,
            "significance": SIGNIFICANCE,
        }


Block = tuple[Case, int, int, int, int, bool]
"""Case, trial of the first release, side, first number, how many, whether deaths are real."""
Done = tuple[int, int, Table, float, int]
"""Side, first number, features, the largest ε of a ledger, runs in which something was noised twice."""


def with_enough_trials(case: Case) -> tuple[Case, int]:
    """The case with as many trials as it needs, if it does not say, and the trial of its first release."""
    wanted = _releases_wanted(case)
    plain = replace(case, restart=False, trials=8 * case.arms)
    while plain.trials <= _SEARCHED:
        releases = [release_trials(plain, record(plain, run % 2, run)) for run in range(_TRIAL_RUNS)]
        if all(len(trials) >= wanted for trials in releases):
            enough = 1 + max(trials[wanted - 1] for trials in releases)
            if not _is_sealed(case):  # the paper's algorithms choose by what they know only after a round robin
                enough = max(enough, case.arms * math.ceil(1 / case.epsilon) + 1)
            if case.restart:  # a death may take an open batch along, and what comes after it is to be seen, too
                enough *= 2
            trials = case.trials or enough
            ends = [trial for trial in releases[0] if trial < trials]
            closing = (*ends, trials) if wanted > 1 else tuple(ends)  # the last one ends the run
            return replace(case, trials=trials, closing=closing), releases[0][0]
        plain = replace(plain, trials=2 * plain.trials)
    raise SettingsError(
        f"with ε = {case.epsilon:g} nothing is released within {_SEARCHED} trials; audit a larger --epsilon"
    )


def _releases_wanted(case: Case) -> int:
    """How many releases a run must hold to show everything: the fewer, the more runs in the same time."""
    if not _is_sealed(case):
        return case.arms
    if case.restart or case.fault in SHOWN_BY_ONE:
        return 1
    return 3 if case.adversary else case.arms  # a quiet neighbour sees a choice only when all arms are known


def _is_sealed(case: Case) -> bool:
    return ALGORITHMS[case.algorithm].tells is SEALED


def work(block: Block) -> Done:
    """Make some runs of one side and read them."""
    case, release, side, first, count, real = block
    rows, ledger, twice = [], 0.0, 0
    for number in range(first, first + count):
        transcript = _recorded(case, side, number, release, real=real)
        row, noised_twice = features(case, transcript)
        rows.append(row)
        ledger = max(ledger, transcript.claimed)
        twice += noised_twice
    return side, first, np.array(rows, dtype=np.float64), ledger, twice


def _recorded(case: Case, side: int, number: int, release: int, *, real: bool) -> Transcript:
    if not case.restart:
        return record(case, side, number)
    return (record_killed if real else record_restarts)(case, side, number, release)


def blocks(case: Case, release: int, runs: int, *, real: bool) -> list[Block]:
    """All work of a case, in portions."""
    size = REAL_BLOCK if real else BLOCK
    return [
        (case, release, side, first, min(size, runs - first), real) for first in range(0, runs, size) for side in (0, 1)
    ]


def examine(
    case: Case, runs: int, team: Workers, advance: Callable[[], None] = lambda: None, *, real: bool = False
) -> Verdict:
    """Audit one case with so many runs of each side."""
    started = time.perf_counter()
    case, release = with_enough_trials(case)
    parts: tuple[dict[int, Table], dict[int, Table]] = ({}, {})
    ledger, twice = 0.0, 0
    for side, first, table, most, several in team.carry_out(work, blocks(case, release, runs, real=real)):
        parts[side][first] = table
        ledger = max(ledger, most)
        twice += several
        advance()
    tables = [np.concatenate([part[first] for first in sorted(part)]) for part in parts]
    # Where each reward enters one release, --epsilon is the claim; sums that run on claim what their ledger adds up.
    claimed = case.epsilon if ALGORITHMS[case.algorithm].disjoint else ledger
    findings = distinguish(columns(case), (tables[0], tables[1]), claimed)
    families = len({column.family for column in columns(case)})
    most = ceiling(runs - runs // 2, SIGNIFICANCE / families)
    return Verdict(case, runs, claimed, ledger, findings, twice, most, time.perf_counter() - started)
