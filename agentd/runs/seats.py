"""Seats: what binds an agent's id to the secret of whoever holds it. PROTOCOL.md (section 4) says how they are taken.

An environment keeps hashes only. A launcher that draws the tokens itself hands their hashes over in a file, before
anybody connects: JSON lines, each {"agent": 3, "sha256": "…"}.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from agentd.core.message import MAX_AGENT_ID
from agentd.errors import ConfigurationError
from agentd.files import replace_text
from agentd.untrusted import read_named

SEAT_HASH_BYTES = 32
LONGEST_FILE = 16 << 20
"""Of hashes: one for every id that there can be takes less."""

_PURPOSE = b"agentd seat 1"


def seat_hash(run: bytes, agent: int, token: bytes) -> bytes:
    """What an environment remembers of a token: of no use for another seat, nor in another run."""
    return hashlib.sha256(_PURPOSE + run + agent.to_bytes(2, "little") + token).digest()


def write_seats(path: Path, hashes: Mapping[int, bytes]) -> None:
    """Write the hashes of seats down for `agentd env --seats FILE`; only their owner may read them."""
    lines = [json.dumps({"agent": agent, "sha256": digest.hex()}) for agent, digest in sorted(hashes.items())]
    replace_text(path, "".join(f"{line}\n" for line in lines))


def read_seats(path: Path) -> dict[int, bytes]:
    """The hashes that `write_seats` wrote down."""
    hashes: dict[int, bytes] = {}
    try:
        for number, line in enumerate(read_named(path, LONGEST_FILE).decode("utf-8").splitlines(), start=1):
            agent, digest = _read_seat(line, number)
            if agent in hashes:
                raise ValueError(f"line {number} names agent {agent} again")
            hashes[agent] = digest
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigurationError(f"cannot read the seats in {path}: {why}; write the file anew") from None
    return hashes


def _read_seat(line: str, number: int) -> tuple[int, bytes]:
    try:
        said = json.loads(line)
        agent, digest = said["agent"], bytes.fromhex(said["sha256"])
    except (ValueError, KeyError, TypeError):
        agent, digest = None, b""
    if type(agent) is not int or not 0 <= agent <= MAX_AGENT_ID or len(digest) != SEAT_HASH_BYTES:
        raise ValueError(f'line {number} is not of the form {{"agent": 3, "sha256": "64 hexadecimal digits"}}')
    return agent, digest
