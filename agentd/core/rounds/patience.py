"""Who is late in the present round, who has used up its budget, and who is named for it.

A neighbour that waits for somebody late is late itself, and nobody can tell it from the one at fault while it lasts.
But it is back as soon as it goes on without that one, and then it is late no more often than others make it so. So
whoever was given up as too late is named only after it was away for longer than any honest neighbour has to be, or was
given up again and again for many rounds. Short absences do not add up: an honest neighbour needs a while to get into
step again. One that says nothing but that it is held up is named as well, but later: honest neighbours in trouble do
so, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Generic, NamedTuple

from agentd.core.rounds.lateness import Lateness
from agentd.core.rounds.neighbour import SLACK, Frame, Neighbour, Standing

TIMELY_FRAMES = 3
"""So many in a row, and a neighbour is waited for again."""
AWAY_TIMEOUTS, ABSENCE_TIMEOUTS = 2.0, 0.5
"""How long one who was too late may be away before it is named, in round timeouts, and which absences add up."""
OFTEN_TURNS, MOST_OFTEN = 16, 16.0
"""Who is given up in more than every so many rounds, by so many times, is named."""
TOLD_TIMEOUTS = 0.2
"""The same before people are told that rounds go on without it."""
GREETED_TIMEOUTS, GREETED_TURNS = 4.0, 16
"""For how long, and in how many rounds, one who is down may say nothing but that it is held up before it is named."""
FORGOTTEN_TURNS = 1000
"""After so many rounds without another one, former absences count no more."""


class Suspect(NamedTuple):
    """One who was given up as too late: how often, for how long altogether, and since when and which turn this time.

    While it is back it is away since never: infinity.
    """

    times: int
    often: float
    """How many times more than one in `OFTEN_TURNS`."""
    away_s: float
    since_s: float
    turn: int
    late_s: float
    """How late it was when it was given up the last time."""


class Greetings(NamedTuple):
    """One who is down and only greets: in how many turns of ours, since when, and since and in which turn last."""

    turns: int
    since_s: float
    turn: int
    last: int


class Patience(Generic[Frame]):
    """When each neighbour came in the present round, where arrivals are looked at."""

    def __init__(self) -> None:
        self.lateness = Lateness()
        self._came_s: dict[int, float] = {}
        self._expected = self._here_at_once = 0
        self._suspects: dict[int, Suspect] = {}
        """Who was given up as too late."""
        self._greetings: dict[int, Greetings] = {}
        """Of those that are down."""

    def expect(self, expected: int, here_at_once: int = 0) -> None:
        """So many are waited for in this round, and so many of them are there already."""
        self._expected, self._here_at_once = expected, here_at_once
        if self._came_s:
            self._came_s = {}

    def came(self, neighbour: Neighbour[Frame], now_s: float) -> None:
        """Something came from a neighbour just now."""
        self._came_s[neighbour.id] = now_s

    def arrived(self, neighbours: Iterable[Neighbour[Frame]], now_s: float) -> None:
        """These are there; when they came is kept where it is known."""
        for neighbour in neighbours:
            self._came_s.setdefault(neighbour.id, now_s)

    def half_s(self, missing: Collection[Neighbour[Frame]] = ()) -> float | None:
        """When half of those waited for were there."""
        absent = {neighbour.id for neighbour in missing}
        there = [when_s for number, when_s in self._came_s.items() if number not in absent]
        return self.lateness.half_s([self.lateness.began_s] * self._here_at_once + there, self._expected)

    def ends_s(self, waiting: Collection[Neighbour[Frame]]) -> float:
        """When the patience with the first of them ends."""
        half_s = self.half_s(waiting)
        return min([self.lateness.gives_up_s(neighbour.id, half_s) for neighbour in waiting])

    def too_late(self, waiting: Collection[Neighbour[Frame]], now_s: float) -> list[Neighbour[Frame]]:
        """Whose budget is used up."""
        half_s = self.half_s(waiting)
        return [n for n in waiting if now_s >= self.lateness.gives_up_s(n.id, half_s)]

    def given_up(self, neighbours: Iterable[Neighbour[Frame]], now_s: float) -> None:
        """Rounds go on without these: this is when the wait for them ended."""
        for neighbour in neighbours:
            self._came_s[neighbour.id] = now_s

    def suspect(self, neighbour: Neighbour[Frame], now_s: float, turn: int) -> None:
        """It was too late too often; keep in mind how late."""
        self._keep_in_mind(neighbour, now_s, turn)

    def left_behind(self, neighbour: Neighbour[Frame], now_s: float, turn: int) -> None:
        """We went to where the run is without it, whatever it has left: it is named if it does not come, too."""
        self._keep_in_mind(neighbour, now_s, turn)

    def _keep_in_mind(self, neighbour: Neighbour[Frame], now_s: float, turn: int) -> None:
        known = self._suspects.get(neighbour.id)
        if known is None or turn - known.turn > FORGOTTEN_TURNS:
            known = Suspect(0, 0.0, 0.0, now_s, turn, 0.0)
        late_s = now_s - self.lateness.began_s
        often = max(0.0, known.often - (turn - known.turn) / OFTEN_TURNS) + 1
        self._suspects[neighbour.id] = Suspect(known.times + 1, often, known.away_s, now_s, turn, late_s)

    def greets(self, neighbour: Neighbour[Frame], turn: int) -> None:
        """It is down, and says that it is held up."""
        known = self._greetings.get(neighbour.id)
        if known is None or neighbour.heard_turn > known.turn:  # since it said a frame it is one that was too late
            known = Greetings(0, self.lateness.began_s, turn, turn - 1)
        if turn > known.last:
            self._greetings[neighbour.id] = known._replace(turns=known.turns + 1, last=turn)

    def is_excused(self, neighbour: Neighbour[Frame], now_s: float) -> None:
        """It is back; what it was away for stays in mind, if that was long."""
        self._greetings.pop(neighbour.id, None)
        if (known := self._suspects.get(neighbour.id)) is not None:
            absence_s = now_s - known.since_s
            counts_s = absence_s if absence_s > ABSENCE_TIMEOUTS * self.lateness.timeout_s else 0.0
            self._suspects[neighbour.id] = known._replace(away_s=known.away_s + counts_s, since_s=math.inf)

    def close(self, now_s: float) -> None:
        """The round is over."""
        self.lateness.end(self._came_s, self.half_s(), now_s)
        self._came_s = {}

    def convicted(self, down: Iterable[Neighbour[Frame]], now_s: float) -> list[tuple[Neighbour[Frame], Suspect]]:
        """Which of those that are down are to be named by now, and what for."""
        named = self._only_greeting(down, now_s) if self._greetings else []
        for neighbour in down:
            suspect = self._suspects.get(neighbour.id)
            if suspect is None or math.isinf(suspect.since_s):
                continue  # it was back since; whatever it is away for now, it is not for being too late
            away_s = suspect.away_s + now_s - suspect.since_s
            is_heard = neighbour.heard_turn > suspect.turn  # else it is not slow, but gone
            is_often = suspect.often > MOST_OFTEN
            if is_often or (is_heard and away_s > AWAY_TIMEOUTS * self.lateness.timeout_s):
                del self._suspects[neighbour.id]
                named.append((neighbour, suspect._replace(away_s=away_s)))
        return named

    def _only_greeting(self, down: Iterable[Neighbour[Frame]], now_s: float) -> list[tuple[Neighbour[Frame], Suspect]]:
        """Who has said for long that it is held up, in many rounds of ours, and nothing else."""
        named = []
        for neighbour in down:
            said = self._greetings.get(neighbour.id)
            if said is None or said.turns < GREETED_TURNS or neighbour.heard_turn > said.turn:
                continue
            away_s = now_s - said.since_s
            if away_s > GREETED_TIMEOUTS * self.lateness.timeout_s:
                del self._greetings[neighbour.id]
                named.append((neighbour, Suspect(0, 0.0, away_s, said.since_s, said.turn, 0.0)))
        return named

    def is_gone(self, neighbour: Neighbour[Frame], now_s: float) -> bool:
        """Whether one who was given up as too late has been away for long enough to tell people so."""
        suspect = self._suspects.get(neighbour.id)
        return suspect is not None and now_s - suspect.since_s > TOLD_TIMEOUTS * self.lateness.timeout_s

    def is_timely(self, neighbour: Neighbour[Frame], own: int) -> bool:
        """Whether a neighbour is at most one round behind us, or so little that its budget lets us wait for it.

        So halves of a network that come together again a few rounds apart get into step: who is ahead waits.
        """
        behind = own - neighbour.said
        if behind <= 1:
            return True
        lateness = self.lateness
        return behind <= SLACK and 0 < (behind - 1) * lateness.natural_s <= lateness.left_s(neighbour.id) / 2

    def is_back(self, neighbour: Neighbour[Frame], own: int, turn: int) -> bool:
        """Whether a neighbour that is down, and was heard in this turn, is to be waited for again."""
        if neighbour.standing is not Standing.DOWN or neighbour.heard_turn != turn:
            return False
        if not self.is_timely(neighbour, own):
            neighbour.timely = 0
            return False
        if neighbour.timely_turn < turn:
            neighbour.timely = neighbour.timely + 1 if neighbour.was_timely(turn) else 1
            neighbour.timely_turn = turn
        return neighbour.timely >= TIMELY_FRAMES
