"""Policies in files of their user, brought along into containers: copied into the run directory, mounted, and named.

What travels is the one file that was named; what it imports has to be installed in the image.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from agentd import plugins
from agentd.errors import ConfigurationError

DIRECTORY = "policies"
INSIDE = f"/opt/agentd/{DIRECTORY}"
LONGEST = 1 << 20


def named_files() -> tuple[str, ...]:
    """The entries of AGENTD_PLUGINS that are files."""
    return tuple(entry for entry in plugins.entries() if plugins.file_in(entry) is not None)


def name_inside(number: int, entry: str) -> str:
    """What a file is called in the directory that containers see."""
    return f"{number}-{Path(entry.rpartition(':')[0]).name}"


def variable(entries: Sequence[str]) -> str:
    """AGENTD_PLUGINS inside a container."""
    own = [f"{INSIDE}/{name_inside(number, each)}:{each.rpartition(':')[2]}" for number, each in enumerate(entries)]
    return ",".join([*own, *(entry for entry in plugins.entries() if plugins.file_in(entry) is None)])


def copy_files(place: Path, entries: Sequence[str]) -> None:
    """Copy the files into the run directory, for anybody to read who can enter it."""
    if not entries:
        return
    (place / DIRECTORY).mkdir(mode=0o755)
    (place / DIRECTORY).chmod(0o755)
    for number, entry in enumerate(entries):
        source, target = Path(entry.rpartition(":")[0]), place / DIRECTORY / name_inside(number, entry)
        try:
            if source.stat().st_size > LONGEST:
                raise ConfigurationError(f"{source} is too long for the file of a policy")
            shutil.copyfile(source, target)
            target.chmod(0o644)
        except OSError as fault:
            raise ConfigurationError(f"cannot bring {source} into containers: {fault.strerror}") from None
