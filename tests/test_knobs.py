"""A knob is one edit: whichever way it is turned, it arrives at every other end.

The tests go through the fields of the settings, so a knob that is added is looked at without anybody thinking of it.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from agentd.cli import cli
from agentd.cli.agent import agent as agent_command
from agentd.core.policy import ALGORITHMS, Policy, PolicySettings, intend
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.knobs import Budget, PolicyKnobs, about, flag_of
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.terms import Terms
from agentd.settings import AgentSettings, Pace, RunKnobs, Spending, TestbedSettings, as_typed, ordered
from agentd.shell.attendance.agent_making import agent_of
from agentd.wire.environment_messages import Welcome
from deploy.kubernetes.toml_text import agent_toml
from deploy.plan.arguments import agent_arguments

ROOT = Path(__file__).parent.parent
SMALL = {"--agents": "3", "--edge-probability": "1", "--rounds": "4"}
AGENT = {"--id": "3", "--listen": "tcp://127.0.0.1:7003", "--environment": "tcp://127.0.0.1:7000"}

IN_COMPANY = {
    "rewards_per_person": {"--algorithm": "sealed"},
    "epsilon_budget": {"--algorithm": "sealed", "--epsilon": "0.25"},  # or the first release would cost more
}
"""What else must be said where a knob is turned."""

OTHERS: dict[str, Any] = {
    "attack": "uniform",
    "gamma": "1",
    "topology": "ring.edges",
    "policies": {1: "ucb1"},
    "arms": (0.5, 0.25),
    "arm_range": (0.25, 0.5),
    "arm_means": (0.5, 0.25),
    "bounds": (-1.0, 2.5),
    "listen": "tcp://127.0.0.1:9",
    "environment": "tcp://hub:9",
    "peers": {1: "tcp://gate-1:7001", 2: "tcp://gate-2:7002"},
    "edge_probability": 0.999,
    "admit": ("10.0.0.0/8", "fd00::/8"),
    "http": "127.0.0.1:9100",
    "http_names": ("gate-1", "gate-1.example"),
    "mqtt": "mqtt://broker",
    "operator_fingerprint": "ab" * 32,
}
"""Values where the type, the range and the choices of a field do not suggest one."""


def other(one: Field[Any]) -> Any:
    """A value that is allowed and is not the default."""
    said, kind = about(one), str(one.type).removesuffix(" | None")
    if kind == "int":
        candidates: list[Any] = [2, 7]
    elif kind == "bool":
        candidates = [True]
    elif kind == "float":
        candidates = [0.25, 1.25, 7.5]
    else:
        candidates = [OTHERS[one.name]] if one.name in OTHERS else [*said.choices, f"/somewhere/{one.name}"]
    return next(value for value in candidates if value != one.default and said.fault("", value) is None)


# The three ways to turn a knob

Turn = Callable[[str, str, Any], "tuple[list[str], dict[str, str]]"]
"""From a flag, a variable and a value to arguments and an environment."""


def text_of(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else as_typed(value)


def by_flag(flag: str, _variable: str, value: Any) -> tuple[list[str], dict[str, str]]:
    return ([flag] if value is True else [flag, text_of(value)]), {}


def by_variable(_flag: str, variable: str, value: Any) -> tuple[list[str], dict[str, str]]:
    return [], {variable: text_of(value)}


def by_file(flag: str, _variable: str, value: Any) -> tuple[list[str], dict[str, str]]:
    written = json.dumps(value if isinstance(value, bool | int | float) else text_of(value))
    Path("knob.toml").write_text(f"{flag.removeprefix('--')} = {written}\n", encoding="utf-8")
    return ["--config", "knob.toml"], {}


WAYS: list[Turn] = [by_flag, by_variable, by_file]


# The ends at which it must arrive


class Ends:
    """Commands, run in a directory of their own up to where processes or containers would start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._runs = 0

    def run(self, *args: str, env: dict[str, str]) -> str:
        done = CliRunner().invoke(cli, list(args), env=env)
        assert done.exit_code == 0, done.output
        return done.stdout

    def new_place(self) -> Path:
        self._runs += 1
        return Path(f"run-{self._runs}").absolute()

    def up(self, args: list[str], env: dict[str, str]) -> tuple[AgentSettings, dict[str, Any], dict[str, Any]]:
        """The first agent that is planned, plan.json's word on it, and the settings in manifest.json."""
        found: list[AgentSettings] = []

        def stop(prepared: Any, _shown: Any) -> None:
            prepared.release()
            found.append(prepared.plan.agents[0])
            raise click.exceptions.Exit(0)

        up = cli.get_command(click.Context(cli), "up")
        assert up is not None
        self._monkeypatch.setattr(f"{up.callback.__module__}.carry_out", stop)
        place = self.new_place()
        self.run("up", "--run-dir", str(place), *args, env=env)
        plan = json.loads((place / "plan.json").read_text(encoding="utf-8"))
        manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
        return found[0], plan["agents"][0], manifest["settings"]

    def compose(self, args: list[str], env: dict[str, str]) -> AgentSettings:
        """The first agent of a compose file, from its command as the real verb reads it."""
        document = yaml.safe_load(self.run("compose", *args, env=env))
        words = document["services"]["agent-0"]["command"]
        assert words[0] == "agent"
        return parsed(words[1:])

    def kubernetes(self, args: list[str], env: dict[str, str]) -> AgentSettings:
        """The first agent of Kubernetes manifests, from its file as the real verb reads it."""
        objects = list(yaml.safe_load_all(self.run("manifests", "kubernetes", *args, env=env)))
        files = {name: text for each in objects if each["kind"] == "ConfigMap" for name, text in each["data"].items()}
        Path("agent.toml").write_text(files["agentd-agent-0.toml"], encoding="utf-8")
        return parsed(["--config", "agent.toml"])

    def simulate(self, args: list[str], env: dict[str, str]) -> dict[str, Any]:
        """The settings in the manifest of a simulation."""
        place = self.new_place()
        self.run("simulate", "--engine", "agents", "--json", "--run-dir", str(place), *args, env=env)
        settings: dict[str, Any] = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["settings"]
        return settings


