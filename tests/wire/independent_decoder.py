"""A second reader of the wire, written from PROTOCOL.md alone: struct instead of msgpack and numpy, no code of ours.

It is slow and plain on purpose. Whatever it accepts, the codec must accept with the same meaning, and the reverse.
"""

from __future__ import annotations

import math
import struct


class Refused(Exception):
    """The bytes are not what PROTOCOL.md describes."""


def require(condition: bool) -> None:
    if not condition:
        raise Refused


class Reader:
    """Reads the few MessagePack forms that the protocol uses, each only in its shortest form."""

    def __init__(self, data: bytes, longest: int, deepest: int) -> None:
        self.data = data
        self.at = 0
        self.longest, self.deepest = longest, deepest

    def take(self, length: int) -> bytes:
        require(self.at + length <= len(self.data))
        piece = self.data[self.at : self.at + length]
        self.at += length
        return piece

    def number(self, length: int, least: int) -> int:
        value = int.from_bytes(self.take(length), "big")
        require(value >= least)
        return value

    def value(self, depth: int = 0) -> int | float | bytes | str | list | None:
        require(depth < self.deepest)
        first = self.take(1)[0]
        if first <= 0x7F:
            return first
        if 0x90 <= first <= 0x9F:
            return self.array(first - 0x90, depth)
        if 0xA0 <= first <= 0xBF:
            return self.text(first - 0xA0)
        match first:
            case 0xC0:
                return None
            case 0xC4:
                return self.take(self.number(1, 0))
            case 0xC5:
                return self.take(self.number(2, 1 << 8))
            case 0xC6:
                return self.take(self.number(4, 1 << 16))
            case 0xCB:
                return struct.unpack(">d", self.take(8))[0]
            case 0xCC:
                return self.number(1, 1 << 7)
            case 0xCD:
                return self.number(2, 1 << 8)
            case 0xCE:
                return self.number(4, 1 << 16)
            case 0xCF:
                return self.number(8, 1 << 32)
            case 0xD9:
                return self.text(self.number(1, 32))
            case 0xDA:
                return self.text(self.number(2, 1 << 8))
            case 0xDC:
                return self.array(self.number(2, 16), depth)
        raise Refused

    def array(self, length: int, depth: int) -> list:
        require(length <= self.longest)
        return [self.value(depth + 1) for _ in range(length)]

    def text(self, length: int) -> str:
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused from error


def read_array(data: bytes, limit: int, longest: int = 15, deepest: int = 4) -> list:
    require(len(data) <= limit)
    reader = Reader(data, longest, deepest)
    fields = reader.value()
    require(reader.at == len(data))
    require(isinstance(fields, list) and len(fields) > 0 and type(fields[0]) is int and fields[0] == 1)
    return fields


def whole(value: object, low: int, high: int) -> int:
    require(type(value) is int and low <= value <= high)
    return value


def binary(value: object) -> bytes:
    require(type(value) is bytes)
    return value


def read_frame(data: bytes, arms: int | None = None) -> dict:
    """The frame as JSON shows it in vectors.json."""
    fields = read_array(data, 4 * 1024 * 1024)
    require(len(fields) == 8)
    _, run, sender, incarnation, sequence, round_, flags, batches = fields
    require(len(binary(run)) == 8 and type(batches) is list and len(batches) <= 15)
    whole(flags, 0, 3)
    require(not (batches and flags & 2))
    read = [read_batch(batch, arms) for batch in batches]
    require(len({batch["arms"] for batch in read}) <= 1)
    require(sum(len(batch["messages"]) for batch in read) <= 131072)
    return {
        "run": run.hex(),
        "sender": whole(sender, 0, 65535),
        "incarnation": whole(incarnation, 0, 2**53 - 1),
        "sequence": whole(sequence, 0, 2**53 - 1),
        "round": whole(round_, 0, 2**30 - 1),
        "flags": flags,
        "batches": read,
    }


