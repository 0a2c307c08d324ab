"""What left an agent over all its lives, and what that cost: nothing twice, nothing unpaid, nothing beyond the budget.

The oracle follows each reward: into which open batch it went, in which release it left, and under which state. A state
that is lost begins another account; a copy that is restored goes on with the account of the one it was copied from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from agentd.core.agent import Agent, Turn
from agentd.core.policy.base import Intent
from agentd.core.policy.sealed import Sealed
from agentd.core.privacy.ledger import Release
from agentd.core.saved_state import SavedState

Batches = dict[int, tuple[int, ...]]
"""The trials whose rewards are in each arm's open batch."""
Mark = tuple[int, int]
"""The arm and the trial of a release."""


@dataclass(slots=True)
class Account:
    """What one state, with all copies of it, has released."""

    left: dict[Mark, tuple[Release, int]] = field(default_factory=dict)
    """Every release that a neighbour may have seen, with its value."""
    in_release: dict[int, Mark] = field(default_factory=dict)
    """Where batches are disjoint: in which release the reward of a trial left."""
    saved: dict[tuple[int, int], Batches] = field(default_factory=dict)
    """What was in the open batches, by incarnation and trial of the state."""


class Spending:
    """The releases of one agent."""

    def __init__(self, budget: float | None) -> None:
        self._budget = None if budget is None else Fraction(budget)
        self._accounts: dict[int, Account] = {}
        self._advanced: set[int] = set()
        self._open: Batches = {}
        self._prepared: list[tuple[Release, int, tuple[int, ...]]] = []
        self.said: dict[tuple[int, int], tuple[int, ...]] = {}
        """What was said under each incarnation and trial."""
        self.releases = 0
        """That left."""

    def begins(self, agent: Agent, saved: SavedState | None, lineage: int) -> str | None:
        """A life begins; what is wrong with what it takes up."""
        account = self._accounts.setdefault(lineage, Account())
        self._prepared, self._open = [], {}
        policy = agent.policy
        if saved is None or not isinstance(policy, Sealed):
            return None
        before = account.saved.get((saved.incarnation, saved.trial), {})
        for arm, batch in enumerate(policy._open):
            rewards = before.get(arm, ())
            if batch.pulls not in (0, len(rewards)):
                return f"it begins with {batch.pulls} pulls of arm {arm} in an open batch, and had {len(rewards)}"
            self._open[arm] = rewards if batch.pulls else ()
        return None

    def advances(self, agent: Agent, intent: Intent, turn: Turn, lineage: int) -> str | None:
        """A reward went in."""
        if intent.trial in self._advanced:
            return f"the reward of trial {intent.trial} goes in for the second time"
        self._advanced.add(intent.trial)
        self._open[intent.arm] = (*self._open.get(intent.arm, ()), intent.trial)
        self._prepared = [(release, value, self._open[release.arm]) for release, value in turn.releases]
        if isinstance(agent.policy, Sealed):
            for arm, batch in enumerate(agent.policy._open):
                if not batch.pulls:
                    self._open[arm] = ()
            for release, _, rewards in self._prepared:
                if release.pulls != len(rewards):
                    return f"a batch of {len(rewards)} rewards is released as one of {release.pulls}"
        saved = self._accounts[lineage].saved
        saved[agent.incarnation, intent.trial] = dict(self._open)
        return None

    def says(self, incarnation: int, trial: int, body: tuple[int, ...]) -> str | None:
        """An own message leaves."""
        before = self.said.setdefault((incarnation, trial), body)
        return None if before == body else f"trial {trial} says {body}, and said {before} before"

    def leaves(self, agent: Agent, trial: int, lineage: int) -> str | None:
        """What the turn of a trial has released leaves; what is wrong with that."""
        if not self._prepared or self._prepared[0][0].trial != trial:
            return None
        account = self._accounts[lineage]
        for release, value, rewards in self._prepared:
            mark = release.arm, release.trial
            before = account.left.get(mark)
            if before is not None and before[1] != value:
                return f"the release of arm {mark[0]} at trial {mark[1]} leaves with other noise for the second time"
            account.left[mark] = release, value
            self.releases += 1
            if isinstance(agent.policy, Sealed):
                for reward in rewards:
                    if (other := account.in_release.setdefault(reward, mark)) != mark:
                        return f"the reward of trial {reward} left at trial {other[1]}, and leaves at {mark[1]} again"
        self._prepared = []
        return self._paid(agent, account)

    def _paid(self, agent: Agent, account: Account) -> str | None:
        ledger: Any = agent.policy.ledger
        for arm in sorted({arm for arm, _ in account.left}):
            costs = [release.epsilon for (other, _), (release, _) in account.left.items() if other == arm]
            if ledger.releases(arm) < len(costs) or ledger.spent(arm) < sum(costs):
                return f"{len(costs)} releases of arm {arm} have left, and its ledger has {ledger.releases(arm)}"
            spent = max(costs) if ledger.disjoint else sum(costs)
            if self._budget is not None and spent > self._budget:
                return f"arm {arm} has spent {float(spent):.4g} of a budget of {float(self._budget):.4g}"
        return None
