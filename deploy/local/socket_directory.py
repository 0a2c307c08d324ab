"""Directories for the sockets and keys of one testbed: entered by its user only, and found again.

They lie where names are short, because the kernel takes 107 bytes of a socket's path at most: in the user's runtime
directory, or in /tmp. The supervisor holds a lock on its directory for as long as it lives; so one that is recorded in
a testbed.json and locked by nobody was left behind, by a supervisor that was killed, and may be removed. Whatever a
testbed.json says, nothing else is: only a directory of the user's own, with a name as we give, in a place where we make
them, and in it only files as we make them. Links are never followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentd.errors import ConfigurationError

LONGEST_PATH = 107
_COMMON_HOME = "/tmp"  # noqa: S108 - in it is a directory that only its owner may enter
_PREFIX = "agentd-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
_FILE = re.compile(
    r"(e|[ah]\d{1,5})(\.lock)?|roster\.json(\.new)?|"
    r"(agent-\d{1,5}|environment)\.(pub|key(\.roster|\.lives|\.proof-\d{1,5}\.json)?)(\.new)?"
)
"""Sockets with their locks, and keys."""
_YOUNG_S = 60.0
_LONGEST_NAME = len(f"/{_PREFIX}12345678/a65535.lock")


class SocketDirectory:
    """A directory of ours, locked until every copy of us has let go of it."""

    def __init__(self) -> None:
        home = home_of_sockets()
        if home is None:
            raise ConfigurationError(
                f"what we make in {_COMMON_HOME} would not stay ours (it should belong to root and have the sticky "
                "bit); set XDG_RUNTIME_DIR to a directory of yours, or use --transport tcp"
            )
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=home)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let go of it, and remove it, unless another copy of us, a supervisor in the background, still has it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            remove(self.path)


def home_of_sockets() -> str | None:
    """Where the next directory will be made; None: there is no place for it."""
    return next(_usable_homes(), None)


def remove(path: str) -> bool:
    """Remove a directory of sockets that nobody uses any more; False: it is gone, in use, or not surely ours."""
    place = Path(path)
    if not _NAME.fullmatch(place.name) or str(place.parent) not in set(_homes()):
        return False
    try:
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.fstat(opened).st_uid != os.geteuid():
            return False
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.scandir(opened) as entries:
            names = [entry.name for entry in entries if _is_ours(entry)]
        for name in names:
            os.unlink(name, dir_fd=opened)
        place.rmdir()
    except OSError:  # a supervisor has it, or there is something in it that we have not made
        return False
    finally:
        os.close(opened)
    return True


def remove_left_over(now_s: float) -> int:
    """Remove the directories that nobody uses and no testbed.json may tell of: their makers were killed before that.

    One that was made in the last minute may be about to be locked.
    """
    removed = 0
    for home in dict.fromkeys(_homes()):
        with contextlib.suppress(OSError), os.scandir(home) as entries:
            old = [each.path for each in entries if _NAME.fullmatch(each.name) and _is_old(each, now_s)]
            removed += sum(map(remove, old))
    return removed


def _is_old(entry: os.DirEntry[str], now_s: float) -> bool:
    about = entry.stat(follow_symlinks=False)
    return about.st_uid == os.geteuid() and now_s - about.st_mtime > _YOUNG_S


def _is_ours(entry: os.DirEntry[str]) -> bool:
    mode = entry.stat(follow_symlinks=False).st_mode
    return _FILE.fullmatch(entry.name) is not None and (stat.S_ISSOCK(mode) or stat.S_ISREG(mode))


def _usable_homes() -> Iterator[str]:
    for home in _homes():
        if len(os.fsencode(home)) + _LONGEST_NAME <= LONGEST_PATH and _stays_ours(home):
            yield home


def _homes() -> Iterator[str]:
    """Where our directories may lie, the best first; also where they were made under another environment."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        yield os.path.normpath(runtime)
    yield _COMMON_HOME
    yield f"/run/user/{os.geteuid()}"


def _stays_ours(home: str) -> bool:
    """Whether nobody else can move or replace what we make there."""
    with contextlib.suppress(OSError):
        about = os.lstat(home)
        others_write = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not about.st_mode & stat.S_ISVTX
        mine = about.st_uid in {0, os.geteuid()} and not others_write
        return stat.S_ISDIR(about.st_mode) and mine and os.access(home, os.W_OK | os.X_OK, effective_ids=True)
    return False
