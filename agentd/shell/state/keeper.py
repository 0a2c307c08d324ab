"""What stands between an agent and the wire: its journal and its privacy budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentd.core.agent import Agent, Turn
from agentd.core.policy.base import Intent, Restorable
from agentd.core.saved_state import SavedState
from agentd.core.upwards import shown
from agentd.errors import BudgetExhausted, StateUnusable
from agentd.settings import AgentSettings
from agentd.shell.json_log import Log
from agentd.wire.environment_messages import Welcome

if TYPE_CHECKING:  # only an agent that keeps state loads its journal
    from agentd.shell.state.journal import StateJournal


class StateKeeper:
    """Writes each round down before it is sent, and notices when the budget is spent."""

    def __init__(self, settings: AgentSettings, journal: StateJournal | None, log: Log) -> None:
        self._settings = settings
        self._journal = journal
        self._log = log
        self._said = False
        self.on_choice: Callable[[int, int], None] | None = None
        """Who wants to know the trial and the arm of every pull that is about to be made."""
        self.journal_s, self.commits = 0.0, 0
        """What writing rounds to disk has taken in all, and how many."""

    @classmethod
    def open(cls, settings: AgentSettings, log: Log) -> StateKeeper:
        """Take up the state that the settings name, if any."""
        if settings.state is None:
            return cls(settings, None, log)
        from agentd.shell.state.journal import StateJournal

        # Terms may make ε smaller, and what they say is known only once the run is joined.
        identity = {name: value for name, value in state_identity(settings).items() if name != "epsilon"}
        journal = StateJournal.open(settings.state, identity)
        if journal.saved is not None and journal.saved.about["epsilon"] > settings.reward_epsilon:
            journal.close()
            raise StateUnusable(
                f"the state in {settings.state} is noised for an epsilon of {journal.saved.about['epsilon']}, and "
                f"--epsilon allows no more than {settings.reward_epsilon} per reward. Name another place with --state"
            )
        return cls(settings, journal, log)

    @property
    def saved(self) -> SavedState | None:
        return self._journal.saved if self._journal is not None else None

    def join(self, agent: Agent, welcome: Welcome, epsilon: float | None = None, *, rounds: int | None = None) -> None:
        """Tie the state to the run that the environment serves, and to the ε that its terms have left.

        A new state also tells how many rounds there were to be, and how many rewards a person may be behind.
        """
        if self._journal is None:
            return
        if not isinstance(agent.policy, Restorable):  # made by a function, which the settings could not look into
            raise StateUnusable(
                f"{self._settings.algorithm} has no snapshot, restore and discard, so that nothing of it survives a "
                "restart; leave --state out, or start the testbed with --no-state"
            )
        epsilon = self._settings.reward_epsilon if epsilon is None else epsilon
        about = {"run": welcome.run.hex(), "arms": welcome.arms, "epsilon": epsilon}
        once = {"rounds": rounds, "rewards_per_person": self._settings.rewards_per_person}
        self._journal.join(agent.turn, **about, incarnation=agent.incarnation, once=once)
        if (saved := self._journal.saved) is None or agent.trial == saved.trial:
            return
        if self._settings.has_own_arms:
            self._log.info(
                "nobody counts pulls of own arms: what was not released is given up, what may have been is charged",
                trial=agent.trial,
                charged=len(agent.turn.possible),
                incarnation=agent.incarnation,
            )
        else:
            self._log.warning(
                "the state lacks the last pull: a crash, or a copy from before it; the trial is given up, what it may "
                "have released is charged and never sent",
                trial=agent.trial,
                arm="unknown" if saved.intended_arm is None else saved.intended_arm,
                charged=len(agent.turn.possible),
                incarnation=agent.incarnation,
            )

    def choose(self, agent: Agent) -> Intent:
        """The next pull, written down; its noise is still to be drawn."""
        intent = agent.decide()
        if self._journal is not None:
            self._journal.intend(intent.trial, intent.arm)
        if self.on_choice is not None:
            self.on_choice(intent.trial, intent.arm)
        return intent

    def commit(self, turn: Turn) -> None:
        """Write down what is about to leave; stop here if the budget is spent and the operator wants that."""
        if self._journal is not None:
            began_s = time.perf_counter()
            self._journal.commit(turn)
            self.journal_s += time.perf_counter() - began_s
            self.commits += 1
        else:
            turn.committed()
        if turn.ledger is not None and turn.ledger.refused and not self._said:
            self._say_spent(turn.trial, turn.ledger.epsilon_one_reward())

    def close(self) -> None:
        """Flush everything and let go of the state."""
        if self._journal is not None:
            self._journal.close()

    def _say_spent(self, trial: int, epsilon: float) -> None:
        self._said = True
        budget = self._settings.epsilon_budget
        self._log.warning("privacy budget spent", trial=trial, budget=budget, epsilon=epsilon)
        if self._settings.on_budget == "stop":
            raise BudgetExhausted(
                f"the privacy budget of {budget:g} is spent (ε = {shown(epsilon, 4)} at trial {trial}) and --on-budget "
                "says stop; raise --epsilon-budget, or go on with --on-budget listen"
            )


def state_identity(settings: AgentSettings) -> dict[str, Any]:
    """What must not change under a state; what its noise and its releases depend on."""
    return {
        "agent": settings.id,
        "algorithm": settings.algorithm,
        "epsilon": settings.reward_epsilon,
        "v": settings.v,
        "seeded": settings.seed is not None,
    }


def require_up_to_date(saved: SavedState, counted: int, place: str) -> None:
    """Refuse a state that does not continue in the environment's count of trials."""
    if counted < saved.trial:
        raise StateUnusable(
            f"the state in {place} is at trial {saved.trial}, but the environment has counted {counted} trials of this "
            "agent: it lost its own state, or it is another one. Restore it, or name another place with --state"
        )
    if counted > saved.trial + 1:
        raise StateUnusable(
            f"the state in {place} ends at trial {saved.trial}, but the environment has counted {counted} trials of "
            "this agent: this is an older copy, and its ledger may miss releases. Restore the newest, or move it away "
            "to start over as a new incarnation"
        )
