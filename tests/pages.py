"""The pages of the documentation: their blocks, their commands, and how those are run. Every test of a page uses it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LESS_TO_DO = {
    "agentd experiment": " --repetitions 2 --agents 24 --edge-probability 0.3 --rounds 40",
    "agentd audit": " --runs 200",
    "agentd check": " --seeds 20",
    "agentd soak": " --for 12s",
}
"""What is added to commands that take minutes, unless they say themselves how much there is to do."""
HOW_MUCH = ("--repetitions", "--worlds")

_FENCED = re.compile(r"^```(\w*)(?: file=(\S+))?[^\n]*\n(.*?)^```[ ]*$", flags=re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """What stands between fences, in which language, and which file it is to become."""

    language: str
    file: str
    text: str

    @property
    def commands(self) -> list[str]:
        """What a reader types."""
        lines = self.text.replace("\\\n", "").splitlines()
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def all_pages() -> list[str]:
    """Every page that people read, by its path."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "agentd/wire/PROTOCOL.md"]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose_of(page: str) -> str:
    """The page without its blocks."""
    return _FENCED.sub("", text_of(page))


def blocks_of(page: str, *languages: str) -> list[Block]:
    """The blocks of a page, all or those in some languages."""
    found = [Block(*parts) for parts in _FENCED.findall(text_of(page))]
    return [block for block in found if not languages or block.language in languages]


def own_test_of(page: str) -> Path | None:
    """The file of tests that a page has for itself, and that names it; it sees to all blocks of the page then."""
    name = Path(page).stem.lower().replace("-", "_")
    found = [*(ROOT / "tests").rglob(f"test_{name}_page.py"), *(ROOT / "tests").rglob(f"test_{name}_docs.py")]
    if page == Path(page).name:  # test_settings.py is about settings, and not about docs/settings.md
        found.append(ROOT / "tests" / f"test_{name}.py")
    named = (path for path in found if path.is_file() and Path(page).name in path.read_text(encoding="utf-8"))
    return next(named, None)


def shortened(command: str) -> str:
    for start, flags in LESS_TO_DO.items():
        if command.startswith(start) and not any(flag in command for flag in HOW_MUCH):
            return command + flags
    return command


def surroundings(place: Path) -> dict[str, str]:
    """The variables of a shell whose home is a place of the test's, and whose agentd is the one that is tested."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "HOME": str(place), "XDG_STATE_HOME": str(place / "state"), "PATH": path}


def run(commands: list[str], place: Path) -> str:
    """Run a block in one shell that stops at the first failure and then waits for what runs in the background."""
    script = "\n".join(["set -e", *map(shortened, commands), "wait"])
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=place,
        env=surroundings(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=200)
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever a failed block left in the background
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, f"{script}\n{said[-3000:]}"
    return said


def run_all(blocks: list[Block], place: Path) -> None:
    """The blocks of a page in order, in one directory: files are written, programs and commands run."""
    for number, block in enumerate(blocks):
        if block.file:
            (place / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            script = place / f"block_{number}.py"
            script.write_text(block.text, encoding="utf-8")
            run([f"{sys.executable} {script}"], place)
        else:
            run(block.commands, place)
