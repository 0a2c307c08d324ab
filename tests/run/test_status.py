"""status.json: one set of fields for whoever writes it and whoever reads it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from agentd.runs.status import FILE, AgentStatus, Status, read_status

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
