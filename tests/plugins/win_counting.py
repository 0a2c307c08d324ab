"""A policy with a body of its own, written as a stranger would: through the public seams only.

It tells how often each arm paid more than half, and pulls the arm that wins most often.
"""

from __future__ import annotations

import numpy as np

from agentd.core.bodies import Cumulative, Field, Kind, register
from agentd.core.bodies.kind import Lie, Mask
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Cells, Columns, Held, News
from agentd.core.policy import Algorithm, Intent, PolicySettings, register_policy
from agentd.core.policy.base import Noiseless, best_arm
from agentd.core.terms import Terms


class Wins(Cumulative):
    """Per arm (pulls, wins)."""

    tag = 200
    name = "WINS"
    fields = (Field("pulls", "u4"), Field("wins", "u4"))
    per_arm = True

    def plausible(self, batch: Batch, terms: Terms) -> Mask:
        pulls, wins = batch.cells
        counted = ((wins >= 0) & (wins <= pulls)).all(axis=0)
        return np.asarray(counted & (pulls.sum(axis=0) <= batch.trial))

    def continues(self, grown_by: Cells) -> Mask:
        more, won = grown_by
        return np.asarray((won >= 0) & (won <= more))

    def bend(self, body: Columns, lie: Lie) -> None:
        body[:, 1::2] = body[:, 0::2] * (2 * lie(np.zeros(len(body), dtype=np.int64)) > UNIT)[:, np.newaxis]


WINS = register(Wins())


class WinCounting(Noiseless):
    """UCB on wins, one's own and everybody's."""

    def __init__(self, settings: PolicySettings) -> None:
        self._own = np.zeros((2, settings.arms), dtype=np.int64)
        self._told = np.zeros((2, settings.arms), dtype=np.int64)
        self._others = np.zeros((2, settings.arms), dtype=np.int64)

    def choose(self, trial: int) -> int:
        pulls, wins = self._own + self._others
        return best_arm([UNIT * won for won in wins.tolist()], pulls.tolist(), trial)

    def observe(self, intent: Intent, reward: int, told: int) -> None:
        for table, value in ((self._own, reward), (self._told, told)):
            table[:, intent.arm] += (1, 2 * value > UNIT)

    def body(self) -> tuple[Kind, list[int]]:
        return WINS, self._told.T.ravel().tolist()

    def learn(self, news: News) -> None:
        if news.batch.kind is WINS:
            self._others += news.grown_by.sum(axis=2)

    def forget(self, rows: Columns, held: Held) -> None:
        self._others -= held[WINS].sum(axis=2)


register_policy(
    Algorithm("win-counting", "counts wins", WINS, False, False, lambda settings, *_others: WinCounting(settings))
)
