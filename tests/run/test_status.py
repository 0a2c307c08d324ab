"""status.json: one set of fields for whoever writes it and whoever reads it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from agentd.runs.status import FILE, AgentStatus, Status, read_status
from deploy.testbed.description import status_text

STATUS = Status(
    run="ab",
    address="tcp://127.0.0.1:1",
    arms=3,
    rounds=None,
    agents=(
        AgentStatus(id=0, trial=9, regret=1.5, messages=2, bytes=3, dropped=4, epsilon=0.5, last_seen_s_ago=0.1),
        AgentStatus(id=1, trial=0, done=True, round=4, blamed={"slow": [0, 2], "wrong": [7]}),
    ),
    group_regret=1.5,
    pulls=9,
    pulls_per_s=0.5,
    refused={"trial": 1},
    malformed={"type": 2},
    unanswerable=3,
    done=True,
)


def test_what_is_written_is_read_again_to_the_last_field(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({**STATUS.to_json(), "written": 1.0}), encoding="utf-8")
    assert read_status(tmp_path) == STATUS


def test_who_missed_rounds_is_in_step_again() -> None:
    agents = (AgentStatus(id=0, trial=30, round=130), AgentStatus(id=1, trial=129), AgentStatus(id=2, trial=5))
    assert replace(STATUS, agents=agents).round(but=[2]) == 129
    assert replace(STATUS, agents=agents).round() == 5


def test_those_that_are_blamed_are_told_apart() -> None:
    assert STATUS.blamed() == {1: {"slow": [0, 2], "wrong": [7]}}


@pytest.mark.parametrize("blamed", [[], {"slow": 5}, {"slow": ["x"]}, 7, None])
def test_a_file_in_which_blames_are_no_lists_is_not_read(blamed: object, tmp_path: Path) -> None:
    content = STATUS.to_json()
    content["agents"][1]["blamed"] = blamed
    (tmp_path / FILE).write_text(json.dumps(content), encoding="utf-8")
    assert read_status(tmp_path) is None


def test_every_field_is_in_the_file_in_the_order_of_the_contract() -> None:
    content = STATUS.to_json()
    assert list(content) == [field.name for field in fields(Status)]
    assert list(content["agents"][0]) == [field.name for field in fields(AgentStatus)]


@pytest.mark.parametrize(
    ("ago_s", "silent"),
    [
        ([0.1, 0.2, 42.0], {2: 42.0}),
        ([0.5, 40.0], {1: 40.0}),
        ([0.1, 9.0, None], {}),
        ([50.0, 61.0, 90.0], {}),  # all of them pull once in a while
        ([50.0, 61.0, 600.0], {2: 600.0}),
        ([], {}),
    ],
)
def test_who_is_silent_for_longer_than_the_others_is_told(ago_s: list[float | None], silent: dict[int, float]) -> None:
    agents = tuple(AgentStatus(id=number, trial=1, last_seen_s_ago=ago) for number, ago in enumerate(ago_s))
    assert replace(STATUS, agents=agents).silent() == silent
    assert replace(STATUS, agents=tuple(replace(agent, done=True) for agent in agents)).silent() == {}


def test_people_read_who_is_silent() -> None:
    about = {"run_dir": "runs/x", "state": "running", "age_s": 3.0, "agents": 2, "down": [], "silent": {1: 42.4}}
    figures = {
        "round": 1,
        "rounds": 9,
        "group_regret": 0.0,
        "messages": 0,
        "dropped": 0,
        "pulls": 1,
        "pulls_per_s": 1.0,
    }
    text = status_text({**about, **figures, "blamed": {}, "summary": None})
    assert "silent          agent 1 for 42 s" in text.splitlines()
