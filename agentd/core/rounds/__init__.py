"""Who is waited for: the lockstep of one agent and its neighbours, without sockets and without a clock.

Theory of operation
-------------------

In lockstep an agent begins its next trial when it holds the frame of this round of every neighbour that it waits for.
Nobody coordinates: the neighbours alone keep each other in step. What comes in here are frames, greetings, goodbyes and
subscriptions, each with the time at which it came where that matters; what comes out is which frames a round is made
of, when the waiting is over, and orders for whoever holds the sockets (`Order`). The same inputs at the same times
give the same outputs, so faults can be played through in memory.

A round goes like this:

    enter(next_round)             our frame of the round has left
    wait(now, timeout)            from here on the round waits for `waiting`; unless that is everybody:
    hear(neighbour, frame)            what came from neighbours that were given up (`down`), which may be catching up
    returned(neighbour)               ...and whether that brings one of them back
    settle(now)                       who is waited for after that
    hear(...), tick(now)          until nobody is waited for any more
    take()                        the frames that the round is made of

**Standing** (`neighbour`). A neighbour stands in exactly one relation to us (`Standing`). Before rounds begin a link
needs evidence of both directions: something that the neighbour said, and its subscription to what we say. Rounds wait
for everybody up to LIVE. Whoever does not say its frame within the time is given up (DOWN) and costs that time once.
It is waited for again after three timely frames in a row; greetings show nothing. Whoever says goodbye (LEFT) is
neither waited for nor listened to until it subscribes again.

**Held up is not gone.** An agent that waits for somebody who is gone, or for the environment, is late itself. Half-way
through its patience it tells its neighbours so, with a greeting; who was heard to be held up in this round is given
half of the time more, once. So one death costs each agent in a chain its own timeout and makes nobody else be taken for
dead.

**Late often** (`lateness`, `patience`). Whoever comes later than the others spends a budget; when that is used up,
rounds go on without it at once. Timely rounds refill it.

**Early and late.** A frame of a later round than ours is held until ours gets there, whoever it is from: what it says
has not happened yet. From a neighbour that has one held nothing more is read. A frame of an earlier round is used in
this one. What claims a round that the run cannot be in, and what is more than an honest neighbour sends, is dropped
(`intake`), counted, and held against its sender (`accusations`).

**Where to go next** (`course`, `whereabouts`). The number of the round is apart from that of the trial. Whoever may be
behind looks at all that lies ready, and goes to where most of those that it hears are; what they said of the rounds in
between counts as said late. Who claims to be ahead again and again is not followed each time (`leads`).
"""

from agentd.core.rounds.machine import Rounds
from agentd.core.rounds.neighbour import SLACK, Neighbour, Standing
from agentd.core.rounds.orders import Do, Order

__all__ = ["SLACK", "Do", "Neighbour", "Order", "Rounds", "Standing"]
