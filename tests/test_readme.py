"""README.md is short, begins with two commands, and shows pictures that are there; `test_pages.py` runs the rest."""

from __future__ import annotations

import re

from pages import ROOT, blocks_of, run, text_of
from test_pages import BLOCKS, MAKE

__all__ = ["run"]  # where tests of pages found it before there was `pages`

README = text_of("README.md")
LONGEST = 150


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= LONGEST


def test_the_two_commands_are_the_makefiles() -> None:
    assert blocks_of("README.md")[0].commands == MAKE
    makefile = text_of("Makefile")
    for command in MAKE:
        assert f"\n{command.removeprefix('make ')}:" in makefile


def test_the_first_page_of_the_site_has_the_same_two_commands() -> None:
    assert [block.commands for block in blocks_of("docs/index.md")] == [MAKE]


def test_ci_runs_the_readmes_test_command() -> None:
    assert "\nmake lint\nmake test\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_its_other_commands_are_run() -> None:
    for block in blocks_of("README.md")[1:]:
        assert block.commands in BLOCKS.values()


def test_every_picture_of_the_readme_is_there() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file(), picture


def test_what_it_says_of_privacy_is_what_the_page_says() -> None:
    """The theorem's words are the same in both places, and each limit that the page names is named."""
    page = " ".join(text_of("docs/privacy.md").split())
    short = " ".join(README.split())
    for words in (
        "**each single reward** is protected by pure ε-differential privacy (δ = 0",
        "**against any set of other agents**, however long they listen, whatever they send and whatever γ is, because "
        "every reward enters one release only and every decision follows from released values, from what others said "
        "and from coins",
        "**one reward replaced by another**",
        "with one device per person and 1,000 rounds that is **1,000 ε**",
        "sees every pull and reward",
        "reads rewards in clear",
        "answers faster than a draw takes",
        "processor time of the agent's",
        "ε ≈ 48",
    ):
        assert words in page, words
        assert words in short, words
