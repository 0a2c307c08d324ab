"""What one host tells another at once: who listens to whom, and parts of its agents. PROTOCOL.md says what each means.

Values and bytes only; who may say what is for the receiver to judge.
"""

from __future__ import annotations

from typing import NamedTuple

from agentd.core.message import MAX_AGENT_ID
from agentd.errors import PeerError
from agentd.wire.codec import encode_plain, reader_of, row, several, whole
from agentd.wire.frame import MAX_FRAME_BYTES, VERSION, Reason
from agentd.wire.topics import LONGEST_TOPIC

MAX_BUNDLE_BYTES = 1 << 20
"""Parts that a bundle has before it leaves; its last part may be as long as a frame can be."""
MOST_ENTRIES = 1 << 16
LONGEST_PART = MAX_FRAME_BYTES + LONGEST_TOPIC
LONGEST_BUNDLE = MAX_BUNDLE_BYTES + LONGEST_PART + (1 << 16)
"""Bytes of the longest that is let in."""
HOST_PREFIX = b"host/"

Ear = tuple[int, int, bool]
"""A listener of the sending host, a speaker of the receiving one, and whether the one begins to listen to the other."""
Said = tuple[int, bytes]
"""An agent of the sending host, and a part that it published."""


class Bundle(NamedTuple):
    """All that one host has for another."""

    sequence: int
    """Counts the bundles from one host to another."""
    ears: list[Ear]
    said: list[Said]


def host_topic(host: int) -> bytes:
    """The topic that only this host subscribes: seeing it proves that the host hears us."""
    return b"%s%d/" % (HOST_PREFIX, host)


def read_host_event(event: bytes, hosts: int) -> tuple[int, bool] | None:
    """Which host began (True) or ceased to listen; None where it is none of so many."""
    digits = event[1 + len(HOST_PREFIX) : -1]
    if event[:1] not in (b"\x00", b"\x01") or not digits.isdigit() or len(digits) > len(str(hosts)):
        return None
    host = int(digits)
    return (host, event[0] == 1) if host < hosts and event[1:] == host_topic(host) else None


_AGENT = whole(MAX_AGENT_ID)
_EARS = several(row(_AGENT, _AGENT, bool), MOST_ENTRIES)
_SAID = several(row(_AGENT, several(bytes, LONGEST_PART)), MOST_ENTRIES)
_read = reader_of(row(whole(VERSION, VERSION), whole((1 << 53) - 1), _EARS, _SAID))


def encode_bundle(host: int, bundle: Bundle) -> bytes:
    """The bytes of a bundle for a host, with its topic."""
    return host_topic(host) + encode_plain((VERSION, *bundle))


def decode_bundle(part: bytes, own: int) -> Bundle:
    """What another host has for us."""
    topic = host_topic(own)
    if not part.startswith(topic):
        raise PeerError(Reason.TOPIC, "a bundle for somebody else")
    _, sequence, ears, said = _read(memoryview(part)[len(topic) :])
    return Bundle(sequence, ears, said)
