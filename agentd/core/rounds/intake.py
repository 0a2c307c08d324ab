"""What of a neighbour's frames is taken in: what it claims must be possible, and what it sends no flood.

A frame or greeting of a round that the run cannot be in yet is dropped, never held and never noted (`ahead`); the
environment is asked where the run is. How much a neighbour may send follows from the terms (`core.trust.quota`); what
is beyond is dropped (`flood`), and of who goes on nothing more is read in this round. All that is taken in one round is
in memory together, so what is said of earlier rounds is bounded in any case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Generic

from agentd.core.rounds.accusations import Accusations
from agentd.core.rounds.neighbour import MOST_LOST, Frame, Neighbour
from agentd.core.rounds.whereabouts import Whereabouts
from agentd.core.trust.blame import Why
from agentd.core.trust.quota import Allowance, Quota

MOST_LATE_BYTES = 4 << 20
"""How much a neighbour may say about earlier rounds within one; as much as a frame may hold."""
FRAME_OVERHEAD_BYTES = 1024
"""What even the smallest frame with a message in it takes up in memory, about."""
PATIENT_TURNS = 64
"""For how many rounds one who claims to be far ahead may be right, if the environment does not tell."""
ACCUSED_BEYOND = 192
"""How far beyond what is believed a claim is blamed: the environment's word is old where rounds are fast."""
MUTED_AFTER = 4
"""Frames of one neighbour that are too much within one round, before nothing more of it is read in this round."""


class Intake(Generic[Frame]):
    """Judges what comes by its size and its claims."""

    def __init__(self, where: Whereabouts, accusations: Accusations, dropped: Counter[str]) -> None:
        self._where = where
        self._accusations = accusations
        self._dropped = dropped
        self._allowances: dict[int, Allowance] = {}
        self._late_bytes: dict[int, int] = {}
        self._floods: Counter[int] = Counter()
        self._babbled: Counter[int] = Counter()
        """How many messages of several parts each has said, in all rounds."""
        self._claims: dict[int, tuple[int, int, int]] = {}
        """Who claims to be far ahead: how much the environment had told by the first time, our turn then, and now."""
        self._own = self._turn = 0
        self.usual_bytes: float = math.inf
        """A frame that is no longer is nothing to look at, where it is the only one in its round."""
        self._longest: float = math.inf
        """No honest neighbour ever says a frame that is longer."""

    def agree(self, quota: Quota, neighbours: list[int]) -> None:
        """Go by the terms of the run."""
        self.usual_bytes = quota.bytes
        self._longest = quota.longest_frame
        self._allowances = {number: Allowance(quota) for number in neighbours}

    def enter(self, own: int, turn: int) -> None:
        """A round of ours begins."""
        self._own, self._turn = own, turn
        if self._late_bytes:
            self._late_bytes = {}
        if self._floods:
            self._floods.clear()

    def is_muted(self, neighbour: Neighbour[Frame]) -> bool:
        """Whether nothing more is to be read of it in this round."""
        return bool(self._floods) and self._floods[neighbour.id] >= MUTED_AFTER

    def muted(self, neighbours: Iterable[Neighbour[Frame]]) -> list[Neighbour[Frame]]:
        """Of whom nothing more is to be read in this round."""
        return [neighbour for neighbour in neighbours if self.is_muted(neighbour)] if self._floods else []

    def admits(self, neighbour: Neighbour[Frame], frame: Frame, size: int, *, any_round: bool) -> bool:
        """Whether a frame may be what it says; with `any_round` its round may be any, as on free clocks."""
        own = self._own
        if not any_round and frame.round > self._where.bound(own):
            self._too_far(neighbour, frame.round)
            return False
        allowance = self._allowances.get(neighbour.id)
        if allowance is not None:
            allowance.reached(max(own, self._turn if any_round else frame.round))
            if frame.round < own and not frame.greeting and not any_round:
                allowance.catches_up(frame.round, neighbour.round)
            fine = allowance.greeting() if frame.greeting else allowance.allows(size, frame.messages)
            if not fine:
                self.flooded(neighbour, size)
                return False
        if frame.round < own:
            said = self._late_bytes.get(neighbour.id, 0) + size + FRAME_OVERHEAD_BYTES
            self._late_bytes[neighbour.id] = said
            if said > MOST_LATE_BYTES:
                self.flooded(neighbour, size)
                return False
        return True

    def _too_far(self, neighbour: Neighbour[Frame], claimed: int) -> None:
        """Nobody can be there, as far as we know; but it may be us who were away, so it is held against nobody yet.

        Only who still claims it after the environment has told where the run is, twice: the first may be an old word.
        """
        self._dropped["ahead"] += 1
        news, first, last = self._claims.get(neighbour.id, (0, 0, -PATIENT_TURNS))
        if self._turn - last >= PATIENT_TURNS:
            news, first = self._where.news, self._turn
        self._claims[neighbour.id] = news, first, self._turn
        if self._where.news - news < 2 and self._turn - first < PATIENT_TURNS:
            self._where.ask = True
        elif claimed > self._where.bound(self._own) + ACCUSED_BEYOND:
            self._accusations.add(neighbour.id, Why.AHEAD, self._turn, round=self._own, claimed=claimed)

    def is_too_long(self, neighbour: Neighbour[Frame], size: int) -> bool:
        """Whether a frame of so many bytes is too much, whatever it says: it need not even be read."""
        if size <= self.usual_bytes:
            return False
        if size > self._longest:
            return True
        allowance = self._allowances.get(neighbour.id)
        return allowance is not None and not allowance.has_room(size)

    def note(self, neighbour: Neighbour[Frame], frame: Frame) -> None:
        """Keep track of what was admitted, and count what is missing before it."""
        lost = neighbour.note(frame)
        if lost > MOST_LOST:
            self._dropped["sequence"] += 1
            if frame.sequence > frame.round + MOST_LOST:  # an honest neighbour says one frame in a round
                self._accusations.add(neighbour.id, Why.WRONG, self._turn, sequence=frame.sequence, round=frame.round)
        elif lost:
            self._dropped["lost-frames"] += lost

    def wrong(self, neighbour: Neighbour[Frame], reason: str, size: int) -> None:
        """Something came that is no frame of this neighbour in this run."""
        self._dropped[reason] += 1
        self._accusations.add(neighbour.id, Why.WRONG, self._turn, bytes=size)
        allowance = self._allowances.get(neighbour.id)
        if allowance is not None and not allowance.allows(size, 0):
            self.flooded(neighbour, size)

    def babbles(self, neighbour: Neighbour[Frame]) -> None:
        """A message of several parts came, as no honest neighbour says any; who does so often is read no more."""
        self._babbled[neighbour.id] += 1
        if self._babbled[neighbour.id] >= MUTED_AFTER:
            self._floods[neighbour.id] += MUTED_AFTER
        self._accusations.add(neighbour.id, Why.WRONG, self._turn, round=self._own)

    def flooded(self, neighbour: Neighbour[Frame], size: int) -> None:
        """A frame is more than the neighbour may send; one that is longer than any can be says it all."""
        self._dropped["flood"] += 1
        self._floods[neighbour.id] += MUTED_AFTER if size > self._longest else 1
        self._accusations.add(neighbour.id, Why.FLOOD, self._turn, bytes=size, round=self._own)
