"""Where the run is, and where to go next: how an agent that is behind comes into step, and how nobody runs away.

An agent's round is apart from its trials: who missed rounds goes to where the others are, and makes its missed trials
later. It believes three things. First itself. Then the lower median of the rounds of those neighbours that it hears:
one of them alone cannot move it, as long as there is another. And the environment, which tells a round that a good
part of all agents have reached (`run_round`). Nobody is believed to be further than `SLACK` rounds beyond what is known
of the run by these, and nobody goes there: what claims more is dropped, and the environment is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentd.core.rounds.neighbour import SLACK


class Whereabouts:
    """What is known of where the run is."""

    def __init__(self) -> None:
        self.run_round = 0
        """That the environment told; it only grows. 0: nothing."""
        self.news = 0
        """How often it told a later one."""
        self.horizon = 0
        """The last round that is the same for all; beyond it an agent makes up for what it missed. 0: there is none."""
        self.leeway = 0
        """By how many rounds the environment's word may be old, where it matters."""
        self.ask = False
        """Whether the environment's word is wanted; whoever asks takes it back."""

    def told(self, run_round: int) -> None:
        """Take up the environment's word."""
        if run_round > self.run_round:
            self.run_round = run_round
            self.news += 1

    def bound(self, own: int) -> int:
        """The furthest round that a neighbour is believed to be in."""
        bound = max(own, self.run_round) + SLACK
        return min(bound, max(own, self.horizon) + SLACK) if self.horizon else bound

    def is_beyond_all(self, round_: int, own: int) -> bool:
        """Whether a round is one in which somebody makes up for missed trials, near the end of the run or after it."""
        if not self.horizon or round_ <= self.horizon + SLACK:
            return False
        return self.horizon - SLACK <= max(own, self.run_round)

    def next_round(self, own: int, heard: Sequence[int]) -> int:
        """The round to go to from our own, given the rounds of those neighbours that are heard."""
        if heard and max(heard) <= own and self.run_round <= own + SLACK:
            return own + 1
        target = self._confirmed(own, heard) if heard else self.run_round
        if self.run_round > own + SLACK:
            target = max(target, self.run_round)
        if self.horizon:
            target = min(target, self.horizon)
        return max(own + 1, target)

    def _confirmed(self, own: int, heard: Sequence[int]) -> int:
        """Where most of those that are heard are, or any one of them, as far as the environment has told of it.

        Else groups that lost each other would go on side by side, a few rounds apart: less than any slack.
        """
        furthest = max(heard)
        if furthest > max(own + 1, self.run_round):
            self.ask = True
        word = self.run_round + self.leeway if self.run_round else 0
        return max(min(lower_median(heard), self.bound(own)), min(furthest, word))

    def runs_away(self, own: int, slack: int) -> bool:
        """Whether our next round would be further ahead of the run than so many."""
        return self.run_round > 0 and own >= self.run_round + slack and not (0 < self.horizon <= own)


def lower_median(values: Sequence[int]) -> int:
    """The value that at least half of them, and one more, do not exceed; the smaller one of two."""
    return sorted(values)[(len(values) - 1) // 2]
