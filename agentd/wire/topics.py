"""The topics of PUB/SUB. Each ends with a delimiter, because ZeroMQ matches topics by prefix."""

from __future__ import annotations

from dataclasses import dataclass

from agentd.core.message import MAX_AGENT_ID
from agentd.errors import PeerError
from agentd.wire.frame import Reason

FRAME_TOPIC = b"frame/"
SYNC_PREFIX = b"sync/"
LONGEST_TOPIC = len(SYNC_PREFIX) + len(str(MAX_AGENT_ID)) + 1


def sync_topic(subscriber: int) -> bytes:
    """The topic that only this subscriber subscribes: seeing it proves that the subscriber hears us."""
    return b"%s%d/" % (SYNC_PREFIX, subscriber)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What an XPUB socket saw of one subscriber's sync topic."""

    subscriber: int
    joined: bool


def read_subscription(event: bytes) -> Subscription | None:
    """Read an event of an XPUB socket; None where it is about the topic of the frames."""
    if event[:1] not in (b"\x00", b"\x01"):
        raise PeerError(Reason.TOPIC, "neither a subscription nor its end")
    joined, topic = event[0] == 1, event[1:]
    if topic == FRAME_TOPIC:
        return None
    digits = topic[len(SYNC_PREFIX) : -1]
    if len(topic) > LONGEST_TOPIC or not digits.isdigit():
        raise PeerError(Reason.TOPIC, "a topic that nobody publishes")
    subscriber = int(digits)
    if topic != sync_topic(subscriber) or subscriber > MAX_AGENT_ID:
        raise PeerError(Reason.TOPIC, "a topic that nobody publishes")
    return Subscription(subscriber, joined)


def payload(part: bytes, own_topic: bytes) -> bytes:
    """What follows the topic of a received part; `own_topic` is the receiver's own `sync_topic`."""
    if part.startswith(FRAME_TOPIC):
        return part[len(FRAME_TOPIC) :]
    if part.startswith(own_topic):
        return part[len(own_topic) :]
    raise PeerError(Reason.TOPIC, "a part without a topic that was subscribed")
