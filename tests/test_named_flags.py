"""Commands and flags that pages name in passing are there, and each flag is one of its command's."""

from __future__ import annotations

import re
import sys
from functools import cache

import pytest
from pages import ROOT, all_pages, prose_of

sys.path.insert(0, str(ROOT / "docs"))  # where the generator is, which knows all commands

from generate.of_commands import commands

CODE = re.compile(r"`([^`]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OF_OTHERS = {"--no-deps", "--record-scenarios", "--help", "--version", "--host", "--nthreads", "--rollback"}
"""Of pip, of our tests, of every command, and of Dask."""
PAGES = [page for page in all_pages() if page != "CHANGELOG.md"]  # which tells of what was


@cache
def flags_of() -> dict[str, set[str]]:
    """The flags of every command, by what one types."""
    return {
        path: {flag for one in command.params for flag in [*one.opts, *one.secondary_opts]}
        for path, command in commands()
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_that_a_page_names_is_one(page: str) -> None:
    known = set().union(*flags_of().values()) | OF_OTHERS
    named = {flag for words in CODE.findall(prose_of(page)) for flag in FLAG.findall(words)}
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_names_has_its_flags(page: str) -> None:
    for words in CODE.findall(prose_of(page)):
        typed = words.replace("\n", " ").split()
        if typed[0] != "agentd" or len(typed) < 2 or not re.fullmatch(r"[a-z]+|--[a-z-]+", typed[1]):
            continue
        command = "agentd agent" if typed[1].startswith("--") else f"agentd {typed[1]}"
        assert command in flags_of() or f"{command} ".startswith("agentd --"), f"{page}: {words}"
        if len(typed) > 2 and f"{command} {typed[2]}" in flags_of():
            command = f"{command} {typed[2]}"
        below = [flags for path, flags in flags_of().items() if path == command or path.startswith(f"{command} ")]
        if command.startswith("agentd config"):
            continue  # it is given another command and its flags
        assert set(FLAG.findall(words)) - OF_OTHERS <= set().union(*below), f"{page}: {words}"


def test_many_are_named() -> None:
    assert sum(len(FLAG.findall(" ".join(CODE.findall(prose_of(page))))) for page in PAGES) > 150
