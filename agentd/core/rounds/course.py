"""Where an agent goes next: what it makes of its neighbours' rounds and of the environment's word.

`whereabouts` has the arithmetic of it, `leads` whose word is taken; here it is asked for, of those that are heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from agentd.core.rounds.lateness import Lateness
from agentd.core.rounds.leads import Leads
from agentd.core.rounds.neighbour import SLACK, Frame, Neighbour, Standing
from agentd.core.rounds.whereabouts import Whereabouts, lower_median

WORD_S = 0.1
"""How old the environment's word may be."""
ALIGN_TURNS, ALIGN_S = 32, 0.5
"""How often, in rounds and in time, who is ahead of somebody that it goes on without looks whether it waits better."""
CATCH_UP_TURNS = 16
"""For how many rounds one who was behind looks whether it still is."""

_LIVE, _DOWN = Standing.LIVE, Standing.DOWN
"""Looked up once: a member of an enumeration costs as much as a comparison, and rounds compare all the time."""


class Course(Generic[Frame]):
    """The round of one agent among its neighbours', and the next one."""

    def __init__(self, everybody: list[Neighbour[Frame]], lateness: Lateness) -> None:
        self.everybody = everybody
        """In one order for all rounds: see core.repetition."""
        self.round = 0
        self.where = Whereabouts()
        self._pace = lateness
        self._leads = Leads()
        self._turn = self._catch_up_until = 0
        """How many rounds of our own there were, whatever their numbers, and until which one we look for more."""
        self._aligned_turn, self._aligns = 0, False
        self._level = False
        """Whether everybody is known to be in our round, and nobody is down: then there is nothing to find out."""

    @property
    def latest(self) -> int:
        """How far the run can be: our own round, or a later one that most of those we hear have reached.

        The lower median, so that a neighbour that says it is far ahead moves nothing as long as another one is left.
        """
        if self._level:
            return self.round
        rounds = [n.round for n in self.everybody]
        if max(rounds, default=0) <= self.round:
            return self.round
        return max(self.round, lower_median(rounds))

    @property
    def next_round(self) -> int:
        """Where to go next: to the next round, or to where the others are."""
        if self._level and self.where.run_round <= self.round + 1:
            return self.round + 1
        heard = [self._believed(n) for n in self._heard()]
        if max(heard, default=0) > self.round + 1:
            self.where.leeway = self._word_is_old
        return self.where.next_round(self.round, [round_ for round_ in heard if round_])

    def _heard(self) -> list[Neighbour[Frame]]:
        turn = self._turn
        return [n for n in self.everybody if n.standing <= _LIVE or (n.standing is _DOWN and n.is_heard(turn))]

    def _believed(self, neighbour: Neighbour[Frame]) -> int:
        """In which round a neighbour is taken to be: who led us on too often is in step with us."""
        claimed = neighbour.round
        if claimed <= self.round + 1 or self._leads.is_followed(neighbour.id, self._turn):
            return claimed
        return self.round + 1

    @property
    def _word_is_old(self) -> int:
        """By how many rounds, about."""
        natural_s = self._pace.natural_s
        return min(round(WORD_S / natural_s), SLACK) if natural_s else 0

    @property
    def may_be_behind(self) -> bool:
        """Whether the others may be further than we know, so that one had better look at all that they said."""
        if self._turn < self._catch_up_until or self.where.run_round > self.round + 1:
            return True
        if self._level:
            return False
        return max([self._believed(n) for n in self.everybody if n.standing <= _DOWN], default=0) > self.round + 1

    def looked_around(self) -> int:
        """Where to go next, now that all that lay ready was looked at."""
        next_round = self.next_round
        leader = max(self._heard(), key=self._believed, default=None)
        if leader is not None and self._believed(leader) > self.round + 1:
            self._leads.followed(leader.id, self._turn)  # it may be led on itself: that is held against nobody
        return next_round

    def were_away(self) -> None:
        """We did nothing for a while: look for some rounds at all that was said meanwhile."""
        self._catch_up_until = self._turn + CATCH_UP_TURNS

    @property
    def runs_away(self) -> bool:
        """Whether to wait for the environment's word: somebody is missing, and we are far ahead of the run."""
        if self._level or not self.where.run_round or not any(n.standing is _DOWN for n in self.everybody):
            return False
        if self._aligns or not any(n.standing <= _LIVE for n in self.everybody):
            return self.where.runs_away(self.round, 1)  # nobody else keeps us in step
        return self.where.runs_away(self.round, max(SLACK, 2 * self._word_is_old))

    def _align(self, down: Sequence[Neighbour[Frame]]) -> None:
        """Wait, now and then, for the run where somebody follows us a few rounds behind.

        It may be a few of us who went on without the others, at their own pace: none of them would ever be timely.
        """
        natural_s, turn, own = self._pace.natural_s, self._turn, self.round
        if not natural_s or turn - self._aligned_turn < max(ALIGN_TURNS, ALIGN_S / natural_s):
            return
        self._aligns = any(n.is_heard(turn) and 1 < own - n.said <= SLACK for n in down)
        if self._aligns:
            self._aligned_turn = turn
