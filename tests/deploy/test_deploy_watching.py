"""What deploy/ offers to whoever watches agents: a hardened unit, a dashboard and alerts that name what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from asking import asked, metrics_of
from evidence import until
from loopback import events, free_address

ROOT = Path(__file__).parent.parent.parent
UNIT = ROOT / "deploy/systemd/agentd@.service"
DASHBOARD = ROOT / "deploy/grafana/agentd-dashboard.json"
ALERTS = ROOT / "deploy/grafana/agentd-alerts.yml"
MOST_EXPOSED = 15
"""Tenths, as systemd-analyze counts."""

NEEDS_ANALYZE = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """An instance of the unit, with the agentd of these tests."""
    place = tmp_path / "agentd@gate-3.service"
    ours = Path(sys.executable).parent / "agentd"
    place.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/agentd/bin/agentd", str(ours)), encoding="utf-8")
    return place


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60)


@NEEDS_ANALYZE
def test_the_unit_is_well_formed(unit: Path) -> None:
    done = analyzed("verify", "--man=no", str(unit))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit.write_text(unit.read_text(encoding="utf-8").replace("WatchdogSec=60", "WatchdogSec=often"), encoding="utf-8")
    assert "often" in analyzed("verify", "--man=no", str(unit)).stderr


@NEEDS_ANALYZE
def test_the_unit_is_hardly_exposed(unit: Path) -> None:
    def exposure() -> subprocess.CompletedProcess[str]:
        return analyzed("security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", str(unit))

    assert exposure().returncode == 0, exposure().stdout
    bare = re.sub(r"^(Protect|Private|Restrict).*\n", "", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
    unit.write_text(bare, encoding="utf-8")
    assert exposure().returncode != 0


def test_the_unit_starts_no_agent_again_that_would_fail_again() -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert "RestartPreventExitStatus=2 75 78\n" in text
    assert "Type=notify\n" in text


def expressions() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    chosen = [each["query"] for each in dashboard["templating"]["list"]]
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [*shown, *chosen, *(rule["expr"] for group in groups for rule in group["rules"])]


def test_every_alert_says_what_it_is_about_and_what_to_do() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    assert len(group["rules"]) > 5
    for rule in group["rules"]:
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_panels_have_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels) > 10


@pytest.mark.system
def test_dashboard_and_alerts_name_metrics_that_there_are(tmp_path: Path) -> None:
    """Of an agent and an environment that have something to say of everything."""
    log, serving = tmp_path / "agent.jsonl", tmp_path / "env.jsonl"
    with EnvironmentProcess("--arms", "0.9,0.1", "--http", "127.0.0.1:0", "--log-file", str(serving)) as environment:
        flags = {"algorithm": "sealed", "epsilon": 0.5, "epsilon_budget": 1, "http": "127.0.0.1:0", "log_file": log}
        flags |= {"clock": "free", "interval": 0.01, "state": tmp_path / "state", "ready_timeout": 0.1}
        peers = {1: free_address()}
        with Process(*agent_arguments(0, free_address(), environment.address, peers, **flags)):
            urls = [str(until(lambda file=file: events(file, "watched"))[0]["url"]) for file in (log, serving)]
            until(lambda: asked(urls[0], "/readyz")[1] == "not ready: neighbours down: 1\n")
            until(lambda: "agentd_journal_seconds" in metrics_of(urls[0]))
            texts = [asked(url, "/metrics")[1] for url in urls]
    there = set(re.findall(r"^# TYPE (\w+)", "\n".join(texts), re.MULTILINE))
    named = set(re.findall(r"\bagentd_\w+", "\n".join(expressions())))
    assert len(named) > 20
    assert named <= there, f"nobody tells {named - there}"
