"""Plans as documents for compose and for a swarm: compared with files that were read by people."""

from __future__ import annotations

import json
import stat
import subprocess
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.cli.agent import agent
from agentd.cli.env import env, environment_settings
from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.arms import Arms
from agentd.runs.scenario import Scenario, make_scenario
from agentd.settings import AgentSettings, Pace, TestbedSettings
from deploy.containers.compose_document import (
    MOST_AGENTS,
    SECRETS_DIR,
    ContainerOptions,
    address_of,
    compose_document,
    subnet_for,
)
from deploy.containers.container_runtime import (
    IN_CONTAINERS,
    environment_for_containers,
    plan_for_containers,
    read_subnet,
)
from deploy.containers.docker import find_composes
from deploy.containers.stack_document import only, stack_document
from deploy.plan.arguments import agent_arguments, environment_arguments
from deploy.plan.plan import NOT_DRAWN, Keep
from deploy.plan.yaml_text import to_yaml, with_common_part

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
EXAMPLE_FLAGS = [
    "compose", "--agents", "8", "--edge-probability", "0.5", "--rounds", "200", "--seed", "3",
    "--image", "agentd:0.1.0", "--user", "1000:1000",
]  # fmt: skip
"""How the examples were made; when what is made changes, make them anew and read the difference."""


def scenario(**changes: Any) -> Scenario:
    settings: dict[str, Any] = {"agents": 3, "edge_probability": 1.0, "rounds": 20, "seed": 3}
    return make_scenario(TestbedSettings(**{**settings, **changes}))


def options(**changes: Any) -> ContainerOptions:
    about: dict[str, Any] = {
        "image": "agentd:test",
        "user": "1000:1000",
        "run_dir": "/runs/one",
        "subnet": IPv4Network("10.213.0.0/24"),
        "labels": {"agentd.project": "agentd-1"},
    }
    return ContainerOptions(**{**about, **changes})


def document(make: Any = compose_document, **changes: Any) -> dict[str, Any]:
    made = scenario(**changes)
    plan = plan_for_containers(made, Pace())
    result: dict[str, Any] = make(plan, environment_for_containers(made, plan), made.settings.seed, options())
    return result


