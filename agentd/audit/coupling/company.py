"""The neighbours of the agent in a world: what they say follows from the world and from what they have heard.

They tell of many origins, so that batches close after a few pulls; they relay with life left, repeat, echo the agent's
own messages (true, and under another incarnation), copy what it says under other names, say what no honest origin can,
come back as someone new, are late or silent, and subscribe again in mid-run. Part of it hangs on every byte that the
agent has published: what differs there once, differs in all that follows.
"""

from __future__ import annotations

from zlib import crc32

from agentd.audit.coupling.virtual_lines import VirtualLines
from agentd.audit.coupling.worlds import FIRST_ORIGIN, TARGET, World
from agentd.core.bodies import RELEASED, SEALED, Kind
from agentd.core.grid import UNIT
from agentd.core.message import Batch, Message, batch_of
from agentd.core.privacy.sealing import Weighting
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import GREETING, Frame
from agentd.wire.topics import FRAME_TOPIC, sync_topic

RUN = bytes(7) + b"\x01"
_FAR = 1000
"""The trial that origins pretend to be at where nobody can tell: enough for the pulls they claim."""


class Company:
    """All neighbours of one run; it outlives the lives of the agent."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance("company")
        self._weighting = Weighting.of(world.epsilon)
        self._sequence = dict.fromkeys(range(1, world.neighbours + 1), 0)
        self._records: dict[tuple[int, int], list[int]] = {}
        self._incarnation: dict[int, int] = {}
        self._said: list[tuple[Kind, Message]] = []
        self._heard = 0

    @property
    def ids(self) -> list[int]:
        return list(self._sequence)

    def greet(self, lines: VirtualLines) -> None:
        """The agent is there, or there again: hear it, and let it know."""
        for neighbour in self._sequence:
            lines.subscribe(sync_topic(neighbour))
            lines.say(neighbour, sync_topic(TARGET) + self._frame(neighbour, 0, GREETING, ()))

    def answer(self, part: bytes, lines: VirtualLines) -> None:
        """Hear what the agent published, and say something to it."""
        self._heard = crc32(part, self._heard)
        if not part.startswith(FRAME_TOPIC):
            return
        frame = decode_frame(part[len(FRAME_TOPIC) :], arms=self._world.arms)
        self._said = [(batch.kind, message) for batch in frame.batches for message in batch.messages()] or self._said
        for neighbour in self._sequence:
            if self._chance.random() < 0.05:
                lines.subscribe(sync_topic(neighbour))
            if self._chance.random() < 0.97:
                batches = tuple(self._batches(neighbour, frame.round))
                data = self._frame(neighbour, frame.round, 0, batches)
                for _ in range(1 + (self._chance.random() < 0.03)):
                    lines.say(neighbour, FRAME_TOPIC + data)

    def _frame(self, neighbour: int, round_: int, flags: int, batches: tuple[Batch, ...]) -> bytes:
        if not flags:
            self._sequence[neighbour] += 1
        return encode_frame(
            Frame(RUN, neighbour, 0, self._sequence[neighbour], round_, flags, batches, self._world.arms)
        )

    def _batches(self, neighbour: int, round_: int) -> list[Batch]:
        """What a neighbour says in a round, one batch per kind."""
        said: dict[Kind, list[Message]] = {}
        for kind, message in (*self._own_words(neighbour, round_), *self._relayed(round_)):
            said.setdefault(kind, []).append(message)
        return [batch_of(kind, messages) for kind, messages in said.items()]

    def _own_words(self, neighbour: int, round_: int) -> list[tuple[Kind, Message]]:
        kind, gamma = self._world.kind, self._world.gamma
        if kind is None or not round_:
            return []
        body = self._body(kind, neighbour, round_)
        return [] if body is None else [(kind, Message(neighbour, round_, gamma, body, gamma))]

    def _relayed(self, round_: int) -> list[tuple[Kind, Message]]:
        world, chance = self._world, self._chance
        kind = world.kind
        if world.gamma < 2 or kind is None:
            return []
        begins = round_ <= 2
        first = FIRST_ORIGIN
        origins = (
            range(first, first + world.origins) if begins else chance.sample(range(first, first + world.origins), 2)
        )
        said = [heard for origin in origins if (heard := self._of(kind, origin, round_, hello=begins)) is not None]
        if self._said and chance.random() < 0.5:
            said.append(self._echo())
        if self._heard % 3 == 0 and not begins:  # hangs on every byte so far
            again = self._of(kind, first + self._heard % world.origins, round_, hello=False)
            said += [again] if again is not None else []
        return said

    def _of(self, kind: Kind, origin: int, round_: int, *, hello: bool) -> tuple[Kind, Message] | None:
        """What some origin is said to have said, with some life left or none."""
        world, chance = self._world, self._chance
        life = chance.randint(1, world.gamma - 1)
        trial = max(1, round_ - (world.gamma - life)) if world.lockstep else round_ + _FAR
        if chance.random() < 0.02:
            self._incarnation[origin] = trial - 1
            for arm in range(world.arms):
                self._records.pop((origin, arm), None)
        body = (0,) * 5 if kind is SEALED and hello else self._body(kind, origin, trial)
        if body is None:
            return None
        return kind, Message(origin, trial, life, body, world.gamma, self._incarnation.get(origin, 0))

    def _body(self, kind: Kind, origin: int, trial: int) -> tuple[int, ...] | None:
        """A body that an origin could say; of a kind that is not ours, what the agent itself said."""
        if kind is SEALED:
            return self._record(origin, trial)
        if kind is RELEASED:
            paid = self._chance.randint(0, UNIT)
            return (1, 1, paid) * self._world.arms if trial >= self._world.arms else None
        own = [message.body for said, message in self._said if said is kind and message.origin == TARGET]
        return own[-1] if own else None

    def _record(self, origin: int, trial: int) -> tuple[int, ...]:
        """The origin's record of some arm, with one more batch where its trials allow that; now and then nonsense."""
        chance = self._chance
        arm, pulls = chance.randrange(self._world.arms), chance.randint(1, 4)
        record = self._records.setdefault((origin, arm), [0, 0, 0, 0])
        told = sum(self._records.get((origin, each), (0,))[0] for each in range(self._world.arms))
        if told + pulls <= trial:
            record[0] += pulls
            record[1] += 1
            record[2] += self._weighting.samples(pulls)
            record[3] += self._weighting.weighed(pulls, chance.randint(-UNIT, (pulls + 1) * UNIT))
        if chance.random() < 0.03:
            return (arm, record[0], record[1], record[2], record[3] + 1000 * UNIT)
        return (arm, *record) if record[0] else (0,) * 5

    def _echo(self) -> tuple[Kind, Message]:
        """Something that the agent said or relayed, as it comes back; or as somebody forged it."""
        kind, message = self._chance.choice(self._said)
        life = self._chance.randint(1, self._world.gamma - 1)
        forged = self._chance.random() < 0.2
        incarnation = max(0, message.trial - 1) if forged else message.incarnation
        return kind, message._replace(life=life, lifetime=self._world.gamma, incarnation=incarnation)
