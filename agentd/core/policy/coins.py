"""Decision coins: chance that decides which arm to try, apart from the chance that protects rewards.

A coin is a function of (seed, agent, trial) alone. It depends on no reward and on nothing the agent has done, so it may
be public without telling anything; and an agent that comes back, or an engine that carries all agents at once, finds
the same coins at the same trials.
"""

from __future__ import annotations

from typing import Protocol

from agentd.core.chance import Purpose, Rekeyed


class Coins(Protocol):
    """A source of standard normal numbers for decisions."""

    def gauss(self, trial: int, number: int) -> list[float]:
        """So many numbers for the decision of this trial; asking again gives the same."""
        ...


class KeyedCoins:
    """The coins of one agent, from a stream of their own per trial."""

    def __init__(self, seed: int, agent: int) -> None:
        self._seed = seed
        self._agent = agent
        self._rekeyed = Rekeyed()

    def gauss(self, trial: int, number: int) -> list[float]:
        """So many numbers for the decision of this trial; asking again gives the same."""
        coins: list[float] = (
            self._rekeyed.at(self._seed, Purpose.COIN, self._agent, trial).standard_normal(number).tolist()
        )
        return coins
