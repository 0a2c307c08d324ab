"""Who is waited for: the machine that puts the other modules together; `core.rounds` tells how it works."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from agentd.core.rounds.accusations import Accusation, Accusations
from agentd.core.rounds.contacts import Contacts
from agentd.core.rounds.course import Course
from agentd.core.rounds.intake import Intake
from agentd.core.rounds.neighbour import SLACK, Frame, Neighbour, Standing
from agentd.core.rounds.orders import Do, Order
from agentd.core.rounds.patience import Patience
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.quota import Quota

ASK_EVERY_S = 0.5
"""How often who misses somebody asks where the run is."""

_LIVE, _DOWN = Standing.LIVE, Standing.DOWN
"""Looked up once: a member of an enumeration costs as much as a comparison, and rounds compare all the time."""


class Rounds(Course[Frame]):
    """The rounds of one agent; `dropped` counts what was lost or refused, by reason."""

    def __init__(self, neighbours: Iterable[int], *, now_s: float, dropped: Counter[str] | None = None) -> None:
        self._patience: Patience[Frame] = Patience()
        self._lateness = self._patience.lateness
        super().__init__([Neighbour(number, now_s) for number in neighbours], self._lateness)
        self.dropped: Counter[str] = Counter() if dropped is None else dropped
        self._by_id = {neighbour.id: neighbour for neighbour in self.everybody}
        self._accusations = Accusations()
        self._intake: Intake[Frame] = Intake(self.where, self._accusations, self.dropped)
        self._contacts: Contacts[Frame] = Contacts(self._by_id, now_s, self.dropped)
        self._deadline_s = self._last_deadline_s = self._tell_at_s = math.inf
        self._told_s = self._asked_s = self._done_s = now_s
        self._frames: list[Frame] = []
        self._arrived: set[Neighbour[Frame]] = set()
        """Whose part of this round is complete."""
        self._held_up: set[Neighbour[Frame]] = set()
        """Who said in this round that it is held up itself."""
        self.orders: list[Order] = []
        """What is to be done; mostly nothing."""
        self.waiting: Sequence[Neighbour[Frame]] = ()
        """Who is waited for now."""

    def __getitem__(self, number: int) -> Neighbour[Frame]:
        return self._by_id[number]

    def agree(self, quota: Quota, horizon: int) -> None:
        """Go by the terms of the run: how much a neighbour may send, and how far rounds can be."""
        self.where.horizon = horizon
        self._intake.agree(quota, list(self._by_id))

    @property
    def blames(self) -> tuple[Blame, ...]:
        """What is held against neighbours."""
        return self._accusations.blames

    @property
    def down(self) -> list[Neighbour[Frame]]:
        """Whom rounds do not wait for, though they did not say goodbye."""
        return [n for n in self.everybody if n.standing is _DOWN]

    @property
    def missing(self) -> list[Neighbour[Frame]]:
        """Before rounds begin: who was not heard yet, or does not hear us yet."""
        return [n for n in self.everybody if n.standing < _LIVE]

    def take_orders(self) -> list[Order]:
        """What is to be done since the last call."""
        orders, self.orders = self.orders, []
        return orders

    def take_accusations(self) -> list[Accusation]:
        """What people are to be told since the last call."""
        return self._accusations.take()

    def begin_without(self, missing: Iterable[Neighbour[Frame]]) -> None:
        """Do not wait for these: they were not there when rounds began."""
        for neighbour in missing:
            neighbour.standing = _DOWN
            neighbour.is_missed = True

    def subscription(self, number: int, *, joined: bool, now_s: float) -> None:
        """Somebody began or ceased to hear us; who begins is greeted, so that both know that they hear each other."""
        self._level = False
        self.orders += self._contacts.subscription(number, joined=joined, now_s=now_s, turn=self._turn)

    @property
    def owes_greetings(self) -> bool:
        """Whether subscriptions that came too soon after others are still to be answered."""
        return bool(self._contacts.owed)

    def greet_owed(self, now_s: float) -> None:
        """Answer these, when it is time."""
        self.orders += self._contacts.greet(now_s)

    def enter(self, round_: int) -> None:
        """Our frame of this round leaves."""
        if round_ > self.round + 1:
            self._jump(round_)
        self.round = round_
        self._turn += 1
        self._aligns = self._level = False
        self._intake.enter(round_, self._turn)
        if self._arrived:
            self._arrived = set()
        if self._held_up:
            self._held_up = set()

    def _jump(self, round_: int) -> None:
        """We go to where the run is; who is known to be far behind has to come by itself, as we did.

        It may be the one that held us up until the others went on without us: then it does not come.
        """
        self.were_away()
        for neighbour in self.everybody:
            if neighbour.standing <= _LIVE and 0 < neighbour.round < round_ - SLACK // 2:
                neighbour.standing = _DOWN
                self._patience.left_behind(neighbour, self._done_s, self._turn)

    def hear(
        self, neighbour: Neighbour[Frame], frame: Frame, size: int, *, hold: bool = True, newest: bool = False
    ) -> bool:
        """Take in one frame of so many bytes; whether the neighbour just goes on as before, as it nearly always does.

        `hold` keeps a frame of a later round for that round; `newest` keeps it instead of the one that was kept.
        """
        self._level = False
        if frame.round == self.round and neighbour.goes_on_with(frame) and size <= self._intake.usual_bytes:
            neighbour.sequence = frame.sequence
            if neighbour.round < frame.round:  # noqa: PLR1730 - max() costs more than the rest
                neighbour.round = frame.round
            self._frames.append(frame)
            self._arrived.add(neighbour)
            return True
        beyond = frame.round > self.round and self.where.is_beyond_all(frame.round, self.round)
        if not self._intake.admits(neighbour, frame, size, any_round=not hold or beyond):
            self._refused(neighbour, frame.round if not frame.greeting else 0)
            return False
        if beyond:  # it makes up for what it missed, as we do or will: what it says counts, and its rounds are its own
            self._arrived.add(neighbour)
            self._frames += [] if frame.greeting else [frame]
            return False
        self._intake.note(neighbour, frame)
        self._tell_people(neighbour)
        if frame.greeting:
            self._held_up.add(neighbour)
            if neighbour.standing is _DOWN:
                self._patience.greets(neighbour, self._turn)
            return False
        neighbour.says(frame.round, self._turn)
        if frame.round > self.round and hold and (neighbour.held is None or newest):
            if neighbour.held is not None:
                self._frames.append(neighbour.held)
            neighbour.held = frame
            self._arrived.add(neighbour)
        else:
            self._frames.append(frame)
            if frame.round >= self.round:
                self._arrived.add(neighbour)
        return False

    def _refused(self, neighbour: Neighbour[Frame], claimed: int) -> None:
        """Nothing of it counts. Who claims our round or a later one says no other frame of it: do not wait for it."""
        self._tell_people(neighbour)
        if claimed >= self.round or self._intake.is_muted(neighbour):
            self._arrived.add(neighbour)

    def _tell_people(self, neighbour: Neighbour[Frame]) -> None:
        accuse = Order(Do.ACCUSE, neighbour.id)
        if self._accusations.has_news and accuse not in self.orders:
            self.orders.append(accuse)

    def greeted(self, neighbour: Neighbour[Frame], frame: Frame) -> None:
        """A greeting came before our rounds began."""
        self._level = False
        if self._intake.admits(neighbour, frame, 0, any_round=False):
            self._intake.note(neighbour, frame)
        else:
            neighbour.speaks()
            self._refused(neighbour, 0)

    def wrong(self, neighbour: Neighbour[Frame], reason: str, size: int) -> None:
        """Something came from a neighbour that is no frame of its own in this run."""
        self._intake.wrong(neighbour, reason, size)
        self._refused(neighbour, 0)

    def babbles(self, neighbour: Neighbour[Frame]) -> None:
        """A message of several parts came from a neighbour, and its line begins anew."""
        self._intake.babbles(neighbour)
        self._refused(neighbour, 0)

    def refuses_unread(self, neighbour: Neighbour[Frame], size: int) -> bool:
        """Whether something of so many bytes is too much, whatever it says; it is counted then."""
        if not self._intake.is_too_long(neighbour, size):
            return False
        self._intake.flooded(neighbour, size)
        self._refused(neighbour, self.round)
        return True

    def is_muted(self, neighbour: Neighbour[Frame]) -> bool:
        """Whether nothing more is to be read of it in this round."""
        return self._intake.is_muted(neighbour)

    def shun_floods(self, now_s: float) -> None:
        """Disconnect from those that send without end."""
        for neighbour in self._intake.muted(self.everybody):
            if now_s >= neighbour.shunned_until_s:
                self._shun(neighbour, now_s)

    def _shun(self, neighbour: Neighbour[Frame], now_s: float) -> None:
        self._level = False
        self.orders += self._contacts.shun(neighbour, now_s)

    def cut(self, number: int, now_s: float) -> None:
        """Disconnect from a neighbour that has handed over what no honest one can; each time for longer."""
        neighbour = self._by_id.get(number)
        if neighbour is None or now_s < neighbour.shunned_until_s:
            return
        self._accusations.add(number, Why.FORGED, self._turn, round=self.round)
        self._tell_people(neighbour)
        self._shun(neighbour, now_s)

    def all_go_on(self, now_s: float) -> None:
        """Every neighbour said just what was expected of it, in this round; nobody is waited for any more."""
        round_, level = self.round, True
        for neighbour in self.everybody:
            neighbour.sequence += 1
            if neighbour.round <= round_:
                neighbour.round = round_
            else:
                level = False
        self._level = level
        if self._lateness.looks:
            self._patience.close(now_s)
        self.waiting = ()
        self._done_s = now_s

    def returned(self, neighbour: Neighbour[Frame], now_s: float) -> None:
        """Something came from a neighbour that was down: wait for it again after some timely frames in a row."""
        if self._patience.is_back(neighbour, self.round, self._turn):
            neighbour.timely = 0
            neighbour.standing = _LIVE
            self._patience.is_excused(neighbour, now_s)
            if neighbour.is_missed:
                neighbour.is_missed = False
                self.orders.append(Order(Do.WELCOME, neighbour.id))

    @property
    def looks(self) -> bool:
        """Whether it matters in this round when exactly each neighbour's frame comes (`came`)."""
        return self._lateness.looks

    def look_closely(self, now_s: float) -> None:
        """A slice of time is over: if the round takes long, from now on it matters who comes when."""
        if self._lateness.takes_long(now_s):
            self._lateness.look_closely()

    def came(self, neighbour: Neighbour[Frame], now_s: float) -> None:
        """Something came just now from a neighbour that is waited for."""
        self._patience.came(neighbour, now_s)

    def forgive(self, seconds: float) -> None:
        """For so long we ourselves did not run: nobody is late for that."""
        self._deadline_s += seconds
        self._last_deadline_s += seconds
        self._tell_at_s += seconds
        self._lateness.forgive(seconds)

    def allow_for(self, seconds: float) -> None:
        """So far apart neighbours may come in time, as others keep us and them: nobody is late for that."""
        self._lateness.least_s = seconds

    def wait(self, now_s: float, timeout_s: float) -> bool:
        """From now on the round waits; whether it waits for everybody, as it nearly always does.

        If not, `settle` follows, after what lies ready of those that are down was heard.
        """
        if now_s - self._lateness.began_s > timeout_s > 0:
            self.were_away()  # since the last round: nobody waits for that long
        self._lateness.begin(now_s, timeout_s)
        self._deadline_s = now_s + timeout_s
        self._last_deadline_s = self._deadline_s + timeout_s / 2
        self._tell_at_s = self._deadline_s - timeout_s / 2
        self.waiting = [n for n in self.everybody if n.standing <= _LIVE and n.held is None]
        self._patience.expect(len(self.waiting))
        return len(self.waiting) == len(self.everybody) and not self._arrived and not self._frames

    def settle(self, now_s: float) -> None:
        """Wait for those that have not said all of this round yet; deliver what is held for it."""
        self.waiting = [n for n in self.everybody if not self._has_arrived(n) and n.is_waited_for]
        expected = sum([n.standing <= _LIVE for n in self.everybody])
        self._patience.expect(expected, expected - len(self.waiting))
        if down := self.down:
            self._mind(down, now_s)

    def _has_arrived(self, neighbour: Neighbour[Frame]) -> bool:
        """Whether the neighbour is past this round already; what is held of it is delivered when its round is here."""
        held = neighbour.held
        if neighbour in self._arrived or held is None:
            return neighbour in self._arrived
        if held.round > self.round:
            return True
        neighbour.held = None
        self._frames.append(held)
        return held.round == self.round

    def _mind(self, down: Sequence[Neighbour[Frame]], now_s: float) -> None:
        """Look for those that are down, name those that are too late, and see that we are not far from everybody."""
        self.orders += self._contacts.look_for(down, now_s, self._turn)
        self._align(down)
        for neighbour in [n for n in down if not n.is_missed and self._patience.is_gone(n, now_s)]:
            neighbour.is_missed = True
            self.orders.append(Order(Do.GIVE_UP, neighbour.id))
        for neighbour, suspect in self._patience.convicted(down, now_s):
            seconds = {"late_s": suspect.late_s, "away_s": suspect.away_s, "natural_s": self._lateness.natural_s}
            figures = {name: round(value, 4) for name, value in seconds.items()}
            self._accusations.add(neighbour.id, Why.SLOW, self._turn, times=suspect.times, round=self.round, **figures)
            if self._accusations.has_news:
                neighbour.is_missed = True
                self.orders.append(Order(Do.ACCUSE, neighbour.id))
        if self.round > self.where.run_round + SLACK // 2 or now_s > self._asked_s + ASK_EVERY_S:
            self._asked_s = now_s
            self.where.ask = True  # parts of a network that do not hear each other stay together by this word alone

    @property
    def next_s(self) -> float:
        """When to tick, if nothing comes before."""
        return self.next_s_for(self.waiting)

    def next_s_for(self, missing: Sequence[Neighbour[Frame]]) -> float:
        """The same if nothing is missing any more but what these say."""
        if not missing:
            return math.inf
        next_s = min(self._deadline_s, self._tell_at_s)
        return min(next_s, self._patience.ends_s(missing)) if self._lateness.looks else next_s

    def tick(self, now_s: float) -> Sequence[Neighbour[Frame]]:
        """Let time pass: give up who is late, unless it is held up itself; returns who is still waited for."""
        self.shun_floods(now_s)
        waiting = [n for n in self.waiting if n not in self._arrived and n.standing <= _LIVE]
        if self._lateness.looks:
            self._patience.arrived([n for n in self.waiting if n in self._arrived], now_s)
            waiting = self._without_the_slow(waiting, now_s)
        if waiting:
            self.tell_of_delay(now_s)
        if now_s >= self._deadline_s:
            held_up: list[Neighbour[Frame]] = []
            if self._deadline_s < self._last_deadline_s:
                held_up = [n for n in waiting if n in self._held_up]
            self._give_up([n for n in waiting if n not in held_up], now_s)
            waiting, self._deadline_s = held_up, self._last_deadline_s
        self.waiting = waiting
        return waiting

    def _without_the_slow(self, waiting: list[Neighbour[Frame]], now_s: float) -> list[Neighbour[Frame]]:
        """Who is left when rounds go on without those whose budget is used up."""
        slow = self._patience.too_late(waiting, now_s) if waiting else []
        for neighbour in slow:
            neighbour.standing = _DOWN
            self.dropped["slow"] += 1
            self._patience.suspect(neighbour, now_s, self._turn)
            self._accusations.goes_on(neighbour.id, Why.SLOW, self._turn)
        self._patience.given_up(slow, now_s)
        return [n for n in waiting if n.standing is not _DOWN] if slow else waiting

    def _give_up(self, missing: Sequence[Neighbour[Frame]], now_s: float) -> None:
        for neighbour in missing:
            neighbour.standing = _DOWN
            neighbour.is_missed = True
            neighbour.heard_turn = 0  # what it says from now on is news
            self.dropped["missed-rounds"] += 1
            self.orders.append(Order(Do.GIVE_UP, neighbour.id))
        self._patience.given_up(missing, now_s)

    def tell_of_delay(self, now_s: float) -> None:
        """Let the neighbours know, once in a round that takes long, that we are held up and not gone."""
        if now_s >= self._tell_at_s:
            self._tell_at_s = math.inf
            self._tell(now_s)

    def tell_of_silence(self, now_s: float, every_s: float) -> None:
        """The same while it is the environment that keeps us waiting, before our frame of the round has left.

        Not before it has done so for that long: on a machine full of agents every answer takes a while, and a greeting
        among the frames of a round makes all of them dearer to read.
        """
        if now_s >= max(self._told_s, self._done_s) + every_s:
            self._tell(now_s)

    def _tell(self, now_s: float) -> None:
        self._told_s = now_s
        self.orders += [Order(Do.GREET, neighbour.id) for neighbour in self.everybody]

    def take(self, now_s: float) -> list[Frame]:
        """The frames that this round is made of."""
        if self._lateness.looks:
            self._patience.close(now_s)
        frames, self._frames = self._frames, []
        self.waiting = ()
        self._done_s = now_s
        return frames

    def listened(self, neighbour: Neighbour[Frame], *, heard: bool, now_s: float, usual_s: float = 0.0) -> None:
        """For agents on their own clock, which wait for nobody: whether something came from a neighbour just now."""
        self.orders += self._contacts.listened(neighbour, heard=heard, now_s=now_s, usual_s=usual_s)
