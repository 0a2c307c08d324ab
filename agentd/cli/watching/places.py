"""What a directory holds that somebody asks about: a testbed, the run of a lone environment, an agent's state."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentd.cli.watching.agent_rows import rows_of, rows_text
from agentd.cli.watching.saved import saved_text, told_of
from agentd.errors import ConfigurationError
from agentd.files import require_own
from agentd.runs.status import APART, FILE, read_status
from agentd.shell.state.reader import DATABASE
from agentd.untrusted import printable, read_json_in
from deploy.testbed import description, registry

OPERATOR = "operator.json"
"""There while an environment runs."""


@dataclass(frozen=True, slots=True)
class Told:
    """How something is doing."""

    about: dict[str, Any]
    text: Callable[[dict[str, Any]], str]
    over: bool
    """Whether nothing more will happen."""


def look(run_dir: str | None) -> Told:
    """How what is in the directory is doing; without one, the testbed that is meant then."""
    place = Path(run_dir) if run_dir is not None else None
    if place is None or os.path.lexists(place / registry.FILE):
        return _testbed(registry.choose(run_dir))
    if place.exists():
        require_own(place)
    if os.path.lexists(place / DATABASE):
        return _agent(place)
    if any(os.path.lexists(place / name) for name in (FILE, f"{APART}/{FILE}")):
        return _environment(place)
    raise ConfigurationError(
        f"{place} holds no testbed, no run of an environment and no agent's state: there is no {registry.FILE}, no "
        f"{FILE} and no {DATABASE} in it; see agentd ps"
    )


def _testbed(testbed: registry.Testbed) -> Told:
    about = description.describe(testbed)
    status = read_status(testbed.run_dir)
    about["rows"] = rows_of(status, about["down"], _age_s(testbed.run_dir)) if status is not None else []
    return Told(about, _testbed_text, about["state"] in (str(registry.State.ENDED), "crashed"))


def _testbed_text(about: dict[str, Any]) -> str:
    return "\n".join([description.status_text(about), *_below(about)])


def _environment(place: Path) -> Told:
    status = read_status(place)
    if status is None:
        raise ConfigurationError(f"the {FILE} in {place} cannot be read")
    age_s = _age_s(place)
    running = os.path.lexists(place / OPERATOR)
    about = {
        "run": status.run,
        "run_dir": str(place),
        "state": "done" if status.done else "running" if running else "ended",
        "written_s_ago": round(age_s, 1),
        "agents": len(status.agents),
        "round": status.round(),
        "rounds": status.rounds,
        "group_regret": status.group_regret,
        "messages": status.messages,
        "dropped": status.dropped,
        "pulls": status.pulls,
        "pulls_per_s": status.pulls_per_s if running else 0.0,
        "refused": status.refused,
        "malformed": status.malformed,
        "blamed": status.blamed(),
        "rows": rows_of(status, (), age_s if running else 0.0),
    }
    return Told(about, _environment_text, not running)


def _environment_text(about: dict[str, Any]) -> str:
    rounds = f" of {about['rounds']:,}" if about["rounds"] else ""
    refused = ", ".join(f"{why} {times:,}" for why, times in {**about["refused"], **about["malformed"]}.items())
    lines = [
        f"run directory   {about['run_dir']}",
        f"environment     {about['state']}, as written {about['written_s_ago']:.0f} s ago",
        f"agents          {about['agents']}",
        f"round           {about['round']:,}{rounds}",
        f"group regret    {about['group_regret']:,.1f}",
        f"messages        {about['messages']:,}, dropped {about['dropped']:,}",
        f"pulls           {about['pulls']:,}, {about['pulls_per_s']:,.0f} per second",
        *([f"refused         {refused}"] if refused else []),
    ]
    return "\n".join([*map(printable, lines), *_below(about)])


def _below(about: dict[str, Any]) -> list[str]:
    rows = rows_text(about["rows"])
    return ["", *rows] if rows else []


def _agent(place: Path) -> Told:
    written = os.lstat(place / DATABASE).st_mtime
    about = {"state_dir": str(place), "written_s_ago": round(max(0.0, time.time() - written), 1), **told_of(place)}
    return Told(about, saved_text, False)


def _age_s(place: Path) -> float:
    """Since when a status stands; 0 where nobody can tell."""
    for name in (FILE, f"{APART}/{FILE}"):
        try:
            written = read_json_in(place, name)["written"]
            return max(0.0, time.time() - float(written))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return 0.0
