"""agentd chaos on testbeds of processes and of containers: what can be done to them, and how the others go on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from container_image import PATIENCE_S, image_or_skip
from evidence import until
from running_testbeds import agentd, agentd_json, end_all, read_json

from agentd.cli import cli
from agentd.runs.status import read_status
from deploy.plan.plan import log_name, own_log_name

pytestmark = [pytest.mark.system, pytest.mark.slow]

AGENTS = 8
ROUND_TIMEOUT_S = 1.0
SLACK_S = 2.0
"""Eight agents on a machine that is busy with other tests may have to wait for a processor."""
HEALED_WITHIN_S = 5.0


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves running is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def chaos(*args: str) -> str:
    """In this process, because a dozen interpreters would take most of the test's time to start."""
    done = CliRunner().invoke(cli, ["chaos", *args])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return done.stdout


def events_of(place: Path, agent: int, name: str) -> list[dict[str, Any]]:
    log = next(path for path in (place / log_name(agent), place / own_log_name(agent)) if path.exists())
    text = log.read_text(encoding="utf-8")
    whole = [json.loads(line) for line in text.split("\n")[:-1]]
    return [event for event in whole if event["event"] == name]


def trials(place: Path) -> dict[int, int]:
    status = read_status(place)
    return {agent.id: agent.trial for agent in status.agents} if status is not None else {}


def across(place: Path, sides: tuple[range, range]) -> dict[int, set[int]]:
    """For each agent its neighbours on the other side."""
    plan = read_json(place / "plan.json")["agents"]
    sides_of = {agent: side for side in sides for agent in side}
    return {one["id"]: {int(peer) for peer in one["peers"] if int(peer) not in sides_of[one["id"]]} for one in plan}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def goes_on(place: Path, but: int) -> None:
    """Wait until everybody else has closed another round."""
    before = trials(place)
    until(lambda: all(now > before[agent] for agent, now in trials(place).items() if agent != but))


def test_a_testbed_survives_everything_that_can_be_done_to_it(place: Path) -> None:
    flags = ("--agents", str(AGENTS), "--edge-probability", "0.7", "--rounds", "50000", "--seed", "5")
    agentd("up", *flags, "--round-timeout", str(ROUND_TIMEOUT_S), "--run-dir", str(place), "--detach")

    chaos("kill", "3")
    goes_on(place, but=3)
    lost = trials(place)[3]
    chaos("restart", "3")
    until(lambda: trials(place)[3] > lost)

    chaos("pause", "5", "--for", "2s")
    goes_on(place, but=-1)

    cut = across(place, (range(4), range(4, AGENTS)))
    chaos("partition", "0-3|4-7")
    until(
        lambda: all(not far or any(e["cut"] for e in events_of(place, a, "faults changed")) for a, far in cut.items())
    )
    goes_on(place, but=-1)
    healed = moment(json.loads(chaos("heal", "--json"))["at"])
    until(lambda: all({e["neighbour"] for e in events_of(place, a, "heard again")} >= far for a, far in cut.items()))
    for agent in cut:
        for event in events_of(place, agent, "heard again"):
            assert (moment(event["timestamp"]) - healed).total_seconds() < HEALED_WITHIN_S

    chaos("delay", "6", "--ms", "20")
    until(lambda: any(event["delayed"] for event in events_of(place, 6, "faults changed")))
    chaos("loss", "2", "--rate", "0.2", "--for", "2s")
    agentd_json("down", str(place))

    summary = read_json(place / "summary.json")
    done = ["kill", "restart", "pause", "resume", "partition", "heal", "delay", "loss", "loss"]
    assert [fault["verb"] for fault in summary["faults"]] == done
    assert summary["agents_lost"] == []
    assert summary["dropped"]["injected-cut"] > 0
    assert summary["dropped"]["injected-loss"] > 0
    for agent in set(range(AGENTS)) - {5}:
        (end,) = events_of(place, agent, "done")
        assert end["longest_round_s"] < ROUND_TIMEOUT_S + SLACK_S
    picture = (place / "regret.svg").read_text(encoding="utf-8")
    for what in ("agent-3 killed", "agent-5 paused", "partition 0-3|4-7", "agent-2: loss 0.2"):
        assert what in picture


@pytest.mark.timeout(PATIENCE_S)
def test_containers_that_crash_stand_still_or_lose_their_network_come_back(place: Path) -> None:
    image = image_or_skip()
    if os.geteuid() != 0:
        pytest.skip("only root may kill the process inside a container")
    flags = ("--agents", "6", "--edge-probability", "0.8", "--rounds", "50000", "--seed", "5", "--image", image)
    agentd(
        "up",
        "--runtime",
        "compose",
        *flags,
        "--round-timeout",
        str(ROUND_TIMEOUT_S),
        "--run-dir",
        str(place),
        "--detach",
    )

    chaos("kill", "3")
    goes_on(place, but=3)
    until(lambda: len(events_of(place, 3, "ready")) == 2)  # its restart policy acted

    chaos("pause", "5", "--for", "2s")
    goes_on(place, but=-1)

    before = trials(place)[1]
    chaos("disconnect", "1", "--for", "7s")
    until(lambda: trials(place)[1] > before + 1)
    assert len(events_of(place, 1, "joined")) == 1, "it survived, and was not started again"

    cut = across(place, (range(3), range(3, 6)))
    chaos("partition", "0-2|3-5")
    until(
        lambda: all(not far or any(e["cut"] for e in events_of(place, a, "faults changed")) for a, far in cut.items())
    )
    healed = moment(json.loads(chaos("heal", "--json"))["at"])
    until(lambda: all({e["neighbour"] for e in events_of(place, a, "heard again")} >= far for a, far in cut.items()))
    for agent in cut:
        for event in events_of(place, agent, "heard again"):
            assert (moment(event["timestamp"]) - healed).total_seconds() < HEALED_WITHIN_S
    agentd_json("down", str(place))

    summary = read_json(place / "summary.json")
    done = ["kill", "restart", "pause", "resume", "disconnect", "reconnect", "partition", "heal"]
    assert [fault["verb"] for fault in summary["faults"]] == done
    assert summary["agents_lost"] == []
    for agent in (0, 2, 4):
        (end,) = events_of(place, agent, "done")
        assert end["longest_round_s"] < ROUND_TIMEOUT_S + SLACK_S
    picture = (place / "regret.svg").read_text(encoding="utf-8")
    for what in ("agent-3 killed", "agent-5 paused", "agent-1 disconnected", "agent-1 reconnected"):
        assert what in picture
