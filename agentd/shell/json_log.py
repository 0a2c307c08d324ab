"""Logs as JSON lines, with agent and run bound to every line; or as lines for people."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, TextIO

from agentd.errors import ConfigurationError
from agentd.files import make_directory, open_own
from agentd.untrusted import printable, printable_lines


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
_KNOWN_OF_ALL = ("role", "agent", "run")
"""What people need not be told in every line."""


def _opened(file: str) -> int:
    """The file, ours alone; but /dev/stderr and its like are links, and nobody's."""
    how = os.O_WRONLY | os.O_APPEND
    return os.open(file, how | os.O_CLOEXEC) if file.startswith("/dev/") else open_own(file, how)


def _is_for_people(form: str, target: TextIO) -> bool:
    return form == "human" or (form == "auto" and target.isatty())


def _for_people(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """One line: when, how bad, who, what, and what else there is to say; nothing in it drives a terminal."""
    when, level, what = (str(event.pop(name, "")) for name in ("timestamp", "level", "event"))
    trace = str(event.pop("exception", ""))
    who = "environment" if event.get("role") == "environment" else f"agent {event['agent']}" if "agent" in event else ""
    about = "  ".join(f"{name}={_short(value)}" for name, value in event.items() if name not in _KNOWN_OF_ALL)
    line = f"{when[11:19]}  {'' if level == 'info' else level.upper():7}  {who + ':  ' if who else ''}{what}"
    return printable(f"{line}  {about}".rstrip()) + (f"\n{printable_lines(trace)}" if trace else "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def open_log(file: str | None, level: str, form: str = "json") -> Log:
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
            _for_people if _is_for_people(form, target) else structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    )
    return logger
