"""`agentd report`: a page and files of runs, whatever their directories hold, and nothing written over unasked."""

from __future__ import annotations

import csv
import html
import json
import os
import stat
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from run_directories import MARKUP, as_of_a_testbed, hostile, simulated, under_way, with_pipes

from agentd.charts.report_style import STYLE, style_hash
from agentd.cli import cli, main
from deploy.testbed.registry import announce, new_testbed, record

ELEMENTS = set(
    """html head meta title style body main h1 h2 h3 p dl div dt dd small figure figcaption svg text line path polyline
    circle rect clippath g ul li ol span b table thead tbody tr th td details summary footer""".split()  # noqa: SIM905
)
ATTRIBUTES = set(
    """lang charset http-equiv content name class viewbox role aria-label aria-hidden x y x1 x2 y1 y2 cx cy r d points
    id clip-path width height text-anchor stroke-dasharray scope tabindex""".split()  # noqa: SIM905
)
"""All that a page is made of."""


class Page(HTMLParser):
    """What a browser would find in a page: its elements, their attributes, its words."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, words)])


def test_a_page_of_one_run_shows_charts_figures_ledger_and_settings(tmp_path: Path) -> None:
    done = run(as_of_a_testbed(tmp_path / "mine"), "--out", tmp_path / "a" / "mine.html")
    assert done.exit_code == 0, done.output
    file = tmp_path / "a" / "mine.html"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    page = Page(file.read_text())
    assert page.elements.count("figure") == 11
    said = " ".join(page.words)
    for words in ("Group regret", "agent 2 was killed", "Agents and their ledgers", "Settings", "edge probability"):
        assert words in said
    assert {*page.elements} <= ELEMENTS
    assert page.attributes <= ATTRIBUTES


def test_nothing_is_fetched_and_only_the_pages_own_style_is_allowed(tmp_path: Path) -> None:
    run(simulated(tmp_path / "mine"), "--out", tmp_path / "mine.html")
    content = (tmp_path / "mine.html").read_text()
    assert "://" not in content
    assert f"default-src 'none'; style-src '{style_hash()}'" in content
    assert f"<style>{STYLE}</style>" in content
    assert content.count("style=") == 0


def test_a_hostile_directory_is_shown_as_text(tmp_path: Path) -> None:
    mine = hostile(tmp_path / "<img src=x onerror=alert(3)>")
    assert (
        run(mine, mine, "--out", tmp_path / "two.html", "--svg", tmp_path / "f", "--csv", tmp_path / "f").exit_code == 0
    )
    assert run(mine, "--out", tmp_path / "one.html").exit_code == 0
    for name in ("one.html", "two.html"):
        content = (tmp_path / name).read_text()
        page = Page(content)
        assert {*page.elements} <= ELEMENTS
        assert page.attributes <= ATTRIBUTES
        assert "<script>alert(1)</script>" in " ".join(page.words)
        assert not {"\x1b", "\x07", "\u202e"} & set(content)
        assert MARKUP not in content
    for file in (tmp_path / "f").iterdir():
        content = file.read_text()
        assert not {"\x1b", "\x07", "\u202e"} & set(content), file
        if file.suffix == ".svg":
            tags = {node.tag.rpartition("}")[2] for node in ET.fromstring(content).iter()}  # noqa: S314 - our own output
            assert tags <= {*ELEMENTS, "clipPath", "desc"}


def test_several_runs_are_compared_on_one_page(tmp_path: Path) -> None:
    runs = [simulated(tmp_path / name, epsilon=epsilon) for name, epsilon in (("a", 0.5), ("b", 1.0), ("c", 2.0))]
    assert run(*runs, "--out", tmp_path / "all.html").exit_code == 0
    said = " ".join(Page((tmp_path / "all.html").read_text()).words)
    for words in ("3 runs compared", "Settings that differ", "epsilon", "c: all of it"):
        assert words in said


def test_every_chart_is_written_as_svg_and_csv(tmp_path: Path) -> None:
    mine = as_of_a_testbed(tmp_path / "mine")
    done = run(mine, "--svg", tmp_path / "svg", "--csv", tmp_path / "csv", "--json")
    written = json.loads(done.output)["written"]
    of_agents = {"epsilon", "messages", "bytes", "dropped"}
    names = {"regret", "share", "round_time", *of_agents, *(f"{name}_over_time" for name in of_agents)}
    assert {file.stem for file in (tmp_path / "svg").iterdir()} == names
    assert {file.stem for file in (tmp_path / "csv").iterdir()} == {*names, "marks"}
    assert len(written) == 23
    assert not (tmp_path / "report.html").exists()
    rows = list(csv.reader((tmp_path / "csv" / "regret.csv").read_text().splitlines()))
    original = list(csv.reader((mine / "regret.csv").read_text().splitlines()))
    assert len(rows) == len(original) == 61
    assert [float(cell) for cell in rows[-1]] == pytest.approx([float(cell) for cell in original[-1]], abs=1e-5)
    marks = list(csv.reader((tmp_path / "csv" / "marks.csv").read_text().splitlines()))
    assert marks == [["round", "what"], ["30", "agent 2 was killed"]]


def test_what_a_spreadsheet_would_compute_is_text(tmp_path: Path) -> None:
    mine = simulated(tmp_path / "mine")
    (mine / "reports.json").write_text(json.dumps({"reports": [{"agent": 0, "dropped": {"=cmd()": 1}}]}))
    run(mine, "--csv", tmp_path / "csv")
    assert (tmp_path / "csv" / "dropped.csv").read_text().splitlines()[0] == "agent,'=cmd()"


def test_a_run_under_way_and_one_of_pipes_have_a_page(tmp_path: Path) -> None:
    assert run(under_way(tmp_path / "a"), "--out", tmp_path / "a.html").exit_code == 0
    assert "under way" in (tmp_path / "a.html").read_text()
    done = run(with_pipes(tmp_path / "b"), "--out", tmp_path / "b.html")
    assert done.exit_code == 0
    assert "left out of b: summary.json" in done.output


def test_nothing_is_written_over_unasked_and_no_link_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, victim, page = simulated(tmp_path / "mine"), tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("mine")
    page.symlink_to(victim)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(mine), "--out", str(page), "--svg", str(tmp_path / "svg")])
    assert ended.value.code == 2
    assert "page.html exists already; name another place, or write over it with --force" in capsys.readouterr().err
    assert not (tmp_path / "svg").exists()
    assert run(mine, "--out", page, "--force").exit_code == 0
    assert victim.read_text() == "mine"
    assert not page.is_symlink()


def test_without_a_directory_the_newest_testbed_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    testbed = new_testbed(bytes(8), as_of_a_testbed(tmp_path / "mine"), 4)
    record(testbed)
    announce(testbed)
    done = run("--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert f"of {tmp_path / 'mine'}" in done.output
    assert "<h1>mine</h1>" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("words", [["nowhere"], ["empty"], ["mine", "--out", "mine"], ["mine", "--out", "file/x.html"]])
def test_what_cannot_be_done_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    simulated(Path("mine"))
    os.mkdir("empty")  # noqa: PTH102 - the directory is the current one
    Path("file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["report", *words, "--force"])
    said = capsys.readouterr().err
    assert ended.value.code in (1, 78)
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_escaping_is_done_once(tmp_path: Path) -> None:
    mine = simulated(tmp_path / "a & b")
    run(mine, "--out", tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text()
    assert "a &amp; b" in content
    assert "&amp;amp;" not in content
    assert "a & b" in html.unescape(content)
