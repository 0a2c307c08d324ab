"""A place for an ipc socket that is ours alone: its directory, a lock beside it, and the file itself.

ZeroMQ would remove whatever lies at the path and listen there, so a second process silently takes the path of the
first, and a file that is no socket is gone. And it removes the file at some time after a close, by then perhaps
somebody else's. So the socket is made here, under a lock, and ZeroMQ is handed its descriptor.

Who may write to a directory on the way to the path could put another socket in its place: every one of them must be
ours or root's, and writable for nobody else (on the way, directories like /tmp where everybody can only remove their
own are good enough). The file has mode 0600: other users cannot connect, whatever the umask is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket as system
import stat
from pathlib import Path

from agentd.addresses import LONGEST_IPC_PATH
from agentd.errors import ConfigurationError

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class IpcEndpoint:
    """The right to listen at one path, until `release` or the end of the process."""

    def __init__(self, path: str, backlog: int) -> None:
        if len(path.encode()) > LONGEST_IPC_PATH:
            raise OSError(errno.ENAMETOOLONG, "file name too long")
        self._path = Path(path)
        _require_own_directory(self._path.parent)
        self._lock = _locked(self._path)
        try:
            self._remove_stale()
            self.descriptor = self._listening(backlog)
            """Of a socket that listens; it belongs to whoever takes it."""
            self._inode = self._path.lstat().st_ino
        except BaseException:
            self._unlock()
            raise

    def release(self) -> None:
        """Remove the file, if it is still ours, and let others listen there; connections there are stay open."""
        if self._lock < 0:
            return
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        self._unlock()

    def _remove_stale(self) -> None:
        """Nobody has the lock, so whoever made a socket here is gone; anything else is not ours to remove."""
        try:
            about = self._path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(about.st_mode):
            raise ConfigurationError(f"{self._path} is there already and is no socket; remove it, or listen elsewhere")
        self._path.unlink()

    def _listening(self, backlog: int) -> int:
        made = system.socket(system.AF_UNIX, system.SOCK_STREAM | system.SOCK_NONBLOCK | system.SOCK_CLOEXEC)
        mask = os.umask(0o177)
        try:
            made.bind(str(self._path))
            made.listen(backlog)
        except BaseException:
            made.close()
            raise
        finally:
            os.umask(mask)
        return made.detach()

    def _unlock(self) -> None:
        with contextlib.suppress(OSError):
            _lock_of(self._path).unlink()  # while it is held; who waits for it looks whether it is still there
        os.close(self._lock)
        self._lock = -1


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _locked(path: Path) -> int:
    """The descriptor of the lock of a path, held; refused where another process listens there."""
    place = _lock_of(path)
    while True:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == place.lstat().st_ino:
                return lock
        except FileNotFoundError:
            pass  # removed by who had it before: try again with a new one
        except BlockingIOError:
            os.close(lock)
            raise OSError(errno.EADDRINUSE, "address already in use") from None
        os.close(lock)


def _require_own_directory(directory: Path) -> None:
    """Nobody but us and root may be able to put something else where the socket will be."""
    real = directory.resolve(strict=True)
    for place in (real, *real.parents):
        about = place.stat()
        others = bool(about.st_mode & _WRITABLE_BY_OTHERS)
        if about.st_uid not in (0, os.geteuid()):
            raise ConfigurationError(f"{place} belongs to another user; listen in a directory of yours")
        if others and (place == real or not about.st_mode & stat.S_ISVTX):
            raise ConfigurationError(
                f"other users may write to {place}; listen in a directory that only you can write to (chmod go-w)"
            )
