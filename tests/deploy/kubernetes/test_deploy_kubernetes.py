"""Kubernetes manifests: valid against the published schemas, deterministic, and such that our own commands start."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from agentd.cli import cli
from agentd.cli.agent import agent as agent_command
from agentd.cli.env import env as env_command
from agentd.cli.env import environment_settings
from agentd.errors import SettingsError
from agentd.runs.scenario import Scenario, make_scenario
from agentd.settings import AgentSettings, Pace, TestbedSettings
from deploy.kubernetes import manifests as kubernetes
from deploy.kubernetes.cluster import AGENT_STORAGE, PRIVATE_NETWORKS, WORKLOADS, Cluster
from deploy.kubernetes.manifests import kubernetes_manifests
from deploy.kubernetes.parts import USER, Manifest, probes
from deploy.plan.host_file import read_host_file
from deploy.plan.plan import Keep, make_plan
from deploy.plan.yaml_text import to_yaml_stream

ARGS = ["manifests", "kubernetes", "--agents", "5", "--edge-probability", "0.6", "--seed", "3"]
VERSION = "1.29"


def scenario_of(**settings: Any) -> Scenario:
    defaults: dict[str, Any] = {"agents": 5, "edge_probability": 0.6, "rounds": 40, "seed": 3, "byzantine": 1}
    return make_scenario(TestbedSettings(**{**defaults, **settings}))


def made(scenario: Scenario, keep: Keep | None = None, **cluster: Any) -> list[Manifest]:
    pace = Pace(ready_timeout_s=300.0)
    plan = make_plan(scenario, run=bytes(8), base_port=1024, run_dir=Path(), pace=pace, keep=keep)
    return kubernetes_manifests(plan, scenario, Cluster(**{"image": "agentd:1", **cluster}))


def of_kind(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    (found,) = [one for one in manifests if one["kind"] == kind and one["metadata"]["name"].endswith(name)]
    return found


def validate(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def written(args: list[str]) -> str:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"workload": "job", "storage": "none", "namespace": "pilots", "name": "a-1"},
        {"network_policy": False, "agent_storage": "1Gi"},
        {"agent_storage": "none"},
        {"workload": "job", "agent_storage": "none"},
        {"per_process": 2},
        {"per_process": 3, "workload": "job"},
        {"per_process": 3, "workload": "job", "agent_storage": "none"},
    ],
)
def test_every_manifest_is_valid_in_the_strict_sense(cluster: dict[str, Any]) -> None:
    for manifest in made(scenario_of(), **cluster):
        validate(manifest)
        assert manifest["metadata"].get("namespace") == cluster.get("namespace")


def test_a_broken_manifest_is_not_valid() -> None:
    broken = of_kind(made(scenario_of()), "StatefulSet", "-agent")
    broken["spec"]["replicas"] = "five"
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(broken)
    misspelt = of_kind(made(scenario_of()), "StatefulSet", "-agent")
    misspelt["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(misspelt)


def parsed_agent(config: Path) -> AgentSettings:
    """As the real command reads it, but for running it."""
    context = agent_command.make_context("agentd", ["--config", str(config)])
    return AgentSettings(**context.params)


def file_of(manifests: list[Manifest], kind: str, own: int) -> Path:
    """The file that an agent's container is told to read, as Kubernetes would fill it in."""
    names = ("agentd-agent", f"agentd-agent-{own}")
    (workload,) = [one for one in manifests if one["kind"] == kind and one["metadata"]["name"] in names]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    flag, template = container["args"]
    assert flag == "--config"
    # A pod's name, the index of a job's pod, or nothing where a job is of one agent.
    for variable in (one for one in container["env"] if one["name"] == "AGENT"):
        is_index = "index" in variable["valueFrom"]["fieldRef"]["fieldPath"]
        template = template.replace("$(AGENT)", str(own) if is_index else f"agentd-agent-{own}")
    return Path(template)


@pytest.mark.parametrize("storage", ["none", "64Mi"])
@pytest.mark.parametrize(("workload", "kind"), [("statefulset", "StatefulSet"), ("job", "Job")])
def test_agents_start_from_the_files_that_their_pods_find(
    workload: str, kind: str, storage: str, tmp_path: Path
) -> None:
    scenario = scenario_of(policies={2: "ucb1"}, epsilon=0.25, gamma="2")
    manifests = made(scenario, workload=workload, agent_storage=storage)
    data = of_kind(manifests, "ConfigMap", "agents-config-0")["data"]
    for own in range(5):
        path = file_of(manifests, kind, own)
        assert str(path.parent) == kubernetes.CONFIG_DIR
        (tmp_path / path.name).write_text(data[path.name], encoding="utf-8")
        settings = parsed_agent(tmp_path / path.name)
        assert settings.id == own
        assert settings.lies is (own in scenario.spec.liars)
        assert settings.algorithm == ("ucb1" if own == 2 else "sealed")
        assert (settings.epsilon, settings.gamma, settings.rounds, settings.seed) == (0.25, 2, 40, 3)
        assert settings.environment == "tcp://agentd-environment:7000"
        assert settings.peers == {
            peer: f"tcp://agentd-agent-{peer}.agentd-agents:7000" for peer in scenario.graph.neighbours(own)
        }
        assert settings.insecure
        assert settings.admit == PRIVATE_NETWORKS
        assert settings.listen == "tcp://*:7000"


