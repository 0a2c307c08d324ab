"""asyncio and ZeroMQ around the core; it waits and decides nothing."""

from __future__ import annotations

import sys


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
