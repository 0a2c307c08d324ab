"""Everything that the audit must tell apart: each planted fault, private-ucb, and sealed in every situation."""

from __future__ import annotations

from typing import NamedTuple

from agentd.audit.case import Case
from agentd.audit.planted_faults import FAULTS

REAL_DEATHS = 150
"""Runs of each side whose agents die by SIGKILL."""
_ALONE = ("no-noise", "half-noise", "reused-noise", "float-noise", "shared-seed")
"""Faults that a neighbour sees who says nothing; those are the cheapest runs."""


class Entry(NamedTuple):
    """One line of the matrix."""

    name: str
    case: Case
    violated: bool
    """What must come out."""
    real: bool = False
    """Whether agents die by SIGKILL, on a real disk."""

    def runs(self, runs: int) -> int:
        """How many of each side: as many as asked for, fewer where each takes processes and a disk."""
        return min(runs, REAL_DEATHS) if self.real else runs


def matrix(epsilon: float, seed: int) -> list[Entry]:
    """All lines, in the order in which they are worked."""
    faults = [Entry(name, planted(name, epsilon, seed, adversary=name not in _ALONE), True) for name in FAULTS]
    published = [
        Entry("private-ucb" + _company(adversary), Case("private-ucb", epsilon, adversary=adversary, seed=seed), True)
        for adversary in (False, True)
    ]
    sealed = [
        Entry(
            f"sealed, K = {arms}" + _company(adversary), Case("sealed", epsilon, arms, 0, adversary, seed=seed), False
        )
        for arms in (2, 5)
        for adversary in (False, True)
    ]
    # Restarts cost as much as all the rest, and do not look at the number of arms: two are enough here.
    through = Entry("sealed, K = 2, restarts", Case("sealed", epsilon, restart=True, seed=seed), False)
    killed = Entry("sealed, K = 2, kill -9", Case("sealed", epsilon, restart=True, seed=seed), False, real=True)
    return [*faults, *published, *sealed, through, killed]


def planted(fault: str, epsilon: float, seed: int, *, adversary: bool, arms: int = 2, trials: int = 0) -> Case:
    """A case of sealed with a fault; the one that shows in restarts only gets restarts."""
    return Case("sealed", epsilon, arms, trials, adversary, restart=fault == "redrawn-noise", fault=fault, seed=seed)


def _company(adversary: bool) -> str:
    return ", adversary" if adversary else ""
