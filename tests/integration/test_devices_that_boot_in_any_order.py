"""Devices boot in any order: with --ready-timeout 0 an agent waits for ever; SIGHUP is nobody's end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from loopback import LONG_S, until
from loopback_fixtures import Addresses

FOR_EVER = {"ready_timeout": 0, "rounds": 5}


def events(log: Path) -> list[str]:
    if not log.exists():
        return []
    return [json.loads(line)["event"] for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.system
def test_the_first_device_waits_for_the_environment_and_for_its_neighbour(addresses: Addresses, tmp_path: Path) -> None:
    logs = [tmp_path / f"{own}.jsonl" for own in range(2)]
    words = [
        agent_arguments(
            own, addresses[own], addresses[9], {1 - own: addresses[1 - own]}, log_file=logs[own], **FOR_EVER
        )
        for own in range(2)
    ]
    with Process(*words[0]) as first:
        until(lambda: events(logs[0]).count("environment silent, asking again") >= 2)
        os.kill(first.id, signal.SIGHUP)
        until(lambda: any(event.startswith("SIGHUP changes nothing") for event in events(logs[0])))
        with EnvironmentProcess("--listen", addresses[9], "--agents", "2", "--rounds", "5") as environment:
            until(lambda: "joined" in events(logs[0]))
            assert "ready" not in events(logs[0]), "in lockstep it waits for its neighbour, too"
            os.kill(environment.id, signal.SIGHUP)
            with Process(*words[1]) as second:
                assert (first.wait(), second.wait()) == (0, 0), first.errors + second.errors
            assert environment.end()["pulls"] == 10
            assert "SIGHUP changes nothing" in environment.errors


@pytest.mark.system
def test_who_logs_to_a_terminal_ends_in_order_when_that_is_gone(addresses: Addresses, tmp_path: Path) -> None:
    health = tmp_path / "health"
    words = agent_arguments(0, addresses[0], addresses[9], {}, health_file=health, **FOR_EVER)
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-m", "agentd", *words], stderr=theirs) as agent:
        os.close(theirs)
        until(lambda: health.exists() and json.loads(health.read_text(encoding="utf-8"))["state"] == "ready")
        os.close(ours)  # from now on every word that it logs is an error
        agent.send_signal(signal.SIGHUP)
        assert agent.wait(LONG_S) == 0
