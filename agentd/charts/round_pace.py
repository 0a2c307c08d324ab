"""How long a round took: by the milestones that agents leave in their logs, else by the history of the run."""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from agentd.core.message import MAX_TRIAL
from agentd.runs.history.look_back import LookBack
from agentd.untrusted import decode_json, read_in

MOST_AGENTS = 256
"""Whose logs are read; of a larger run these many tell as much."""
_LONGEST_LOG = 8 << 20
_LONGEST_LINE = 4 << 10
_EVENT = b'"progress"'


class Pace(NamedTuple):
    """Seconds of a round, by the round in which a milestone was reached."""

    rounds: tuple[int, ...]
    usual_s: tuple[float, ...]
    """The median over the agents."""
    slowest_s: tuple[float, ...] = ()
    """Empty where only the pace of all together is known."""


def read_pace(run_dir: Path) -> Pace | None:
    """How long rounds took; None where nobody left two milestones."""
    took: defaultdict[int, list[float]] = defaultdict(list)
    for agent in range(MOST_AGENTS):
        try:
            content = _log(run_dir, agent)
        except FileNotFoundError:
            break
        except (OSError, ValueError):
            continue
        milestones = list(_milestones(content))
        for (trial, at_s), (later, later_s) in pairwise(milestones):
            if later > trial and later_s >= at_s:
                took[later].append((later_s - at_s) / (later - trial))
    if not took:
        return None
    rounds = sorted(took)
    usual = tuple(statistics.median(took[each]) for each in rounds)
    return Pace(tuple(rounds), usual, tuple(max(took[each]) for each in rounds))


def pace_of(history: Sequence[LookBack]) -> Pace | None:
    """The same from looks at a run, as all of its agents together went on; None where there are no two."""
    told = []
    for before, after in pairwise(look for look in history if look.written is not None):
        if after.round > before.round and before.written is not None and after.written is not None:
            told.append((after.round, max(0.0, after.written - before.written) / (after.round - before.round)))
    return Pace(tuple(round_ for round_, _ in told), tuple(took_s for _, took_s in told)) if told else None


def _log(run_dir: Path, agent: int) -> bytes:
    """The log of an agent, also while it runs in a container and writes into a room of its own."""
    try:
        return read_in(run_dir, f"logs/agent-{agent}.jsonl", _LONGEST_LOG)
    except FileNotFoundError:
        return read_in(run_dir, f"logs/agent-{agent}/agent-{agent}.jsonl", _LONGEST_LOG)


def _milestones(content: bytes) -> Iterator[tuple[int, float]]:
    for line in content.splitlines():
        if len(line) <= _LONGEST_LINE and _EVENT in line:
            with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
                entry = decode_json(line)
                trial, at = entry["trial"], datetime.fromisoformat(entry["timestamp"])
                if entry["event"] == "progress" and type(trial) is int and 0 < trial <= MAX_TRIAL:
                    yield trial, at.timestamp()
