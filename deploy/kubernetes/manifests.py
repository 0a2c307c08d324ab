"""A plan as Kubernetes manifests. Pure: the same plan gives the same manifests; nobody talks to a cluster.

One StatefulSet holds all agents: its pods are numbered, so pod `NAME-agent-3` is agent 3, finds its own file in a
ConfigMap by its own name, and is found by others under a DNS name that outlives it. One StatefulSet per agent would be
hundreds of objects for the same thing. Pods need no shell: Kubernetes itself puts the pod's name into the argument.

A StatefulSet starts whatever ends. Where a run has an end, `workload="job"` makes an indexed Job of the same pods,
under the same names, which stay ended when they are done.

Neighbours must find each other before any of them is ready, so the headless service publishes addresses of pods that
are not. Links are not encrypted yet: agents are told `insecure`, and a NetworkPolicy keeps everybody else away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentd.core.policy import ALGORITHMS
from agentd.errors import SettingsError
from agentd.run.scenario import Scenario
from agentd.settings import AgentSettings
from deploy.kubernetes.toml_text import agent_toml, environment_toml
from deploy.plan.plan import Plan

Manifest = dict[str, Any]

PORT = 7000
USER = 10_001
"""As in the Dockerfile: a number, so that Kubernetes can see that it is not root's."""
CONFIG_DIR = "/etc/agentd/config"
KEYS_DIR = "/etc/agentd/keys"
RUN_DIR = "/var/lib/agentd/run"
STATE_DIR = "/var/lib/agentd/state"
HEALTH_FILE = "/run/agentd/health"
PROBE = ("/opt/agentd/bin/python3", "-I", "-S", "/opt/agentd/health.py")
"""Reads the health file with nothing but the standard library, so that probing hundreds of pods costs little."""
WORKLOADS = ("statefulset", "job")
NO_STORAGE = "none"
CONFIG_MAP_BYTES = 900_000
"""Kubernetes refuses ConfigMaps of more than a mebibyte; agents whose files do not fit go into further ones."""
_LONGEST_NAME = 40
_STARTING_S = 60
"""For the image to start, before anybody waits for neighbours."""
_PROBE_EVERY_S, _LIVE_EVERY_S = 5, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a cluster must be told beyond the plan."""

    name: str = "agentd"
    """What every object's name begins with."""
    namespace: str | None = None
    image: str
    storage: str = "1Gi"
    """Of the run directory; `none`: gone with the environment's pod."""
    agent_storage: str = "none"
    """Of each agent's ledger and state; `none`: they survive a crash of the agent, but not of its pod."""
    workload: str = WORKLOADS[0]
    network_policy: bool = True

    def __post_init__(self) -> None:
        if not _is_label(self.name):
            raise SettingsError(
                f"--name must be 1…{_LONGEST_NAME} small letters, digits and dashes, beginning with a letter, "
                f"got {self.name!r}"
            )
        if self.namespace is not None and not _is_label(self.namespace):
            raise SettingsError(f"--namespace {self.namespace!r} is not a name that Kubernetes takes")
        if self.workload == "job" and self.agent_storage != NO_STORAGE:
            raise SettingsError(
                "--agent-storage needs --workload statefulset: the pods of a Job have no volumes of their own"
            )

    @property
    def agents(self) -> str:
        """The name of the agents' workload and the beginning of each pod's name."""
        return f"{self.name}-agent"

    @property
    def service(self) -> str:
        """The headless service under which agents are found."""
        return f"{self.name}-agents"

    @property
    def environment(self) -> str:
        """The name of the environment's workload and service."""
        return f"{self.name}-environment"

    @property
    def keys(self) -> str:
        """The secret that will hold keys."""
        return f"{self.name}-keys"

    def pod(self, agent: int) -> str:
        """The name of an agent's pod, and of its file."""
        return f"{self.agents}-{agent}"


def kubernetes_manifests(plan: Plan, scenario: Scenario, cluster: Cluster) -> list[Manifest]:
    """Everything `kubectl apply` needs, in an order in which nothing is missing when it is made."""
    agents = [_in_cluster(agent, cluster) for agent in plan.agents]
    maps = _agent_config_maps(agents, cluster)
    policies = [_agents_policy(cluster), _environment_policy(cluster)] if cluster.network_policy else []
    return [
        *maps,
        _environment_config(scenario, cluster),
        *policies,
        _agents_service(cluster),
        _environment_service(cluster),
        _environment(cluster),
        _agents(agents, [each["metadata"]["name"] for each in maps], cluster),
    ]


