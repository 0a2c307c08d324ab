"""The privacy argument, which stands at the head of the module that it is about."""

from __future__ import annotations

import ast

from generate.site_map import ROOT

WHERE = "agentd/core/policy/sealed.py"


def page() -> str:
    """The docstring as it is: it is written so that it can be read as a page."""
    words = ast.get_docstring(ast.parse((ROOT / WHERE).read_text(encoding="utf-8"))) or ""
    intro = (
        f"# Why sealed is private\n\nThis is the head of `{WHERE}`, word for word: the argument stands "
        "beside the code that has to keep it true. [What ε means here](privacy.md) says what the theorem is "
        "about and what it does not cover; "
        "[SECURITY.md](security.md) names the tests.\n\n"
    )
    return intro + words + "\n"
