"""agentd check as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentd.check.drawing import draw
from agentd.check.world import World
from agentd.cli.check import check
from agentd.errors import AgentdError, ConfigurationError, SettingsError


def run(*flags: str) -> tuple[int, str]:
    result = CliRunner().invoke(check, list(flags), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert isinstance(result.return_value, int)
    return result.return_value, result.stdout


def test_worlds_in_which_all_is_well_end_with_0_and_the_summary_says_what_was_in_them() -> None:
    code, said = run("--seeds", "4", "--first-seed", "11", "--jobs", "1")
    assert code == 0
    assert "4 worlds in" in said
    assert "0 failed; how many had what:" in said
    assert "lockstep clock" in said


def test_several_processes_find_the_same_as_one() -> None:
    one, two = (json.loads(run("--seeds", "12", "--jobs", jobs, "--json")[1]) for jobs in ("1", "2"))
    assert one["worlds_with"] == two["worlds_with"]
    assert one["failed"] == two["failed"] == []


def test_a_failing_seed_is_made_small_and_its_script_fails_again_bit_for_bit(tmp_path: Path) -> None:
    code, said = run("--seeds", "1", "--jobs", "1", "--plant", "dedupe-without-trial", "--out", str(tmp_path))
    script = tmp_path / "check-0.json"
    assert code == 1
    assert "sums equal to a recount" in said
    assert f"agentd check --replay {script}" in said
    recorded = json.loads(script.read_text(encoding="utf-8"))["fails"]
    again = [run("--replay", str(script)) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0][0] == 1
    assert recorded["what"] in again[0][1]
    assert f"at {recorded['at_s']:.3f} s" in again[0][1]


def test_a_script_for_a_program(tmp_path: Path) -> None:
    flags = ("--seeds", "1", "--jobs", "1", "--plant", "send-before-commit", "--out", str(tmp_path), "--json")
    code, said = run(*flags)
    found = json.loads(said)
    assert code == 1
    assert found["failed"][0]["invariant"] == "on disk before sent"
    replayed = json.loads(run("--replay", found["failed"][0]["script"], "--json")[1])
    assert replayed["failed"]["invariant"] == "on disk before sent"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--seeds", "0"), "--seeds must be in"),
        (("--first-seed", "-1"), "--first-seed must be in"),
        (("--out", "nowhere"), "is no directory"),
    ],
)
def test_what_makes_no_sense_is_refused(flags: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        run(*flags)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"world": {"format": 2}}',
        '{"world": {"format": 1, "seed": 1}}',
        '{"world": {"format": 1, "colour": 1}}',
        json.dumps({"fails": {"planted": "nothing known"}, "world": draw(1).to_json()}),
        json.dumps({"world": draw(1).to_json() | {"agents": 70}}),
        json.dumps({"world": draw(1).to_json() | {"algorithms": ["none"] * draw(1).agents}}),
        json.dumps({"world": draw(1).to_json() | {"hostile": [[99, "drips"]]}}),
        " " * (2 << 20),
    ],
)
def test_a_file_that_is_no_script_is_refused(content: str, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(content, encoding="utf-8")
    with pytest.raises(AgentdError):
        run("--replay", str(script))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        run("--replay", str(tmp_path / "nothing"))


@pytest.mark.parametrize("seed", range(40))
def test_a_world_comes_back_from_its_script(seed: int) -> None:
    assert World.from_json(json.loads(json.dumps(draw(seed).to_json()))) == draw(seed)