def _in_cluster(agent: AgentSettings, cluster: Cluster) -> AgentSettings:
    """The settings with addresses of the cluster instead of this machine's."""
    return replace(
        agent,
        listen=f"tcp://*:{PORT}",
        environment=f"tcp://{cluster.environment}:{PORT}",
        peers={peer: f"tcp://{cluster.pod(peer)}.{cluster.service}:{PORT}" for peer in agent.peers},
        insecure=True,
        # As `agentd up` does it: what may not be noised twice is kept, unless the noise can be made again from a seed.
        state=f"{STATE_DIR}/agent" if ALGORITHMS[agent.algorithm].noised and agent.seed is None else None,
        log_file=None,
        faults_file=None,
    )


# Objects


def _agent_config_maps(agents: Sequence[AgentSettings], cluster: Cluster) -> list[Manifest]:
    maps: list[dict[str, str]] = [{}]
    size = 0
    for agent in agents:
        text = agent_toml(agent)
        size += len(text)
        if size > CONFIG_MAP_BYTES and maps[-1]:
            maps.append({})
            size = len(text)
        maps[-1][f"{cluster.pod(agent.id)}.toml"] = text
    return [
        _object("v1", "ConfigMap", f"{cluster.agents}s-config-{number}", cluster, "agent", data=data)
        for number, data in enumerate(maps)
    ]


def _environment_config(scenario: Scenario, cluster: Cluster) -> Manifest:
    text = environment_toml(scenario, listen=f"tcp://*:{PORT}", run_dir=RUN_DIR)
    return _object(
        "v1", "ConfigMap", f"{cluster.environment}-config", cluster, "environment", data={"environment.toml": text}
    )


def _agents_service(cluster: Cluster) -> Manifest:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _labels(cluster, "agent"),
        "ports": [{"name": "gossip", "port": PORT, "targetPort": "gossip"}],
    }
    return _object("v1", "Service", cluster.service, cluster, "agent", spec=spec)


def _environment_service(cluster: Cluster) -> Manifest:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _labels(cluster, "environment"),
        "ports": [{"name": "bandit", "port": PORT, "targetPort": "bandit"}],
    }
    return _object("v1", "Service", cluster.environment, cluster, "environment", spec=spec)


def _agents(agents: Sequence[AgentSettings], config_maps: Sequence[str], cluster: Cluster) -> Manifest:
    ready_s = max(agent.ready_timeout_s for agent in agents)
    if cluster.workload == "job":
        spec: Manifest = {
            "completionMode": "Indexed",
            "completions": len(agents),
            "parallelism": len(agents),
            "backoffLimitPerIndex": 6,
            "maxFailedIndexes": len(agents),
            "template": _agent_template(config_maps, ready_s, cluster),
        }
        return _object("batch/v1", "Job", cluster.agents, cluster, "agent", spec=spec)
    spec = {
        "serviceName": cluster.service,
        "replicas": len(agents),
        "podManagementPolicy": "Parallel",  # one after the other, the first would wait for the others for ever
        "selector": {"matchLabels": _labels(cluster, "agent")},
        "template": _agent_template(config_maps, ready_s, cluster),
    }
    if cluster.agent_storage != NO_STORAGE:
        spec["volumeClaimTemplates"] = [_claim("state", cluster.agent_storage)]
    return _object("apps/v1", "StatefulSet", cluster.agents, cluster, "agent", spec=spec)