def parsed(words: list[str]) -> AgentSettings:
    """As the real command reads them, but for running it."""
    return AgentSettings(**agent_command.make_context("agentd", words).params)


def received(monkeypatch: pytest.MonkeyPatch, settings: AgentSettings) -> PolicySettings:
    """What the policy of an agent is handed in the daemon."""
    seen: list[PolicySettings] = []
    algorithm = ALGORITHMS[settings.algorithm]

    def make(settings: PolicySettings, *others: Any) -> Policy:
        seen.append(settings)
        return algorithm.make(settings, *others)

    with monkeypatch.context() as patch:
        patch.setitem(ALGORITHMS, algorithm.name, replace(algorithm, make=make))
        # OpenDP may not be here.
        agent_of(replace(settings, noise="exact"), Welcome(Terms(3, None, horizon=9), 0.0, 1.0, 1, 0, 0))
    return seen[0]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ends:
    monkeypatch.chdir(tmp_path)
    Path("ring.edges").write_text("0 1\n1 2\n2 0\n", encoding="utf-8")
    return Ends(monkeypatch)


def typed(usual: dict[str, str], but: str) -> list[str]:
    return [word for flag, value in usual.items() if flag != but for word in (flag, value)]


def of_testbed(one: Field[Any], turn: Turn, value: Any) -> tuple[list[str], dict[str, str]]:
    flag = flag_of(one)
    args, env = turn(flag, f"AGENTD_{flag.removeprefix('--').replace('-', '_').upper()}", value)
    return [*typed(SMALL | IN_COMPANY.get(one.name, {}), flag), *args], env


def names(*groups: type) -> list[Any]:
    """The fields of groups of knobs, as parameters of a test."""
    return [pytest.param(one, id=one.name) for group in groups for one in fields(group)]


