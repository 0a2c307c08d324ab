"""Every link of every page leads somewhere: to a file that is there, and in it to a heading that is there."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from pages import ROOT, all_pages, prose_of, text_of

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]*`")


def links_of(page: str) -> list[str]:
    """Where a page leads, but for other sites."""
    found = LINK.findall(CODE.sub("code", prose_of(page)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


@cache
def anchors_of(page: str) -> frozenset[str]:
    """The names of its headings, as GitHub and the site make them."""
    seen: Counter[str] = Counter()
    names = set()
    for title in re.findall(r"^#{1,6} (.+?)\s*$", prose_of(page), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(names)


@pytest.mark.parametrize("page", all_pages())
def test_every_link_leads_somewhere(page: str) -> None:
    for target in links_of(page):
        path, _, anchor = target.partition("#")
        there = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert there.is_relative_to(ROOT), f"{page}: {target} leads out of the repository"
        assert there.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors_of(there.relative_to(ROOT).as_posix()), f"{page}: {target}"


def test_every_page_is_found_from_the_readme() -> None:
    """By links alone, as on the web; best by a row of its table of pages."""
    found, new = {"README.md"}, ["README.md"]
    while new:
        page = new.pop()
        there = {((ROOT / page).parent / target.partition("#")[0]).resolve() for target in links_of(page)}
        known = {path.relative_to(ROOT).as_posix() for path in there if path.is_relative_to(ROOT)}
        new += (known & set(all_pages())) - found
        found |= known
    lost = set(all_pages()) - found - {"docs/index.md", "CHANGELOG.md"}
    assert not lost, f"no page leads to {sorted(lost)}; add them to the table of pages in README.md"


def test_links_are_found() -> None:
    assert sum(len(links_of(page)) for page in all_pages()) > 80


def test_a_heading_is_named_as_it_is_on_the_web() -> None:
    assert "what-ε-means-here-and-what-it-does-not" in anchors_of("docs/privacy.md")


@pytest.mark.parametrize("page", all_pages())
def test_files_that_a_page_names_are_there(page: str) -> None:
    """Paths of this repository in code, as in `docs/paper.md`; CHANGELOG.md tells of what was."""
    if page == "CHANGELOG.md":
        return
    named = re.findall(
        r"`((?:agentd|deploy|docs|tests|topology)/[\w./@-]+\.(?:py|md|json|yml|conf|service))`", text_of(page)
    )
    assert [name for name in named if not (ROOT / Path(name)).exists()] == []
