"""Logs as JSON lines, with agent and run bound to every line."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger

from agentd.errors import ConfigurationError


def open_log(file: str | None, level: str) -> FilteringBoundLogger:
    """A logger of its own: nothing global is configured, so several agents can live in one process."""
    target: TextIO = sys.stderr
    if file is not None:
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            target = Path(file).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed with the process
        except OSError as fault:
            raise ConfigurationError(f"cannot write the log {file}: {fault.strerror}") from None
    logger: FilteringBoundLogger = structlog.wrap_logger(
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
