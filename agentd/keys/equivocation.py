"""Proofs that an origin has signed two statements for one trial of one life; they are judged from the file alone. Pure.

What a statement is, PROTOCOL.md says under "Signatures"; here only what all of them begin with is read.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from agentd.keys import signing
from agentd.keys.roster import LONGEST_FILE as LONGEST_ROSTER
from agentd.keys.roster import SignedRoster, parse
from agentd.keys.strict_json import exactly, strict_json

FORMAT = 1
LONGEST_FILE = LONGEST_ROSTER + (1 << 20)
_NAME = "equivocation"
_PURPOSE = b"agentd message 1"
_BEGINNING = struct.Struct("<16s8sQHIHH")
_LONGEST_STATEMENT = 64 << 10


@dataclass(frozen=True, slots=True)
class Proof:
    """Two statements with the signatures under them, and the roster that says whose these are."""

    statements: tuple[bytes, bytes]
    signatures: tuple[bytes, bytes]
    roster: SignedRoster

    @property
    def about(self) -> tuple[bytes, int, int, int]:
        """Run, origin, incarnation and trial, which both statements share."""
        _, run, incarnation, origin, trial, *_ = _BEGINNING.unpack_from(self.statements[0])
        return run, origin, incarnation, trial

    def fault(self) -> str | None:
        """Why it proves nothing, given that the roster is its operator's; None: it proves a lie."""
        return _no_contradiction(self.statements) or self._not_signed()

    def _not_signed(self) -> str | None:
        if not self.roster.is_genuine():
            return "its roster is not signed by the operator that it names"
        entry = self.roster.roster.agents.get(self.about[1])
        if entry is None:
            return f"its roster has no agent {self.about[1]}"
        signed = zip(self.statements, self.signatures, strict=True)
        if not all(signing.is_signed(entry.sign, *each) for each in signed):
            return f"agent {self.about[1]} of its roster has not signed both statements"
        return None

    def text(self) -> str:
        """What stands in its file."""
        whole = {
            "format": FORMAT,
            "proof": _NAME,
            "statements": [each.hex() for each in self.statements],
            "signatures": [each.hex() for each in self.signatures],
            "roster": json.loads(self.roster.text()),
        }
        return json.dumps(whole, indent=2) + "\n"


def _no_contradiction(statements: tuple[bytes, bytes]) -> str | None:
    if any(len(each) < _BEGINNING.size or not each.startswith(_PURPOSE) for each in statements):
        return "one of its statements is none of a message"
    first, second = (_BEGINNING.unpack_from(each)[1:5] for each in statements)
    if first != second:
        return "its statements are of different runs, origins, lives or trials: an honest agent makes these"
    return "both statements say the same" if statements[0] == statements[1] else None


def parse_proof(content: bytes) -> Proof:
    """What a file holds; ValueError, in few words, where it is no proof. Nothing in it is verified yet."""
    keys = ("format", "proof", "statements", "signatures", "roster")
    whole = exactly(strict_json(content), keys, "the file")
    if type(whole["format"]) is not int or whole["format"] != FORMAT or whole["proof"] != _NAME:
        raise ValueError(f"it is no proof of {_NAME} of format {FORMAT}")
    statements = _pair(whole["statements"], "statements")
    signatures = _pair(whole["signatures"], "signatures")
    if any(len(each) != signing.SIGNATURE_BYTES for each in signatures):
        raise ValueError("signatures are not of the length that signatures have")
    return Proof(statements, signatures, parse(json.dumps(whole["roster"]).encode()))


def _pair(value: object, name: str) -> tuple[bytes, bytes]:
    if type(value) is list and len(value) == 2 and all(type(each) is str for each in value):
        first, second = value
        if len(first) <= 2 * _LONGEST_STATEMENT and len(second) <= 2 * _LONGEST_STATEMENT:
            try:
                return bytes.fromhex(first), bytes.fromhex(second)
            except ValueError:
                pass
    raise ValueError(f"{name} must be two texts of hexadecimal digits")
