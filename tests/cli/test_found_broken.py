"""What operators have found broken, each as they typed it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.errors import SettingsError, ToolMissing
from deploy.containers.image import require_names
from deploy.containers.swarm import require_swarm
from deploy.local import socket_directory
from deploy.local.socket_directory import SocketDirectory
from deploy.testbed.merged_logs import Line

SMALL = ("--agents", "4", "--edge-probability", "1", "--rounds", "30", "--seed", "1")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_policies_of_single_agents_need_no_other_flag() -> None:
    done = run("simulate", *SMALL, "--policy", "3=ucb1", "--json")
    assert done.exit_code == 0, done.output
    assert "it runs on the core agents" in done.stderr
    manifest = json.loads(next(Path("runs").glob("*/manifest.json")).read_text(encoding="utf-8"))
    assert (manifest["runtime"], manifest["settings"]["policies"]) == ("simulate/agents", {"3": "ucb1"})


def test_who_asks_for_the_vector_engine_is_told_what_it_cannot_do() -> None:
    done = run("simulate", *SMALL, "--policy", "3=ucb1", "--engine", "vector")
    assert isinstance(done.exception, SettingsError)
    assert "use --engine agents" in str(done.exception)


def test_nothing_but_results_is_printed_where_nobody_watches_a_bar() -> None:
    assert "rounds" not in run("simulate", *SMALL).stdout.splitlines()


def test_one_agent_is_not_several() -> None:
    said = run("simulate", "--agents", "1", "--random-arms", "1", "--rounds", "1", "--algorithm", "ucb1").stdout
    assert said.startswith("ucb1: 1 agent, 1 bernoulli arm, 1 round, ")


def test_a_family_of_graphs_is_not_taken_for_a_file() -> None:
    done = run("simulate", "--topology", "ring", "--agents", "6")
    assert isinstance(done.exception, SettingsError)
    assert "agentd topology generate ring --agents 6 --out ring.json" in str(done.exception)
    assert run("topology", "generate", "ring", "--agents", "6", "--out", "ring.json").exit_code == 0
    assert run("simulate", "--topology", "ring.json", "--rounds", "5").exit_code == 0


@pytest.mark.parametrize("verb", [("simulate",), ("up",), ("compose",), ("manifests", "kubernetes"), ("soak",)])
def test_a_graph_of_nine_does_not_run_where_six_were_asked_for(verb: tuple[str, ...]) -> None:
    assert run("topology", "generate", "ring", "--agents", "9", "--out", "g.json").exit_code == 0
    done = run(*verb, "--topology", "g.json", "--agents", "6")
    assert isinstance(done.exception, SettingsError)
    assert "--topology g.json has 9 agents, and --agents says 6" in str(done.exception)


def test_a_graph_of_nine_runs_where_nine_or_nobody_was_asked_for() -> None:
    assert run("topology", "generate", "ring", "--agents", "9", "--out", "g.json").exit_code == 0
    for words in ((), ("--agents", "9")):
        done = run("simulate", "--topology", "g.json", "--rounds", "5", *words)
        assert done.exit_code == 0, done.output


def test_a_wrong_number_of_agents_is_the_only_fault() -> None:
    done = run("simulate", "--agents", "-3", "--policy", "2=ucb1")
    assert str(done.exception) == "--agents must be in 1…1048576, got -3"


@pytest.mark.parametrize("tag", ["BAD TAG", "Upper:1", "agentd:", "agentd:-x", "/agentd", "a" * 300, "x@sha256:0"])
def test_a_name_that_docker_would_refuse_is_refused_before_anything_is_made(tag: str) -> None:
    with pytest.raises(SettingsError, match="is no name of an image"):
        require_names(tag, "")
    assert isinstance(run("image", "build", "--tag", tag).exception, SettingsError)


@pytest.mark.parametrize("tag", ["agentd", "agentd:0.1.0", "hub.example:5000/team/agentd:V1_x", "localhost/agentd"])
def test_a_name_that_docker_takes_is_taken(tag: str) -> None:
    require_names(tag, "ui,opendp")


def test_a_docker_outside_a_swarm_lacks_something() -> None:
    class Alone:
        def info(self) -> dict[str, object]:
            return {"Swarm": {"LocalNodeState": "inactive"}}

    with pytest.raises(ToolMissing, match="in no swarm") as refused:
        require_swarm(Alone())  # type: ignore[arg-type]
    assert refused.value.exit_code == 69


def test_lines_of_the_environment_tell_which_agent_they_are_about() -> None:
    said = {"timestamp": "2026-01-01T10:00:00Z", "role": "environment", "event": "hello", "agent": 3, "next_trial": 7}
    assert Line(json.dumps(said)).readable().endswith("hello agent=3 next_trial=7")
    del said["role"]
    assert "agent 3 " in Line(json.dumps(said)).readable()


INTERRUPTED_WHILE_LOADING = """
import sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from agentd.__main__ import main
main()
"""


def test_an_interrupt_while_everything_is_being_loaded_leaves_no_traceback() -> None:
    words = [sys.executable, "-c", INTERRUPTED_WHILE_LOADING]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("rewards", [1, 3, 5, 7, 10, 49])
def test_a_person_behind_so_many_rewards_is_told_what_was_promised(rewards: int) -> None:
    words = ("--algorithm", "sealed", "--epsilon", "1", "--rewards-per-person", str(rewards))
    done = run("simulate", "--agents", "3", "--edge-probability", "1", "--rounds", "400", *words)
    assert done.exit_code == 0, done.output
    (summary,) = [json.loads(path.read_text(encoding="utf-8")) for path in Path("runs").glob("*/summary.json")]
    told = summary["privacy"]
    assert told["releases"] > 0
    assert told["per_person_epsilon"] <= 1.0
    assert told["per_person_epsilon"] >= rewards * told["per_agent_epsilon"] * (1 - 1e-15)
    assert rewards == 1 or f"{rewards} of them ε = 1\n" in done.stdout


def test_a_directory_of_sockets_whose_maker_was_killed_early_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("home").absolute()
    home.mkdir(mode=0o700)
    monkeypatch.setattr(socket_directory, "_homes", lambda: iter([str(home)]))
    monkeypatch.setattr(socket_directory, "_usable_homes", lambda: iter([str(home)]))
    in_use, killed = SocketDirectory(), SocketDirectory()
    os.close(killed._lock)  # as the system does for whoever is killed
    made_s = Path(killed.path).stat().st_mtime
    assert socket_directory.remove_left_over(made_s + 1) == 0, "somebody may be about to lock it"
    assert socket_directory.remove_left_over(made_s + 1000) == 1
    assert [path.name for path in home.iterdir()] == [Path(in_use.path).name]
    in_use.release()
    assert not list(home.iterdir())


def test_a_testbed_that_is_terminated_while_it_is_prepared_leaves_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("home").absolute()
    home.mkdir(mode=0o700)
    monkeypatch.setattr(socket_directory, "_usable_homes", lambda: iter([str(home)]))
    monkeypatch.setattr("deploy.local.local_runtime.write_plan", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(socket_directory, "_homes", lambda: iter([str(home)]))
    done = run("up", "--agents", "3", "--edge-probability", "1")
    assert isinstance(done.exception, SystemExit)
    assert "Aborted" in done.output
    assert not list(home.iterdir())
