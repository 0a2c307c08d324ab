"""The sources of the site: pages of the repository with their links turned, and the pages that are made."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from generate import of_commands, of_exit_codes, of_library, of_metrics, of_proof, of_settings, of_wire
from generate.import_tables import without_pictures
from generate.site_map import INDEX, MADE, ROOT, Section, name_on_site, pages_taken_in, sections

MAKERS: dict[str, Callable[[], str]] = {
    f"{MADE}commands.md": of_commands.page,
    f"{MADE}settings-table.md": of_settings.page,
    f"{MADE}exit-codes.md": of_exit_codes.page,
    f"{MADE}metrics.md": of_metrics.page,
    f"{MADE}wire-messages.md": of_wire.page,
    f"{MADE}library-names.md": of_library.page,
    f"{MADE}privacy-proof.md": of_proof.page,
}
FILES = "files"
"""Where on the site what pages link to lies that is no page: pictures, examples."""

_FENCE = re.compile(r"^(```.*?^```[ ]*$)", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def assemble(place: Path) -> None:
    """Write everything that Sphinx is to read into a new directory."""
    place.mkdir(parents=True)
    for page, name in pages_taken_in().items():
        text = turned((ROOT / page).read_text(encoding="utf-8"), page, place)
        (place / name).write_text(text + (navigation() if page == INDEX else ""), encoding="utf-8")
    for page, make in MAKERS.items():
        (place / name_on_site(page)).write_text(make(), encoding="utf-8")


def navigation() -> str:
    """The parts of the site, for the index to end with."""
    return "".join(f"\n{_part(section)}" for section in sections())


def _part(section: Section) -> str:
    pages = "\n".join(name_on_site(page).removesuffix(".md") for page in section.pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {section.title}\n\n{pages}\n```\n"


def turned(text: str, page: str, place: Path) -> str:
    """A page with its links leading to pages of the site, or to copies of the files that they name."""
    parts = _FENCE.split(without_pictures(text))
    return "".join(part if part.startswith("```") else _LINK.sub(_turn(page, place), part) for part in parts)


def _turn(page: str, place: Path) -> Callable[[re.Match[str]], str]:
    taken = pages_taken_in()

    def turn(found: re.Match[str]) -> str:
        sign, words, target = found.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return found[0]
        path, hash_sign, anchor = target.partition("#")
        where = ((ROOT / page).parent / path).resolve()
        if not where.is_relative_to(ROOT):
            return found[0]  # for Sphinx to complain about
        here = where.relative_to(ROOT).as_posix()
        words = _LINK.sub(turn, words)  # a picture that is a link
        if here == "README.md":
            here = INDEX
        if here in taken:
            return f"{sign}[{words}]({taken[here]}{hash_sign}{anchor})"
        if where.is_file():
            copy = place / FILES / here
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(where, copy)
            return f"{sign}[{words}]({FILES}/{here})"
        return words if where.is_dir() else found[0]

    return turn
