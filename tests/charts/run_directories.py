"""Run directories for the tests of charts and reports: a simulated one, one under way, and one that means harm."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from agentd.cli.in_memory.simulate import write_run
from agentd.environment.pull_journal import PullJournal
from agentd.experiment.played_beside import play_beside
from agentd.runs.directory import RunDirectory
from agentd.runs.fault_log import Fault, append
from agentd.runs.history.history_file import write_history
from agentd.runs.history.look_back import LookBack
from agentd.runs.scenario import make_scenario
from agentd.runs.status import AgentStatus, Status
from agentd.runs.summary import manifest, summarise
from agentd.settings import TestbedSettings
from agentd.simulation.engine import run_vector

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\x07&\"'\u202e"
"""What would do something, were it not shown as text."""
PROGRESS = '{{"event": "progress", "trial": {}, "timestamp": "2026-01-01T00:00:{:02}.000000Z"}}\n'


def simulated(place: Path, **settings: Any) -> Path:
    """A run that is over."""
    chosen: dict[str, Any] = {"agents": 4, "edge_probability": 1.0, "rounds": 60, "seed": 7} | settings
    scenario = make_scenario(TestbedSettings(**chosen))
    outcome = run_vector([scenario.spec])[0]
    yardstick = play_beside(scenario.spec, outcome.arm)
    summary = summarise(scenario, outcome, 1.0, simulated=True) | {"yardstick": yardstick.to_json()}
    directory = RunDirectory.create(place, "test")
    write_run(directory, scenario, outcome, summary, yardstick, runtime="simulate/vector")
    return place


def as_of_a_testbed(place: Path, agents: int = 4) -> Path:
    """A run that is over, with what agents reported, their logs and faults beside it."""
    simulated(place, agents=agents)
    told = tuple(
        AgentStatus(id=agent, trial=60, messages=10 * agent + 1, bytes=1000 * agent + 7, epsilon=0.5)
        for agent in range(agents)
    )
    status = Status(rounds=60, agents=told, group_regret=1.0, pulls=240, pulls_per_s=10.0)
    (place / "status.json").write_text(json.dumps(status.to_json()))
    reports = [{"agent": agent, "dropped": {"stale": agent, "malformed": 1}} for agent in range(agents)]
    (place / "reports.json").write_text(json.dumps({"reports": reports}))
    looks = [
        LookBack(
            written=float(second),
            round=20 * second,
            messages=100 * second,
            bytes=9_000 * second,
            dropped={"stale": second},
            epsilon=0.1 * second,
            epsilon_median=0.05 * second,
            sent=(0, *[30 * second] * (agents - 1)),
        )
        for second in range(4)
    ]
    write_history(place, looks)
    (place / "plan.json").write_text(json.dumps({"agents": [{"id": 0, "epsilon_budget": 2.0}]}))
    (place / "logs").mkdir()
    for agent in range(agents):
        lines = (PROGRESS.format(trial, second) for trial, second in ((20, 1), (40, 3 + agent), (60, 20)))
        (place / "logs" / f"agent-{agent}.jsonl").write_text("".join(lines))
    append(place, 30, Fault("kill", "agent 2 was killed", (2,)))
    return place


def under_way(place: Path, *, pulls: int = 10) -> Path:
    """A run of two agents on two arms, one of them two rounds ahead: a journal, a status and a manifest."""
    RunDirectory.create(place, "test")
    scenario = make_scenario(TestbedSettings(agents=2, edge_probability=1.0, arms=(0.9, 0.5), rounds=100, seed=1))
    (place / "manifest.json").write_text(json.dumps(manifest(scenario, "local")))
    journal = PullJournal.open(place)
    journal.begin(bytes(8))
    made = [(agent, trial, trial % 2, 0) for trial in range(1, pulls + 1) for agent in (0, 1)]
    journal.append([*made, (0, pulls + 1, 1, 0), (0, pulls + 2, 1, 0)])
    journal.close()
    return place


def hostile(place: Path) -> Path:
    """A run whose every text is markup and escape sequences."""
    as_of_a_testbed(place)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["settings"] |= {"algorithm": MARKUP, MARKUP: MARKUP}
    manifest |= {"runtime": MARKUP, "versions": {MARKUP: MARKUP}, "privacy_note": MARKUP}
    (place / "manifest.json").write_text(json.dumps(manifest))
    summary = json.loads((place / "summary.json").read_text())
    summary |= {"algorithm": MARKUP, "dropped": {MARKUP: 3}, "failure": MARKUP, MARKUP: MARKUP}
    summary["privacy"] |= {"covers": MARKUP, "note": MARKUP, "mechanism": MARKUP}
    summary["yardstick"]["alone"]["what"] = MARKUP
    (place / "summary.json").write_text(json.dumps(summary))
    (place / "reports.json").write_text(json.dumps({"reports": [{"agent": 0, "dropped": {MARKUP: 5}}]}))
    append(place, 10, Fault(MARKUP, MARKUP))
    return place


def nonsense(place: Path, chance: np.random.Generator) -> Path:
    """A run of which one file, whichever chance chooses, holds something else."""
    as_of_a_testbed(place)
    names = ["manifest.json", "summary.json", "status.json", "reports.json", "plan.json", "pulls.npz", "regret.csv"]
    name = names[int(chance.integers(len(names)))]
    others: list[bytes] = [b"", b"[]", b"null", b"[" * 10_000, b'{"arms": {"means": [1e999, "x"]}}', b"\xff\xfe", b"{}"]
    others += [b'{"agents": 7}', b'{"reports": {"a": 1}}', b'{"settings": [1], "topology": {"nodes": -1}}']
    others += [b"round,group_regret,alone\r1\r2", b"round,alone\n1\n", b"round,alone\n1,x\n"]
    (place / name).write_bytes(others[int(chance.integers(len(others)))])
    return place


def with_pipes(place: Path) -> Path:
    """A run whose files are pipes and links."""
    as_of_a_testbed(place)
    for name in ("summary.json", "faults.jsonl", "status.json"):
        (place / name).unlink()
        os.mkfifo(place / name)
    (place / "regret.csv").unlink()
    (place / "regret.csv").symlink_to("/etc/passwd")
    return place