@pytest.mark.parametrize("turn", WAYS)
@pytest.mark.parametrize("one", names(RunKnobs, Pace, Spending))
def test_what_up_is_told_its_agents_are_told(
    one: Field[Any], turn: Turn, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = other(one)
    agent, plan, manifest = ends.up(*of_testbed(one, turn, value))
    assert getattr(agent, one.name) == value
    assert plan[one.name] == value
    assert parsed(agent_arguments(agent)[1:]) == agent
    if one.name in {knob.name for knob in fields(RunKnobs)}:
        assert manifest[one.name] == value
    if one.name in {knob.name for group in (PolicyKnobs, Budget) for knob in fields(group)}:
        assert getattr(received(monkeypatch, agent), one.name) == value


@pytest.mark.parametrize("turn", WAYS)
@pytest.mark.parametrize("one", names(RunKnobs, Pace))
def test_what_a_testbed_is_told_its_containers_and_pods_are_told(one: Field[Any], turn: Turn, ends: Ends) -> None:
    value = other(one)
    told = of_testbed(one, turn, value)
    in_container = getattr(ends.compose(*told), one.name)
    if one.name == "ready_timeout_s":  # containers come up one after the other and are given time for it
        in_container -= ends.compose(typed(SMALL, ""), {}).ready_timeout_s - one.default
    assert in_container == value
    assert getattr(ends.kubernetes(*told), one.name) == value


@pytest.mark.parametrize("turn", WAYS)
@pytest.mark.parametrize("one", names(TestbedSettings))
def test_what_a_simulation_is_told_stands_in_its_manifest(one: Field[Any], turn: Turn, ends: Ends) -> None:
    value = other(one)
    if one.name == "policies":
        args, env = turn("--policy", "AGENTD_POLICY", "1=ucb1")
        told = [*typed(SMALL, ""), *args], env
    else:
        told = of_testbed(one, turn, value)
    if one.name == "noise":  # a simulation knows one kind of noise only, and says so
        refused = CliRunner().invoke(cli, ["simulate", *told[0]], env=told[1])
        assert "--noise opendp is for agents that are processes" in str(refused.exception)
        return
    found = ends.simulate(*told)[one.name]
    assert found == ({"1": "ucb1"} if one.name == "policies" else list(value) if isinstance(value, tuple) else value)


AGENT_KNOBS = [pytest.param(one, id=one.name) for one in fields(AgentSettings) if about(one).flag != ""]
COMPANIONS = {
    **IN_COMPANY,
    "epsilon_budget": {"--state": "/state", **IN_COMPANY["epsilon_budget"]},
    "http_names": {"--http": "127.0.0.1:9100"},
    "http_insecure": {"--http": "127.0.0.1:9100"},
    "mqtt_credentials": {"--mqtt": "mqtt://broker"},
    "keys": (KEYED := {"--keys": "/k", "--roster": "/r", "--operator-fingerprint": "cd" * 32}),
    "roster": KEYED,
    "operator_fingerprint": KEYED,
    "roster_note": KEYED,
}


@pytest.mark.parametrize("turn", WAYS)
@pytest.mark.parametrize("one", AGENT_KNOBS)
def test_what_one_agent_is_told_it_is_told_by_every_way(
    one: Field[Any], turn: Turn, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = other(one)
    args, env = turn(flag_of(one), f"AGENTD_{one.name.upper()}", value)
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    settings = parsed([*typed({**AGENT, **COMPANIONS.get(one.name, {})}, flag_of(one)), *args])
    assert getattr(settings, one.name) == value
    assert settings.to_json()[one.name] == ({str(k): v for k, v in value.items()} if one.name == "peers" else value)
    assert parsed(agent_arguments(settings)[1:]) == settings
    Path("agent.toml").write_text(agent_toml(settings), encoding="utf-8")
    assert parsed(["--config", "agent.toml"]) == settings


def test_only_what_no_operator_sets_has_no_flag() -> None:
    assert [one.name for one in fields(AgentSettings) if about(one).flag == ""] == ["incarnation", "agreed_epsilon"]


def test_files_have_every_field_once() -> None:
    for settings in (TestbedSettings, AgentSettings):
        assert sorted(one.name for one in ordered(settings)) == sorted(one.name for one in fields(settings))


class Noting:
    """Settings that note which of them are read."""

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._settings, name)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_knob_says_which_algorithms_read_it(name: str) -> None:

    noting: Any = Noting(PolicySettings(arms=2))
    policy = ALGORITHMS[name].make(noting, 0, KeyedCoins(1, 0))
    for trial in range(1, 40):
        intent = intend(policy, trial, policy.choose(trial))
        if intent.noise is not None:
            intent.noise.draw(SeededLaplace(1, 0))
        policy.observe(intent, 5, 5)
    said = {one.name for group in (PolicyKnobs, Budget) for one in fields(group) if name in about(one).read_by}
    assert noting.read - {"arms"} == said


# Forget one, and it is red

SABOTAGE = {
    "plan": ("deploy.plan.plan", "values_of", lambda told: {k: v for k, v in told.items() if k != "refresh"}),
    "words": ("deploy.plan.arguments", "ordered", lambda every: [one for one in every if one.name != "refresh"]),
    "file": ("deploy.kubernetes.toml_text", "ordered", lambda every: [one for one in every if one.name != "refresh"]),
    "manifest": ("agentd.settings", "ordered", lambda every: [one for one in every if one.name != "refresh"]),
}


@pytest.mark.parametrize("where", SABOTAGE)
def test_a_knob_that_is_forgotten_on_one_way_is_missed_at_its_end(
    where: str, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, forget = SABOTAGE[where]
    real = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(f"{module}.{name}", lambda *args: forget(real(*args)))
    (one,) = [each for each in fields(RunKnobs) if each.name == "refresh"]

    def look() -> None:
        test_what_up_is_told_its_agents_are_told(one, by_flag, ends, monkeypatch)
        test_what_a_testbed_is_told_its_containers_and_pods_are_told(one, by_flag, ends)

    with pytest.raises((AssertionError, KeyError)):
        look()


def with_one_more_knob(place: Path, field: str) -> None:
    """Plant a field in a copy of one file, and let every test above look for it at every end."""
    for package in ("agentd", "deploy", "topology"):
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "tests").mkdir()
    for name in ("pyproject.toml", "tests/test_knobs.py"):
        shutil.copy(ROOT / name, place / name)
    table = place / "agentd/core/policy/knobs.py"
    text, first = table.read_text(encoding="utf-8"), "    epsilon: float = knob("
    assert text.count(first) == 1
    table.write_text(text.replace(first, field + first), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_knobs.py", "-k", "planted"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    # Three ways each: to up, to containers and pods, into a simulation's manifest, and to one agent.
    assert "12 passed" in done.stdout


def test_the_policies_settings_validate_themselves() -> None:
    with pytest.raises(ValueError, match=r"^--epsilon must be positive .* got 0.0; unknown rule 'x'"):
        PolicySettings(arms=3, epsilon=0.0, rule="x")


def test_the_environment_of_this_test_turns_no_knob() -> None:
    assert not [name for name in os.environ if name.startswith("AGENTD_") and name != "AGENTD_PLUGINS"]
