"""Messages to and from the environment survive the way through bytes; wrong ones are not sent."""

from __future__ import annotations

import pytest
import wire_samples

from agentd.errors import PeerError
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    MAX_ENVIRONMENT_BYTES,
    EnvironmentMessage,
    Hello,
    Noted,
    Pull,
    Refusal,
    Refused,
    Report,
    Reward,
    Welcome,
)
from agentd.wire.frame import Reason


@pytest.mark.parametrize("message", wire_samples.sample_messages().values(), ids=str)
def test_a_message_survives_the_way_through_bytes(message: EnvironmentMessage) -> None:
    data = encode_environment(message)
    assert decode_environment(data) == message
    assert decode_environment(memoryview(data)) == message
    assert len(data) <= MAX_ENVIRONMENT_BYTES


def test_the_longest_message_is_within_the_limit() -> None:
    reasons = tuple(("\U0001f600" * 31 + chr(0x4E00 + n), 2**53 - 1) for n in range(32))
    longest = Report(65535, 2**30 - 1, 2**53 - 1, 2**53 - 1, reasons, 2**53 - 1, True)
    assert decode_environment(encode_environment(longest)) == longest


def test_done_and_codes_come_back_as_what_they_are() -> None:
    report = decode_environment(encode_environment(Report(1, 2, 3, 4, (), 5, True)))
    refused = decode_environment(encode_environment(Refused(Refusal.RUN_OVER, "the run is over")))
    assert isinstance(report, Report)
    assert report.done is True
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.RUN_OVER


def test_a_welcome_tells_nothing_about_the_means_of_the_arms() -> None:
    assert Welcome.__slots__ == ("run", "arms", "low", "high", "horizon", "next_trial")


@pytest.mark.parametrize(
    "message",
    [
        Hello(-1, 0),
        Hello(0, 1 << 53),
        Welcome(b"short", 2, 0.0, 1.0, 0, 1),
        Welcome(wire_samples.RUN, 0, 0.0, 1.0, 0, 1),
        Welcome(wire_samples.RUN, 2, 1.0, 1.0, 0, 1),
        Welcome(wire_samples.RUN, 2, 0.0, float("nan"), 0, 1),
        Welcome(wire_samples.RUN, 2, 0.0, 1.0, 0, 0),
        Pull(0, 0, 0),
        Pull(0, 1, 1024),
        Reward(1, 0, (1 << 20) + 1),
        Reward(1, 0, 0.5),  # type: ignore[arg-type]
        Report(0, 0, 0, 0, (("stale", 1), ("stale", 2)), 0, False),
        Report(0, 0, 0, 0, tuple((str(n), n) for n in range(33)), 0, False),
        Noted(-1),
        Refused(Refusal.MALFORMED, "two\nlines"),
    ],
    ids=str,
)
def test_a_message_that_breaks_the_protocol_is_not_sent(message: EnvironmentMessage) -> None:
    with pytest.raises(ValueError, match="breaks the protocol"):
        encode_environment(message)


def test_a_message_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(PeerError) as fault:
        decode_environment(bytes(MAX_ENVIRONMENT_BYTES + 1))
    assert fault.value.reason == Reason.OVERSIZE
