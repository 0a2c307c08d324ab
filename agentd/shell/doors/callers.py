"""Whose connections an XPUB has, by their keys: what each may subscribe, and who is sent away.

Subscriptions carry the name that their connection was given when it was let in. One to `sync/<id>/` is only for agent
<id>: it would hear what that one is greeted with, and seem to be there in its place.
"""

from __future__ import annotations

from collections import Counter

import zmq

from agentd.shell.doors.keyring import Keyring, descriptor_of, hang_up, name_of
from agentd.wire.topics import SYNC_PREFIX, sync_topic

WRONG_KEY = "key"
"""The reason under which it is counted."""


class Callers:
    """The connections that have said something."""

    def __init__(self, keyring: Keyring, dropped: Counter[str]) -> None:
        self._keyring = keyring
        self._dropped = dropped
        self._names: dict[int, str] = {}
        """By descriptor: there are never more than a process may have."""

    def judged(self, message: zmq.Frame) -> bytes | None:
        """What a subscriber sent; None where it was not its to send, and it was sent away."""
        name, descriptor, said = name_of(message), descriptor_of(message), message.bytes
        agent = self._keyring.agent_of(name)
        if agent is not None and _may_say(agent, said):
            if descriptor is not None:
                self._names[descriptor] = name
            return said
        if not name and said[:1] == b"\x00":  # libzmq's own word: the last connection that subscribed this has ended
            return said
        self._dropped[WRONG_KEY] += 1
        self._hang_up(descriptor)
        return None

    def send_away(self) -> None:
        """End the connections of those whom the roster does not name any more."""
        for descriptor, name in list(self._names.items()):
            if self._keyring.agent_of(name) is None:
                self._hang_up(descriptor)

    def _hang_up(self, descriptor: int | None) -> None:
        if descriptor is not None:
            self._names.pop(descriptor, None)
            hang_up(descriptor)


def _may_say(agent: int, said: bytes) -> bool:
    topic = said[1:]
    return not topic.startswith(SYNC_PREFIX) or topic == sync_topic(agent)
