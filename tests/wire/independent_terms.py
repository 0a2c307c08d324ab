"""A second reader of terms, written from section 5 of PROTOCOL.md alone: no code of ours, no msgpack."""

from __future__ import annotations

import math
import struct

from independent_decoder import Refused, binary, require, whole


class _Reader:
    """The MessagePack forms that terms use, each only in its shortest form."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        require(self.at + length <= len(self.data))
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, length: int, least: int) -> int:
        value = int.from_bytes(self.take(length), "big")
        require(value >= least)
        return value

    def value(self, depth: int) -> object:
        require(depth <= 5)
        first = self.take(1)[0]
        if first < 0x80:
            return first
        if first & 0xF0 == 0x90:
            return [self.value(depth + 1) for _ in range(first & 0x0F)]
        if first & 0xE0 == 0xA0:
            return self.text(first & 0x1F)
        if first == 0xC0:
            return None
        if first == 0xC4:
            return self.take(self.number(1, 0))
        if first == 0xCB:
            return struct.unpack(">d", self.take(8))[0]
        if first == 0xD9:
            return self.text(self.number(1, 32))
        if first == 0xDC:
            return [self.value(depth + 1) for _ in range(self.number(2, 16))]
        require(0xCC <= first <= 0xCF)
        return self.number(1 << (first - 0xCC), {0xCC: 1 << 7, 0xCD: 1 << 8, 0xCE: 1 << 16, 0xCF: 1 << 32}[first])

    def text(self, length: int) -> str:
        try:
            return self.take(length).decode("ascii")
        except UnicodeDecodeError as error:
            raise Refused from error


def read_terms_bytes(data: bytes) -> dict:
    """The terms as JSON shows them in terms_vectors.json."""
    require(len(data) <= 11 * 1024)
    reader = _Reader(data)
    fields = reader.value(0)
    require(reader.at == len(data))
    return read_terms(fields)


def read_terms(fields: object) -> dict:
    """The same from an array that was decoded already."""
    require(type(fields) is list and len(fields) == 9)
    run, arms, horizon, lifetime, clock, interval, start, beacon, policies = fields
    require(len(binary(run)) == 8 and len(binary(beacon)) == 32)
    require(type(policies) is list and len(policies) <= 64)
    read = [_policy(policy) for policy in policies]
    everybody = [agent for policy in read for first, last in policy["ids"] for agent in range(first, last + 1)]
    require(len(set(everybody)) == len(everybody))
    require(sum(len(policy["ids"]) for policy in read) <= 1024)
    require(clock == 2 or interval == 0)
    return {
        "run": run.hex(),
        "arms": whole(arms, 1, 1024),
        "horizon": whole(horizon, 0, 2**30 - 1),
        "lifetime": None if lifetime is None else whole(lifetime, 0, 65535),
        "clock": whole(clock, 0, 2),
        "interval": whole(interval, 0, 2**53 - 1),
        "start": whole(start, 0, 2**53 - 1),
        "beacon": beacon.hex(),
        "policies": read,
    }


def _policy(fields: object) -> dict:
    require(type(fields) is list and len(fields) == 5)
    algorithm, tag, epsilon, v, ids = fields
    require(type(algorithm) is str and len(algorithm) <= 32 and all(" " <= letter <= "~" for letter in algorithm))
    require(epsilon is None or (type(epsilon) is float and epsilon > 0.0 and math.isfinite(epsilon)))
    require(v is None or (type(v) is float and 1.0 < v < 1.5))
    require(type(ids) is list and 1 <= len(ids) <= 1024)
    before = -2
    for pair in ids:
        require(type(pair) is list and len(pair) == 2)
        first, last = whole(pair[0], 0, 65535), whole(pair[1], 0, 65535)
        require(before + 1 < first <= last)
        before = last
    return {
        "algorithm": algorithm,
        "tag": None if tag is None else whole(tag, 0, 255),
        "epsilon": epsilon,
        "v": v,
        "ids": ids,
    }
