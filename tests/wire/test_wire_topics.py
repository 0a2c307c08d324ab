"""Topics end with a delimiter, and only what was agreed on is a topic."""

from __future__ import annotations

import pytest

from agentd.errors import PeerError
from agentd.wire.frame import Reason
from agentd.wire.topics import FRAME_TOPIC, Subscription, payload, read_subscription, sync_topic


def test_no_topic_is_the_beginning_of_another() -> None:
    topics = [FRAME_TOPIC, *(sync_topic(agent) for agent in (0, 1, 10, 100, 65535))]
    assert not any(a.startswith(b) for a in topics for b in topics if a is not b)


@pytest.mark.parametrize("agent", [0, 1, 10, 65535])
def test_a_sync_subscription_names_its_subscriber(agent: int) -> None:
    assert read_subscription(b"\x01" + sync_topic(agent)) == Subscription(agent, joined=True)
    assert read_subscription(b"\x00" + sync_topic(agent)) == Subscription(agent, joined=False)


def test_a_subscription_to_the_frames_names_nobody() -> None:
    assert read_subscription(b"\x01frame/") is None


@pytest.mark.parametrize(
    "event",
    [
        b"",
        b"\x02sync/1/",
        b"\x01",
        b"\x01sync/",
        b"\x01sync//",
        b"\x01sync/1",
        b"\x01sync/01/",
        b"\x01sync/-1/",
        b"\x01sync/65536/",
        b"\x01sync/99999/",
        b"\x01sync/\xd9\xa1/",
        b"\x01sync/1/ ",
        b"\x01ssss/1/",
        b"\x01frame",
        b"\x01sync/" + b"1" * 100_000 + b"/",
    ],
)
def test_any_other_subscription_is_the_peers_fault(event: bytes) -> None:
    with pytest.raises(PeerError) as fault:
        read_subscription(event)
    assert fault.value.reason == Reason.TOPIC


def test_the_payload_follows_the_topic() -> None:
    own = sync_topic(1)
    assert payload(b"frame/data", own) == b"data"
    assert payload(b"sync/1/data", own) == b"data"


@pytest.mark.parametrize("part", [b"", b"frame", b"sync/10/data", b"sync/2/data", b"data"])
def test_a_part_on_another_topic_is_the_peers_fault(part: bytes) -> None:
    with pytest.raises(PeerError) as fault:
        payload(part, sync_topic(1))
    assert fault.value.reason == Reason.TOPIC
