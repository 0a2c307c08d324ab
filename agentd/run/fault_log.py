"""What was done to a testbed on purpose, by round, in RUN/faults.jsonl; the environment draws it into the curve.

One line per fault: when, in which round, what was done to whom with which parameters, and the same in words.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from agentd.run.status import Status

FILE = "faults.jsonl"

_MOST = 1_000
"""Faults that a summary or a picture lists."""
_WHAT_CHARS = 200


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
    with (run_dir / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")  # one write of one line: several may append
    return record


def read_faults(run_dir: Path) -> list[dict[str, Any]]:
    """Everything that was written down; what is no fault is passed over."""
    try:
        return list(islice(_records(run_dir / FILE), _MOST))
    except OSError:
        return []


def read_events(path: Path) -> list[tuple[int, str]]:
    """What a picture shows of the faults in a file: the round of each, and a few words."""
    events = (_event(record) for record in _records(path))
    return list(islice((event for event in events if event is not None), _MOST))


def current_round(status: Status | None) -> int:
    """Where the testbed is, as far as is known; the median, because one that is down stays where it was."""
    trials = [agent.trial for agent in status.agents] if status else []
    return int(statistics.median_high(trials)) if trials else 0


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():  # a pipe would be waited for
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and "round" in record and "what" in record:
                yield record


def _event(record: dict[str, Any]) -> tuple[int, str] | None:
    try:
        return int(record["round"]), str(record["what"])[:_WHAT_CHARS]
    except (ValueError, TypeError, OverflowError):
        return None
