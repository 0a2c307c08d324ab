"""Whole runs with keys: the same arms as without, throw-away keys that are gone afterwards, and no secret anywhere."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from evidence import until
from keyed_world import World
from loopback import events, free_address
from zmq.utils import z85

from agentd.keys.key_files import read_keys

pytestmark = pytest.mark.system

PATIENT = ("--round-timeout", "60", "--ready-timeout", "120")
PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.chdir(tmp_path)


def done(*words: str) -> str:
    with Process(*words) as process:
        assert process.wait(PATIENCE_S) == 0, process.errors
        return process.output


def pulls(run_dir: Path) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    with np.load(run_dir / "pulls.npz") as file:
        return file["arm"], file["reward"]


def found_in(place: Path, secrets: list[bytes]) -> list[Path]:
    """The files that hold one of these."""
    files = [path for path in place.rglob("*") if path.is_file()]
    assert files
    return [path for path in files for content in [path.read_bytes()] if any(each in content for each in secrets)]


@pytest.mark.parametrize("transport", ["ipc", pytest.param("tcp", marks=pytest.mark.long)])
def test_a_seeded_testbed_with_keys_pulls_the_arms_of_the_simulation(transport: str, tmp_path: Path) -> None:
    flags = ("--agents", "10", "--rounds", "40", "--seed", "11")
    done("up", "--keys", "--transport", transport, *flags, *PATIENT, "--run-dir", "keyed", "--json")
    done("simulate", *flags, "--run-dir", "simulated", "--json")
    for keyed, simulated in zip(pulls(tmp_path / "keyed"), pulls(tmp_path / "simulated"), strict=True):
        np.testing.assert_array_equal(keyed, simulated)
    plan = json.loads((tmp_path / "keyed/plan.json").read_text())
    assert not Path(plan["keys"]).exists(), "they are thrown away at the end"
    assert not (tmp_path / "keyed/seats.jsonl").exists(), "keys take the place of tokens"
    assert json.loads((tmp_path / "keyed/summary.json").read_text())["dropped"] == {}


@pytest.mark.long
def test_a_testbed_with_keys_pulls_the_arms_of_one_without(tmp_path: Path) -> None:
    for algorithm in ("private-ucb", "byzantine-ucb", "sealed"):
        flags = ("--agents", "6", "--rounds", "60", "--seed", "5", "--algorithm", algorithm)
        for name, more in ((f"keyed-{algorithm}", ["--keys"]), (f"plain-{algorithm}", [])):
            done("up", *more, *flags, *PATIENT, "--run-dir", name, "--json")
        for keyed, plain in zip(pulls(tmp_path / name.replace("plain", "keyed")), pulls(tmp_path / name), strict=True):
            np.testing.assert_array_equal(keyed, plain)


def test_no_secret_of_a_testbed_is_in_its_run_directory_and_its_keys_go_with_it(tmp_path: Path) -> None:
    words = ("up", "--keys", "--agents", "3", "--edge-probability", "1", "--rounds", "100000", "--detach")
    done(*words, "--run-dir", "run", "--json")
    try:
        place = Path(json.loads((tmp_path / "run/plan.json").read_text())["keys"])
        assert tmp_path / "run" not in place.parents
        assert place.stat().st_mode & 0o777 == 0o700
        keys = [read_keys(path) for path in place.glob("*.key")]
        assert len(keys) == 4
        raw = [secret for each in keys for secret in (each.curve_secret, each.sign_secret)]
    finally:
        done("down", "run")
    assert not place.exists()
    assert not found_in(tmp_path, [form for each in raw for form in (each, each.hex().encode(), z85.encode(each))])


def test_a_newer_roster_shuts_one_out_while_the_others_go_on_and_no_secret_shows(tmp_path: Path) -> None:
    """Four real processes; agent 2 is revoked in mid-run by a roster and SIGHUP, and ends; the others finish."""
    world = World(tmp_path / "operator", range(3))
    places, logs = [free_address() for _ in range(3)], [tmp_path / f"logs/{own}.jsonl" for own in range(3)]
    served = ("--arms", "0.9,0.2", "--agents", "3", "--rounds", "400", "--run-dir", str(tmp_path / "run"))
    with ExitStack() as stack:
        environment = stack.enter_context(EnvironmentProcess(*served, *world.flags(None)))
        agents = [
            stack.enter_context(
                Process(
                    *agent_arguments(
                        own,
                        places[own],
                        environment.address,
                        {peer: places[peer] for peer in range(3) if peer != own},
                        log_file=logs[own],
                        gamma=1,
                        round_timeout="2s",
                        state=tmp_path / f"state/{own}",
                    ),
                    *world.flags(own),
                )
            )
            for own in range(3)
        ]
        until(lambda: all(events(log, "progress") for log in logs))
        world.publish(world.roster(2, without=[2]))
        for process in (environment, *agents):
            process.signal(signal.SIGHUP)
        assert agents[2].wait(PATIENCE_S) == 0, agents[2].errors
        assert [line for line in events(logs[2]) if line["event"].endswith("any more; leaving")]
        for own in (0, 1):
            assert agents[own].wait(PATIENCE_S) == 0, agents[own].errors
            assert events(logs[own], "done")[0]["trial"] == 400
            assert events(logs[own], "roster renewed")[0]["changed"] == [2]
        environment.end()
        said = "".join(each.output + each.errors for each in (environment, *agents)).encode()
    assert not [secret for secret in world.secrets() if secret in said]
    for place in (tmp_path / "run", tmp_path / "logs", tmp_path / "state"):
        assert not found_in(place, world.secrets())


def test_an_agent_without_its_keys_is_told_why_in_one_line_and_no_secret(tmp_path: Path) -> None:
    world = World(tmp_path / "operator", range(2))
    arguments = agent_arguments(0, free_address(), free_address(), {1: free_address()})
    wrong = {
        "holds the keys of agent-1": world.flags(1),
        "--operator-fingerprint is missing": world.flags(0)[:4],
        "it names operator": [*world.flags(0)[:-1], "00" * 32],
        "cannot use the keys": ["--keys", "nowhere", *world.flags(0)[2:]],
    }
    for complaint, flags in wrong.items():
        with Process(*arguments, *flags) as agent:
            assert agent.wait(PATIENCE_S) in (2, 78)
            assert complaint in agent.errors
            assert len(agent.errors.strip().splitlines()) == 1
            assert not [secret for secret in world.secrets() if secret in agent.errors.encode()]
