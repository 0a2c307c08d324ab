"""What was done to a testbed on purpose, by round, in RUN/faults.jsonl; the environment draws it into the curve.

One line per fault: when, in which round, what was done to whom with which parameters, and the same in words.
"""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from agentd.core.message import MAX_TRIAL
from agentd.files import append_text
from agentd.runs.status import Status
from agentd.untrusted import decode_json, printable, read_in

FILE = "faults.jsonl"

_MOST = 1_000
"""Faults that a summary or a picture lists."""
_WHAT_CHARS = 200
_LONGEST_LINE = 64 << 10
_LONGEST_LOG = 16 << 20
"""Bytes of a log that is read; a thousand faults take a tenth of it, whomever they befall."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that was done to a testbed."""

    verb: str
    what: str
    """In words, for the plot."""
    agents: tuple[int, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)


def append(run_dir: Path, round_: int, fault: Fault) -> dict[str, Any]:
    """Write one fault down; what was written."""
    record = {
        "at": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "round": round_,
        "verb": fault.verb,
        "agents": list(fault.agents),
        "parameters": fault.parameters,
        "what": fault.what,
    }
    append_text(run_dir / FILE, json.dumps(record, ensure_ascii=False) + "\n")
    return record


def read_faults(run_dir: Path) -> list[dict[str, Any]]:
    """Everything that was written down; what is no fault is passed over."""
    return list(islice(_records(run_dir), _MOST))


def read_events(run_dir: Path) -> list[tuple[int, str]]:
    """What a picture shows of the faults: the round of each, and a few words."""
    return [(record["round"], record["what"]) for record in read_faults(run_dir)]


def current_round(status: Status | None) -> int:
    """Where the testbed is, as far as is known; the median, because one that is down stays where it was."""
    trials = [agent.trial for agent in status.agents] if status else []
    return int(statistics.median_high(trials)) if trials else 0


def _records(run_dir: Path) -> Iterator[dict[str, Any]]:
    try:
        content = read_in(run_dir, FILE, _LONGEST_LOG)
    except (OSError, ValueError):
        return
    for line in content.splitlines():
        if len(line) <= _LONGEST_LINE:
            with contextlib.suppress(ValueError):
                record = decode_json(line)
                if isinstance(record, dict) and _is_fault(record):
                    yield record | {"what": printable(record["what"])[:_WHAT_CHARS]}


def _is_fault(record: dict[str, Any]) -> bool:
    return type(record.get("round")) is int and 0 <= record["round"] <= MAX_TRIAL and type(record.get("what")) is str
