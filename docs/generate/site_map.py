"""Which page of the repository stands where on the site."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

INDEX = "docs/index.md"


class Section(NamedTuple):
    """A part of the navigation: pages of the repository, and pages that are made from the code."""

    title: str
    pages: tuple[str, ...]


MADE = "made/"
"""How names of pages begin that `generate` makes."""

SECTIONS = (
    Section("Start here", ("docs/tutorial.md",)),
    Section(
        "How to",
        (
            *("docs/choosing.md", "docs/privacy-for-everyone.md", "docs/testbeds.md", "docs/devices.md"),
            "docs/three-devices.md",
            *("docs/real-arms.md", "docs/settings.md", "docs/containers.md", "docs/kubernetes.md", "docs/watching.md"),
            *(
                "docs/budgets.md",
                "docs/writing-a-policy.md",
                "docs/library.md",
                "docs/sweeps.md",
                "docs/cluster.md",
                "docs/chaos.md",
                "docs/audit.md",
            ),
        ),
    ),
    Section(
        "Reference",
        (
            *(f"{MADE}commands.md", f"{MADE}settings-table.md", f"{MADE}exit-codes.md", "docs/run-directory.md"),
            *(f"{MADE}metrics.md", f"{MADE}wire-messages.md", f"{MADE}library-names.md", "docs/glossary.md"),
        ),
    ),
    Section(
        "Explanation",
        (
            *("docs/architecture.md", "agentd/wire/PROTOCOL.md", "docs/privacy.md", f"{MADE}privacy-proof.md"),
            *(
                "docs/algorithms.md",
                "docs/liars.md",
                "docs/paper.md",
                "docs/figures.md",
                "SECURITY.md",
                "docs/scale.md",
            ),
        ),
    ),
    Section("Project", ("CONTRIBUTING.md", "CHANGELOG.md")),
)
UNPLACED = "How to"
"""Where a page of docs/ goes that nobody has given a place."""


def sections() -> tuple[Section, ...]:
    """The parts of the site, with every page of docs/ in one of them."""
    placed = {page for section in SECTIONS for page in section.pages} | {INDEX}
    found = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md"))]
    rest = tuple(page for page in found if page not in placed)
    return tuple(
        Section(section.title, section.pages + rest) if section.title == UNPLACED else section for section in SECTIONS
    )


def name_on_site(page: str) -> str:
    """The file of a page among the sources of the site, which has no folders."""
    return Path(page).name.lower()


def pages_taken_in() -> dict[str, str]:
    """Every page of the repository on the site, and its name there."""
    pages = [INDEX, *(page for section in sections() for page in section.pages if not page.startswith(MADE))]
    return {page: name_on_site(page) for page in pages}
