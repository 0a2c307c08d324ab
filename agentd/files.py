"""Files of one user: nobody else may read them, no link leads a write astray, and whoever looks finds them complete.

What is made here has mode 0600, and directories 0700, from the first moment on and whatever the umask is; what is
public says so. A directory of another user is refused, also by root: whoever owns it decides what lies in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from agentd.errors import AgentdError, ConfigurationError

LONGEST_FILE = 64 << 20
FILE, DIRECTORY = 0o600, 0o700
"""The modes of what only its owner may use."""
PUBLIC = 0o644
"""Of files that everybody may read."""

_OTHERS = 0o077
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MAKING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = FILE, shared: bool = False) -> Iterator[IO[bytes]]:
    """A new, empty file to write to, which takes the place of `path` at the end; after a failure `path` is as it was.

    `shared`: several processes may write to `path`. A link at `path` is replaced, never followed. The directory is the
    one that `path` is in now, whatever takes its name meanwhile.
    """
    beside = f"{path.name}.{os.getpid()}.new" if shared else f"{path.name}.new"
    if path.parent == Path("/dev"):  # a file in place of /dev/stdout would be missed by everybody
        raise OSError(errno.EINVAL, "no place for files", str(path))
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=directory)
        with os.fdopen(os.open(beside, _MAKING, mode, dir_fd=directory), "wb") as file:
            yield file
        os.replace(beside, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=directory)
        raise
    finally:
        os.close(directory)


def replace_text(path: Path, text: str, *, mode: int = FILE) -> None:
    """Put a text into a file, all of it or nothing."""
    content = text.encode()
    with replacing(path, mode=mode) as file:
        file.write(content)


def make_new(path: Path, text: str) -> None:
    """Put a text into a file that is not there yet, and wait for the disk; FileExistsError where it is."""
    with os.fdopen(os.open(path, _MAKING, FILE), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def open_own(path: Path | str, how: int) -> int:
    """Open a file of ours for writing, a new one where there is none: no link, no pipe, nobody else's.

    One that an earlier agentd made readable for others is so no longer.
    """
    descriptor = os.open(path, how | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, FILE)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is no plain file of yours", str(path))
    if about.st_mode & _OTHERS:
        os.fchmod(descriptor, FILE)
    return descriptor


def append_text(path: Path, text: str) -> None:
    """Write at the end of a file of ours, in one go: several processes may do so side by side."""
    descriptor = open_own(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, text.encode(errors="replace"))
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory that only its owner may enter, and so those above it that are missing."""
    missing = []
    for place in (path, *path.parents):
        if os.path.lexists(place):
            break
        missing.append(place)
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):  # somebody was faster; whether it will do is seen when it is used
            place.mkdir(mode=DIRECTORY)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(path))


class OwnDirectory:
    """An open directory of the user who runs us, in which nobody else can put anything."""

    def __init__(self, path: Path, *, narrow: bool = False, others_may_write: bool = False) -> None:
        """Open it; one that others may write to is refused, or, with `narrow`, from now on entered by us only."""
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as fault:
            why = "it is a link" if path.is_symlink() else fault.strerror
            raise ConfigurationError(f"cannot use {path}: {why}; name a directory of yours") from None
        try:
            self._require_own(narrow=narrow, others_may_write=others_may_write)
        except BaseException:
            self.close()
            raise

    @classmethod
    def made(cls, path: Path) -> Self:
        """A directory to keep things in, which only we may enter from now on; OSError where it cannot be made."""
        make_directory(path)
        return cls(path, narrow=True)

    def _require_own(self, *, narrow: bool, others_may_write: bool) -> None:
        about = os.fstat(self._descriptor)
        if about.st_uid != os.geteuid():
            raise ConfigurationError(
                f"{self.path} belongs to another user; only its owner may use what is in it, root neither: run this as "
                "its owner, or name a directory of yours"
            )
        if narrow and about.st_mode & _OTHERS:
            os.fchmod(self._descriptor, DIRECTORY)
        elif about.st_mode & _OTHERS_WRITE and not others_may_write:
            raise ConfigurationError(
                f"others may write to {self.path}, so it may hold what you have not put there; look at it, then "
                f"chmod go-w {self.path}"
            )

    def names(self) -> list[str]:
        """What is in it."""
        return os.listdir(self._descriptor)  # noqa: PTH208 - of what is open, not of what has its name

    def lock(self, refusal: str) -> None:
        """Keep others from doing so until all copies of us have let go; refuses where somebody has it already."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AgentdError(refusal) from None

    def read(self, name: str, limit: int = LONGEST_FILE) -> bytes | None:
        """A file of the user's in it; None where there is none."""
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, how, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise ConfigurationError(f"cannot read {self.path / name}: {fault.strerror}") from None
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size > limit:
            os.close(descriptor)
            raise ConfigurationError(f"{self.path / name} is no file of yours, or far too long")
        with os.fdopen(descriptor, "rb") as file:
            return file.read(about.st_size)

    def close(self) -> None:
        """Let go of it; a copy of us that was forked keeps its lock."""
        os.close(self._descriptor)


def require_own(path: Path, *, others_may_write: bool = False) -> None:
    """Refuse a directory of another user, behind a link, or one that others may write to."""
    OwnDirectory(path, others_may_write=others_may_write).close()


def user_state() -> Path:
    """Where things are kept that are this user's and belong to no run."""
    home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return base / "agentd"
