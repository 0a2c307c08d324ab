"""PROTOCOL.md is the contract: its examples and its numbers are those of the code."""

from __future__ import annotations

import re
from importlib.resources import files

import wire_samples

from agentd.core.bodies import KINDS
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS
from agentd.wire.codec import encode_environment, encode_frame
from agentd.wire.environment_messages import Refusal
from agentd.wire.frame import MAX_BATCHES, MAX_FRAME_BYTES, MAX_MESSAGES, Reason
from agentd.wire.layout import HEAD_BYTES, body_bytes
from agentd.wire.topics import FRAME_TOPIC

TEXT = files("agentd.wire").joinpath("PROTOCOL.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.split(f"\n### {title}\n")[1].split("\n#")[0]


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def as_bytes(cell: str) -> bytes:
    return bytes.fromhex(cell.strip("`"))


def test_the_worked_example_is_what_the_codec_writes() -> None:
    example = section("A frame in full")
    pieces = [as_bytes(cells[0]) for cells in rows(example) if cells[0].startswith("`")]
    data = encode_frame(wire_samples.documented_frame())
    assert b"".join(pieces) == data
    assert f"{len(data)} bytes; {len(FRAME_TOPIC + data)} with the topic" in example


def test_the_examples_of_the_environment_are_what_the_codec_writes() -> None:
    written = {cells[0]: as_bytes(cells[1]) for cells in rows(TEXT.split("| example | bytes |")[1]) if "`" in cells[1]}
    samples = wire_samples.sample_messages()
    documented = [name for name in samples if name.isupper() and " " not in name]
    assert len(written) == len(documented) == 12
    for example, data in written.items():
        assert data == encode_environment(samples[example.split("(")[0]])


def test_the_reasons_are_those_of_the_document() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", section("What a receiver refuses"), flags=re.MULTILINE)
    assert listed == [str(reason) for reason in Reason]


def test_the_limits_are_those_of_the_document() -> None:
    limits = {cells[0].strip("`"): cells[1] for cells in rows(section("Limits"))[2:]}
    assert MAX_FRAME_BYTES == 4 << 20
    assert limits == {
        "MAX_FRAME_BYTES": "4 MiB",
        "MAX_BATCHES": str(MAX_BATCHES),
        "MAX_MESSAGES": f"{MAX_MESSAGES:,}",
        "MAX_ARMS": str(MAX_ARMS),
        "MAX_AGENT_ID": f"{MAX_AGENT_ID:,}",
    }


def test_the_kinds_and_their_lengths_are_those_of_the_document() -> None:
    table = [cells for cells in rows(TEXT) if len(cells) == 5 and cells[1] in {kind.name for kind in KINDS.values()}]
    assert [(int(cells[0]), cells[1]) for cells in table] == [(kind.tag, kind.name) for kind in KINDS.values()]
    for cells in table:
        length = cells[4].replace("·K", "")
        kind = KINDS[int(cells[0])]
        assert body_bytes(kind, 1) == int(length)
        assert kind.per_arm == cells[4].endswith("K")
    assert HEAD_BYTES == 18


def test_the_refusal_codes_are_those_of_the_document() -> None:
    table = rows(TEXT.split("| code | refused because |")[1].split("\n\n")[0])
    assert [int(cells[0]) for cells in table if cells[0].isdigit()] == [int(code) for code in Refusal]
