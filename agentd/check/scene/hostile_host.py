"""An attacker that is a host by itself: what it says leaves in bundles, in its own name and in another's.

It stands between the attacker and the lines, and is to each what it expects of the other.
"""

from __future__ import annotations

from agentd.check.scene.hostile import Hostile
from agentd.check.scene.lines import Wires
from agentd.check.world import World
from agentd.errors import PeerError
from agentd.wire.bundle import Bundle, decode_bundle, encode_bundle
from agentd.wire.topics import FRAME_TOPIC


class HostileHost(Wires):
    """The lines as one attacker sees them, and the end of them as the hosts see it."""

    def __init__(self, world: World, wires: Wires, number: int) -> None:
        super().__init__(wires.timeline, wires.chance, wires.latency_s, wires.jitter_s)
        self.own = number
        self.is_up = True
        self.hostile: Hostile
        self._world, self._wires = world, wires
        self._sequence = 0
        self._said: dict[int, bytes] = {}
        self._wanted: set[int] = set()

    def start(self) -> None:
        """Listen to all hosts."""
        self._wires.ends[self.own] = self
        for host in range(len(self._world.hosts)):
            if host != self.own:
                self._wires.listen(self, host)

    def hears(self, sender: int, part: bytes) -> None:
        """A bundle of another host."""
        try:
            bundle = decode_bundle(part, self.own)
        except PeerError:
            return
        for listener, speaker, joined in bundle.ears:
            if speaker == self.hostile.own:
                self.hostile.sees(listener, joined)
        for speaker, said in bundle.said:
            if speaker in self._wanted and self._world.host_of(speaker) == sender:
                self.hostile.hears(speaker, said)

    def sees(self, subscriber: int, joined: bool) -> None:
        """Another host listens: tell it whom we listen to."""
        wanted = sorted(speaker for speaker in self._wanted if self._world.host_of(speaker) == subscriber)
        if joined:
            self._send(subscriber, Bundle(self._sequence, [(self.hostile.own, each, True) for each in wanted], []))

    def wants(self, speaker: int) -> bool:
        """It hears everybody."""
        return speaker != self.own

    def say(self, sender: int, receiver: int, part: bytes) -> None:
        """A bundle goes to all of a host who listen; once more in the name of somebody who is elsewhere."""
        host = self._world.host_of(receiver)
        if part.startswith(FRAME_TOPIC) and self._said.get(host) is part:
            return
        self._said[host] = part
        names = [each for each in self._world.neighbours(receiver) if self._world.host_of(each) != self.own]
        self._send(host, Bundle(self._sequence, [], [(name, part) for name in (sender, *names[:1])]))

    def listen(self, listener: object, speaker: int, after_s: float = 0.0) -> None:  # noqa: ARG002
        """Have the host of a victim know that we listen."""
        self._wanted.add(speaker)
        self._tell(speaker, True)

    def hang_up(self, listener: int, speaker: int) -> None:  # noqa: ARG002
        """Listen no more."""
        self._wanted.discard(speaker)
        self._tell(speaker, False)

    def pretend(self, listener: int, speaker: int) -> None:
        """Say so in a bundle."""
        self._tell(speaker, True, listener)

    def _tell(self, speaker: int, joined: bool, listener: int | None = None) -> None:
        ears = [(self.hostile.own if listener is None else listener, speaker, joined)]
        self._send(self._world.host_of(speaker), Bundle(self._sequence, ears, []))

    def _send(self, host: int, bundle: Bundle) -> None:
        self._sequence += 1
        self._wires.say(self.own, host, encode_bundle(host, bundle))
