"""Terms survive the way through bytes, are read alike by a second reader, and wrong ones are refused.

Run with AGENTD_RECORD=1 to record terms_vectors.json anew; a change of an old entry is a change of the protocol.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path

import independent_decoder
import independent_terms
import msgpack
import pytest
import terms_samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.core.terms import Clock, PolicyTerms, Terms, id_ranges
from agentd.errors import PeerError
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Welcome
from agentd.wire.frame import Reason
from agentd.wire.terms import MAX_ID_RANGES, MAX_POLICIES, MAX_TERMS_BYTES, read_terms, write_terms
from agentd.wire.terms_digest import digest, terms_bytes

PATH = Path(__file__).with_name("terms_vectors.json")
PROTOCOL = files("agentd.wire").joinpath("PROTOCOL.md").read_text(encoding="utf-8")


def recorded() -> dict:
    return {
        "about": "terms as in section 5 of PROTOCOL.md; numbers need 64 bits, bytes are hexadecimal",
        "terms": [
            {
                "name": name,
                "hex": terms_bytes(terms).hex(),
                "digest": digest(terms),
                "terms": terms_samples.shown(terms),
            }
            for name, terms in terms_samples.sample_terms().items()
        ],
        "bad_terms": [
            {"name": name, "hex": msgpack.packb(raw).hex(), "reason": str(reason)}
            for name, (raw, reason) in terms_samples.bad_terms().items()
            if len(msgpack.packb(raw)) < 1024
        ],
    }


if os.environ.get("AGENTD_RECORD"):
    PATH.write_text(json.dumps(recorded(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

VECTORS = json.loads(PATH.read_text(encoding="utf-8"))


def each(section: str) -> list:
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[section]]


def test_the_recorded_vectors_are_what_is_written_today() -> None:
    assert recorded() == VECTORS


@pytest.mark.parametrize("vector", each("terms"))
def test_recorded_terms_mean_what_was_recorded(vector: dict) -> None:
    data = bytes.fromhex(vector["hex"])
    assert terms_samples.shown(read_terms(msgpack.unpackb(data))) == vector["terms"]
    assert independent_terms.read_terms_bytes(data) == vector["terms"]
    assert hashlib.sha256(data).hexdigest() == vector["digest"]


@pytest.mark.parametrize("vector", each("bad_terms"))
def test_recorded_bad_terms_are_refused_for_the_recorded_reason(vector: dict) -> None:
    data = bytes.fromhex(vector["hex"])
    with pytest.raises(PeerError) as fault:
        read_terms(msgpack.unpackb(data))
    assert fault.value.reason == vector["reason"]
    with pytest.raises(independent_decoder.Refused):
        independent_terms.read_terms_bytes(data)


@pytest.mark.parametrize(("raw", "reason"), terms_samples.bad_terms().values(), ids=terms_samples.bad_terms())
def test_bad_terms_are_refused_with_the_name_of_the_field(raw: object, reason: Reason) -> None:
    with pytest.raises(PeerError, match=rf"^[a-z]+: {reason}$") as fault:
        read_terms(raw)
    assert fault.value.reason == reason


@pytest.mark.parametrize("terms", terms_samples.sample_terms().values(), ids=terms_samples.sample_terms())
def test_terms_survive_the_way_through_bytes(terms: Terms) -> None:
    assert read_terms(msgpack.unpackb(terms_bytes(terms))) == terms
    assert msgpack.packb(write_terms(terms)) == terms_bytes(terms)


@pytest.mark.parametrize("terms", terms_samples.sample_terms().values(), ids=terms_samples.sample_terms())
def test_a_welcome_has_room_for_any_terms(terms: Terms) -> None:
    welcome = Welcome(terms, 0.0, 1.0, 1, 0, 0)
    data = encode_environment(welcome)
    assert decode_environment(data) == welcome
    assert terms_bytes(terms) in data, "they stand in it as they are digested"


def test_the_longest_terms_are_within_the_limit_and_those_of_the_document() -> None:
    longest = terms_samples.longest_terms()
    assert len(longest.policies) == MAX_POLICIES
    assert sum(len(policy.ids) for policy in longest.policies) == MAX_ID_RANGES
    assert len(terms_bytes(longest)) <= MAX_TERMS_BYTES == 11 << 10
    section = PROTOCOL.split("\n## 5. Terms\n")[1]
    assert f"at most {MAX_POLICIES}; none: the run is open" in section
    assert f"over all policies at most {MAX_ID_RANGES}" in section


def test_the_worked_example_is_what_is_written() -> None:
    table = PROTOCOL.split("\n### Terms in full\n")[1].split("\n#")[0]
    pieces = [line.split("|")[1].strip().strip("`") for line in table.splitlines() if line.startswith("| `")]
    data = terms_bytes(terms_samples.documented_terms())
    assert bytes.fromhex("".join(pieces)) == data
    assert f"{len(data)} bytes" in table
    assert digest(terms_samples.documented_terms()) in table.replace("\n", "")


def test_terms_that_break_the_protocol_are_not_written() -> None:
    with pytest.raises(ValueError, match="arms: range"):
        write_terms(Terms(arms=0, lifetime=2))
    with pytest.raises(ValueError, match="ids: range"):
        write_terms(Terms(arms=2, lifetime=2, policies=(PolicyTerms("", None, None, None, ()),)))


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBERS = st.integers(0, 2**53 - 1)


@st.composite
def terms_in_general(draw: st.DrawFn) -> Terms:
    owners = draw(st.dictionaries(st.integers(0, 200), st.integers(0, 3), max_size=20))
    policies = tuple(
        PolicyTerms(
            draw(st.sampled_from(["", "ucb1", "private-ucb", "x" * 32])),
            draw(st.none() | st.sampled_from([0, 1, 2, 3, 255])),
            draw(st.none() | st.floats(0, 1e300, exclude_min=True)),
            draw(st.none() | st.floats(1.0, 1.5, exclude_min=True, exclude_max=True)),
            id_ranges([agent for agent, owner in owners.items() if owner == number]),
        )
        for number in sorted(set(owners.values()))
    )
    clock = draw(st.sampled_from(Clock))
    return Terms(
        run=draw(st.binary(min_size=8, max_size=8)),
        arms=draw(st.integers(1, 1024)),
        horizon=draw(st.integers(0, 2**30 - 1)),
        lifetime=draw(st.none() | st.integers(0, 65_535)),
        clock=clock,
        interval_us=draw(NUMBERS) if clock is Clock.FREE else 0,
        start_ms=draw(NUMBERS),
        beacon=draw(st.binary(min_size=32, max_size=32)),
        policies=policies,
    )


@unhurried
@given(terms_in_general())
def test_both_readers_read_any_terms_alike(terms: Terms) -> None:
    data = terms_bytes(terms)
    assert read_terms(msgpack.unpackb(data)) == terms
    assert independent_terms.read_terms_bytes(data) == terms_samples.shown(terms)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary(max_size=40) | st.text(),
    lambda inner: st.lists(inner, max_size=10),
)


@unhurried
@given(terms_in_general(), st.data())
def test_both_readers_agree_about_terms_in_which_anything_was_changed(terms: Terms, data: st.DataObject) -> None:
    raw = copy.deepcopy(write_terms(terms))
    place = raw
    while (
        type(chosen := place[data.draw(st.integers(0, len(place) - 1))]) is list and chosen and data.draw(st.booleans())
    ):
        place = chosen
    place[data.draw(st.integers(0, len(place) - 1))] = data.draw(VALUES)
    assert verdict(raw) == other_verdict(raw)


@unhurried
@given(terms_in_general(), st.data())
def test_no_change_of_a_byte_is_more_than_a_refusal(terms: Terms, data: st.DataObject) -> None:
    changed = bytearray(terms_bytes(terms))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        raw = msgpack.unpackb(bytes(changed))
    except (ValueError, msgpack.UnpackException):
        return
    verdict(raw)


def verdict(raw: object) -> dict | None:
    try:
        return terms_samples.shown(read_terms(raw))
    except PeerError:
        return None


def other_verdict(raw: object) -> dict | None:
    try:
        return independent_terms.read_terms(raw)
    except independent_decoder.Refused:
        return None
