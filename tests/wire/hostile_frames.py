"""Hand-made bytes that a receiver must refuse, with the reason it must name."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgpack
import wire_samples

from agentd.wire.codec import encode_environment, encode_frame
from agentd.wire.frame import Reason

GOOD = encode_frame(wire_samples.documented_frame())
TIMESTAMP = msgpack.Timestamp(1, 2)
Bad = dict[str, tuple[bytes, Reason]]


def good_fields() -> list[Any]:
    return msgpack.unpackb(GOOD)


def with_field(index: int, value: object) -> bytes:
    """The documented frame with one field of its header replaced."""
    fields = good_fields()
    fields[index] = value
    return msgpack.packb(fields)


def with_batch_field(index: int, value: object) -> bytes:
    """The documented frame with one field of its batch replaced."""
    fields = good_fields()
    fields[7][0][index] = value
    return msgpack.packb(fields)


def with_head(origin: int = 7, incarnation: int = 1, trial: int = 300, lifetime: int = 2, life: int = 1) -> bytes:
    return with_batch_field(3, struct.pack("<HQIHH", origin, incarnation, trial, lifetime, life))


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\x90"


def written_as(old: str, new: str) -> bytes:
    """The documented frame with one run of bytes written in another form."""
    before, after = bytes.fromhex(old), bytes.fromhex(new)
    assert GOOD.count(before) == 1
    return GOOD.replace(before, after)


def bad_bytes() -> Bad:
    return {
        "nothing": (b"", Reason.NOT_MSGPACK),
        "cut off": (GOOD[:-1], Reason.NOT_MSGPACK),
        "a byte that msgpack never uses": (b"\xc1", Reason.NOT_MSGPACK),
        "a byte too many": (GOOD + b"\x00", Reason.TRAILING),
        "the frame twice": (GOOD + GOOD, Reason.TRAILING),
        "nil": (b"\xc0", Reason.SHAPE),
        "a number": (b"\x01", Reason.SHAPE),
        "an empty array": (b"\x90", Reason.SHAPE),
        "an empty map": (b"\x80", Reason.SHAPE),
        "a map": (msgpack.packb({"version": 1}), Reason.NOT_MSGPACK),
        "a map with a key twice": (b"\x82\x01\x02\x01\x03", Reason.NOT_MSGPACK),
        "600 levels": (nested(600), Reason.TYPE),
        "2000 levels": (nested(2000), Reason.NOT_MSGPACK),
        "an array said to hold 4 billion": (b"\xdd\xff\xff\xff\xff", Reason.NOT_MSGPACK),
        "a bin said to hold 4 billion": (b"\x92\x01\xc6\xff\xff\xff\xff", Reason.NOT_MSGPACK),
        "an array of 16 empty maps": (b"\xdc\x00\x10" + b"\x80" * 16, Reason.NOT_MSGPACK),
    }


def bad_headers() -> Bad:
    return {
        "version 0": (with_field(0, 0), Reason.VERSION),
        "version 2": (with_field(0, 2), Reason.VERSION),
        "version 2 of another shape": (msgpack.packb([2, ""]), Reason.VERSION),
        "version true": (with_field(0, True), Reason.TYPE),
        "version 1.0": (with_field(0, 1.0), Reason.TYPE),
        "seven fields": (msgpack.packb(good_fields()[:-1]), Reason.SHAPE),
        "nine fields": (msgpack.packb([*good_fields(), 0]), Reason.SHAPE),
        "run of 7 bytes": (with_field(1, b"1234567"), Reason.LENGTH),
        "run as a number": (with_field(1, 1), Reason.TYPE),
        "run as text": (with_field(1, "12345678"), Reason.NOT_MSGPACK),
        "sender true": (with_field(2, True), Reason.TYPE),
        "sender nil": (with_field(2, None), Reason.TYPE),
        "sender NaN": (with_field(2, math.nan), Reason.TYPE),
        "sender 3.0": (with_field(2, 3.0), Reason.TYPE),
        "sender −1": (with_field(2, -1), Reason.RANGE),
        "sender 65536": (with_field(2, 65536), Reason.RANGE),
        "incarnation 2⁵³": (with_field(3, 1 << 53), Reason.RANGE),
        "sequence 2⁶⁴−1": (with_field(4, 2**64 - 1), Reason.RANGE),
        "sequence 2⁵³": (with_field(4, 1 << 53), Reason.RANGE),
        "sequence infinite": (with_field(4, math.inf), Reason.TYPE),
        "round 2³⁰": (with_field(5, 1 << 30), Reason.RANGE),
        "round as a timestamp": (with_field(5, TIMESTAMP), Reason.NOT_MSGPACK),
        "round as an extension": (with_field(5, msgpack.ExtType(5, b"")), Reason.TYPE),
        "round as an empty map": (with_field(5, {}), Reason.TYPE),
        "an unknown flag": (with_field(6, 4), Reason.FLAGS),
        "flags 2⁶³": (with_field(6, 1 << 63), Reason.FLAGS),
        "flags −1": (with_field(6, -1), Reason.FLAGS),
        "a greeting with batches": (with_field(6, 2), Reason.FLAGS),
        "batches nil": (with_field(7, None), Reason.SHAPE),
        "16 batches": (with_field(7, good_fields()[7] * 16), Reason.NOT_MSGPACK),
    }


def bad_batches() -> Bad:
    fields = good_fields()
    (batch,) = fields[7]
    other_arms = [1, 1, 1, batch[3], bytes(16), b""]
    return {
        "a batch that is a number": (with_field(7, [1]), Reason.SHAPE),
        "a batch of five": (with_field(7, [batch[:-1]]), Reason.SHAPE),
        "a batch in a batch": (with_field(7, [[batch]]), Reason.SHAPE),
        "tag 0": (with_batch_field(0, 0), Reason.TAG),
        "tag 99": (with_batch_field(0, 99), Reason.TAG),
        "tag true": (with_batch_field(0, True), Reason.TYPE),
        "no arms": (with_batch_field(1, 0), Reason.RANGE),
        "1025 arms": (with_batch_field(1, 1025), Reason.RANGE),
        "arms that do not fit the body": (with_batch_field(1, 3), Reason.LENGTH),
        "batches that disagree about the arms": (with_field(7, [batch, other_arms]), Reason.ARMS),
        "no messages": (with_field(7, [[1, 2, 0, b"", b"", b""]]), Reason.RANGE),
        "−1 messages": (with_batch_field(2, -1), Reason.RANGE),
        "2⁶⁴−1 messages": (with_batch_field(2, 2**64 - 1), Reason.LENGTH),
        "heads too short": (with_batch_field(3, batch[3][:-1]), Reason.LENGTH),
        "bodies too long": (with_batch_field(4, batch[4] + b"\0"), Reason.LENGTH),
        "bodies as a list": (with_batch_field(4, []), Reason.TYPE),
        "a signature of 63 bytes": (with_batch_field(5, bytes(63)), Reason.LENGTH),
        "two signatures for one message": (with_batch_field(5, bytes(128)), Reason.LENGTH),
        "a signature that is nil": (with_batch_field(5, None), Reason.TYPE),
        "incarnation 2⁵³ in a head": (with_head(incarnation=1 << 53), Reason.RANGE),
        "incarnation 2⁶⁴−1 in a head": (with_head(incarnation=2**64 - 1), Reason.RANGE),
        "trial 0": (with_head(trial=0), Reason.RANGE),
        "trial 2³⁰": (with_head(trial=1 << 30), Reason.RANGE),
        "no life": (with_head(life=0), Reason.RANGE),
        "more life than lifetime": (with_head(life=3), Reason.RANGE),
        "no lifetime": (with_head(lifetime=0, life=0), Reason.RANGE),
    }


def bad_forms() -> Bad:
    """Right values, each in a form that is longer than necessary or signed."""
    header = "9801c40800112233445566ff0301"
    return {
        "version in two bytes": (written_as("9801", "98cc01"), Reason.CANONICAL),
        "sender in nine bytes": (written_as("ff0301", "ffcf000000000000000301"), Reason.CANONICAL),
        "sequence in five bytes": (written_as("cd012d", "ce0000012d"), Reason.CANONICAL),
        "sequence signed": (written_as("cd012d", "d1012d"), Reason.CANONICAL),
        "flags signed": (written_as("cd012c00", "cd012cd000"), Reason.CANONICAL),
        "a long array": (written_as(header, "dc0008" + header[2:]), Reason.CANONICAL),
        "a longer array": (written_as(header, "dd00000008" + header[2:]), Reason.CANONICAL),
        "a long bin": (written_as("c408", "c50008"), Reason.CANONICAL),
        "a longer bin in a batch": (written_as("c412", "c600000012"), Reason.CANONICAL),
    }


def bad_frames() -> Bad:
    return {**bad_bytes(), **bad_headers(), **bad_batches(), **bad_forms()}


def message_with(name: str, index: int, *values: object) -> bytes:
    fields = msgpack.unpackb(encode_environment(wire_samples.sample_messages()[name]))
    fields[index : index + len(values)] = values
    return msgpack.packb(fields)


def welcome_with(index: int, value: object) -> bytes:
    """A welcome with one field of its terms changed."""
    fields = msgpack.unpackb(encode_environment(wire_samples.sample_messages()["WELCOME"]))
    fields[2][index] = value
    return msgpack.packb(fields)


def bad_messages() -> Bad:
    """The same for messages to and from the environment."""
    return {
        "nothing": (b"", Reason.NOT_MSGPACK),
        "a message too long": (bytes(8 * 1024 + 1), Reason.OVERSIZE),
        "a WELCOME too long": (b"\x99\x01\x02" + bytes(16 * 1024), Reason.OVERSIZE),
        "a REPORT as long as a WELCOME may be": (b"\x9e\x01\x05" + bytes(9 * 1024), Reason.OVERSIZE),
        "a message and more": (b"\x92\x01\x07\x00", Reason.TRAILING),
        "no type": (b"\x91\x01", Reason.SHAPE),
        "version 2": (b"\x92\x02\x07", Reason.VERSION),
        "type 0": (b"\x92\x01\x00", Reason.TAG),
        "type 13": (b"\x92\x01\x0d", Reason.TAG),
        "type true": (b"\x92\x01\xc3", Reason.TYPE),
        "PING with a field": (b"\x93\x01\x07\x00", Reason.SHAPE),
        "PULL without committed": (msgpack.packb([1, 3, 3, wire_samples.TOKEN, 121, 4]), Reason.SHAPE),
        "PULL as it was before seats": (b"\x95\x01\x03\x03\x01\x04", Reason.SHAPE),
        "PULL of trial 0": (message_with("PULL", 4, 0), Reason.RANGE),
        "PULL of arm 1024": (message_with("PULL", 5, 1024), Reason.RANGE),
        "PULL of arm true": (message_with("PULL", 5, True), Reason.TYPE),
        "PULL with a token of 15 bytes": (message_with("PULL", 3, bytes(15)), Reason.LENGTH),
        "PULL with a token of 17 bytes": (message_with("PULL", 3, bytes(17)), Reason.LENGTH),
        "PULL with a token as text": (message_with("PULL", 3, "0123456789abcdef"), Reason.TYPE),
        "PULL with nil for a token": (message_with("PULL", 3, None), Reason.TYPE),
        "PULL with 2³⁰ committed": (message_with("PULL", 6, 1 << 30), Reason.RANGE),
        "PULL with its token in a long form": (
            encode_environment(wire_samples.sample_messages()["PULL"]).replace(b"\xc4\x10", b"\xc5\x00\x10"),
            Reason.CANONICAL,
        ),
        "HELLO of agent 65536": (message_with("HELLO", 2, 65536), Reason.RANGE),
        "HELLO without a token": (msgpack.packb([1, 1, 3, None]), Reason.SHAPE),
        "HELLO with an empty token": (message_with("HELLO", 3, b""), Reason.LENGTH),
        "HELLO of incarnation 2⁵³": (message_with("HELLO", 4, 1 << 53), Reason.RANGE),
        "HELLO of incarnation false": (message_with("HELLO", 4, False), Reason.TYPE),
        "REWARD above one": (message_with("REWARD", 4, (1 << 20) + 1), Reason.RANGE),
        "REWARD as a float": (message_with("REWARD", 4, 1.0), Reason.TYPE),
        "WELCOME without terms": (message_with("WELCOME", 2, None), Reason.SHAPE),
        "WELCOME with a short run": (welcome_with(0, b"1234567"), Reason.LENGTH),
        "WELCOME with a run as text": (welcome_with(0, "12345678"), Reason.TYPE),
        "WELCOME with 1025 arms": (welcome_with(1, 1025), Reason.RANGE),
        "WELCOME with a policy of nobody": (welcome_with(8, [["", None, None, None, []]]), Reason.RANGE),
        "WELCOME with low NaN": (message_with("WELCOME", 3, math.nan), Reason.RANGE),
        "WELCOME with high infinite": (message_with("WELCOME", 4, math.inf), Reason.RANGE),
        "WELCOME with a whole bound": (message_with("WELCOME", 3, 0), Reason.TYPE),
        "WELCOME with low above high": (message_with("WELCOME", 3, 1.5), Reason.RANGE),
        "WELCOME with next trial 0": (message_with("WELCOME", 5, 0), Reason.RANGE),
        "WELCOME with incarnation nil": (message_with("WELCOME", 6, None), Reason.TYPE),
        "WELCOME with an age of 2⁵³": (message_with("WELCOME", 7, 1 << 53), Reason.RANGE),
        "WELCOME with bounds too far apart": (
            message_with("WELCOME", 3, -1.7e308, 1.7e308),
            Reason.RANGE,
        ),
        "WELCOME with a 32-bit bound": (
            encode_environment(wire_samples.sample_messages()["WELCOME"]).replace(
                b"\xcb" + bytes(8), b"\xca" + bytes(4)
            ),
            Reason.CANONICAL,
        ),
        "REPORT with dropped as a map": (message_with("REPORT", 7, {"stale": 2}), Reason.NOT_MSGPACK),
        "REPORT with dropped nil": (message_with("REPORT", 7, None), Reason.SHAPE),
        "REPORT with a triple": (message_with("REPORT", 7, [["stale", 2, 3]]), Reason.SHAPE),
        "REPORT with a reason twice": (message_with("REPORT", 7, [["a", 1], ["a", 2]]), Reason.RANGE),
        "REPORT with a reason of 33 characters": (message_with("REPORT", 7, [["a" * 33, 1]]), Reason.RANGE),
        "REPORT with a reason as bytes": (message_with("REPORT", 7, [[b"a", 1]]), Reason.TYPE),
        "REPORT with a negative count": (message_with("REPORT", 7, [["a", -1]]), Reason.RANGE),
        "REPORT with 33 reasons": (message_with("REPORT", 7, [[f"r{n}", n] for n in range(33)]), Reason.SHAPE),
        "REPORT with 65 reasons": (message_with("REPORT", 7, [[f"r{n}", n] for n in range(65)]), Reason.NOT_MSGPACK),
        "REPORT without a token": (message_with("REPORT", 3, b""), Reason.LENGTH),
        "REPORT of returns nil": (message_with("REPORT", 10, None), Reason.TYPE),
        "REPORT of a round too far": (message_with("REPORT", 11, 1 << 30), Reason.RANGE),
        "REPORT without a round": (message_with("REPORT", 11, None), Reason.TYPE),
        "REPORT with blames nil": (message_with("REPORT", 12, None), Reason.SHAPE),
        "REPORT with a blame of two": (message_with("REPORT", 12, [[7, 1]]), Reason.SHAPE),
        "REPORT with a blame that is a number": (message_with("REPORT", 12, [7]), Reason.SHAPE),
        "REPORT with a blame twice": (message_with("REPORT", 12, [[7, 1, 2], [7, 1, 3]]), Reason.RANGE),
        "REPORT with regards nil": (message_with("REPORT", 13, None), Reason.SHAPE),
        "REPORT with a regard of three": (message_with("REPORT", 13, [[7, 1, 2]]), Reason.SHAPE),
        "REPORT with a regard twice": (message_with("REPORT", 13, [[7, 1, 2, 3], [7, 1, 2, 4]]), Reason.RANGE),
        "REPORT with more than full trust": (message_with("REPORT", 13, [[7, 1, 2, 1002]]), Reason.RANGE),
        "REPORT with trust as a truth": (message_with("REPORT", 13, [[7, 1, 2, True]]), Reason.TYPE),
        "REPORT with an unknown blame": (message_with("REPORT", 12, [[7, 6, 2]]), Reason.RANGE),
        "REPORT with a blame for nothing": (message_with("REPORT", 12, [[7, 0, 2]]), Reason.RANGE),
        "REPORT with a blame that is true": (message_with("REPORT", 12, [[7, True, 2]]), Reason.TYPE),
        "REPORT with a blame of nobody": (message_with("REPORT", 12, [[65536, 1, 2]]), Reason.RANGE),
        "REPORT with a blame too often": (message_with("REPORT", 12, [[7, 1, 1 << 53]]), Reason.RANGE),
        "REPORT with 17 blames": (message_with("REPORT", 12, [[n, 1, 1] for n in range(17)]), Reason.SHAPE),
        "NOTED without a round": (message_with("NOTED", 5, None), Reason.TYPE),
        "NOTED of a round before all": (message_with("NOTED", 5, -1), Reason.RANGE),
        "WELCOME of a round too far": (message_with("WELCOME", 8, 1 << 30), Reason.RANGE),
        "NOTED without lives": (msgpack.packb([1, 6, 200, 3]), Reason.SHAPE),
        "NOTED with lives nil": (message_with("NOTED", 4, None), Reason.SHAPE),
        "NOTED with a life of nobody": (message_with("NOTED", 4, [[40]]), Reason.SHAPE),
        "NOTED with a life of agent 65536": (message_with("NOTED", 4, [[65536, 1]]), Reason.RANGE),
        "NOTED with an agent twice": (message_with("NOTED", 4, [[7, 1], [7, 2]]), Reason.RANGE),
        "NOTED with 65 lives": (message_with("NOTED", 4, [[n, 1] for n in range(65)]), Reason.NOT_MSGPACK),
        "RELEASE with a short secret": (message_with("RELEASE", 3, bytes(8)), Reason.LENGTH),
        "RELEASE without a secret": (msgpack.packb([1, 11, 3]), Reason.SHAPE),
        "RELEASED with trial 0": (message_with("RELEASED", 3, 0), Reason.RANGE),
        "REPORT done twice": (message_with("REPORT", 9, 2), Reason.RANGE),
        "REPORT done true": (message_with("REPORT", 9, True), Reason.TYPE),
        "REFUSED for no known reason": (message_with("REFUSED", 2, 100), Reason.RANGE),
        "REFUSED with a terminal escape": (message_with("REFUSED", 3, "\x1b[2J"), Reason.RANGE),
        "REFUSED with 201 characters": (message_with("REFUSED", 3, "x" * 201), Reason.RANGE),
        "REFUSED with text that is not UTF-8": (b"\x94\x01\x09\x05\xa1\xff", Reason.NOT_MSGPACK),
        "REFUSED with a long text form": (b"\x94\x01\x09\x05\xd9\x01a", Reason.CANONICAL),
    }
