"""A failing world as a file that anybody can play again: JSON, for people to read and for `--replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentd.check.oracle.violation import Violation
from agentd.check.world import World
from agentd.errors import ConfigurationError

LONGEST_FILE = 1 << 20


def write_script(path: Path, world: World, violation: Violation, bug: str | None = None) -> None:
    """What it takes, what was wrong, and what happened before."""
    about: dict[str, Any] = {
        "invariant": violation.invariant,
        "what": violation.what,
        "at_s": round(violation.now_s, 6),
    }
    if bug is not None:
        about["planted"] = bug
    content = {"fails": about, "world": world.to_json(), "story": violation.story[-40:]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_script(path: Path) -> tuple[World, dict[str, Any]]:
    """The world of a script, and what is said to be wrong in it."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST_FILE + 1)
        if len(text) > LONGEST_FILE:
            raise ValueError("it is far too long")
        content = json.loads(text)
        if not isinstance(content, dict) or not isinstance(content.get("fails", {}), dict):
            raise ValueError("it is no script of agentd check")
        return World.from_json(content.get("world")), content.get("fails", {})
    except OSError as fault:
        raise ConfigurationError(f"cannot read {path}: {fault.strerror}; name a script of agentd check") from None
    except ValueError as fault:
        raise ConfigurationError(f"cannot play {path}: {fault}; name a script of agentd check") from None
