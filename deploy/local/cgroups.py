"""What control groups leave to this process: the limits of its own group and of every group around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def pids_left() -> Iterator[tuple[str, int]]:
    """Every limit on processes and threads, with what is left below it."""
    yield from _left("pids", "pids.max", "pids.current")


def bytes_left() -> Iterator[tuple[str, int]]:
    """Every limit on memory, with what is left below it."""
    yield from _left("memory", "memory.max", "memory.current")
    yield from _left("memory", "memory.limit_in_bytes", "memory.usage_in_bytes")


def _left(controller: str, limit_name: str, use_name: str) -> Iterator[tuple[str, int]]:
    for group in _groups(controller):
        limit, use = _number(group / limit_name), _number(group / use_name)
        if limit is not None and use is not None:
            yield str(group / limit_name), limit - use + _reclaimable(group)


def _reclaimable(group: Path) -> int:
    """Bytes of cached files, which count as used until somebody needs the room; 0 where memory is not the matter."""
    fields = dict(line.split(" ", 1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    return int(fields.get("total_inactive_file", fields.get("inactive_file", "0")))


def _groups(controller: str) -> Iterator[Path]:
    """The directories of this process's group and of those around it, in cgroups 1 and 2."""
    for line in _read(MEMBERSHIP).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if number == "0" and not controllers:
            yield from _upwards(MOUNT, place)
        elif controller in controllers.split(","):
            yield from _upwards(MOUNT / controller, place)


def _upwards(root: Path, place: str) -> Iterator[Path]:
    inside = PurePosixPath(place.lstrip("/"))
    for group in (inside, *inside.parents):
        yield root / group


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None  # "max" means no limit


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
