"""agentd config: where values come from, all faults at once, and a file to begin with."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import click
import command_line
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.cli.configuration.origins import variables_of
from agentd.cli.configuration.variables import WITH_SETTINGS, command_with_settings, variables_of_verbs
from agentd.errors import ConfigurationError, SettingsError
from agentd.settings import AgentSettings

NATURAL = """\
id = 3
listen = "tcp://127.0.0.1:7003"
environment = "tcp://127.0.0.1:7000"
interval = "200ms"
round-timeout = 5

[peers]
1 = "tcp://gate-1:7001"
2 = "tcp://gate-2:7002"
"""
WRONG = """\
id = 3
rounds = "many"

epsilonn = 3
interval = "5 apples"
epsilon = -1
peers = { a = 3 }
"""


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("natural.toml").write_text(NATURAL, encoding="utf-8")
    Path("wrong.toml").write_text(WRONG, encoding="utf-8")


def run(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(cli, list(words), env=variables)


def shown(*words: str, **variables: str) -> dict[str, tuple[object, str]]:
    done = run("config", "show", "--json", *words, **variables)
    return {row["setting"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}


def test_every_value_is_shown_with_where_it_comes_from() -> None:
    found = shown("--config", "natural.toml", "--gamma", "3", AGENTD_ROUNDS="50", AGENTD_READY_TIMEOUT="1m")
    assert found["id"] == (3, "natural.toml, line 1")
    assert found["interval"] == (0.2, "natural.toml, line 4")
    assert found["peers"] == ("1=tcp://gate-1:7001,2=tcp://gate-2:7002", "natural.toml, line 7")
    assert found["gamma"] == (3, "flag")
    assert found["rounds"] == (50, "AGENTD_ROUNDS")
    assert found["ready-timeout"] == (60.0, "AGENTD_READY_TIMEOUT")
    assert found["epsilon"] == (1.0, "default")


def test_a_flag_wins_over_a_variable_and_that_over_a_file() -> None:
    Path("some.toml").write_text("agents = 3\nrounds = 4\ngamma = 'full'\n", encoding="utf-8")
    found = shown("up", "--config", "some.toml", "--agents", "5", AGENTD_AGENTS="6", AGENTD_ROUNDS="7")
    assert [found[name][0] for name in ("agents", "rounds", "gamma")] == [5, 7, "full"]
    assert [found[name][1] for name in ("agents", "rounds", "gamma")] == ["flag", "AGENTD_ROUNDS", "some.toml, line 3"]


def test_a_table_for_people_names_origins_where_they_are_asked_for() -> None:
    plain = run("config", "show", "--config", "natural.toml").stdout
    with_origins = run("config", "show", "--origin", "--config", "natural.toml").stdout
    assert "natural.toml" not in plain
    assert "interval" in plain
    assert "natural.toml, line 4" in with_origins


@pytest.mark.parametrize(
    "peers", ['["1=tcp://a:1", "2=tcp://b:2"]', '"1=tcp://a:1,2=tcp://b:2"', '{ 1 = "tcp://a:1", 2 = "tcp://b:2" }']
)
def test_peers_may_be_a_text_a_list_or_a_table(peers: str) -> None:
    Path("peers.toml").write_text(f"peers = {peers}\n", encoding="utf-8")
    words = [
        "--id",
        "3",
        "--listen",
        "tcp://127.0.0.1:1",
        "--environment",
        "tcp://127.0.0.1:2",
        "--config",
        "peers.toml",
    ]
    found = AgentSettings(**command_with_settings("agent").make_context("agentd", words).params)
    assert found.peers == {1: "tcp://a:1", 2: "tcp://b:2"}


def test_policies_of_single_agents_may_be_a_table() -> None:
    Path("table.toml").write_text("[policy]\n0 = 'ucb1'\n3 = 'sealed'\n", encoding="utf-8")
    assert shown("up", "--config", "table.toml")["policy"] == ("0=ucb1,3=sealed", "table.toml, line 1")


def test_all_faults_of_a_file_are_told_at_once_with_their_lines() -> None:
    done = run("config", "check", "wrong.toml")
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.exit_code == 78
    told = str(done.exception).splitlines()
    assert [line.partition(": ")[0] for line in told] == [f"wrong.toml, line {number}" for number in (2, 4, 5, 7, 6)]
    assert told[1].endswith("did you mean epsilon?")
    assert "--epsilon must be positive" in told[-1]


def test_faults_of_files_and_variables_end_a_command_with_78_and_those_of_flags_with_2() -> None:
    agent = ("--id", "3", "--listen", "tcp://127.0.0.1:1", "--environment", "tcp://127.0.0.1:2")
    for words, variables, place in (
        (("--config", "wrong.toml"), {}, "wrong.toml, line 2: "),
        ((), {"AGENTD_ROUNDS": "many", "AGENTD_EPSILON": "x"}, "AGENTD_ROUNDS: "),
        ((), {"AGENTD_ROUNDS": "0"}, "AGENTD_ROUNDS: --rounds must be in"),
    ):
        done = run(*agent, *words, **variables)
        assert isinstance(done.exception, ConfigurationError), done.output
        assert place in str(done.exception)
    assert "AGENTD_EPSILON: " in str(run(*agent, AGENTD_ROUNDS="many", AGENTD_EPSILON="x").exception)
    by_flag = run(*agent, "--rounds", "0")
    assert type(by_flag.exception) is SettingsError
    several = run("up", "--agents", "many", "--rounds", "few")
    assert several.exit_code == 2
    assert "'few'" in several.output
    assert "'many'" in several.output


def test_a_fault_with_its_remedy_stays_one_line() -> None:
    Path("open.toml").write_text("id = 1\nlisten = 'tcp://*:7000'\nenvironment = 'x'\n", encoding="utf-8")
    done = run("--config", "open.toml")
    told = str(done.exception).splitlines()
    assert [line.partition(":")[0] for line in told] == ["open.toml, line 3", "open.toml, line 2"]
    assert told[1].endswith("add --insecure if that is what you want")


def test_a_variable_that_a_flag_overrides_may_be_wrong() -> None:
    assert run("simulate", "--agents", "2", "--rounds", "2", AGENTD_AGENTS="many").exit_code == 0


def test_a_variable_that_nothing_reads_is_warned_about_with_the_nearest_name() -> None:
    done = run("simulate", "--agents", "2", "--rounds", "2", AGENTD_EPSILN="1", AGENTD_ID="3", AGENTD_ENGINE="vector")
    assert done.exit_code == 0
    assert done.stderr.count("warning: AGENTD_") == 1
    assert "AGENTD_EPSILN is a variable that nothing reads; did you mean AGENTD_EPSILON?" in done.stderr
    in_a_cluster = {"AGENTD_AGENT_0_SERVICE_HOST": "10.0.0.1", "AGENTD_AGENT_0_PORT_7000_TCP": "tcp://10.0.0.1:7000"}
    assert "warning" not in run("simulate", "--agents", "2", "--rounds", "2", **in_a_cluster).stderr


def test_every_variable_of_every_verb_is_known_without_loading_it() -> None:
    known = set(variables_of_verbs())
    for path, command in command_line.commands():
        prefix = command.context_settings.get("auto_envvar_prefix")
        context = click.Context(command, info_name=path, auto_envvar_prefix=prefix)
        for param in command.params:
            if param.envvar or (prefix and isinstance(param, click.Option)):
                assert set(variables_of(context, param)) <= known, f"{path}: name it in configuration/variables.py"


def test_every_command_with_a_file_explains_itself() -> None:
    with_file = {
        path for path, command in command_line.commands() if any(one.name == "config" for one in command.params)
    }
    assert with_file == {f"agentd {name}" for name in WITH_SETTINGS}
    for name in WITH_SETTINGS:
        assert type(command_with_settings(name)).__name__.startswith("Explaining"), name


@pytest.mark.parametrize("verb", WITH_SETTINGS)
def test_the_example_is_right_as_it_is_and_with_every_line_in_force(verb: str) -> None:
    example = run("config", "example", *verb.split()).stdout
    in_force = re.sub(r"^# (?=[a-z-]+ = )", "", example, flags=re.MULTILINE)
    assert len(tomllib.loads(in_force)) > 5
    for name, text in (("as-it-is.toml", example), ("in-force.toml", in_force)):
        Path(name).write_text(text, encoding="utf-8")
        done = run("config", "check", name, *verb.split())
        assert done.exit_code == 0, (done.output, done.exception)


def test_what_has_no_settings_is_told_with_what_has() -> None:
    done = run("config", "show", "doctor")
    assert "choose from agent, compose, env" in str(done.exception)


def test_variables_of_this_shell_say_nothing_about_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTD_ROUNDS", "many")
    assert run("config", "check", "natural.toml").exit_code == 0
    assert os.environ["AGENTD_ROUNDS"] == "many"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["sim"], {"simulate"}),
        (["simulate", "--eps"], {"--epsilon"}),
        (["simulate", "--algorithm", "seal"], {"sealed"}),
        (["--id", "3", "--epsilon-b"], {"--epsilon-budget"}),
        (["config", "ch"], {"check"}),
    ],
)
def test_a_shell_completes_verbs_flags_and_choices(typed: list[str], offered: set[str]) -> None:
    completing = ShellComplete(cli, {}, "agentd", "_AGENTD_COMPLETE")
    assert {one.value for one in completing.get_completions(typed[:-1], typed[-1])} == offered
