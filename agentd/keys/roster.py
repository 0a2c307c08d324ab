"""The roster: which public keys each id has, what they agreed on and until when, signed by the operator. Pure.

A file holds a JSON object of three: `roster`, the `operator`'s public key, and its `signature`. Signed are the bytes

    "agentd roster 1" ‖ the roster as JSON with sorted keys, without blanks, in ASCII

of what was read, however the file is indented; whatever could be meant in two ways is refused before that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentd.addresses import address_fault
from agentd.core.message import MAX_AGENT_ID
from agentd.keys import signing
from agentd.keys.strict_json import exactly, key_bytes, strict_json

FORMAT = 1
LONGEST_FILE = 8 << 20
MOST_AGENTS = 16_384
MAX_NUMBER = (1 << 53) - 1
LAST_SECOND = 253_402_300_799
"""Of the year 9999."""
_PURPOSE = b"agentd roster 1"
_KEYS = ("format", "version", "valid_until", "signatures", "terms", "environment", "agents")
_SEAT = ("curve", "sign", "address")
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """One that has keys: an agent, or the environment."""

    curve: bytes
    """The public key of its links."""
    sign: bytes
    """The public key of its signatures."""
    address: str | None = None
    """Where it listens, for people and launchers; who connects to it goes by its key."""


@dataclass(frozen=True, slots=True)
class Roster:
    """Who is who in a run; a newer one has a larger version."""

    version: int
    valid_until: int
    """In seconds since 1970; a later one is not taken up."""
    agents: dict[int, Entry]
    environment: Entry | None = None
    """None: agents have arms of their own."""
    terms: str | None = None
    """The digest of the terms of the run; None: not pinned."""
    signatures: bool = False
    """Whether every message must be signed by its origin."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they are signed."""
        return {
            "format": FORMAT,
            "version": self.version,
            "valid_until": self.valid_until,
            "signatures": self.signatures,
            "terms": self.terms,
            "environment": None if self.environment is None else _entry_to_json(self.environment),
            "agents": [{"id": number, **_entry_to_json(entry)} for number, entry in sorted(self.agents.items())],
        }

    def signed_bytes(self) -> bytes:
        """What the operator signs: there is only one way to write it."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return _PURPOSE + text.encode("ascii")

    def digest(self) -> str:
        """By which two rosters of one version are told apart."""
        return hashlib.sha256(self.signed_bytes()).hexdigest()

    def faults(self) -> Iterator[str]:
        """What no roster may be."""
        if not 1 <= self.version <= MAX_NUMBER:
            yield f"version must be in 1…{MAX_NUMBER}"
        if not 0 < self.valid_until <= LAST_SECOND:
            yield "valid_until must be seconds since 1970, before the year 10000"
        if not 1 <= len(self.agents) <= MOST_AGENTS:
            yield f"a roster has 1 to {MOST_AGENTS} agents"
        everybody = [*self.agents.values(), *([self.environment] if self.environment is not None else [])]
        for what, held in (("curve", [each.curve for each in everybody]), ("sign", [each.sign for each in everybody])):
            if len(set(held)) < len(held):
                yield f"two of them have the same {what} key, so that each could speak as the other"


@dataclass(frozen=True, slots=True)
class SignedRoster:
    """A roster with the signature under it, which was not looked at yet."""

    roster: Roster
    operator: bytes
    signature: bytes

    @property
    def fingerprint(self) -> str:
        """Of the key that is said to have signed it."""
        return signing.fingerprint(self.operator)

    def is_genuine(self) -> bool:
        """Whether that key has signed it."""
        return signing.is_signed(self.operator, self.roster.signed_bytes(), self.signature)

    def text(self) -> str:
        """What stands in its file."""
        whole = {
            "roster": self.roster.to_json(),
            "operator": self.operator.hex(),
            "signature": self.signature.hex(),
        }
        return json.dumps(whole, indent=2) + "\n"


def signed(roster: Roster, operator_public: bytes, operator_secret: bytes) -> SignedRoster:
    """The roster under the operator's signature; ValueError where it is none."""
    if faults := list(roster.faults()):
        raise ValueError("; ".join(faults))
    return SignedRoster(roster, operator_public, signing.sign(operator_secret, roster.signed_bytes()))


def parse(content: bytes) -> SignedRoster:
    """What a file holds; ValueError, in few words, where it is no roster. Who signed it is not looked at here."""
    whole = exactly(strict_json(content), ("roster", "operator", "signature"), "the file")
    roster = _roster(exactly(whole["roster"], _KEYS, "the roster"))
    if faults := list(roster.faults()):
        raise ValueError("; ".join(faults))
    operator = key_bytes(whole["operator"], "operator")
    return SignedRoster(roster, operator, key_bytes(whole["signature"], "signature", signing.SIGNATURE_BYTES))


def _roster(data: dict[str, Any]) -> Roster:
    if type(data["format"]) is not int or data["format"] != FORMAT:
        raise ValueError(f"its format is not {FORMAT}, the one that this program knows")
    if type(data["signatures"]) is not bool:
        raise ValueError("signatures must be true or false")
    if type(data["agents"]) is not list:
        raise ValueError("agents must be a list")
    if data["terms"] is not None:
        key_bytes(data["terms"], "terms", _DIGEST_BYTES)
    return Roster(
        version=_whole(data["version"], "version"),
        valid_until=_whole(data["valid_until"], "valid_until"),
        agents=_agents(data["agents"]),
        environment=None if data["environment"] is None else _entry(data["environment"], _SEAT, "the environment"),
        terms=data["terms"],
        signatures=data["signatures"],
    )


def _agents(listed: list[Any]) -> dict[int, Entry]:
    agents: dict[int, Entry] = {}
    for each in listed:
        entry = _entry(each, ("id", *_SEAT), "an agent")
        number = _whole(each["id"], "id")
        if not max(agents, default=-1) < number <= MAX_AGENT_ID:
            raise ValueError(f"ids must be in 0…{MAX_AGENT_ID}, in ascending order, each once")
        agents[number] = entry
    return agents


def _entry(data: Any, keys: tuple[str, ...], what: str) -> Entry:
    values = exactly(data, keys, what)
    address = values["address"]
    if address is not None and (type(address) is not str or not address.isascii() or address_fault(address)):
        raise ValueError(f"the address of {what} is none to connect to, as in tcp://gate-1:7001")
    return Entry(key_bytes(values["curve"], "curve"), key_bytes(values["sign"], "sign"), address)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    return {"curve": entry.curve.hex(), "sign": entry.sign.hex(), "address": entry.address}


def _whole(value: Any, name: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{name} must be a whole number")
    return value
