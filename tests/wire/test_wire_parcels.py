"""Several requests in one message, and what hosts tell each other: whatever comes is read exactly or refused."""

from __future__ import annotations

import msgpack
import pytest

from agentd.errors import PeerError
from agentd.wire.bundle import Bundle, decode_bundle, encode_bundle, host_topic, read_host_event
from agentd.wire.frame import VERSION
from agentd.wire.parcel import MOST_REQUESTS, PARCEL, Parcel, decode_parcel, encode_parcel, is_parcel


def test_a_parcel_holds_what_was_put_into_it() -> None:
    parcel = Parcel(7, [b"one", b"", b"three"])
    data = encode_parcel(parcel)
    assert is_parcel(data)
    assert decode_parcel(data) == parcel


@pytest.mark.parametrize(
    "data",
    [
        [VERSION + 1, PARCEL, 0, []],
        [VERSION, PARCEL + 1, 0, []],
        [VERSION, PARCEL, -1, []],
        [VERSION, PARCEL, True, []],
        [VERSION, PARCEL, 0, ["text"]],
        [VERSION, PARCEL, 0, [b"x"] * (MOST_REQUESTS + 1)],
        [VERSION, PARCEL, 0, [b"x" * (16 << 10) + b"x"]],
        [VERSION, PARCEL, 0, [], 1],
        [VERSION, PARCEL, 0],
        {},
        None,
    ],
)
def test_what_is_no_parcel_is_refused(data: object) -> None:
    with pytest.raises(PeerError):
        decode_parcel(msgpack.packb(data))


def test_bytes_behind_a_parcel_are_refused() -> None:
    with pytest.raises(PeerError):
        decode_parcel(encode_parcel(Parcel(1, [])) + b"\x00")


def test_a_bundle_holds_what_was_put_into_it() -> None:
    bundle = Bundle(9, [(1, 40, True)], [(2, b"frame/abc")])
    assert decode_bundle(encode_bundle(3, bundle), 3) == bundle


@pytest.mark.parametrize(
    "data",
    [
        [VERSION + 1, 0, [], []],
        [VERSION, -1, [], []],
        [VERSION, 0, [[1, 2]], []],
        [VERSION, 0, [[1, 65_536, True]], []],
        [VERSION, 0, [[1, 2, 1]], []],
        [VERSION, 0, [], [[1, "text"]]],
        [VERSION, 0, [], [[1, b"", 0]]],
        [VERSION, 0, [], [], []],
        7,
    ],
)
def test_what_is_no_bundle_is_refused(data: object) -> None:
    with pytest.raises(PeerError):
        decode_bundle(host_topic(0) + msgpack.packb(data), 0)


def test_a_bundle_for_another_host_is_refused() -> None:
    with pytest.raises(PeerError):
        decode_bundle(encode_bundle(11, Bundle(0, [], [])), 1)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (b"\x01host/1/", (1, True)),
        (b"\x00host/0/", (0, False)),
        (b"\x01host/2/", None),
        (b"\x01host/01/", None),
        (b"\x01host//", None),
        (b"\x01frame/", None),
        (b"\x02host/1/", None),
        (b"\x01host/" + b"9" * 5000 + b"/", None),
        (b"", None),
    ],
)
def test_only_hosts_that_there_are_are_seen_to_listen(event: bytes, told: tuple[int, bool] | None) -> None:
    assert read_host_event(event, 2) == told
