"""One agent looked at closely: its neighbours, what it has released, its ledger, the end of its log.

Of a private agent only what left it is shown: values that its ledger has charged and noise was added to. Raw sums, open
batches and rewards are in its state and in the environment's files, and stay there. How often it pulled which arm is
the environment's view, and the page says so.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS
from agentd.core.saved_state import SavedState
from agentd.core.trust.regard import FULL_TRUST, UNTOLD
from agentd.dashboard.tamed import read_object
from agentd.errors import AgentdError
from agentd.runs.status import APART, read_status
from agentd.shell.state.reader import DATABASE, ledger_of, read_state
from agentd.untrusted import decode_json, open_in, printable

LOG_LINES = 30
REPORTS = "reports.json"
_LOG_BYTES = 32 << 10
_LONGEST_LINE = 400


def close_up(run_dir: Path, agent: int, neighbours: list[int], pulls: list[int]) -> dict[str, Any]:
    """All that the page shows of an agent beside what it has live."""
    return {
        "agent": agent,
        "neighbours": _neighbours(run_dir, agent, neighbours),
        "pulls": pulls,
        "released": _released(run_dir, agent),
        "log": log_tail(run_dir, agent),
    }


def _neighbours(run_dir: Path, agent: int, neighbours: list[int]) -> list[dict[str, Any]]:
    status, regards = read_status(run_dir), _regards(run_dir, agent)
    known = {each.id: each for each in status.agents} if status is not None else {}
    own = known[agent].round if agent in known else 0
    rows = []
    for each in neighbours:
        about = known.get(each)
        row: dict[str, Any] = {"id": each, "round": None, "behind": None, "blames": [], "blamed_by": []}
        if about is not None:
            row |= {"round": about.round, "behind": own - about.round}
            row["blamed_by"] = [why for why, who in about.blamed.items() if agent in who]
        if each in regards:
            row |= regards[each]
        if agent in known:
            row["blames"] = [why for why, who in known[agent].blamed.items() if each in who]
        rows.append(row)
    return rows


def _regards(run_dir: Path, agent: int) -> dict[int, dict[str, Any]]:
    """How an agent itself sees its neighbours, from its newest report: by neighbour, behind, frames and trust."""
    for name in (REPORTS, f"{APART}/{REPORTS}"):
        reports = read_object(run_dir, name).get("reports")
        found = (one for one in reports or () if isinstance(one, dict) and one.get("agent") == agent)
        told = next(found, {}).get("regards")
        if isinstance(told, list):
            return dict(filter(None, map(_regard, told)))
    return {}


def _regard(told: Any) -> tuple[int, dict[str, Any]] | None:
    if not isinstance(told, list) or len(told) != 4 or not all(type(each) is int and each >= 0 for each in told):
        return None
    neighbour, behind, frames, trust = told
    return neighbour, {"behind": behind, "frames": frames, "trust": trust / FULL_TRUST if trust != UNTOLD else None}


def _released(run_dir: Path, agent: int) -> dict[str, Any] | None:
    """What an agent's state says it has released; None where it keeps none, or none that can be read."""
    place = run_dir / "state" / f"agent-{agent}"
    if not os.path.lexists(place / DATABASE) or (run_dir / "state").is_symlink() or place.is_symlink():
        return None
    try:
        return released_of(read_state(place))
    except (AgentdError, OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def released_of(saved: SavedState) -> dict[str, Any]:
    """Estimates from released sums, and what they cost."""
    algorithm, ledger = ALGORITHMS[saved.about["algorithm"]], ledger_of(saved)
    return {
        "algorithm": algorithm.name,
        "covers": algorithm.covers,
        "spent": ledger.epsilon_one_reward(),
        "releases": ledger.releases(),
        "seeded": bool(saved.about.get("seeded")),
        "trial": saved.trial,
        "estimates": _estimates(saved, disjoint=algorithm.disjoint),
        "ledger": [
            {"arm": arm, "releases": ledger.releases(arm), "spent": ledger.pure_epsilon(arm)} for arm in ledger.arms
        ],
    }


def _estimates(saved: SavedState, *, disjoint: bool) -> list[dict[str, Any]]:
    """By arm: of batches that are disjoint all count, of a sum that runs on only the newest."""
    sums: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for release, value in saved.releases:
        if value is not None:
            sums[release.arm] = [*(sums[release.arm] if disjoint else ()), (value, release.pulls)]
    found = []
    for arm, parts in sorted(sums.items()):
        total, pulls = sum(value for value, _ in parts), sum(count for _, count in parts)
        found.append({"arm": arm, "mean": round(total / UNIT / pulls, 4), "pulls": pulls})
    return found


def log_tail(run_dir: Path, agent: int) -> list[str]:
    """The newest lines of an agent's log, as text that drives no terminal."""
    for name in (f"logs/agent-{agent}.jsonl", f"logs/agent-{agent}/agent-{agent}.jsonl"):
        try:
            descriptor = open_in(run_dir, name)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_BYTES))
            lines = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
        whole = lines[1:] if size > _LOG_BYTES else lines
        return [_readable(line) for line in whole[-LOG_LINES:]]
    return []


def _readable(line: str) -> str:
    """When, what and with which values; a line that is no JSON as it is."""
    try:
        said = decode_json(line.encode(errors="replace"))
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return printable(line[:_LONGEST_LINE])
    first = ("timestamp", "event", "agent", "run", "level")
    rest = " ".join(f"{name}={value}" for name, value in said.items() if name not in first)
    when = str(said.get("timestamp", "")).partition("T")[2].rstrip("Z")[:12]
    level = "" if said.get("level") in (None, "info") else f"{said['level']}: "
    return printable(f"{when} {level}{said.get('event', '')} {rest}".strip()[:_LONGEST_LINE])
