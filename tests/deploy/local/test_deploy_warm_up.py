"""What the fork server does before it forks is done for all agents, and leaves nothing that they must not share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.local.local_processes import PRELOADED

LOOK = """
import ctypes, json, os, sys, threading
from deploy.local.local_processes import PRELOADED

class Heap(ctypes.Structure):
    _fields_ = [(str(place), ctypes.c_size_t) for place in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap

def look():
    heap = libc.mallinfo2()
    return {
        "files": sorted(os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if
                        os.path.exists(f"/proc/self/fd/{number}")),
        "threads": len(os.listdir("/proc/self/task")),
        "holes": getattr(heap, "8") - getattr(heap, "9"),
    }

for name in PRELOADED[:-1]:
    __import__(name)
before, loaded = look(), set(sys.modules)
__import__(PRELOADED[-1])
print(json.dumps({"before": before, "after": look(), "loaded": sorted(set(sys.modules) - loaded)}))
"""

MAIN = """
import sys
from pathlib import Path

with Path(sys.argv[0]).with_suffix(".runs").open("a", encoding="utf-8") as file:
    file.write(__name__ + "\\n")

if __name__ == "__main__":
    from agentd.cli import main

    main()
"""


def rehearsed() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, timeout=200)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_rehearsal_is_the_last_thing_the_fork_server_does() -> None:
    assert PRELOADED[-1] == "deploy.local.warm_up"


def test_the_rehearsal_leaves_no_thread_and_no_file_and_fills_the_holes_of_the_heap() -> None:
    found = rehearsed()
    assert found["loaded"] == ["deploy.local.warm_up"], "all else was loaded before"
    assert found["after"]["threads"] == found["before"]["threads"]
    assert found["after"]["files"] == found["before"]["files"]
    assert found["after"]["holes"] < found["before"]["holes"] / 4


def test_processes_of_a_testbed_do_not_run_the_main_module_again(tmp_path: Path) -> None:
    """Multiprocessing would have each of them do so; it cost every agent two megabytes."""
    script = tmp_path / "main.py"
    script.write_text(MAIN, encoding="utf-8")
    flags = ["--agents", "2", "--edge-probability", "1", "--rounds", "3", "--run-dir", str(tmp_path / "run")]
    subprocess.run([sys.executable, str(script), "up", *flags], capture_output=True, check=True, timeout=200)
    assert script.with_suffix(".runs").read_text(encoding="utf-8") == "__main__\n"
