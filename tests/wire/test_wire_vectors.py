"""vectors.json is the wire as recorded: what it says must stay true, for this codec and for any other.

Run with AGENTD_RECORD=1 to record it anew; a change of an old entry is a change of the protocol.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import hostile_frames
import independent_decoder
import pytest
import wire_samples

from agentd.errors import PeerError
from agentd.wire.codec import decode_environment, decode_frame, encode_environment, encode_frame

PATH = Path(__file__).with_name("vectors.json")


def recorded() -> dict:
    frames, messages = wire_samples.sample_frames(), wire_samples.sample_messages()
    return {
        "about": "frames and environment messages of PROTOCOL.md; numbers need 64 bits, bytes are hexadecimal",
        "frames": [
            {"name": name, "hex": encode_frame(frame).hex(), "frame": wire_samples.shown_frame(frame)}
            for name, frame in frames.items()
        ],
        "bad_frames": [
            {"name": name, "hex": data.hex(), "reason": str(reason)}
            for name, (data, reason) in hostile_frames.bad_frames().items()
        ],
        "messages": [
            {"name": name, "hex": encode_environment(message).hex(), "message": wire_samples.shown_message(message)}
            for name, message in messages.items()
        ],
        "bad_messages": [
            {"name": name, "hex": data.hex(), "reason": str(reason)}
            for name, (data, reason) in hostile_frames.bad_messages().items()
            if len(data) < 1024
        ],
    }


if os.environ.get("AGENTD_RECORD"):
    PATH.write_text(json.dumps(recorded(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

VECTORS = json.loads(PATH.read_text(encoding="utf-8"))


def each(section: str) -> list:
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[section]]


def test_the_recorded_vectors_are_what_the_codec_writes_today() -> None:
    assert recorded() == VECTORS


@pytest.mark.parametrize("vector", each("frames"))
def test_a_recorded_frame_means_what_was_recorded(vector: dict) -> None:
    data = bytes.fromhex(vector["hex"])
    assert wire_samples.shown_frame(decode_frame(data)) == vector["frame"]
    assert independent_decoder.read_frame(data) == vector["frame"]


@pytest.mark.parametrize("vector", each("messages"))
def test_a_recorded_message_means_what_was_recorded(vector: dict) -> None:
    data = bytes.fromhex(vector["hex"])
    assert wire_samples.shown_message(decode_environment(data)) == vector["message"]
    assert independent_decoder.read_environment(data) == vector["message"]


@pytest.mark.parametrize("vector", each("bad_frames"))
def test_a_recorded_bad_frame_is_refused_for_the_recorded_reason(vector: dict) -> None:
    with pytest.raises(PeerError) as fault:
        decode_frame(bytes.fromhex(vector["hex"]))
    assert fault.value.reason == vector["reason"]
    with pytest.raises(independent_decoder.Refused):
        independent_decoder.read_frame(bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize("vector", each("bad_messages"))
def test_a_recorded_bad_message_is_refused_for_the_recorded_reason(vector: dict) -> None:
    with pytest.raises(PeerError) as fault:
        decode_environment(bytes.fromhex(vector["hex"]))
    assert fault.value.reason == vector["reason"]
    with pytest.raises(independent_decoder.Refused):
        independent_decoder.read_environment(bytes.fromhex(vector["hex"]))
