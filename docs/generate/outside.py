"""What a browser would fetch from another machine to show a built page: nothing, or the build fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_FETCHED = (
    re.compile(
        r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data|srcset)=["']?(?:https?:)?//""",
        re.I,
    ),
    re.compile(
        r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|dns-prefetch|icon|manifest|modulepreload))"""
        r"""[^>]*\bhref=["']?(?:https?:)?//""",
        re.I,
    ),
)
_IN_STYLES = re.compile(r"""(?:@import\s+(?:url\()?|url\()\s*["']?(?:https?:)?//""", re.I)
_IN_SCRIPTS = re.compile(
    r"""(?:fetch|import|importScripts|sendBeacon|WebSocket|EventSource)\(\s*["'`](?:https?:|wss?:)?//"""
)
_LOOKS_FOR = {
    ".html": (*_FETCHED, _IN_STYLES, _IN_SCRIPTS),
    ".css": (_IN_STYLES,),
    ".js": (_IN_SCRIPTS,),
    ".svg": (*_FETCHED, _IN_STYLES),
}
"""Links that a person follows are none of these."""


def requests_of(site: Path) -> list[str]:
    """Each request of a built site that would leave the machine, with its file."""
    return [line for path in sorted(site.rglob("*")) if path.suffix in _LOOKS_FOR for line in _of(path)]


def _of(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for pattern in _LOOKS_FOR[path.suffix]:
        for found in pattern.finditer(text):
            yield f"{path.name}: {text[found.start() : found.end() + 60]!r}"
