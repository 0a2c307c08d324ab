"""How a policy of somebody else becomes known: by a file, a module, an entry point; and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd import plugins
from agentd.core.policy import ALGORITHMS
from agentd.errors import ConfigurationError
from deploy.containers import policy_files

POLICY = """
from agentd import Noiseless, Silent


class FirstArm(Silent, Noiseless):
    '''Always the first arm.'''

    def __init__(self, settings, own, coins):
        pass

    def choose(self, trial):
        return 0

    def observe(self, intent, reward, told):
        pass


NOT_A_POLICY = 3
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before, modules = dict(ALGORITHMS), set(sys.modules)
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "first_arm.py").write_text(POLICY, encoding="utf-8")
    yield tmp_path
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    ALGORITHMS.clear()
    ALGORITHMS.update(before)
    for name in set(sys.modules) - modules:
        if "first_arm" in name:
            del sys.modules[name]


def test_a_file_is_loaded_once_and_named_to_other_processes(place: Path) -> None:
    name = f"{place / 'first_arm.py'}:FirstArm"
    assert plugins.bring(name) == plugins.bring(name) == "first-arm"
    assert plugins.entries() == [name]
    assert ALGORITHMS["first-arm"].summary == "Always the first arm."
    plugins.load()


def test_a_relative_path_is_made_absolute(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    plugins.bring("first_arm.py:FirstArm")
    assert plugins.entries() == [f"{place / 'first_arm.py'}:FirstArm"]


def test_the_words_of_a_command_line_are_changed_only_where_a_policy_is_named(place: Path) -> None:
    file = f"{place / 'first_arm.py'}:FirstArm"
    words = ["up", "--algorithm", f"sealed,{file}", "--policy", f"3={file}", f"--algorithm={file}", "--run-dir", file]
    assert plugins.taken_from(words) == [
        *("up", "--algorithm", "sealed,first-arm", "--policy", "3=first-arm", "--algorithm=first-arm"),
        *("--run-dir", file),
    ]
    assert plugins.taken_from(["simulate", "--algorithm"]) == ["simulate", "--algorithm"]


def test_an_installed_package_offers_one_by_name(place: Path) -> None:
    about = place / "offering-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[agentd.policies]\ntheirs = first_arm:FirstArm\n", encoding="utf-8")
    assert plugins.bring("theirs") == "first-arm"
    assert plugins.entries() == ["first_arm:FirstArm"]
    assert plugins.bring("nobody-s") == "nobody-s", "click says that there is none"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("first_arm.py:Nobody", "has no attribute"),
        ("first_arm.py:NOT_A_POLICY", "neither the class"),
        ("no_such_file.py:FirstArm", "FileNotFoundError"),
        ("a,b.py:FirstArm", "comma"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_a_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, complaint: str
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(ConfigurationError, match=complaint):
        plugins.bring(name)
    assert plugins.entries() == []


def test_a_file_that_fails_is_not_half_loaded(place: Path) -> None:
    broken = place / "first_arm_broken.py"
    broken.write_text("raise RuntimeError('no')", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="RuntimeError: no"):
            plugins.bring(f"{broken}:FirstArm")


def test_files_travel_into_containers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.VARIABLE, f"{place / 'first_arm.py'}:FirstArm,first_arm")
    entries = policy_files.named_files()
    assert policy_files.variable(entries) == "/opt/agentd/policies/0-first_arm.py:FirstArm,first_arm"
    run_dir = place / "run"
    run_dir.mkdir()
    policy_files.copy_files(run_dir, entries)
    copied = run_dir / "policies" / "0-first_arm.py"
    assert copied.read_text() == POLICY
    assert copied.stat().st_mode & 0o777 == 0o644
    with pytest.raises(ConfigurationError, match="cannot bring"):
        policy_files.copy_files(run_dir / "nowhere", ()) or policy_files.copy_files(place, (f"{place}/gone.py:X",))
