"""Every recipe of CONTRIBUTING.md is followed: its files are there, and its code does what the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, text_of
from test_knobs import with_one_more_knob

from agentd.cli import VERBS, cli, main
from agentd.core.bodies import KINDS, TOTALS, Field
from agentd.core.message import Message, batch_of
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import Frame

PAGE = text_of("CONTRIBUTING.md")
SECTIONS = dict(zip(*[iter(re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)[1:])] * 2, strict=True))
RUN = ("--agents", "3", "--edge-probability", "1", "--rounds", "30", "--arms", "0.9,0.5,0.2", "--seed", "5")


def code_of(section: str) -> str:
    found = re.search(r"```python\n(.*?)```", SECTIONS[section], flags=re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def agentd(place: Path, section: str, *args: str) -> subprocess.CompletedProcess[str]:
    """The command line, with the code of a section as a plugin."""
    (place / "recipe.py").write_text(code_of(section), encoding="utf-8")
    environment = {
        "PYTHONPATH": f"{place}:{ROOT}",
        "AGENTD_PLUGINS": "recipe",
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
    }
    command = [sys.executable, "-m", "agentd", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_there_is_a_recipe_for_each_thing_that_people_add() -> None:
    wanted = {"policy", "body", "attack", "arm distribution", "setting", "runtime", "verb"}
    assert wanted <= {name.split(" ", 1)[1] for name in SECTIONS}


def test_every_file_that_a_recipe_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+(?:/|\.py|\.md))`", PAGE))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_name_that_a_recipe_gives_is_in_a_file_that_it_names() -> None:
    for section, text in SECTIONS.items():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        files = [ROOT / name for name in re.findall(r"`([\w/]+\.py)`", prose)]
        sources = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for name in re.findall(r"`([A-Z]\w+|[a-z]+_[a-z]+)`", prose):
            assert re.search(rf"\b{name}\b", sources), f"{section}: {name}"


@pytest.mark.system
@pytest.mark.parametrize("engine", ["agents", "vector"])
def test_an_attack_is_one_entry(place: Path, engine: str) -> None:
    lies = ("--byzantine", "2", "--contamination", "1", "--algorithm", "coop-ucb", "--engine", engine, "--json")
    mirrored = agentd(place, "An attack", "simulate", *RUN, *lies, "--attack", "mirror")
    honest = agentd(place, "An attack", "simulate", *RUN, *lies[:2], "--contamination", "0", *lies[4:])
    assert (mirrored.returncode, honest.returncode) == (0, 0), mirrored.stderr
    assert json.loads(mirrored.stdout)["group_regret"] > json.loads(honest.stdout)["group_regret"]
    shown = " ".join(agentd(place, "An attack", "simulate", "--help").stdout.split())
    assert "worst, uniform, bernoulli[:p], point[:x], mirror; relay-…" in shown


@pytest.mark.system
@pytest.mark.parametrize("engine", ["agents", "vector"])
def test_an_arm_distribution_is_one_entry(place: Path, engine: str) -> None:
    done = agentd(
        *(place, "An arm distribution", "simulate", *RUN, "--reward", "two-points", "--engine", engine),
        *("--run-dir", str(place / "run"), "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "run/manifest.json").read_text(encoding="utf-8"))["arms"]["kind"] == "two-points"
    assert "two-points" in agentd(place, "An arm distribution", "env", "--help").stdout


@pytest.mark.system
def test_a_runtime_is_one_module_and_its_registration(place: Path) -> None:
    done = agentd(place, "A runtime", "up", *RUN, "--runtime", "drawer")
    assert (done.returncode, done.stderr) == (2, "error: 3 agents do not fit into a drawer\n")


def test_a_verb_is_one_module_and_its_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "greeting.py").write_text(code_of("A verb"), encoding="utf-8")
    monkeypatch.syspath_prepend(place)
    monkeypatch.setitem(VERBS, "greet", ("greeting:greet", "Greet somebody."))
    monkeypatch.setenv("AGENTD_NAME", "world")
    with pytest.raises(SystemExit) as end:
        main(["greet"])
    assert (end.value.code, capsys.readouterr().out) == (0, "hello, world\n")
    assert "greet       Greet somebody." in cli.get_help(cli.make_context("agentd", []))


@pytest.mark.system
def test_a_setting_is_one_field(place: Path) -> None:
    with_one_more_knob(place, code_of("A setting"))


@pytest.mark.system
def test_a_policy_and_its_body_from_outside_run(place: Path) -> None:
    """`tests/system/test_plugins.py` holds them to more."""
    source = (ROOT / "tests/plugins/win_counting.py").read_text(encoding="utf-8")
    (place / "win_counting.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "agentd", "simulate", *RUN, "--algorithm", "win-counting", "--json"]
    environment = {"PYTHONPATH": f"{place}:{ROOT}", "AGENTD_PLUGINS": "win_counting", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout)["messages"] > 0


class MoreTotals(type(TOTALS)):  # type: ignore[misc]
    """Totals with a number more."""

    tag = 201
    fields = (*TOTALS.fields, Field("best", "u2"))


def test_a_field_on_the_wire_is_a_field_of_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, 201, MoreTotals())
    batch = batch_of(KINDS[201], [Message(7, 300, 1, (200, 150, 9, 0, 0, 3), 2, 1)])
    frame = Frame(bytes(8), 3, 1, 301, 300, 0, (batch,), 2)
    (read,) = decode_frame(encode_frame(frame), arms=2).batches
    assert read.kind is KINDS[201]
    assert [message.body for message in read.messages()] == [(200, 150, 9, 0, 0, 3)]


FIGURE = {
    "agentd/runs/status.py": ("    unanswerable: int = 0\n", "    planted: int = 0\n"),
    "agentd/environment/live_status.py": (
        "        done=bandit.all_done,\n",
        "        planted=41 + len(bandit.rows),\n",
    ),
    "deploy/testbed/description.py": (
        '        "messages": status.messages if status else 0,\n',
        '        "planted": status.planted if status else 0,\n',
    ),
}
"""What the recipe adds to each file, after which line."""


@pytest.mark.system
def test_a_figure_of_status_is_three_files(place: Path) -> None:
    for package in ("agentd", "deploy", "topology"):
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (after, more) in FIGURE.items():
        assert f"`{file}`" in SECTIONS["A figure that `agentd status` shows"]
        text = (place / file).read_text(encoding="utf-8")
        assert text.count(after) == 1
        (place / file).write_text(text.replace(after, after + more), encoding="utf-8")
    for args in (("up", *RUN, "--run-dir", "run", "--ready-timeout", "60"), ("status", "run", "--json")):
        command = [sys.executable, "-m", "agentd", *args]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["planted"] == 44
