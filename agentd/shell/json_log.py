"""Logs as JSON lines, with agent and run bound to every line."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

from agentd.errors import ConfigurationError


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


def open_log(file: str | None, level: str) -> Log:
    """A logger of its own: nothing global is configured, so several agents can live in one process."""
    target: TextIO = sys.stderr
    if file is not None:
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            target = Path(file).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed with the process
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
