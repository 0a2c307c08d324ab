"""What a run was made with."""

from __future__ import annotations

import platform
from importlib import metadata

from agentd import __version__

_STANDS_ON = ("click", "msgpack", "numpy", "pyzmq", "structlog")


def versions() -> dict[str, str]:
    """The versions that decide how a run behaves, for manifests and bug reports."""
    return {
        "agentd": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _STANDS_ON},
    }