def hosted_document(make: Any = compose_document, agents: int = 5) -> dict[str, Any]:
    """Of containers of two agents each."""
    made = scenario(agents=agents)
    plan = plan_for_containers(made, Pace(), Keep(state=True))
    hosts = range(-(-agents // 2))
    plan = plan.hosted_at(2, tuple(f"tcp://{address_of(f'host-{host}', options().subnet)}:7001" for host in hosts))
    result: dict[str, Any] = make(plan, environment_for_containers(made, plan), made.settings.seed, options())
    return result


def keyed_document(make: Any = compose_document) -> dict[str, Any]:
    made = scenario()
    plan = plan_for_containers(made, Pace()).with_keys("/keys", "ab" * 32, inside=SECRETS_DIR, note=IN_CONTAINERS.note)
    environment = environment_for_containers(made, plan)
    result: dict[str, Any] = make(plan, environment, made.settings.seed, options(keys="/keys"))
    return result


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.mark.parametrize(("file", "flags"), [("docker-compose.yml", []), ("docker-stack.yml", ["--stack"])])
def test_the_examples_are_what_the_command_prints_byte_for_byte(file: str, flags: list[str]) -> None:
    result = run(*EXAMPLE_FLAGS, *flags)
    assert result.exit_code == 0, result.output
    assert (EXAMPLES / file).read_text(encoding="utf-8") == result.output


@pytest.mark.parametrize("flags", [[], ["--stack"]])
def test_the_text_and_the_json_hold_the_same_values(flags: list[str]) -> None:
    text = yaml.safe_load(run(*EXAMPLE_FLAGS, *flags).output)
    text.pop("x-agentd")
    assert text == json.loads(run(*EXAMPLE_FLAGS, *flags, "--json").output)


@pytest.mark.parametrize("name", ["environment", "agent-0", "agent-2"])
def test_every_container_is_confined(name: str) -> None:
    service = document()["services"][name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert service["user"] == "1000:1000"
    assert service["pids_limit"] == 32
    assert service["mem_limit"].endswith("m")
    assert service["restart"] == "on-failure:3"
    assert service["logging"]["options"] == {"max-size": "1m", "max-file": "2"}
    assert service["labels"]["agentd.project"] == "agentd-1"


def test_agents_find_whom_they_talk_to_without_asking_anybody() -> None:
    services = document(topology=None, edge_probability=1.0)["services"]
    addresses = {name: service["networks"]["mesh"]["ipv4_address"] for name, service in services.items()}
    assert addresses["environment"] == "10.213.0.2"
    assert len(set(addresses.values())) == 4
    for number in range(3):
        others = ["environment", *(f"agent-{other}" for other in range(3) if other != number)]
        assert services[f"agent-{number}"]["extra_hosts"] == [f"{name}:{addresses[name]}" for name in others]


def test_agents_wait_for_the_environment_and_their_network_leads_nowhere() -> None:
    made = document()
    assert made["services"]["agent-1"]["depends_on"] == {"environment": {"condition": "service_healthy"}}
    assert made["networks"]["mesh"]["internal"] is True
    assert made["networks"]["mesh"]["labels"] == {"agentd.project": "agentd-1"}


def test_only_agents_are_let_in_and_not_the_host() -> None:
    def admitted(service: dict[str, Any]) -> list[IPv4Network]:
        said = [word.removeprefix("--admit=") for word in service["command"] if word.startswith("--admit=")]
        return [IPv4Network(each) for each in ",".join(said).split(",") if each]

    services = document()["services"]
    agents = {IPv4Address(services[name]["networks"]["mesh"]["ipv4_address"]) for name in services if "agent-" in name}
    assert {address for network in admitted(services["environment"]) for address in network} == agents
    assert admitted(services["agent-1"]) == [], "its neighbours are let in without being named"
    everybody, host = options().subnet, options().subnet[1]
    for service in document(stack_document)["services"].values():
        assert {address for network in admitted(service) for address in network} == {*everybody} - {host}


def test_agents_see_their_own_log_and_the_faults_and_nothing_else_of_the_run() -> None:
    services = document()["services"]
    assert [(mount["source"], mount.get("read_only", False)) for mount in services["agent-0"]["volumes"]] == [
        ("/runs/one/logs/agent-0", False),
        ("/runs/one/chaos", True),
        ("/runs/one/seats/agent-0", True),
    ]
    assert "--log-file=/var/lib/agentd/run/logs/agent-0/agent-0.jsonl" in services["agent-0"]["command"]


def test_no_place_is_written_to_by_two_containers_or_holds_what_the_supervisor_writes() -> None:
    made = scenario(seed=None)
    plan = plan_for_containers(made, Pace(), Keep(state=True))
    services = compose_document(plan, environment_for_containers(made, plan), None, options())["services"]
    mounts = [mount for service in services.values() for mount in service["volumes"]]
    written = [mount["source"] for mount in mounts if not mount.get("read_only")]
    assert len(written) == len(set(written)) == 1 + 2 * 3
    for place in written:
        assert not any(other.startswith(f"{place}/") for other in written)
        assert place.removeprefix("/runs/one/").partition("/")[0] in {"environment", "logs", "state"}
        assert place not in {"/runs/one", "/runs/one/logs", "/runs/one/state"}


def test_the_environment_knows_hashes_of_secrets_and_sees_none() -> None:
    made = scenario(seed=None)
    plan = plan_for_containers(made, Pace(), Keep(state=True))
    service = compose_document(plan, environment_for_containers(made, plan), None, options())["services"]["environment"]
    assert "--seats=/var/lib/agentd/run/seats.jsonl" in service["command"]
    assert service["volumes"] == [{"type": "bind", "source": "/runs/one/environment", "target": "/var/lib/agentd/run"}]
    printed = plan_for_containers(made, Pace(), run=NOT_DRAWN)
    service = compose_document(printed, environment_for_containers(made, printed), None, options())["services"]
    assert "--seats" not in " ".join(service["environment"]["command"]), "the agents draw their own"
    assert "--seat=/var/lib/agentd/run/seats/agent-2/seat" in service["agent-2"]["command"]
    assert {"read_only": True} not in [mount for mount in service["agent-2"]["volumes"] if "seats" in mount["source"]]


@pytest.mark.parametrize("make", [compose_document, stack_document])
def test_with_keys_every_service_sees_its_own_and_the_roster_and_nobody_is_insecure(make: Any) -> None:
    made = keyed_document(make)
    for name, service in made["services"].items():
        seen = {each["target"]: made["secrets"][each["source"]]["file"] for each in service["secrets"]}
        own = f"{name}.key"
        assert seen == {own: f"/keys/{own}", "roster.json": "/keys/roster.json"}
        words = service["command"]
        assert f"--keys={SECRETS_DIR}/{own}" in words
        assert f"--roster={SECRETS_DIR}/roster.json" in words
        assert "--insecure" not in words
        assert not any(word.startswith("--seat") for word in words)
        if make is stack_document:
            assert {(each["uid"], each["gid"], each["mode"]) for each in service["secrets"]} == {
                ("1000", "1000", 0o400)
            }
    assert len(made["secrets"]) == 5
    note = "--roster-note=/var/lib/agentd/run/seats/agent-0/roster"
    agent = made["services"]["agent-0"]
    assert note in agent["command"]
    assert {"/runs/one/seats/agent-0"} <= {each.get("source") for each in agent["volumes"] if not each.get("read_only")}
    assert all("secrets" not in service for service in document(make)["services"].values())


@pytest.mark.parametrize("stack", [[], ["--stack"]])
def test_the_printed_file_names_keys_that_were_made_for_it_and_holds_none(
    stack: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["compose", "--agents", "2", "--edge-probability", "1", "--user", "1000:1000", "--keys", "keys", *stack]
    printed = run(*words).output
    made = yaml.safe_load(printed)
    files = {each["file"] for each in made["secrets"].values()}
    assert files == {f"./keys/{name}" for name in ("agent-0.key", "agent-1.key", "environment.key", "roster.json")}
    for path in (tmp_path / "keys").glob("*.key"):
        about = json.loads(path.read_text())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert about["curve_secret"] not in printed
        assert about["sign_secret"] not in printed
    assert "insecure" not in printed
    assert "never overwritten" in str(run(*words).exception)


def test_a_part_of_a_stack_brings_the_secrets_of_its_services_only() -> None:
    part = only(keyed_document(stack_document), ["agent-1"])
    assert set(part["secrets"]) == {"agent-1-keys", "roster"}


@pytest.mark.skipif(not find_composes(), reason="there is no compose: neither `docker compose` nor docker-compose")
def test_compose_takes_the_document_with_secrets(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text(with_common_part(keyed_document(), "services", "x-agentd"), encoding="utf-8")
    for compose in find_composes():
        done = subprocess.run(
            [*compose.command, "--file", str(file), "config"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "agent-1-keys" in done.stdout


def test_an_agent_that_keeps_its_state_sees_its_own_and_no_others() -> None:
    made = scenario(seed=None)
    plan = plan_for_containers(made, Pace(), Keep(state=True, epsilon_budget=9.0))
    service = compose_document(plan, environment_for_containers(made, plan), None, options())["services"]["agent-1"]
    assert service["volumes"][-1]["source"] == "/runs/one/state/agent-1"
    assert f"--state={service['volumes'][-1]['target']}" in service["command"]
    assert "--epsilon-budget=9.0" in service["command"]


@pytest.mark.parametrize("stack", [[], ["--stack"]], ids=["compose", "stack"])
def test_the_printed_file_keeps_state_and_budget_as_up_does(stack: list[str]) -> None:
    flags = ["compose", "--agents", "2", "--epsilon-budget", "3", "--on-budget", "stop", *stack]
    text = run(*flags, "--user", "1000:1000").output
    kinds = ("logs", "seats", "state")
    own = " ".join(["./run/environment", *(f"./run/{kind}/agent-{agent}" for kind in kinds for agent in (0, 1))])
    assert f"#   install -d -m 700 -o 1000 -g 1000 {own}\n" in text
    service = yaml.safe_load(text)["services"]["agent-1"]
    assert {"--epsilon-budget=3.0", "--on-budget=stop"} <= set(service["command"])
    assert "--state=/var/lib/agentd/run/state/agent-1" in service["command"]
    mount = {"type": "bind", "source": "./run/state/agent-1", "target": "/var/lib/agentd/run/state/agent-1"}
    assert mount in service["volumes"]
    for forgets in (["--no-state"], ["--seed", "3"]):
        kept = run("compose", "--agents", "2", *stack, *forgets).output
        assert "--seat=" in kept
        assert "--state" not in kept


def test_a_dollar_sign_in_the_run_directory_is_no_variable() -> None:
    made = scenario()
    plan = plan_for_containers(made, Pace())
    parts = compose_document(plan, environment_for_containers(made, plan), 3, options(run_dir="/runs/$x"))
    assert parts["services"]["environment"]["volumes"][0]["source"] == "/runs/$$x/environment"


def test_without_a_seed_no_secret_is_in_the_document() -> None:
    made = scenario(seed=None)
    plan = plan_for_containers(made, Pace())
    text = json.dumps(compose_document(plan, environment_for_containers(made, plan), None, options()))
    assert "--seed" not in text
    assert str(made.spec.seed) not in text


def test_the_environment_gets_memory_for_every_pull() -> None:
    small, large = document()["services"], document(rounds=1_000_000)["services"]
    assert int(large["environment"]["mem_limit"][:-1]) > int(small["environment"]["mem_limit"][:-1]) + 100


def test_a_swarm_gets_names_instead_of_addresses_and_limits_where_it_reads_them() -> None:
    made = document(stack_document)
    assert made["version"] == "3.9"
    service = made["services"]["agent-1"]
    assert service["networks"] == ["mesh"]
    assert service["deploy"]["endpoint_mode"] == "dnsrr"
    assert service["deploy"]["resources"]["limits"] == {"memory": "128m", "pids": 32}
    assert {"mem_limit", "tmpfs", "security_opt", "restart", "depends_on", "extra_hosts"}.isdisjoint(service)
    assert service["volumes"][-1]["type"] == "tmpfs"
    assert made["networks"]["mesh"]["driver"] == "overlay"


@pytest.mark.parametrize("make", [compose_document, stack_document])
def test_containers_of_many_agents_see_the_places_of_theirs_and_no_others(make: Any) -> None:
    services = hosted_document(make)["services"]
    assert list(services) == ["environment", "host-0", "host-1", "host-2"]
    host = services["host-1"]
    assert host["command"] == ["host", "/var/lib/agentd/run/hosts/host-1/host.json"]
    assert host["labels"]["agentd.agents"] == "2-3"
    assert (host["user"], host["read_only"], host["cap_drop"]) == ("1000:1000", True, ["ALL"])
    mounts = {each["source"]: each.get("read_only", False) for each in host["volumes"] if each["type"] == "bind"}
    own = {
        f"/runs/one/{kind}/agent-{agent}": kind == "seats" for kind in ("logs", "seats", "state") for agent in (2, 3)
    }
    assert mounts == own | {"/runs/one/chaos": True, "/runs/one/hosts/host-1": True}


def test_containers_of_many_agents_have_an_address_each_and_the_environment_admits_these_only() -> None:
    services = hosted_document()["services"]
    addresses = [services[f"host-{host}"]["networks"]["mesh"]["ipv4_address"] for host in range(3)]
    assert addresses == ["10.213.0.3", "10.213.0.4", "10.213.0.5"]
    (admit,) = [word for word in services["environment"]["command"] if word.startswith("--admit=")]
    admitted = [IPv4Network(each) for each in admit.removeprefix("--admit=").split(",")]
    assert {str(one) for network in admitted for one in network} == set(addresses)
    assert services["host-0"]["mem_limit"] == "136m"


def test_a_swarm_places_everything_where_the_run_directory_is() -> None:
    made = scenario()
    plan = plan_for_containers(made, Pace())
    services = stack_document(plan, environment_for_containers(made, plan), 3, options(), node="abc")["services"]
    assert all(one["deploy"]["placement"] == {"constraints": ["node.id==abc"]} for one in services.values())
    assert list(only({"services": services}, ["agent-1"])["services"]) == ["agent-1"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lies": True, "attack": "uniform", "contamination": 0.2, "algorithm": "byzantine-ucb", "estimator": "clipped"},
        {"clock": "free", "interval_s": 0.1, "round_timeout_s": 2.5, "ready_timeout_s": 99.0, "seed": 7, "rounds": 5},
        {"insecure": True, "listen": "tcp://0.0.0.0:7001", "log_file": "/x/a.jsonl", "faults_file": "/x/f.json"},
        {"gamma": 0, "epsilon": 0.1, "v": 1.2, "sigma": 0.3, "log_level": "debug"},
    ],
)
def test_an_agents_settings_survive_the_way_through_its_command_line(changes: dict[str, Any]) -> None:
    about: dict[str, Any] = {"id": 0, "listen": "tcp://127.0.0.1:7001", "environment": "tcp://127.0.0.1:7000"}
    settings = AgentSettings(**{**about, "peers": {1: "tcp://b:1", 2: "tcp://c:1"}, **changes})
    words = agent_arguments(settings)
    assert words[0] == "agent"
    context = agent.make_context("agent", words[1:])
    assert AgentSettings(**context.params) == settings


@pytest.mark.parametrize("reward", ["bernoulli", "beta", "uniform", "normal"])
def test_the_environment_deals_the_same_arms_through_its_command_line(reward: str) -> None:
    made = scenario(reward=reward)
    part = environment_for_containers(made, plan_for_containers(made, Pace()))
    words = environment_arguments(part, admit=["10.0.0.0/8"], listen="tcp://0.0.0.0:7000", run_dir="/nowhere", seed=3)
    flags = env.make_context("env", words[1:]).params
    assert (flags.pop("insecure"), flags.pop("as_json")) == (True, False)
    assert [flags.pop(name) for name in ("command", "endpoint", "function")] == [None] * 3
    settings = environment_settings(**flags)
    assert settings.arms == Arms.from_json(part.arms)
    assert (settings.seed, settings.agents, settings.rounds) == (3, 3, 20)
    assert (settings.run, settings.together, settings.until_done) == (part.run, True, True)


@pytest.mark.parametrize("run_id", ["xyz", "0011", "00112233445566778899"])
def test_a_run_that_is_no_identity_is_refused(run_id: str) -> None:
    refused = run("env", "--arms", "0.5", "--run", run_id)
    assert "--run must be 16 hexadecimal digits" in str(refused.exception)


@pytest.mark.parametrize("agents", [1, 60, 124, 125, 250, 500, MOST_AGENTS])
def test_a_subnet_has_room_for_all_and_meets_nobody(agents: int) -> None:
    first = subnet_for(agents, [])
    assert first.num_addresses >= agents + 4
    second = subnet_for(agents, [first, IPv4Network("10.192.0.0/12")], start=3)
    assert not second.overlaps(IPv4Network("10.192.0.0/12"))


def test_without_a_free_subnet_the_operator_is_asked_for_one() -> None:
    with pytest.raises(ConfigurationError, match="--subnet"):
        subnet_for(3, [IPv4Network("10.0.0.0/8")])


def test_a_subnet_that_is_none_or_too_small_is_refused() -> None:
    with pytest.raises(SettingsError, match="write it like"):
        read_subnet("10.0.0.0/99")
    refused = run("compose", "--agents", "8", "--subnet", "10.1.0.0/29")
    assert "too small for 8 agents" in str(refused.exception)


def test_more_agents_than_a_bridge_carries_are_refused() -> None:
    made = scenario(agents=MOST_AGENTS + 1, edge_probability=0.01, seed=1)
    plan = plan_for_containers(made, Pace())
    with pytest.raises(ConfigurationError, match="at most 1000 agents"):
        compose_document(plan, environment_for_containers(made, plan), 1, options(subnet=IPv4Network("10.0.0.0/16")))


@pytest.mark.parametrize("user", ["0:0", "root", "1000", "1000:x", "-1:5"])
def test_nobody_is_root_inside(user: str) -> None:
    refused = run("compose", "--agents", "2", "--user", user)
    assert "UID:GID" in str(refused.exception)


def test_the_run_directory_is_a_path_even_where_it_could_be_the_name_of_a_volume() -> None:
    text = run("compose", "--agents", "2", "--edge-probability", "1", "--run-dir", "here").output
    assert yaml.safe_load(text)["services"]["environment"]["volumes"][0]["source"] == "./here/environment"


AWKWARD = [
    "plain", "true", "No", "~", "", "1", "1.5", "1e3", "0x1f", "12:30", "a: b", "a:", "- a", "-", "--x=1", "a #b", "#",
    "*a", "&a", "!x", "%x", "@x", "`x", "{a}", "[a]", "it's", 'say "x"', "a\nb", "tab\t", " lead", "trail ", "ünï",
    "null", "<<", "=", "a,b", "2001-01-01", ".5", "...", "---", ".inf", ".NaN", "_1", "-1", "-.5", "./x",
]  # fmt: skip


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_texts_are_read_back_as_they_were(text: str) -> None:
    value = {"key": text, text or "empty": ["x", text, {"deep": text}], "list": [{"a": text, "b": 1}]}
    assert yaml.safe_load(to_yaml(value)) == value


def test_numbers_and_empty_things_are_read_back_as_they_were() -> None:
    value = {"a": 1, "b": True, "c": [], "d": {}, "e": -3, "f": {"g": [{"h": [1, 2]}]}}
    assert yaml.safe_load(to_yaml(value)) == value


def test_what_nobody_shares_is_not_put_in_common() -> None:
    value = {"services": {"a": {"x": 1}, "b": {"x": 2}}, "networks": {}}
    assert with_common_part(value, "services", "x-common") == to_yaml(value)
    alone = {"services": {"a": {"x": 1}}}
    assert yaml.safe_load(with_common_part(alone, "services", "x-common")) == alone