def test_the_environment_starts_from_its_file(tmp_path: Path) -> None:
    scenario = scenario_of(reward="beta")
    manifests = made(scenario)
    (container,) = of_kind(manifests, "StatefulSet", "-environment")["spec"]["template"]["spec"]["containers"]
    verb, *args = container["args"]
    assert (verb, args) == ("env", ["--config", f"{kubernetes.CONFIG_DIR}/environment.toml"])
    config = tmp_path / "environment.toml"
    for name, text in of_kind(manifests, "ConfigMap", "environment-config")["data"].items():
        (tmp_path / name).write_text(text.replace(kubernetes.CONFIG_DIR, str(tmp_path)), encoding="utf-8")
    params = env_command.make_context("env", ["--config", str(config), "--run-dir", str(tmp_path)]).params
    params.pop("as_json")
    assert params.pop("insecure") is True
    assert [params.pop(name) for name in ("command", "endpoint", "function")] == [None] * 3
    settings = environment_settings(**params)
    assert settings.arms == scenario.spec.arms
    assert (settings.agents, settings.rounds, settings.seed) == (5, 40, 3)
    assert settings.admit == PRIVATE_NETWORKS
    again = environment_settings(**params)
    assert settings.terms is not None
    assert again.terms is not None
    assert settings.terms.left_open() == ()
    assert settings.terms.run != again.terms.run, "manifests that are applied twice are two runs"


def test_an_operator_says_where_pods_have_their_addresses_from() -> None:
    text = written([*ARGS, "--admit", "10.244.0.0/16,fd00:10::/64", "--admit", "10.1.2.3"])
    assert text.count('admit = "10.244.0.0/16,fd00:10::/64,10.1.2.3"') == 6, "of five agents and the environment"
    refused = CliRunner().invoke(cli, [*ARGS, "--admit", "everybody"])
    assert isinstance(refused.exception, SettingsError)


def test_without_a_seed_of_the_operator_the_manifests_tell_no_reward() -> None:
    scenario = scenario_of(seed=None)
    assert str(scenario.spec.seed) not in json.dumps(made(scenario))
    assert "seed" not in json.dumps(made(scenario))


def test_pods_may_do_nothing_that_they_need_not() -> None:
    for manifest in made(scenario_of()):
        if manifest["kind"] != "StatefulSet":
            continue
        pod = manifest["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= set(container["resources"])
            assert {"livenessProbe", "readinessProbe", "startupProbe"} <= set(container)


@pytest.mark.parametrize("storage", ["none", "64Mi"])
@pytest.mark.parametrize(("workload", "kind"), [("statefulset", "StatefulSet"), ("job", "Job")])
def test_every_pod_mounts_its_own_secret_and_no_secret_is_in_the_manifests(
    workload: str, kind: str, storage: str, tmp_path: Path
) -> None:
    file = tmp_path / "secrets.yaml"
    flags = ["--workload", workload, "--agent-storage", storage, "--secrets", str(file)]
    text = written([*ARGS, *flags])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    manifests, kept = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    for manifest in (*manifests, *kept):
        validate(manifest)
    secrets = {each["metadata"]["name"]: each["stringData"] for each in kept}
    assert set(secrets) == {"agentd-environment-keys", *(f"agentd-agent-{own}-keys" for own in range(5))}
    held = {name: json.loads(next(iter(data.values()))) for name, data in secrets.items()}
    assert not [each for each in held.values() if each["curve_secret"] in text or each["sign_secret"] in text]
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in manifests
        if each["kind"] in {"StatefulSet", "Job"}
    }
    for name, pod in pods.items():
        (volume,) = [each["projected"] for each in pod["volumes"] if each["name"] == "keys"]
        assert [source["secret"]["name"] for source in volume["sources"] if "secret" in source] == [f"{name}-keys"]
        assert volume["defaultMode"] == 0o440
        (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "keys"]
        assert mount["readOnly"] is True
    assert len(pods) == 6
    (tmp_path / "0.toml").write_text(of_kind(manifests, "ConfigMap", "agents-config-0")["data"]["agentd-agent-0.toml"])
    agent = parsed_agent(tmp_path / "0.toml")
    assert (agent.insecure, agent.seat, agent.keys) == (False, None, "/etc/agentd/keys/agent-0.key")
    number = "-0" if kind == "StatefulSet" else ""
    assert all(
        address == f"tcp://agentd-agent-{peer}{number}.agentd-agents:7000" for peer, address in agent.peers.items()
    )
    again = CliRunner().invoke(cli, [*ARGS, *flags])
    assert "never overwritten" in str(again.exception)


