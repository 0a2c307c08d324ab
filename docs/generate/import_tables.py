"""Pictures of imports that a page draws as mermaid, told as tables: no script of somebody else's draws them offline."""

from __future__ import annotations

import re

from generate.text import code, table

_PICTURE = re.compile(r"^```mermaid\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_ARROWS = {"-->": "imports", "-.->": "loads when its verb is called"}


def without_pictures(page: str) -> str:
    """The page with a table in place of each picture."""
    return _PICTURE.sub(lambda found: _told(found[1]), page)


def _told(picture: str) -> str:
    rows = []
    for line in picture.splitlines():
        for arrow, verb in _ARROWS.items():
            importer, found, imported = line.strip().partition(f" {arrow} ")
            if found:
                rows.append([code(importer), verb, ", ".join(map(code, imported.split(" & ")))])
    return table(["part", "how", "whom"], rows)
