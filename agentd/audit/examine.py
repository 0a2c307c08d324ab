"""The audit of one case: many runs of both inputs, on all cores, and the verdict."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from agentd.audit.case import Case
from agentd.audit.distinguish import CONFIDENCE, Finding, Table, distinguish
from agentd.audit.features import TOLD_TWICE, columns, features, first_releases
from agentd.audit.killed import record_killed
from agentd.audit.planted_faults import SHOWN_BY_ONE
from agentd.audit.restart import record_restarts
from agentd.audit.transcript import Transcript, record
from agentd.core.bodies import SEALED
from agentd.core.policy import ALGORITHMS
from agentd.errors import SettingsError
from agentd.interrupts import start_deaf

SIGNIFICANCE = 1e-6
"""A case is violated when chance alone would say so less often than this."""
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
    """The ε that the agents' own ledgers hold for one reward."""
    findings: list[Finding]
    """Of all distinguishers, the strongest first."""
    noised_twice: int
    """Runs in which the first release was told with several values."""
    wall_s: float

    @property
    def violated(self) -> bool:
        """Whether the claimed ε is refuted."""
        return bool(self.findings) and self.findings[0].p < SIGNIFICANCE

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
            "verdict": "violated" if self.violated else "holds",
            "p": self.p,
            "epsilon_proved": self.epsilon,
            "confidence": CONFIDENCE,
            "significance": SIGNIFICANCE,
        }


Block = tuple[Case, int, int, int, int, bool]
"""Case, trial of the first release, side, first number, how many, whether deaths are real."""
Done = tuple[int, int, Table, float]
"""Side, first number, features and the largest ε claimed."""


def with_enough_trials(case: Case) -> tuple[Case, int]:
    """The case with as many trials as it needs, if it does not say, and the trial of its first release."""
    wanted = _releases_wanted(case)
    plain = replace(case, restart=False, trials=8 * case.arms)
    while plain.trials <= _SEARCHED:
        releases = [first_releases(plain, record(plain, run % 2, run)) for run in range(_TRIAL_RUNS)]
        if all(len(trials) >= wanted for trials in releases):
            enough = 1 + max(trials[wanted - 1] for trials in releases)
            if not _is_sealed(case):  # the paper's algorithms choose by what they know only after a round robin
                enough = max(enough, case.arms * math.ceil(1 / case.epsilon) + 1)
            return replace(case, trials=case.trials or enough), releases[0][0]
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
    return 2 if case.adversary else case.arms  # a quiet neighbour sees a choice only when all arms are known


def _is_sealed(case: Case) -> bool:
    return ALGORITHMS[case.algorithm].tells is SEALED


def work(block: Block) -> Done:
    """Make some runs of one side and read them."""
    case, release, side, first, count, real = block
    rows, claimed = [], 0.0
    for number in range(first, first + count):
        transcript = _recorded(case, side, number, release, real=real)
        rows.append(features(case, transcript))
        claimed = max(claimed, transcript.claimed)
    return side, first, np.array(rows, dtype=np.float64), claimed


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


class Workers:
    """Where blocks are worked: this process, or several others."""

    def __init__(self, pool: ProcessPoolExecutor | None) -> None:
        self._pool = pool

    def carry_out(self, todo: list[Block]) -> Iterator[Done]:
        if self._pool is None:
            yield from map(work, todo)
            return
        for future in as_completed([self._pool.submit(work, block) for block in todo]):
            yield future.result()


@contextmanager
def workers(processes: int) -> Iterator[Workers]:
    """So many processes, started afresh: nothing that draws is shared with this one."""
    if processes == 1:
        yield Workers(None)
        return
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_die_with_parent)
    try:
        start_deaf(pool)
        yield Workers(pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _die_with_parent() -> None:
    """In every worker, which would wait for work for ever."""
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def default_processes() -> int:
    """As many as there are cores for us."""
    return len(os.sched_getaffinity(0))


def examine(
    case: Case, runs: int, team: Workers, advance: Callable[[], None] = lambda: None, *, real: bool = False
) -> Verdict:
    """Audit one case with so many runs of each side."""
    started = time.perf_counter()
    case, release = with_enough_trials(case)
    parts: tuple[dict[int, Table], dict[int, Table]] = ({}, {})
    claimed = 0.0
    for side, first, table, most in team.carry_out(blocks(case, release, runs, real=real)):
        parts[side][first] = table
        claimed = max(claimed, most)
        advance()
    tables = [np.concatenate([part[first] for first in sorted(part)]) for part in parts]
    place = [column.words for column in columns(case)].index(TOLD_TWICE)
    twice = sum(int(np.count_nonzero(~np.isnan(table[:, place]))) for table in tables)
    findings = distinguish(columns(case), (tables[0], tables[1]), claimed)
    return Verdict(case, runs, claimed, findings, twice, time.perf_counter() - started)
