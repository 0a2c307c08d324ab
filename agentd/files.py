"""Files that are complete whenever anybody looks: written beside, and moved into place."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o666, shared: bool = False) -> Iterator[Path]:
    """A new, empty file to write to, which takes the place of `path` at the end; after a failure `path` is as it was.

    `mode` is subject to the umask, as with any file; `shared`: several processes may write to `path`.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.new" if shared else f"{path.name}.new")
    try:
        beside.unlink(missing_ok=True)
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))  # so no link is ever followed
        yield beside
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
