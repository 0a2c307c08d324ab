"""Everything that the audit must tell apart: each planted fault, the paper's algorithms, and sealed in every situation.

Three tables, one for each way to look: statistics, the exact test of the noise, the coupling.
"""

from __future__ import annotations

from typing import NamedTuple

from agentd.audit.case import Case
from agentd.audit.examine import CANNOT_TELL, HOLDS, VIOLATED
from agentd.audit.planted_faults import COUPLED, LOGIC_FAULTS, NOISE_FAULTS, SOURCE_FAULTS

REAL_DEATHS = 150
"""Runs of each side whose agents die by SIGKILL."""
REAL_FAULTS = 15
"""The same where something is noised twice in nearly every one."""
RESTARTS = 4_000
"""Runs with simulated deaths: each takes as long as several without."""
_ENOUGH = {
    "no-noise": 1_000,
    "half-noise": 4_000,
    "half-noise-arm-1": 5_000,
    "half-noise-later": 8_000,
    "half-noise-agreed": 4_000,
    "reused-noise": 2_000,
    "reused-noise-lag-2": 2_000,
    "shared-seed": 1_000,
    "float-noise": 6_000,
    "redrawn-noise": 200,
    "raw-choices": 2_000,
    "zero-unnoised": 2_000,
    "bit-in-samples": 1_000,
    "carried-reward": 24_000,
    "withheld-relays": 2_000,
    "skipped-sequence": 1_000,
    "missing-goodbye": 2_000,
}
"""Runs of each side in which a fault shows beyond doubt."""
_ALONE = (
    *("no-noise", "half-noise", "half-noise-arm-1", "half-noise-agreed"),
    *("float-noise", "shared-seed", "skipped-sequence"),
)
"""Faults that a neighbour sees who says nothing; those are the cheapest runs."""
_TOO_LARGE = 8.0
"""An ε that no number of runs that anybody waits for can refute."""
WORLDS = 1_000
"""Of sealed, as it is."""
WORLDS_OF_A_FAULT = 200
"""Within which a fault must show."""
WORLDS_OF_THE_PAPER = 60
"""Of algorithms that are known to differ."""


class Entry(NamedTuple):
    """One line of the table of statistics."""

    name: str
    case: Case
    expected: str
    """What must come out."""
    enough: int | None = None
    """Runs of each side that show it; None: as many as are asked for."""
    real: bool = False
    """Whether agents die by SIGKILL, on a real disk."""

    def runs(self, runs: int) -> int:
        """How many of each side."""
        return runs if self.enough is None else min(runs, self.enough)


class Coupled(NamedTuple):
    """One line of the table of couplings."""

    name: str
    algorithm: str
    fault: str | None
    worlds: int
    expected: str


def matrix(epsilon: float, seed: int) -> list[Entry]:
    """All lines of statistics, in the order in which they are worked."""
    faults = [
        Entry(name, planted(name, epsilon, seed, adversary=name not in _ALONE), VIOLATED, _ENOUGH[name])
        for name in {**NOISE_FAULTS, **LOGIC_FAULTS}
    ]
    hidden = Case("sealed", _TOO_LARGE, adversary=False, fault="no-noise", seed=seed)
    published = [
        Entry(
            "private-ucb" + _company(adversary),
            Case("private-ucb", epsilon, adversary=adversary, seed=seed),
            VIOLATED,
            2_000,
        )
        for adversary in (False, True)
    ]
    sealed = [
        Entry(
            f"sealed, K = {arms}" + _company(adversary), Case("sealed", epsilon, arms, 0, adversary, seed=seed), HOLDS
        )
        for arms in (2, 5)
        for adversary in (False, True)
    ]
    # Restarts cost as much as all the rest, and do not look at the number of arms: two are enough here.
    through = Case("sealed", epsilon, restart=True, seed=seed)
    redrawn = planted("redrawn-noise", epsilon, seed, adversary=True)
    return [
        *faults,
        Entry(f"no-noise, ε = {_TOO_LARGE:g}", hidden, CANNOT_TELL, 1_000),
        *published,
        *sealed,
        Entry("sealed, K = 2, restarts", through, HOLDS, RESTARTS),
        Entry("sealed, K = 2, kill -9", through, HOLDS, REAL_DEATHS, real=True),
        Entry("redrawn-noise, kill -9", redrawn, VIOLATED, REAL_FAULTS, real=True),
    ]


def couplings() -> list[Coupled]:
    """All lines of the coupling; an ε that the ledger agrees with is refuted by the scale of the noise alone."""
    faults = [Coupled(name, "sealed", name, WORLDS_OF_A_FAULT, "differs") for name in (*COUPLED, "half-noise-agreed")]
    paper = [Coupled(name, name, None, WORLDS_OF_THE_PAPER, "differs") for name in ("private-ucb", "dp-ucb-int")]
    return [Coupled("sealed", "sealed", None, WORLDS, "identical"), *faults, *paper]


def sources() -> list[tuple[str | None, str]]:
    """Faults of the source of noise, none first, and what an exact test must say of each."""
    return [(None, "exact"), *((fault, "differs") for fault in SOURCE_FAULTS)]


def planted(fault: str, epsilon: float, seed: int, *, adversary: bool, arms: int = 2, trials: int = 0) -> Case:
    """A case of sealed with a fault; the one that shows in restarts only gets restarts."""
    return Case("sealed", epsilon, arms, trials, adversary, restart=fault == "redrawn-noise", fault=fault, seed=seed)


def _company(adversary: bool) -> str:
    return ", adversary" if adversary else ""
