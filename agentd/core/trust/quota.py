"""How much an honest neighbour can send under the terms of a run; what is beyond is a flood.

In each round an honest agent sends one frame: a message or two of its own, and each message of others that was new to
it; and again, later, where a copy of it came with more life. So in the long run it sends about one message per origin
and round, and how much more depends on how disordered the network is. `COPIES` leaves room for that:
tests/simulate/test_quota_under_faults.py shows how much.

Now and then it sends much at once. Who was stopped for a while finds many rounds of frames waiting and passes on what
is new in them: at most the last `BURST_ROUNDS` trials of each origin, because gossip remembers no more, and no more
than its queue of relays holds. So what is allowed is a bucket that holds this much, and each round adds to it.

A round counts when anybody whom we believe reaches it first: we ourselves, or the neighbour with a frame that is not
too far ahead. Otherwise an agent that was stopped itself would take the frames that waited for it for a flood. Each
round is credited once, so whoever claims to be ahead is only paid in advance.

A cut is another matter: what a neighbour said meanwhile lies in the buffers of a connection, and comes at once when the
cut heals: a frame of each round, some thousands of them. So what a full bucket could not take is not lost: each frame
of a round later than any before, and no later than those that were credited, may have one round's worth of it. That is
never more than the neighbour might have sent in all those rounds anyway, and `MOST_OWED_ROUNDS` bounds how much it is.

How rounds use it, one `Allowance` per neighbour:

    allowance.reached(round_)               ours, or the frame's where it is plausible; cheap, and may repeat
    allowance.catches_up(round, before)     for each frame that is no greeting, before the next
    allowance.allows(len(data), messages)   for each frame; False: drop it (`flood`)
    allowance.greeting()                    for each greeting; False: drop it

All are whole numbers, and nothing is made per frame.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentd.core.bodies import KINDS, Kind
from agentd.core.gossip import MAX_QUEUED, WINDOW
from agentd.core.message import HEAD, SIGNATURE_BYTES
from agentd.core.origins import MAX_ORIGINS
from agentd.core.terms import Clock, Terms

COPIES = 4
"""How often an honest agent may pass on a message, on the average; never more often than its lifetime."""
OWN_MESSAGES = 8
"""Messages of its own in a round; an agent that comes back says two."""
BURST_ROUNDS = WINDOW
"""How many rounds' worth may come at once."""
MOST_OWED_ROUNDS = 8192
"""So many rounds' frames may wait in the buffers of a connection; the kernel's hold a few megabytes."""
FRAMES = 4
"""Frames in a round, the empty ones too: one, and what else may have to be said again."""
FRAME_BYTES = 1024
"""What a frame costs beside its messages, for its header and for the time it takes."""
FASTER = 16
"""On free clocks a round is a pull of ours, and neighbours may pull so much more often; no more is read then."""
GREETINGS = 4
GREETINGS_BURST = 256
"""Who is held up for a minute because the environment is away greets every half round timeout; none is for nothing."""

_HEAD_BYTES = sum(int(field.type[1:]) for field in HEAD)


@dataclass(frozen=True, slots=True)
class Quota:
    """What one neighbour may send; the same for all neighbours of a run."""

    messages: int
    """That each round adds."""
    bytes: int
    most_messages: int
    """At once."""
    most_bytes: int
    longest_frame: int = 4 << 20
    """Bytes of one frame."""

    @classmethod
    def under(cls, terms: Terms) -> Quota:
        """What follows from who takes part, how far messages travel and how long they are."""
        origins = terms.agents if terms.closed else MAX_ORIGINS
        copies = COPIES if terms.lifetime is None else min(terms.lifetime, COPIES)
        often = FASTER if terms.clock is Clock.FREE else 1
        messages = often * (origins * copies + OWN_MESSAGES)
        most = messages + min(BURST_ROUNDS * origins, MAX_QUEUED)
        longest = longest_message(terms)
        frames = often * FRAMES * FRAME_BYTES
        return cls(
            messages,
            messages * longest + frames,
            most,
            most * longest + BURST_ROUNDS * frames,
            most * longest + FRAME_BYTES,
        )


class Allowance:
    """What is left to one neighbour."""

    __slots__ = ("_bytes", "_greetings", "_messages", "_owed", "_quota", "_round")

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._round = 0
        self._messages = quota.most_messages
        self._bytes = quota.most_bytes
        self._greetings = GREETINGS_BURST
        self._owed = 0
        """Rounds that passed while the bucket was full."""

    def reached(self, round_: int) -> None:
        """Somebody got to this round; each one is credited once."""
        passed = round_ - self._round
        if passed <= 0:
            return
        self._round = round_
        quota = self._quota
        messages, size = quota.most_messages - self._messages, quota.most_bytes - self._bytes
        fill = max(-(-messages // quota.messages), -(-size // quota.bytes))
        if passed > fill:
            self._owed = min(self._owed + passed - fill, MOST_OWED_ROUNDS)
        self._messages = min(self._messages + passed * quota.messages, quota.most_messages)
        self._bytes = min(self._bytes + passed * quota.bytes, quota.most_bytes)
        self._greetings = min(self._greetings + passed * GREETINGS, GREETINGS_BURST)

    def catches_up(self, round_: int, before: int) -> None:
        """A frame of this round is here, and the latest before was of that one: a later one may have what is owed.

        Nothing is owed for rounds of which frames came, whatever they cost.
        """
        self._owed = max(0, min(self._owed, self._round - before))
        if self._owed and before < round_ <= self._round:
            self._owed -= 1
            self._messages = min(self._messages + self._quota.messages, self._quota.most_messages)
            self._bytes = min(self._bytes + self._quota.bytes, self._quota.most_bytes)

    def next_round(self) -> None:
        """One more round, for whoever does not number them."""
        self.reached(self._round + 1)

    def allows(self, size: int, messages: int) -> bool:
        """Whether an honest neighbour can have sent this frame of so many bytes and messages, too; if so it is paid.

        What is refused costs nothing, so that a flood does not use up what the neighbour may say afterwards.
        """
        size += FRAME_BYTES
        if messages > self._messages or size > self._bytes:
            return False
        self._messages -= messages
        self._bytes -= size
        return True

    def has_room(self, size: int) -> bool:
        """Whether a frame of so many bytes could be one of an honest neighbour; nothing is paid."""
        return size + FRAME_BYTES <= self._bytes

    def greeting(self) -> bool:
        """Whether one more greeting can be an honest one."""
        if not self._greetings:
            return False
        self._greetings -= 1
        return True


def longest_message(terms: Terms) -> int:
    """Bytes of the longest message that anybody sends under these terms, signed."""
    tags = {policy.tag for policy in terms.policies}
    if not tags or not tags <= {0, *KINDS}:
        tags = {*KINDS}
    lengths = [body_bytes(KINDS[tag], terms.arms) + KINDS[tag].signature_bytes for tag in tags if tag]
    return _HEAD_BYTES + max(lengths, default=SIGNATURE_BYTES)


def body_bytes(kind: Kind, arms: int) -> int:
    """Bytes of one body, as its fields say."""
    cell = sum(int(field.type[1:]) for field in kind.fields)
    return cell * arms if kind.per_arm else cell
