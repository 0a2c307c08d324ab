"""Terms over real processes: what an operator did not allow ends an agent with 78, before its first pull."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from evidence import until

from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.shell.state.reader import read_state
from agentd.terms_file import read_terms_file, write_terms_file
from agentd.wire.terms_digest import digest

PATIENCE_S = 60.0
POLICY = PolicyTerms("private-ucb", 1, 0.5, 1.2, ((0, 2),))
TERMS = Terms(
    run=b"run id 1",
    arms=2,
    lifetime=1,
    horizon=12,
    clock=Clock.LOCKSTEP,
    start_ms=1_790_000_000_000,
    policies=(POLICY,),
)
RUNS = ("--algorithm", "private-ucb", "--gamma", "1")
ALLOWED = ("--epsilon", "0.5", "--v", "1.2", *RUNS)


def agentd(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentd", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class Served:
    """A running environment."""

    def __init__(self, place: Path, ready: dict[str, Any]) -> None:
        self.place = place
        self.ready = ready

    def agent(self, *flags: str, own: int = 0) -> subprocess.CompletedProcess[str]:
        """One agent without neighbours, to its end."""
        where = ("--listen", f"ipc://{self.place}/agent-{own}", "--environment", self.ready["address"])
        seat = () if "--state" in flags else ("--seat", str(self.place / f"seat-{own}"))
        return agentd("--id", str(own), *where, "--log-file", str(self.log(own)), *seat, *flags)

    def log(self, own: int = 0) -> Path:
        return self.place / f"agent-{own}.jsonl"

    def entries(self, event: str, own: int = 0) -> list[dict[str, Any]]:
        lines = self.log(own).read_text(encoding="utf-8").splitlines()
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    @property
    def pulls(self) -> int:
        status = json.loads((self.place / "run" / "status.json").read_text(encoding="utf-8"))
        return int(status["pulls"])


@contextmanager
def served(place: Path, *flags: str) -> Iterator[Served]:
    words = [
        "env",
        "--arms",
        "0.9,0.1",
        "--listen",
        "tcp://127.0.0.1:0",
        "--run-dir",
        str(place / "run"),
        "--json",
        *flags,
    ]
    with subprocess.Popen([sys.executable, "-m", "agentd", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Served(place, json.loads(process.stdout.readline()))
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture
def terms_file(tmp_path: Path) -> str:
    write_terms_file(tmp_path / "terms.json", TERMS)
    return str(tmp_path / "terms.json")


@pytest.mark.parametrize("known_before", [False, True], ids=["from the welcome", "from a file"])
def test_what_the_operator_did_not_allow_ends_the_agent_before_its_first_pull(
    tmp_path: Path, terms_file: str, known_before: bool
) -> None:
    beyond = {
        "--algorithm private-ucb": ("--algorithm", "ucb1", "--gamma", "1"),
        "--epsilon 0.5": ("--epsilon", "0.4", "--v", "1.2", *RUNS),
        "--v 1.2": ("--epsilon", "0.5", "--v", "1.1", *RUNS),
        "--gamma 1": (*ALLOWED, "--gamma", "2"),
        "--clock lockstep": (*ALLOWED, "--clock", "free"),
    }
    with served(tmp_path, "--terms", terms_file) as environment:
        for flag, flags in beyond.items():
            done = environment.agent(*flags, *(("--terms", terms_file) if known_before else ()))
            assert (done.returncode, flag in done.stderr) == (78, True), done.stderr
            assert done.stderr.count("\n") == 1, "one line says it"
        stranger = environment.agent(*ALLOWED, own=7)
        assert stranger.returncode == 78
        assert "agents are numbered 0…2, not 7" in stranger.stderr
        assert environment.pulls == 0


def test_a_smaller_epsilon_is_adopted_and_the_state_is_tied_to_it(tmp_path: Path, terms_file: str) -> None:
    state = str(tmp_path / "state")
    flags = ("--state", state, "--epsilon", "2", "--v", "1.2", *RUNS, "--rounds", "100")
    with served(tmp_path, "--terms", terms_file) as environment:
        assert environment.agent(*flags).returncode == 0
        (entry,) = environment.entries("terms")
        assert entry["adopted"] == {"epsilon": 0.5, "rounds": 12}
        assert entry["digest"] == environment.ready["terms"] == digest(TERMS)
        until(lambda: environment.pulls == 12)
        saved = read_state(Path(state))
        assert saved.about["epsilon"] == 0.5
        assert environment.agent(*flags).returncode == 0, "started again, it goes on under the same terms"
        refused = environment.agent("--state", state, "--epsilon", "0.25", "--v", "1.2", *RUNS)
        assert (refused.returncode, "noised for an epsilon of 0.5" in refused.stderr) == (78, True)


def test_a_file_says_what_the_operator_did_not(tmp_path: Path, terms_file: str) -> None:
    with served(tmp_path, "--terms", terms_file) as environment:
        assert environment.agent("--terms", terms_file).returncode == 0
        until(lambda: environment.pulls == 12)


def test_an_environment_on_other_terms_is_left_at_once(tmp_path: Path, terms_file: str) -> None:
    other = tmp_path / "other.json"
    made = agentd("terms", "make", "--agents", "3", "--arms", "2", "--rounds", "12", "--out", str(other))
    assert made.returncode == 0
    assert list(read_terms_file(other).ids()) == [0, 1, 2]
    with served(tmp_path, "--terms", terms_file) as environment:
        done = environment.agent("--terms", str(other))
        assert done.returncode == 78
        assert f"run is {read_terms_file(other).run.hex()}, not {TERMS.run.hex()}" in done.stderr
        assert environment.pulls == 0


def test_an_open_run_says_what_cannot_be_refused(tmp_path: Path) -> None:
    everything = ["invented origins", "bodies of other kinds", "other lifetimes", "trials of the future"]
    with served(tmp_path, "--rounds", "3") as environment:
        assert environment.ready["cannot_refuse"] == everything
        assert environment.agent().returncode == 0
        (entry,) = environment.entries("open run: cannot refuse what was not agreed on")
        assert entry["open"] == everything
        status = json.loads((tmp_path / "run" / "status.json").read_text(encoding="utf-8"))
        assert status["left_open"] == everything


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--arms", "0.9,0.5,0.1"), "it is about 2 arms, not 3"),
        (("--rounds", "13"), "its rounds are 12, not 13"),
        (("--agents", "4"), "its agents are not just 0…3"),
        (("--run", "0011223344556677"), f"its run is {TERMS.run.hex()}"),
    ],
    ids=str,
)
def test_flags_of_an_environment_that_contradict_its_terms_are_refused(
    terms_file: str, flags: tuple[str, ...], complaint: str
) -> None:
    done = agentd("env", "--terms", terms_file, "--listen", "tcp://127.0.0.1:0", *flags)
    assert (done.returncode, complaint in done.stderr) == (78, True), done.stderr


def test_an_environment_goes_on_under_its_terms_and_under_no_others(tmp_path: Path, terms_file: str) -> None:
    with served(tmp_path, "--terms", terms_file) as environment:
        assert environment.ready["agents"] == 3
    with served(tmp_path) as again:
        assert again.ready["terms"] == digest(TERMS)
    write_terms_file(tmp_path / "other.json", Terms(run=TERMS.run, arms=2, lifetime=1))
    words = ("env", "--arms", "0.9,0.1", "--listen", "tcp://127.0.0.1:0", "--run-dir", str(tmp_path / "run"))
    done = agentd(*words, "--terms", str(tmp_path / "other.json"))
    assert done.returncode == 78
    assert "in its terms horizon is 12, not 0" in done.stderr
