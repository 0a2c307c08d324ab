"""Logs as JSON lines, with agent and run bound to every line."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from agentd.errors import ConfigurationError
from agentd.files import make_directory, open_own


def _import_structlog_without_rich() -> None:
    """Import structlog as if rich were not installed.

    It loads rich, where it is, for a renderer of tracebacks that agents do not use: 40 ms and 3 MB of every process.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the documented way to make an import fail
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


_import_structlog_without_rich()

import structlog  # noqa: E402
from structlog.typing import FilteringBoundLogger  # noqa: E402

Log = FilteringBoundLogger


def _opened(file: str) -> int:
    """The file, ours alone; but /dev/stderr and its like are links, and nobody's."""
    how = os.O_WRONLY | os.O_APPEND
    return os.open(file, how | os.O_CLOEXEC) if file.startswith("/dev/") else open_own(file, how)


def open_log(file: str | None, level: str) -> Log:
    """A logger of its own: nothing global is configured, so several agents can live in one process."""
    target: TextIO = sys.stderr
    if file is not None:
        try:
            make_directory(Path(file).parent)
            descriptor = _opened(file)
            target = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace", buffering=1)
        except OSError as fault:
            raise ConfigurationError(f"cannot write the log {file}: {fault.strerror}") from None
    logger: Log = structlog.wrap_logger(
        structlog.PrintLogger(target),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    )
    return logger
