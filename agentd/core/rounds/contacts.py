"""Who hears us, and when to connect anew to whom we do not hear.

Anybody can subscribe in a neighbour's name: so subscriptions are answered with measure, and never cut a connection over
which something comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Generic

from agentd.core.rounds.neighbour import Frame, Neighbour, Standing
from agentd.core.rounds.orders import Do, Order

KICK_AFTER_S = 1.0
"""By then a socket has backed off from a neighbour that was not there when we started."""
RECONNECT_EVERY_S = 2.0
"""How often neighbours that are down are connected to anew; each time their address is looked up again."""
GREET_EVERY_S = 0.1
GREET_AT_ONCE = 4
"""How often the subscriptions of one neighbour are answered at most, and how many of them without a pause."""
SHUN_S = 10.0
MOST_SHUN_S = 600.0
"""How long who sends without end is not connected to: at first, and after it was doubled again and again."""
DEAF_AFTER_S = 10.0
"""How long a neighbour may say nothing, where nobody waits for it, before it is connected to anew."""

GONE_PAUSES = 3.0
"""So many of its usual pauses long a neighbour may be silent there before it counts as gone."""


class Contacts(Generic[Frame]):
    """The subscriptions of the neighbours, and the connections to them."""

    def __init__(self, neighbours: Mapping[int, Neighbour[Frame]], now_s: float, dropped: Counter[str]) -> None:
        self._neighbours = neighbours
        self._opened_s = self._tried_again_s = now_s
        self._dropped = dropped
        self.owed: set[int] = set()
        """Whose subscription is to be answered when it is time."""

    def subscription(self, number: int, *, joined: bool, now_s: float, turn: int) -> list[Order]:
        """Somebody began or ceased to hear us; who begins is greeted, so that both know that they hear each other."""
        neighbour = self._neighbours.get(number)
        if neighbour is None:
            if joined:
                self._dropped["stranger"] += 1
            return []
        if not joined:
            neighbour.parts()
            return []
        before = neighbour.standing
        neighbour.joins()
        self.owed.add(number)
        orders = self.greet(now_s)
        # It is there: do not wait until the socket tries again by itself. Once where it was never heard, for the
        # neighbour answers by looking for us, and so on.
        late = before is Standing.UNKNOWN and now_s >= self._opened_s + KICK_AFTER_S
        lost = neighbour.standing is Standing.DOWN and not neighbour.is_heard(turn)
        free_s = max(neighbour.reconnected_s + RECONNECT_EVERY_S, neighbour.shunned_until_s)
        if (late or lost) and now_s >= free_s:
            neighbour.reconnected_s = now_s
            orders.append(Order(Do.RECONNECT_UNLESS_HEARD, number))
        return orders

    def greet(self, now_s: float) -> list[Order]:
        """Answer subscriptions, where the last answer is long enough ago."""
        due = [number for number in self.owed if now_s >= self._neighbours[number].greet_at_s]
        for number in due:
            self.owed.discard(number)
            neighbour = self._neighbours[number]
            earliest_s = now_s - (GREET_AT_ONCE - 1) * GREET_EVERY_S
            neighbour.greet_at_s = max(neighbour.greet_at_s, earliest_s) + GREET_EVERY_S
        return [Order(Do.GREET, number) for number in due]

    def look_for(self, down: Iterable[Neighbour[Frame]], now_s: float, turn: int) -> list[Order]:
        """Connect anew to those that are down, now and then; who is heard has a connection."""
        if now_s <= self._tried_again_s + RECONNECT_EVERY_S:
            return []
        self._tried_again_s = now_s
        there = [n for n in down if not n.is_heard(turn) and now_s >= n.shunned_until_s]
        return [Order(Do.RECONNECT, neighbour.id) for neighbour in there]

    def shun(self, neighbour: Neighbour[Frame], now_s: float) -> list[Order]:
        """Have nothing to do with a neighbour that sends without end, each time for longer."""
        neighbour.standing, neighbour.is_missed = Standing.DOWN, True
        neighbour.shunned_until_s = now_s + min(SHUN_S * 2**neighbour.shunned, MOST_SHUN_S)
        neighbour.shunned = min(neighbour.shunned + 1, 16)
        return [Order(Do.SHUN, neighbour.id)]

    def listened(self, neighbour: Neighbour[Frame], *, heard: bool, now_s: float, usual_s: float = 0.0) -> list[Order]:
        """For agents on their own clock, which wait for nobody: whether something came from a neighbour just now.

        Who is silent for long is connected to anew: it may be slow, or the connection may be dead. People are told once
        that it is gone, if it is silent for longer than it ever was, or than we are ourselves (`usual_s`), and once
        that it is back.
        """
        if neighbour.standing is Standing.LEFT:
            return []
        if heard:
            return self._hears_again(neighbour, now_s)
        orders = []
        gone_s = max(DEAF_AFTER_S, GONE_PAUSES * max(usual_s, neighbour.pause_s))
        if not neighbour.is_missed and now_s > neighbour.heard_s + gone_s:
            neighbour.standing, neighbour.is_missed = Standing.DOWN, True
            orders.append(Order(Do.GIVE_UP, neighbour.id))
        if now_s > max(neighbour.quiet_since_s + DEAF_AFTER_S, neighbour.shunned_until_s):
            neighbour.quiet_since_s = now_s
            orders.append(Order(Do.RECONNECT, neighbour.id))
        return orders

    def _hears_again(self, neighbour: Neighbour[Frame], now_s: float) -> list[Order]:
        back = neighbour.is_missed
        if not back:  # of the first time it is not known for how long it had been there
            neighbour.pause_s = max(neighbour.pause_s, now_s - neighbour.heard_s) if neighbour.pause_s >= 0.0 else 0.0
        neighbour.quiet_since_s = neighbour.heard_s = now_s
        neighbour.standing, neighbour.is_missed = Standing.LIVE, False
        return [Order(Do.WELCOME, neighbour.id)] if back else []
