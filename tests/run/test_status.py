"""status.json: one set of fields for whoever writes it and whoever reads it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from agentd.run.status import FILE, AgentStatus, Status, read_status

STATUS = Status(
    run="ab",
    address="tcp://127.0.0.1:1",
    arms=3,
    rounds=None,
    agents=(
        AgentStatus(id=0, trial=9, regret=1.5, messages=2, bytes=3, dropped=4, epsilon=0.5, last_seen_s_ago=0.1),
        AgentStatus(id=1, trial=0, done=True),
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


def test_every_field_is_in_the_file_in_the_order_of_the_contract() -> None:
    content = STATUS.to_json()
    assert list(content) == [field.name for field in fields(Status)]
    assert list(content["agents"][0]) == [field.name for field in fields(AgentStatus)]
