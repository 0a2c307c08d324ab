"""agentd env: flags to settings, and what it says before and after."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from env_clients import hello, pull, report

from agentd.cli import env as env_module
from agentd.cli.env import env, environment_settings, summarise_environment
from agentd.core.chance import Purpose, stream
from agentd.core.trust.blame import Blame, Why
from agentd.environment.live_status import Tallies, status_of
from agentd.environment.request_server import RunEnding
from agentd.environment.service import EnvironmentSettings, settle
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import Store
from agentd.errors import SettingsError
from agentd.runs.arms import Arms
from agentd.wire.environment_messages import MAX_COUNT, Report

NOTHING = dict.fromkeys(("arms", "random_arms", "arm_range", "reward", "bounds", "seed", "agents", "rounds", "run_dir"))


def settings_of(**flags: Any) -> EnvironmentSettings:
    return environment_settings(
        **{**NOTHING, "log_file": None, "listen": "tcp://127.0.0.1:0", "until_done": False, **flags}
    )


def ending_of(settings: EnvironmentSettings, *reports: Report) -> RunEnding:
    """What the service would hand over after one pull."""
    bandit = SharedBandit(settle(settings, None))
    for agent in {0, *(each.agent for each in reports)}:
        bandit.answer(hello(agent), 0.0)
    bandit.answer(pull(0, 1, 1), 0.0)
    for each in reports:
        bandit.answer(each, 0.0)
    tallies = Tallies()
    tallies.malformed["shape"] = 2
    return RunEnding(bandit, status_of(bandit, tallies, address="tcp://x:1", pulls_per_s=0.0, now_s=1.0), 1.25)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[EnvironmentSettings]:
    """The settings of services that were started; each is ready at once and ends after one pull."""
    started: list[EnvironmentSettings] = []

    def run(settings: EnvironmentSettings, on_ready: Any, on_end: Any) -> int:
        started.append(settings)
        on_ready("tcp://127.0.0.1:7654")
        if settings.run_dir is not None:
            Path(settings.run_dir).mkdir(exist_ok=True)
        said = report(0, 1, 10, 500, (("stale", 3),), 2_000_000, True)
        on_end(ending_of(settings, replace(said, blames=(Blame(1, Why.SLOW, 2),))))
        return 0

    monkeypatch.setattr(env_module, "run_environment", run)
    return started


def invoke(*flags: str) -> tuple[str, str]:
    result = CliRunner().invoke(env, flags, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def fault_of(*flags: str) -> str:
    with pytest.raises(SettingsError) as fault:
        CliRunner().invoke(env, flags, catch_exceptions=False, standalone_mode=False)
    assert fault.value.exit_code == 2
    return str(fault.value)


def test_given_arms_are_served() -> None:
    settings = settings_of(arms=(0.9, 0.5), reward="uniform", bounds=(-1.0, 1.0), seed=3, agents=2, rounds=9)
    assert settings.arms == Arms.fixed((0.9, 0.5), "uniform", bounds=(-1.0, 1.0))
    assert (settings.seed, settings.agents, settings.rounds) == (3, 2, 9)


def test_random_arms_are_those_of_the_seed_as_in_a_simulation() -> None:
    drawn = Arms.random(4, stream(3, Purpose.ARMS), 0.3, 0.7)
    assert settings_of(random_arms=4, arm_range=(0.3, 0.7), seed=3).arms == drawn


def test_without_flags_there_are_five_random_arms_and_a_seed_nobody_knows() -> None:
    one, other = settings_of(), settings_of()
    assert one.arms.count == 5
    assert one.arms.kind == "bernoulli"
    assert one.seed != other.seed
    assert one.run != other.run


def begun(directory: Path, **flags: Any) -> EnvironmentSettings:
    settings = settings_of(run_dir=str(directory), **flags)
    store = Store.open(directory)
    store.begin(settle(settings, None))
    store.close()
    return settings


def test_what_no_flag_says_comes_from_the_run_directory(tmp_path: Path) -> None:
    first = begun(tmp_path, random_arms=3, reward="beta", agents=4, rounds=7)
    assert settings_of(run_dir=str(tmp_path)) == first
    assert settings_of(run_dir=str(tmp_path), random_arms=3, reward="beta") == first
    assert settings_of(run_dir=str(tmp_path), until_done=True).agents == 4


def test_what_a_flag_says_is_not_overruled_by_the_run_directory(tmp_path: Path) -> None:
    begun(tmp_path, arms=(0.9, 0.5), agents=4)
    again = settings_of(run_dir=str(tmp_path), arms=(0.9, 0.4), agents=5, seed=1)
    assert (again.arms.means, again.agents, again.seed) == ((0.9, 0.4), 5, 1)


def test_the_log_goes_to_the_run_directory_unless_told_otherwise(tmp_path: Path) -> None:
    assert settings_of().log_file is None
    assert settings_of(run_dir=str(tmp_path)).log_file == str(tmp_path / "logs" / "environment.jsonl")
    assert settings_of(run_dir=str(tmp_path), log_file="x").log_file == "x"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--arms", "0.5,1.5"), "the mean of arm 1 must lie in [0, 1]"),
        (("--arms", "0.5", "--random-arms", "3"), "choose one"),
        (("--random-arms", "0"), "the number of arms must be in"),
        (("--random-arms", "2000"), "the number of arms must be in 1…1024"),
        (("--arm-range", "0.7,0.3"), "must be drawn from a range"),
        (("--bounds", "1,1"), "low < high"),
        (("--agents", "0", "--rounds", "0"), "--agents must be in 1…65536, got 0; --rounds must be in"),
        (("--seed", "-1"), "seed must be in [0, 2"),
        (("--until-done",), "--until-done needs --agents"),
        (("--listen", "127.0.0.1:7000"), "is not an address like tcp://127.0.0.1:7003"),
        (("--listen", "tcp://*:7000"), "add --insecure if that is what you want"),
    ],
    ids=str,
)
def test_flags_that_make_no_sense_are_refused_with_exit_code_2(flags: tuple[str, ...], complaint: str) -> None:
    assert complaint in fault_of(*flags)


def test_listening_to_the_network_is_announced_loudly(served: list[EnvironmentSettings]) -> None:
    _, errors = invoke("--listen", "tcp://*:7000", "--insecure")
    assert errors.startswith("WARNING: tcp://*:7000 is open to the network")
    assert invoke("--listen", "tcp://127.0.0.1:7000")[1] == ""
    assert [settings.listen for settings in served] == ["tcp://*:7000", "tcp://127.0.0.1:7000"]


@pytest.mark.usefixtures("served")
def test_it_says_where_it_listens_which_run_it_is_and_how_agents_join() -> None:
    out, _ = invoke("--arms", "0.9,0.5", "--agents", "2", "--rounds", "10")
    lines = out.splitlines()
    assert lines[0] == "serving 2 bernoulli arms on tcp://127.0.0.1:7654 to 2 agents, 10 rounds each"
    assert lines[1].startswith("run ")
    assert lines[1].endswith("kept in memory only; see --run-dir")
    assert lines[2].startswith("agents join with: agentd --id 0 ")
    assert lines[2].endswith(" --environment tcp://127.0.0.1:7654")
    assert "group regret      0.4 (0.20 per agent)" in lines
    assert "pulls             1 of 2 agents, 1 done" in lines
    assert "messages          10 (500 bytes)" in lines
    assert "dropped           stale 3" in lines
    assert "malformed         shape 2" in lines
    assert "blamed            agent 1: slow (says 0)" in lines


@pytest.mark.usefixtures("served")
def test_the_way_to_join_names_a_machine_where_the_address_says_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env_module._as_seen_by_agents("tcp://0.0.0.0:7000") == "tcp://THIS-MACHINE:7000"
    assert env_module._as_seen_by_agents("tcp://[::]:7000") == "tcp://THIS-MACHINE:7000"
    assert env_module._as_seen_by_agents("ipc:///tmp/x") == "ipc:///tmp/x"


@pytest.mark.usefixtures("served")
def test_with_json_it_prints_two_lines_ready_and_summary() -> None:
    ready, summary = map(json.loads, invoke("--arms", "0.9,0.5", "--json")[0].splitlines())
    assert (ready["address"], ready["arms"], ready["agents"]) == ("tcp://127.0.0.1:7654", 2, None)
    assert summary["run"] == ready["run"]
    assert summary["group_regret"] == pytest.approx(0.4)


def test_the_summary_has_what_every_summary_has() -> None:
    settings = settings_of(arms=(0.9, 0.5), agents=4, rounds=10)
    summary = summarise_environment(ending_of(settings, report(0, 1, 10, 500, (("a", 1),), 2_500_000, False)))
    assert summary["regret_per_agent"] == pytest.approx(0.1)
    assert (summary["agents"], summary["rounds"], summary["messages"], summary["bytes"]) == (4, 10, 10, 500)
    assert summary["dropped"] == {"a": 1}
    assert summary["privacy"]["per_agent_epsilon"] == 2.5
    for unknown in ("algorithm", "gamma", "diameter"):
        assert summary[unknown] is None


def test_one_agent_without_a_bound_on_its_privacy_leaves_the_run_without_one() -> None:
    reports = [report(0, 1, 0, 0, (), 5, True), report(1, 1, 0, 0, (), MAX_COUNT, True)]
    ending = ending_of(settings_of(arms=(0.9, 0.5)), *reports)
    assert summarise_environment(ending)["privacy"]["per_agent_epsilon"] is None
    assert summarise_environment(ending_of(settings_of(arms=(0.9, 0.5))))["privacy"]["per_agent_epsilon"] is None


@pytest.mark.usefixtures("served")
def test_without_a_launcher_it_writes_manifest_and_summary(tmp_path: Path) -> None:
    for seed in ("5", "6"):
        out, _ = invoke("--arms", "0.9,0.5", "--seed", seed, "--run-dir", str(tmp_path))
        assert f"written to        {tmp_path}" in out
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        assert (manifest["runtime"], manifest["seed"], manifest["rows"]) == ("env", int(seed), [0])
        assert manifest["arms"]["means"] == [0.9, 0.5]
        assert json.loads((tmp_path / "summary.json").read_text())["pulls"] == 1


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("text", ['{"runtime": "local"}', "{}", "nonsense"])
def test_a_manifest_that_a_launcher_wrote_stays_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    invoke("--arms", "0.9,0.5", "--run-dir", str(tmp_path))
    assert (tmp_path / "manifest.json").read_text() == text
    assert not (tmp_path / "summary.json").exists()


@pytest.mark.usefixtures("served")
def test_a_seed_that_nobody_chose_is_not_in_the_manifest(tmp_path: Path) -> None:
    invoke("--run-dir", str(tmp_path))
    assert json.loads((tmp_path / "manifest.json").read_text())["seed"] is None