def _agent_template(config_maps: Sequence[str], ready_s: float, cluster: Cluster) -> Manifest:
    is_job = cluster.workload == "job"
    field = "metadata.annotations['batch.kubernetes.io/job-completion-index']" if is_job else "metadata.name"
    file = f"{cluster.agents}-$(AGENT).toml" if is_job else "$(AGENT).toml"
    container = {
        "name": "agent",
        "image": cluster.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["--config", f"{CONFIG_DIR}/{file}"],
        # Not AGENTD_…: those variables would be taken for flags.
        "env": [{"name": "AGENT", "valueFrom": {"fieldRef": {"fieldPath": field}}}, _health_variable()],
        "ports": [{"name": "gossip", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "25m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        **_probes(ready_s),
        "securityContext": _locked_down(),
        "volumeMounts": [
            *_mounts(),
            {"name": "keys", "mountPath": KEYS_DIR, "readOnly": True},
            {"name": "state", "mountPath": STATE_DIR},
        ],
    }
    config = {"name": "config", "projected": {"sources": [{"configMap": {"name": name}} for name in config_maps]}}
    # There are no keys yet; once there are, the secret is all that must be added. 288 is 0440.
    keys = {"name": "keys", "secret": {"secretName": cluster.keys, "optional": True, "defaultMode": 288}}
    volumes = [config, keys, _health_volume()]
    if cluster.agent_storage == NO_STORAGE:
        volumes.append({"name": "state", "emptyDir": {}})
    pod = _pod([container], volumes)
    if is_job:
        pod |= {"restartPolicy": "OnFailure", "subdomain": cluster.service}
    return {"metadata": {"labels": _labels(cluster, "agent")}, "spec": pod}


def _environment(cluster: Cluster) -> Manifest:
    container = {
        "name": "environment",
        "image": cluster.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["env", "--config", f"{CONFIG_DIR}/environment.toml"],
        "env": [_health_variable()],
        "ports": [{"name": "bandit", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        **_probes(0.0),
        "securityContext": _locked_down(),
        "volumeMounts": [*_mounts(), {"name": "run", "mountPath": "/var/lib/agentd"}],
    }
    volumes: list[Manifest] = [
        {"name": "config", "configMap": {"name": f"{cluster.environment}-config"}},
        _health_volume(),
    ]
    spec: Manifest = {
        "serviceName": cluster.environment,
        "replicas": 1,
        "selector": {"matchLabels": _labels(cluster, "environment")},
    }
    if cluster.storage == NO_STORAGE:
        volumes.append({"name": "run", "emptyDir": {}})
    else:
        spec["volumeClaimTemplates"] = [_claim("run", cluster.storage)]
    spec["template"] = {"metadata": {"labels": _labels(cluster, "environment")}, "spec": _pod([container], volumes)}
    return _object("apps/v1", "StatefulSet", cluster.environment, cluster, "environment", spec=spec)


def _agents_policy(cluster: Cluster) -> Manifest:
    agents, environment = _peer(cluster, "agent"), _peer(cluster, "environment")
    spec = {
        "podSelector": {"matchLabels": _labels(cluster, "agent")},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [agents], "ports": [_tcp(PORT)]}],
        "egress": [
            {"to": [agents, environment], "ports": [_tcp(PORT)]},
            {"ports": [{**_tcp(53), "protocol": "UDP"}, _tcp(53)]},
        ],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", cluster.service, cluster, "agent", spec=spec)


def _environment_policy(cluster: Cluster) -> Manifest:
    spec = {
        "podSelector": {"matchLabels": _labels(cluster, "environment")},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [_peer(cluster, "agent")], "ports": [_tcp(PORT)]}],
        "egress": [],  # it answers and never calls
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", cluster.environment, cluster, "environment", spec=spec)


# Parts


def _object(
    version: str, kind: str, name: str, cluster: Cluster, component: str, **content: Mapping[str, Any]
) -> Manifest:
    metadata: Manifest = {"name": name, "labels": _labels(cluster, component)}
    if cluster.namespace is not None:
        metadata["namespace"] = cluster.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _labels(cluster: Cluster, component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "agentd",
        "app.kubernetes.io/instance": cluster.name,
        "app.kubernetes.io/component": component,
    }


def _pod(containers: list[Manifest], volumes: list[Manifest]) -> Manifest:
    return {
        "automountServiceAccountToken": False,  # nobody here talks to the cluster
        "enableServiceLinks": False,  # variables like AGENTD_… would be taken for flags
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
        "volumes": volumes,
    }


def _locked_down() -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _probes(ready_s: float) -> Manifest:
    """Patience until neighbours are found; then a look every half minute whether it is stuck."""
    probe: Manifest = {"exec": {"command": list(PROBE)}, "timeoutSeconds": 5}
    looks = math.ceil((ready_s + _STARTING_S) / _PROBE_EVERY_S)
    return {
        "startupProbe": {**probe, "periodSeconds": _PROBE_EVERY_S, "failureThreshold": looks},
        "livenessProbe": {**probe, "periodSeconds": _LIVE_EVERY_S, "failureThreshold": 3},
        "readinessProbe": {**probe, "periodSeconds": _LIVE_EVERY_S, "failureThreshold": 1},
    }


def _health_variable() -> Manifest:
    return {"name": "AGENTD_HEALTH_FILE", "value": HEALTH_FILE}


def _health_volume() -> Manifest:
    return {"name": "health", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}


def _mounts() -> list[Manifest]:
    return [
        {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
        {"name": "health", "mountPath": HEALTH_FILE.rpartition("/")[0]},
    ]


def _claim(name: str, storage: str) -> Manifest:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"metadata": {"name": name}, "spec": spec}


def _peer(cluster: Cluster, component: str) -> Manifest:
    return {"podSelector": {"matchLabels": _labels(cluster, component)}}


def _tcp(port: int) -> Manifest:
    return {"protocol": "TCP", "port": port}


def _is_label(text: str) -> bool:
    fine = text.isascii() and text.replace("-", "").isalnum() and text == text.lower()
    return fine and len(text) <= _LONGEST_NAME and text[0].isalpha() and not text.endswith("-")
