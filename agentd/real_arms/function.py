"""python:MODULE:FACTORY: a function of somebody's module in this process.

The factory is called without arguments, once per worker, and returns a function `pull(arm, trial) -> reward`. It is
code that runs as the agent, with all that the agent knows; and a function that never returns cannot be ended, so that
every pull after it counts as `busy` once all workers wait.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from agentd.errors import ConfigurationError
from agentd.real_arms.worker import ArmFault, Reason

Pull = Callable[[int, int], float]


class Function:
    """A function that pays."""

    def __init__(self, pull: Pull) -> None:
        self._pull = pull

    def begin(self) -> None:
        """It is there."""

    def pull(self, arm: int, trial: int, deadline_s: float, agent: int | None = None) -> float:  # noqa: ARG002
        """Call it; see `Worker`."""
        try:
            reward = self._pull(arm, trial)
        except (Exception, SystemExit) as fault:  # whatever somebody else's code does must not end the agent
            raise ArmFault(Reason.ENDED, f"the function failed: {fault!r:.200}") from None
        if isinstance(reward, bool) or not isinstance(reward, (int, float)):
            raise ArmFault(
                Reason.UNREADABLE, f"the function returned a {type(reward).__name__:.40}, which is no number"
            )
        try:
            return float(reward)
        except OverflowError:
            raise ArmFault(Reason.RANGE, "the function returned a number beyond all bounds") from None

    def close(self) -> None:
        """It ends with the process."""


def made_by(name: str) -> Pull:
    """What the factory of this name returns; ConfigurationError where there is none."""
    module, _, factory = name.partition(":")
    try:
        pull = getattr(importlib.import_module(module), factory)()
    except (Exception, SystemExit) as fault:  # see above
        raise ConfigurationError(
            f"python:{name} gives no arms: {fault!r:.200}; name a module that can be imported and a function of it "
            "that returns another, pull(arm, trial) -> reward"
        ) from None
    if not callable(pull):
        raise ConfigurationError(f"python:{name} returns {pull!r:.40}, which cannot be called as pull(arm, trial)")
    made: Pull = pull
    return made
