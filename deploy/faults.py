"""What was done to a testbed on purpose, by round, in RUN/faults.jsonl; the environment draws it into the curve."""

from __future__ import annotations

import json
import time
from pathlib import Path

from agentd.environment.store import FAULTS


def append(run_dir: Path, round_: int, what: str) -> None:
    """Write one fault down."""
    line = json.dumps({"at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "round": round_, "what": what}, ensure_ascii=False)
    with (run_dir / FAULTS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