def test_without_keys_no_pod_mounts_a_secret() -> None:
    assert "secret" not in json.dumps(made(scenario_of())).lower()


def kept_by(manifests: list[Manifest], tmp_path: Path) -> list[AgentSettings]:
    for own, text in enumerate(of_kind(manifests, "ConfigMap", "agents-config-0")["data"].values()):
        (tmp_path / f"{own}.toml").write_text(text, encoding="utf-8")
    return [parsed_agent(tmp_path / f"{own}.toml") for own in range(5)]


def test_agents_keep_what_may_not_be_noised_twice_where_a_restart_finds_it(tmp_path: Path) -> None:
    scenario = scenario_of(seed=None, policies={2: "ucb1"}, byzantine=0)
    manifests = made(scenario, Keep(state=True))
    assert {settings.seat for settings in kept_by(manifests, tmp_path)} == {f"{kubernetes.STATE_DIR}/seat"}
    for own, settings in enumerate(kept_by(manifests, tmp_path)):
        assert settings.state is None if own == 2 else Path(str(settings.state)).parent == Path(kubernetes.STATE_DIR)
    agents = of_kind(manifests, "StatefulSet", "-agent")["spec"]
    (claim,) = agents["volumeClaimTemplates"]
    pod = agents["template"]["spec"]
    mounts = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == kubernetes.STATE_DIR
    assert [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume] == ["health"]
    assert pod["securityContext"]["fsGroup"] == USER
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch", "0600 stays 0600"


def test_each_agent_of_a_job_finds_its_own_volume_again() -> None:
    manifests = made(scenario_of(seed=None), Keep(state=True), workload="job")
    for own in range(5):
        claim = of_kind(manifests, "PersistentVolumeClaim", f"state-agentd-agent-{own}")
        assert claim["spec"]["resources"]["requests"]["storage"] == AGENT_STORAGE
        pod = of_kind(manifests, "Job", f"-agent-{own}")["spec"]["template"]["spec"]
        (state,) = [volume for volume in pod["volumes"] if volume["name"] == "state"]
        assert state["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        # Under this name its neighbours look for it, whichever pod it is in.
        assert (pod["hostname"], pod["subdomain"]) == (f"agentd-agent-{own}", "agentd-agents")


def test_only_an_operator_who_says_so_gets_agents_that_forget_with_their_pods() -> None:
    for workload in WORKLOADS:
        manifests = made(scenario_of(), workload=workload, agent_storage="none")
        kind = "Job" if workload == "job" else "StatefulSet"
        pod = of_kind(manifests, kind, "-agent")["spec"]["template"]["spec"]
        assert {"name": "state", "emptyDir": {}} in pod["volumes"]


def test_state_and_budget_are_those_of_up(tmp_path: Path) -> None:
    args = ["manifests", "kubernetes", "--agents", "5", "--edge-probability", "1", "--json"]
    manifests = json.loads(written([*args, "--epsilon-budget", "3", "--on-budget", "stop"]))["items"]
    for settings in kept_by(manifests, tmp_path):
        assert (settings.epsilon_budget, settings.on_budget) == (3.0, "stop")
        assert settings.state is not None
    for forgets in (["--no-state"], ["--seed", "3"]):
        manifests = json.loads(written([*args, *forgets]))["items"]
        assert {settings.state for settings in kept_by(manifests, tmp_path)} == {None}


def test_neighbours_find_each_other_before_they_are_ready() -> None:
    """Otherwise all of them would wait for ever: nobody is ready before it has heard its neighbours."""
    manifests = made(scenario_of())
    service = of_kind(manifests, "Service", "-agents")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    agents = of_kind(manifests, "StatefulSet", "-agent")["spec"]
    assert (agents["serviceName"], agents["podManagementPolicy"]) == ("agentd-agents", "Parallel")
    probe = agents["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 300


def test_large_testbeds_spread_over_several_config_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "CONFIG_MAP_BYTES", 1_500)
    scenario = scenario_of(agents=12)
    manifests = made(scenario)
    maps = [one for one in manifests if "agents-config" in one["metadata"]["name"]]
    assert len(maps) > 2
    assert sum(len(one["data"]) for one in maps) == 12
    volumes = of_kind(manifests, "StatefulSet", "-agent")["spec"]["template"]["spec"]["volumes"]
    sources = volumes[0]["projected"]["sources"]
    assert [source["configMap"]["name"] for source in sources] == [one["metadata"]["name"] for one in maps]


def test_yaml_json_and_plan_say_the_same_every_time() -> None:
    text = written(ARGS)
    assert text == written(ARGS)
    items = json.loads(written([*ARGS, "--json"]))["items"]
    assert list(yaml.safe_load_all(text)) == items


@pytest.mark.parametrize(
    "value",
    [
        "yes",
        "no",
        "1e3",
        "a: b",
        "- x",
        "",
        " ",
        "ü\n",
        "\n",
        "a\n\nb\n",
        " a\n",
        "a \nb\n",
        "tab\t\n",
        "#",
        "a\n\n",
        "~",
    ],
)
def test_texts_survive_yaml(value: str) -> None:
    document = {"a": {"b": value, value or "k": [value, {"c": value, "d": []}], "e": {}, "f": 1, "g": None}}
    assert list(yaml.safe_load_all(to_yaml_stream([document, document]))) == [document, document]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--name", "Big"], "--name must be"),
        (["--name", ""], "--name must be"),
        (["--name", "a-"], "--name must be"),
        (["--namespace", "x y"], "--namespace 'x y'"),
        (["--algorithm", "coop-ucb", "--epsilon-budget", "3"], "--epsilon-budget: coop-ucb adds no noise"),
        (["--run-dir", "there"], "--run-dir has no meaning here"),
        (["--agents", "0"], "--agents must be"),
    ],
)
def test_bad_flags_are_one_clear_line(flags: list[str], complaint: str) -> None:
    done = CliRunner().invoke(cli, [*ARGS, *flags])
    assert isinstance(done.exception, SettingsError)
    assert complaint in str(done.exception)
    assert "\n" not in str(done.exception)


