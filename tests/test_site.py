"""The documentation site is built without a warning, asks nobody for anything, and has every flag that there is."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, all_pages, text_of

from agentd import errors
from agentd.cli import cli
from agentd.core.bodies import KINDS

sys.path.insert(0, str(ROOT / "docs"))  # where the generator is, which is no part of what is installed

from generate import of_commands, of_exit_codes, of_library, of_metrics, of_settings, of_wire
from generate.outside import requests_of
from generate.site_map import pages_taken_in

pytestmark = pytest.mark.system


def built(place: Path) -> Path:
    """The site, built as `make docs` builds it."""
    done = subprocess.run(
        [sys.executable, "-m", "generate", str(place)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT / "docs")},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return place / "html"


def test_it_is_built_without_a_warning_and_all_of_it_is_found(tmp_path: Path) -> None:
    """One test, because the site takes seconds to build and tests of one file run in several processes."""
    site = built(tmp_path)
    has_every_page(site)
    leads_to_every_page(site)
    has_no_link_to_nowhere(site)
    can_be_used_by_keyboard_and_ear(site)
    assert requests_of(site) == []
    assert "by --epsilon-budget" in (site / "metrics.html").read_text(encoding="utf-8"), "two dashes became one"


def can_be_used_by_keyboard_and_ear(site: Path) -> None:
    """What axe-core found serious in the theme's pages stays mended."""
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<pre>" not in text, page.name
        for opening in re.findall(r'<[a-z]+ [^>]*role="heading"[^>]*>', text):
            assert "aria-level" in opening, page.name
        for opening in re.findall(r'<div [^>]*class="table-wrapper[^>]*>', text):
            assert 'tabindex="0"' in opening, page.name


def has_every_page(site: Path) -> None:
    assert set(pages_taken_in()) == set(all_pages()) - {"README.md"}
    for name in pages_taken_in().values():
        assert (site / name.replace(".md", ".html")).is_file(), name


def leads_to_every_page(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    for page in site.glob("*.html"):
        if page.name not in ("index.html", "genindex.html", "search.html"):
            assert f'href="{page.name}"' in first, page.name


def has_no_link_to_nowhere(site: Path) -> None:
    for page in site.glob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            path, _, anchor = html.unescape(target).partition("#")
            if not re.match(r"[a-z]+:", target):
                there = (page.parent / path.partition("?")[0]).resolve() if path else page
                assert there.is_file(), f"{page.name}: {target}"
                if anchor and there.suffix == ".html":
                    assert f'id="{anchor}"' in there.read_text(encoding="utf-8"), f"{page.name}: {target}"


def test_a_page_that_would_ask_another_machine_is_found(tmp_path: Path) -> None:
    for name, text in {
        "font.html": '<link rel="stylesheet" href="https://fonts.example.org/css">',
        "script.html": "<script src='//cdn.example.org/one.js'></script>",
        "picture.html": '<img alt="" src="http://example.org/counted.png">',
        "style.css": "@import url('https://example.org/more.css');",
        "code.js": 'fetch("https://example.org/who")',
    }.items():
        (tmp_path / name).write_text(text)
        assert len(requests_of(tmp_path)) == 1, name
        (tmp_path / name).unlink()
    (tmp_path / "link.html").write_text('<a href="https://msgpack.org">MessagePack</a>')
    assert requests_of(tmp_path) == []


def test_every_flag_of_every_verb_is_in_the_reference() -> None:
    page = of_commands.page()
    flags = 0
    for path, command in of_commands.commands():
        (section,) = re.findall(rf"^## {re.escape(path)}\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
        for one in command.params:
            for flag in [*one.opts, *one.secondary_opts] if one.param_type_name == "option" else []:
                assert f"`{flag}`" in section, f"{path} {flag}"
                flags += 1
    assert flags > 300
    assert {f"agentd {verb}" for verb in cli.list_commands(None)} <= set(re.findall(r"^## (.+)$", page, re.MULTILINE))  # type: ignore[arg-type]


def test_every_setting_is_in_the_reference() -> None:
    page = of_settings.page()
    for name in ("--epsilon", "--rewards-per-person", "--round-timeout", "--http", "--listen", "--edge-probability"):
        assert page.count(f"| `{name}` |") == 1, name


def test_metrics_are_those_that_the_page_on_watching_names() -> None:
    named = set(re.findall(r"`(agentd_\w+)`", text_of("docs/watching.md")))
    assert {metric.name for metric in of_metrics.metrics()} == named


def test_exit_codes_messages_and_names_are_in_the_reference() -> None:
    codes = of_exit_codes.page()
    for fault in of_exit_codes.faults():
        assert fault is errors.PeerError or f"| `{fault.__name__}` | `{fault.exit_code}` |" in codes
    for number in (0, 1, 2, 69, 75, 78):
        assert f"| `{number}` |" in codes
    wire = of_wire.page()
    for kind in KINDS.values():
        if kind.tag < 128:
            assert f"| `{kind.tag}` | `{kind.name}` |" in wire
    assert "## simulate\n" in of_library.page()


def test_nothing_that_is_built_is_a_file_of_git() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only a checkout knows its files")
    done = subprocess.run(["git", "check-ignore", "--quiet", "build/docs"], cwd=ROOT, check=False)
    assert done.returncode == 0
