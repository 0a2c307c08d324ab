"""What the theme leaves out for people who use a keyboard or a screen reader, added to the built pages."""

from __future__ import annotations

from pathlib import Path

_ADDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',  # wide ones scroll, and arrow keys scroll only what has the focus
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
}


def make_accessible(site: Path) -> None:
    """Rewrite every page of a built site."""
    for path in site.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        for found, better in _ADDED.items():
            text = text.replace(found, better)
        path.write_text(text, encoding="utf-8")
