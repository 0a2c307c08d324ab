"""Processes by their number and the moment they started, because numbers are used again.

A process is addressed through a pidfd that was opened before its start time was compared: from then on the number may
be used again and the signal still reaches nobody else. That it belongs to the testbed is shown by what it has open
(`ProcessMark.writes_to`): a testbed.json may have been written by somebody who wants another process gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START_FIELD = 22 - 3  # in /proc/PID/stat, counted from the field after the name, which is the third
_PARENT_FIELD = 4 - 3


def boot_id() -> str:
    """Which boot of the machine this is; start times count from it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process, never mistaken for a later one with its number."""

    pid: int
    started: int
    """Clock ticks from boot to start."""

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        """The mark of a running process; None where there is none."""
        fields = _stat(pid)
        return cls(pid, int(fields[_START_FIELD])) if fields else None

    @classmethod
    def own(cls) -> ProcessMark:
        mark = cls.of(os.getpid())
        return mark if mark is not None else cls(os.getpid(), 0)

    @classmethod
    def from_json(cls, data: Any) -> ProcessMark:
        """Read a mark; raises ValueError for anything else."""
        match data:
            case {"pid": int(pid), "started": int(started)} if pid > 1 and started >= 0:
                return cls(pid, started)
        raise ValueError(f"not the mark of a process: {data!r}")

    def to_json(self) -> dict[str, int]:
        return {"pid": self.pid, "started": self.started}

    def more(self) -> dict[str, str]:
        """Its number is all that there is to show."""
        return {}

    def is_running(self) -> bool:
        """Whether it runs; one that ended and was not waited for does not."""
        fields = _stat(self.pid)
        return bool(fields) and int(fields[_START_FIELD]) == self.started and fields[0] not in ("Z", "X")

    def writes_to(self, file: Path) -> bool:
        """Whether it has this very file open for writing.

        Anybody can write the number and the start of any process into a testbed.json; but that a process works for the
        testbed in that directory is the kernel's to say.
        """
        with contextlib.suppress(OSError):
            wanted = file.lstat()
            if stat.S_ISREG(wanted.st_mode):
                return any(_writes(entry, wanted) for entry in Path(f"/proc/{self.pid}/fd").iterdir())
        return False

    def parent(self) -> int | None:
        """The number of its parent."""
        fields = _stat(self.pid)
        return int(fields[_PARENT_FIELD]) if fields else None


def _writes(descriptor: Path, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):  # closed meanwhile
        return bool(descriptor.lstat().st_mode & stat.S_IWUSR) and os.path.samestat(descriptor.stat(), wanted)
    return False


def send(mark: ProcessMark, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False where it is gone or not ours."""
    with _opened(mark) as descriptor:
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
            if number is signal.SIGTERM:  # who is paused hears it only when it goes on
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def wait_for(marks: Iterable[ProcessMark], timeout_s: float) -> list[ProcessMark]:
    """Wait until all have ended; those that have not when the time is up."""
    deadline = time.monotonic() + timeout_s
    late = []
    for mark in marks:
        with _opened(mark) as descriptor:
            if descriptor is not None and not _ends_before(descriptor, deadline):
                late.append(mark)
    return late


def stop(marks: Iterable[ProcessMark], grace_s: float) -> list[ProcessMark]:
    """SIGTERM to all, and SIGKILL to those that run on after the grace; whoever was running."""
    found = [mark for mark in marks if mark.is_running() and send(mark, signal.SIGTERM)]
    for mark in wait_for(found, grace_s):
        send(mark, signal.SIGKILL)
    wait_for(found, grace_s)
    return found


@contextlib.contextmanager
def _opened(mark: ProcessMark) -> Iterator[int | None]:
    """A descriptor of the process if it still runs."""
    try:
        descriptor = os.pidfd_open(mark.pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor if mark.is_running() else None
    finally:
        os.close(descriptor)


def _ends_before(descriptor: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000.0))


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; the second, the name, may hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
