"""Messages to and from the environment survive the way through bytes; wrong ones are not sent."""

from __future__ import annotations

from dataclasses import replace

import pytest
import terms_samples
import wire_samples

from agentd.core.terms import Terms
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.regard import Regard
from agentd.errors import PeerError
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    MAX_ENVIRONMENT_BYTES,
    MAX_WELCOME_BYTES,
    EnvironmentMessage,
    Hello,
    Noted,
    Pull,
    Refusal,
    Refused,
    Release,
    Released,
    Report,
    Reward,
    Welcome,
)
from agentd.wire.frame import Reason

TOKEN = wire_samples.TOKEN
TERMS = Terms(2, None, run=wire_samples.RUN)


@pytest.mark.parametrize("message", wire_samples.sample_messages().values(), ids=str)
def test_a_message_survives_the_way_through_bytes(message: EnvironmentMessage) -> None:
    data = encode_environment(message)
    assert decode_environment(data) == message
    assert decode_environment(memoryview(data)) == message
    assert len(data) <= (MAX_WELCOME_BYTES if isinstance(message, Welcome) else MAX_ENVIRONMENT_BYTES)


def test_the_longest_message_is_within_the_limit() -> None:
    reasons = tuple(("\U0001f600" * 31 + chr(0x4E00 + n), 2**53 - 1) for n in range(32))
    longest = Report(65535, TOKEN, 2**30 - 1, 2**53 - 1, 2**53 - 1, reasons, 2**53 - 1, True, 2**53 - 1)
    blames = tuple(Blame(65535 - n, Why.AHEAD, 2**53 - 1) for n in range(16))
    regards = tuple(Regard(65535 - n, 2**30 - 1, 2**53 - 1, 1001) for n in range(64))
    longest = replace(longest, round=2**30 - 1, blames=blames, regards=regards)
    assert decode_environment(encode_environment(longest)) == longest


def test_the_longest_welcome_is_within_its_own_limit() -> None:
    longest = Welcome(terms_samples.longest_terms(), -1e300, 1e300, 1 << 30, 2**53 - 1, 2**53 - 1, 2**30 - 1)
    data = encode_environment(longest)
    assert MAX_ENVIRONMENT_BYTES < len(data) <= MAX_WELCOME_BYTES
    assert decode_environment(data) == longest


def test_done_and_codes_come_back_as_what_they_are() -> None:
    report = decode_environment(
        encode_environment(Report(1, TOKEN, 2, 3, 4, (), 5, True, 0, 6, (Blame(7, Why.FLOOD, 8),)))
    )
    refused = decode_environment(encode_environment(Refused(Refusal.RUN_OVER, "the run is over")))
    assert isinstance(report, Report)
    assert report.done is True
    assert type(report.blames[0].why) is Why
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.RUN_OVER


def test_a_welcome_tells_nothing_about_the_means_of_the_arms() -> None:
    assert Welcome.__slots__ == ("terms", "low", "high", "next_trial", "incarnation", "age_ms", "round")


def test_no_token_is_shown_where_a_message_is() -> None:
    for message in (Hello(0, TOKEN, None), Pull(0, TOKEN, 1, 0, 0), Release(0, TOKEN), Report(0, TOKEN, *[0] * 7)):
        assert repr(TOKEN) not in repr(message)
        assert "token" not in repr(message)


@pytest.mark.parametrize(
    "message",
    [
        Hello(-1, TOKEN, 0),
        Hello(0, TOKEN, 1 << 53),
        Hello(0, b"short", None),
        Welcome(Terms(2, None, run=b"short"), 0.0, 1.0, 1, 0, 0),
        Welcome(Terms(0, None), 0.0, 1.0, 1, 0, 0),
        Welcome(TERMS, 1.0, 1.0, 1, 0, 0),
        Welcome(TERMS, 0.0, float("nan"), 1, 0, 0),
        Welcome(TERMS, 0.0, 1.0, 0, 0, 0),
        Welcome(TERMS, 0.0, 1.0, 1, -1, 0),
        Welcome(TERMS, 0.0, 1.0, 1, 0, 1 << 53),
        Welcome(TERMS, 0.0, 1.0, 1, 0, 0, 1 << 30),
        Pull(0, TOKEN, 0, 0, 0),
        Pull(0, TOKEN, 1, 1024, 0),
        Pull(0, TOKEN[1:], 1, 0, 0),
        Pull(0, TOKEN, 1, 0, -1),
        Reward(1, 0, (1 << 20) + 1),
        Reward(1, 0, 0.5),  # type: ignore[arg-type]
        Report(0, TOKEN, 0, 0, 0, (("stale", 1), ("stale", 2)), 0, False, 0),
        Report(0, TOKEN, 0, 0, 0, tuple((str(n), n) for n in range(33)), 0, False, 0),
        Report(0, TOKEN, 0, 0, 0, (), 0, False, -1),
        Report(0, TOKEN, 0, 0, 0, (), 0, False, 0, 1 << 30),
        Report(0, TOKEN, 0, 0, 0, (), 0, False, 0, 0, tuple(Blame(n, Why.SLOW, 1) for n in range(17))),
        Report(0, TOKEN, 0, 0, 0, (), 0, False, 0, 0, (Blame(1, Why.SLOW, 1), Blame(1, Why.SLOW, 2))),
        Noted(-1, 0),
        Noted(0, 0, tuple((n, 1) for n in range(65))),
        Noted(0, 0, ((1, 1), (1, 2))),
        Noted(0, 0, (), -1),
        Release(0, b""),
        Released(65536, 1),
        Refused(Refusal.MALFORMED, "two\nlines"),
    ],
    ids=str,
)
def test_a_message_that_breaks_the_protocol_is_not_sent(message: EnvironmentMessage) -> None:
    with pytest.raises(ValueError, match=r"breaks? the protocol"):
        encode_environment(message)


def test_a_message_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(PeerError) as fault:
        decode_environment(bytes(MAX_ENVIRONMENT_BYTES + 1))
    assert fault.value.reason == Reason.OVERSIZE
