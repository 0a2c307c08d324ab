"""Words and tables in Markdown, with nothing in them that Markdown would take for a sign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from inspect import cleandoc
from textwrap import dedent

_CODE = re.compile(r"(`[^`]+`)")
_AS_IT_IS = "\b\n"
"""How click marks a paragraph that is not to be wrapped."""
_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def plain(words: object) -> str:
    """Text as it is, on one line; what it sets in backticks is code."""
    parts = _CODE.split(" ".join(str(words).split()))
    return "".join(code(part[1:-1]) if _CODE.fullmatch(part) else _SIGNS.sub(r"\\\1", part) for part in parts)


def code(words: object) -> str:
    """Something that one types; empty where there is nothing."""
    text = " ".join(str(words).split()).replace("|", "\\|")  # a pipe would end a cell of a table, also in code
    return f"`{text}`" if text else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def paragraphs(words: str) -> str:
    """Prose of a docstring or a help page; what is set off by its indentation, or by click's mark, stays as it is."""
    shown = []
    for part in re.split(r"\n\s*\n", cleandoc(words)):
        if part.startswith((_AS_IT_IS, "    ")):
            shown.append(f"```text\n{dedent(part.removeprefix(_AS_IT_IS))}\n```")
        else:
            shown.append(plain(part))
    return "\n\n".join(shown) + "\n"