def test_probes_are_patient_as_long_as_agents_are() -> None:
    ready_s = 1234.0
    asked = probes(ready_s)
    assert asked["startupProbe"]["failureThreshold"] == math.ceil((ready_s + 60) / 5)


@pytest.mark.parametrize("cluster", [{}, {"workload": "job"}, {"workload": "job", "agent_storage": "none"}])
def test_pods_of_many_agents_are_told_of_all_of_theirs_and_where_the_other_pods_are(cluster: dict[str, Any]) -> None:
    manifests = made(scenario_of(), Keep(state=True), per_process=2, **cluster)
    data = of_kind(manifests, "ConfigMap", "agents-config-0")["data"]
    assert set(data) == {f"agentd-agent-{pod}.json" for pod in range(3)}
    for pod in range(3):
        told = read_host_file(data[f"agentd-agent-{pod}.json"].encode())
        assert [agent.id for agent in told.agents] == [own for own in range(5) if own // 2 == pod]
        assert told.addresses == tuple(f"tcp://agentd-agent-{other}.agentd-agents:7000" for other in range(3))
        assert (told.listen, told.admit) == ("tcp://*:7000", PRIVATE_NETWORKS)
        assert len({agent.state for agent in told.agents} | {agent.seat for agent in told.agents}) == 2 * len(
            told.agents
        )
    workloads = [one for one in manifests if one["kind"] in {"StatefulSet", "Job"}]
    workloads = [one for one in workloads if not one["metadata"]["name"].endswith("environment")]
    args = [one["spec"]["template"]["spec"]["containers"][0]["args"] for one in workloads]
    assert all(verb == "host" and file.endswith(".json") for verb, file in args)
    assert sum(one["spec"].get("replicas", one["spec"].get("completions", 1)) for one in workloads) == 3


def test_pods_of_many_agents_have_no_keys_and_are_not_counted_by_the_cores_of_this_machine(tmp_path: Path) -> None:
    refused = {
        ("--per-process", "auto"): "goes by the cores of this machine",
        ("--per-process", "2", "--secrets", str(tmp_path / "secrets")): "a key is for one agent's links",
    }
    for flags, why in refused.items():
        done = CliRunner().invoke(cli, [*ARGS, *flags])
        assert done.exit_code, flags
        assert why in str(done.exception) + done.output


def test_what_a_pod_is_told_of_too_many_agents_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "CONFIG_MAP_BYTES", 1000)
    with pytest.raises(SettingsError, match="put fewer into each"):
        made(scenario_of(), per_process=5)
