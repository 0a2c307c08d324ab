"""Whether the agent or environment that writes a health file is well; needs nothing but the standard library.

Health checks run every few seconds in every container of a host, so this file must start fast: it is also run by
itself, as `python3 -I -S health_probe.py [FILE]`, and imports nothing of ours. `agentd health` is the same for people.

The file is one JSON object: role, id, pid, state, trial, written_s (CLOCK_MONOTONIC, which all processes of a machine
share) and fresh_s, how long the writer means what it wrote to hold.
"""

from __future__ import annotations

import json
import os
import sys
import time

VARIABLE = "AGENTD_HEALTH_FILE"
LONGEST = 4_096
WELL = ("ready", "running", "done")
"""States in which whoever writes has its sockets bound."""


def judge(content: object, now_s: float, alive: bool) -> tuple[bool, str]:
    """Whether what the file says means health, and one line that says why."""
    try:
        who = _name(content)
        state, trial = str(content["state"]), int(content["trial"])  # type: ignore[index]
        age_s, fresh_s = now_s - float(content["written_s"]), float(content["fresh_s"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return False, "the health file is not one of agentd's"
    at = f"{state} at trial {trial}" if trial else state
    if not alive:
        return False, f"{who} has ended; it was {at}"
    if not 0.0 <= age_s <= fresh_s:
        return False, f"{who} is stuck: {at}, and nothing moved for {abs(age_s):.0f} s (allowed: {fresh_s:.0f})"
    return state in WELL, f"{who} is {at}"


def look(path: str) -> tuple[bool, str, dict[str, object]]:
    """Read a health file and judge it: well or not, why, and what it says."""
    try:
        content = json.loads(_content(path))
    except FileNotFoundError:
        return False, f"no health file {path}: nothing has started here, or it was not told --health-file", {}
    except (OSError, ValueError, RecursionError) as fault:
        return False, f"cannot read the health file {path}: {fault}", {}
    well, why = judge(content, time.clock_gettime(time.CLOCK_MONOTONIC), _is_alive(content))
    return well, why, content if isinstance(content, dict) else {}


def _content(path: str) -> str:
    """What is in the file; nobody waits for a pipe in its place, and no more is read than a health file holds."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(file, LONGEST).decode("utf-8")
    finally:
        os.close(file)


def _name(content: object) -> str:
    role, number = content["role"], content["id"]  # type: ignore[index]
    return f"{role} {number}" if number is not None else f"the {role}"


def _is_alive(content: object) -> bool:
    """Whether the process that wrote it is there: a number in our own process namespace."""
    try:
        return os.path.isdir(f"/proc/{int(content['pid'])}")  # type: ignore[index]  # noqa: PTH112
    except (KeyError, TypeError, ValueError):
        return False


def main(arguments: list[str]) -> int:
    """Say how it is; exit code 0 is well."""
    path = arguments[0] if arguments else os.environ.get(VARIABLE, "")
    if not path:
        print(f"name the health file, or set {VARIABLE}")  # noqa: T201
        return 1
    well, why, _ = look(path)
    print(why.encode("ascii", "replace").decode())  # noqa: T201 - this is a program of its own, without click
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
