"""Decision coins: chance that decides which arm to try, apart from the chance that protects rewards.

A coin is a function of (seed, agent, trial) alone. It depends on no reward and on nothing the agent has done, so it may
be public without telling anything; and an agent that comes back, or an engine that carries all agents at once, finds
the same coins at the same trials.

In a group an agent holds its coins for a while (`held_since`). Who drew luck for an arm then stays with it until the
arm is known well enough, and the others leave it alone. With new coins in every round everybody tries it now and then,
and with `sealed` most of these pulls end in batches that never close. What it saves: docs/algorithms.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from agentd.core.chance import Purpose, Rekeyed


class Coins(Protocol):
    """A source of standard normal numbers for decisions."""

    def gauss(self, trial: int, number: int) -> list[float]:
        """So many numbers for the decision of this trial; asking again gives the same."""
        ...


FEW = 8
"""Groups below this toss in every round: so few may all have drawn bad luck for the best arm, and hold it for long."""


@lru_cache(maxsize=1024)
def held_since(trial: int, group: int) -> int:
    """The trial whose coins decide at this one: they are tossed at trials 1 and m, and again after every quarter more.

    Here m is the size of the group. Never to toss again would be better still in most runs, and in a few a whole group
    would stay with a wrong arm for good.
    """
    if group < FEW:
        return trial
    tossed, following = 1, group
    while following <= trial:
        tossed, following = following, following + following // 4
    return tossed


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
