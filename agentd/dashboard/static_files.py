"""The files of the page, from the package, held in memory and packed once."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib import resources

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, as it is and packed."""

    content: bytes
    packed: bytes
    kind: str
    etag: str


def static_files() -> dict[str, StaticFile]:
    """By name; nothing else can be asked for, whatever a path says."""
    found = {}
    for entry in resources.files("agentd.dashboard").joinpath("static").iterdir():
        kind = _KINDS.get(entry.name.rpartition(".")[2])
        if kind is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[entry.name] = StaticFile(content, gzip.compress(content, 9, mtime=0), kind, etag)
    return found