def read_batch(batch: object, expected_arms: int | None) -> dict:
    require(type(batch) is list and len(batch) == 6)
    tag, arms, count, heads, bodies, signatures = batch
    whole(tag, 1, 4)
    whole(arms, 1, 1024)
    require(expected_arms is None or arms == expected_arms)
    whole(count, 1, 131072)
    cell, cells = {1: ("IIq", arms), 2: ("Iq", arms), 3: ("HI", 1), 4: ("HIIqq", 1)}[tag]
    body = struct.Struct("<" + cell * cells)
    require(len(binary(heads)) == 18 * count and len(binary(bodies)) == body.size * count)
    each = 80 if tag == 3 else 64  # of a SAMPLE its link stands behind the signature
    require(len(binary(signatures)) in (0, each * count))
    messages = []
    for index in range(count):
        origin, incarnation, trial, lifetime, life = struct.unpack_from("<HQIHH", heads, 18 * index)
        require(incarnation < 2**53 and 1 <= trial < 2**30 and 1 <= life <= lifetime)
        messages.append(
            {
                "origin": origin,
                "incarnation": incarnation,
                "trial": trial,
                "lifetime": lifetime,
                "life": life,
                "body": list(body.unpack_from(bodies, body.size * index)),
                "signature": signatures[each * index : each * (index + 1)].hex(),
            }
        )
    return {"tag": tag, "arms": arms, "messages": messages}


def read_environment(data: bytes) -> dict:
    """The message as JSON shows it in vectors.json: its type number and its fields."""
    if data[:3] == b"\x99\x01\x02":  # a WELCOME: it alone has terms in it
        _, *rest = read_array(data, 16 * 1024, longest=1024, deepest=7)
    else:
        _, *rest = read_array(data, 8 * 1024, longest=64)
    require(len(rest) >= 1)
    number, *fields = rest
    whole(number, 1, 12)
    rules = {
        1: (agent, token, lambda v: None if v is None else u53(v)),
        2: (terms, bound, bound, next_trial, u53, u53, u30),
        3: (agent, token, trial_number, arm_number, u30),
        4: (trial_number, arm_number, lambda v: whole(v, 0, 2**20)),
        5: (agent, token, u30, u53, u53, dropped, u53, lambda v: whole(v, 0, 1), u53, u30, blames, regards),
        6: (u30, u53, lives, u30),
        7: (),
        8: (),
        9: (lambda v: whole(v, 1, 10), lambda v: text(v, 200)),
        10: (trial_number, u53),
        11: (agent, token),
        12: (agent, next_trial),
    }[number]
    require(len(fields) == len(rules))
    read = [rule(field) for rule, field in zip(rules, fields, strict=True)]
    if number == 2:
        require(read[1] < read[2] and math.isfinite(read[2] - read[1]))
    return {"type": number, "fields": read}


def agent(value: object) -> int:
    return whole(value, 0, 65535)


def u30(value: object) -> int:
    return whole(value, 0, 2**30 - 1)


def u53(value: object) -> int:
    return whole(value, 0, 2**53 - 1)


def trial_number(value: object) -> int:
    return whole(value, 1, 2**30 - 1)


def arm_number(value: object) -> int:
    return whole(value, 0, 1023)


def next_trial(value: object) -> int:
    return whole(value, 1, 2**30)


def token(value: object) -> str:
    require(len(binary(value)) == 16)
    return value.hex()


def terms(value: object) -> dict:
    from independent_terms import read_terms  # which reads as we do

    return read_terms(value)


def bound(value: object) -> float:
    require(type(value) is float and math.isfinite(value))
    return value


def text(value: object, limit: int) -> str:
    require(type(value) is str and len(value) <= limit and value.isprintable())
    return value


def pairs(value: object, most: int) -> list:
    require(type(value) is list and len(value) <= most)
    require(all(type(pair) is list and len(pair) == 2 for pair in value))
    return value


def dropped(value: object) -> list:
    read = [[text(name, 32), u53(count)] for name, count in pairs(value, 32)]
    require(len({name for name, _ in read}) == len(read))
    return read


def blames(value: object) -> list:
    require(type(value) is list and len(value) <= 16)
    require(all(type(item) is list and len(item) == 3 for item in value))
    read = [[agent(who), whole(why, 1, 5), u53(times)] for who, why, times in value]
    require(len({(who, why) for who, why, _ in read}) == len(read))
    return read


def regards(value: object) -> list:
    require(type(value) is list and len(value) <= 64)
    require(all(type(item) is list and len(item) == 4 for item in value))
    read = [[agent(who), u30(behind), u53(frames), whole(trust, 0, 1001)] for who, behind, frames, trust in value]
    require(len({who for who, *_ in read}) == len(read))
    return read


def lives(value: object) -> list:
    read = [[agent(who), u53(incarnation)] for who, incarnation in pairs(value, 64)]
    require(len({who for who, _ in read}) == len(read))
    return read
