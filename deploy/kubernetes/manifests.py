"""A plan as Kubernetes manifests. Pure: the same plan gives the same manifests; nobody talks to a cluster.

One StatefulSet holds all agents: its pods are numbered, so pod `NAME-agent-3` is agent 3, finds its own file in a
ConfigMap by its own name, and is found by others under a DNS name that outlives it. One StatefulSet per agent would be
hundreds of objects for the same thing. Pods need no shell: Kubernetes itself puts the pod's name into the argument.

A StatefulSet starts whatever ends. Where a run has an end, `workload="job"` makes Jobs of the same pods, under the same
names, which stay ended when they are done: a Job for each agent, because the pods of one Job cannot have volumes of
their own, and an agent that lost its volume would have lost its ledger and its seat. Without volumes one indexed Job
does for all.

Neighbours must find each other before any of them is ready, so the headless service publishes addresses of pods that
are not. Without keys agents are told `insecure`, and a NetworkPolicy keeps everybody else away. Where a
cluster does not enforce it, agents and environment still let in only who comes from where pods have their addresses
(`Cluster.admit`): a pod that is made anew has another one, sooner than its name leads there. With keys (`pod_keys`)
every agent has a workload of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentd.errors import SettingsError
from agentd.runs.scenario import Scenario
from agentd.settings import AgentSettings
from agentd.terms_file import terms_text
from deploy.kubernetes.cluster import CONFIG_DIR, NO_STORAGE, Cluster
from deploy.kubernetes.parts import (
    Manifest,
    an_object,
    claim,
    health_variable,
    health_volume,
    labels,
    locked_down,
    mounts,
    peer,
    pod_spec,
    probes,
    tcp,
    volume,
)
from deploy.kubernetes.pod_keys import keys_mount, keys_volume, roster_maps
from deploy.kubernetes.toml_text import agent_toml, environment_toml
from deploy.plan.environment import draft_terms
from deploy.plan.host_file import host_files
from deploy.plan.plan import Plan

PORT = 7000
TERMS_FILE = "terms.json"
RUN_DIR = "/var/lib/agentd/run"
STATE_DIR = "/var/lib/agentd/state"
CONFIG_MAP_BYTES = 900_000
"""Kubernetes refuses ConfigMaps of more than a mebibyte; agents whose files do not fit go into further ones."""
_RETRIES = 6
_HOSTED_MEBIBYTES = 4
"""For each further agent of a pod."""
_AGENT_LABEL = "agentd-agent"
"""By which the pod of an agent that has a StatefulSet of its own is found."""
_SCRATCH: Mapping[str, Any] = {"emptyDir": {}}
"""A place that is gone with its pod; only where the operator wants no volumes."""

_READY_S = 300.0
"""Of pods that wait for each other for ever: bound, they count as ready."""


def kubernetes_manifests(plan: Plan, scenario: Scenario, cluster: Cluster) -> list[Manifest]:
    """Everything `kubectl apply` needs, in an order in which nothing is missing when it is made."""
    agents = [_in_cluster(agent, cluster) for agent in plan.agents]
    pods = -(-len(agents) // cluster.per_process)
    maps = _agent_config_maps(_files(plan, agents, pods, cluster), cluster)
    policies = [_agents_policy(cluster), _environment_policy(cluster)] if cluster.network_policy else []
    return [
        *maps,
        *roster_maps(cluster),
        _environment_config(plan, scenario, cluster),
        *policies,
        _agents_service(cluster),
        _environment_service(cluster),
        _environment(cluster),
        *_agents(agents, pods, [each["metadata"]["name"] for each in maps], cluster),
    ]


def _files(plan: Plan, agents: Sequence[AgentSettings], pods: int, cluster: Cluster) -> dict[str, str]:
    """What each pod is told: of its agent, or of all of its agents and where the other pods are."""
    if cluster.per_process == 1:
        return {f"{cluster.pod(agent.id)}.toml": agent_toml(agent) for agent in agents}
    addresses = tuple(f"tcp://{cluster.host(pod)}.{cluster.service}:{PORT}" for pod in range(pods))
    hosted = replace(plan, agents=tuple(agents)).hosted_at(cluster.per_process, addresses)
    told = host_files(hosted, f"tcp://*:{PORT}", cluster.admit)
    return {f"{cluster.pod(each.number)}.json": each.text() for each in told}


def _in_cluster(agent: AgentSettings, cluster: Cluster) -> AgentSettings:
    """The settings with addresses of the cluster instead of this machine's."""
    own = f"-{agent.id}" if cluster.per_process > 1 else ""
    return replace(
        agent,
        listen=f"tcp://*:{PORT}",
        environment=f"tcp://{cluster.environment}:{PORT}",
        peers={peer: f"tcp://{cluster.host(peer)}.{cluster.service}:{PORT}" for peer in agent.peers},
        insecure=not agent.has_keys,
        admit=cluster.admit,
        state=f"{STATE_DIR}/agent{own}" if agent.state is not None else None,
        # Drawn by the agent itself, on its own volume: a secret in a manifest would be one that everybody has.
        seat=None if agent.has_keys else f"{STATE_DIR}/seat{own}",
        roster_note=f"{STATE_DIR}/roster" if agent.has_keys else None,
        log_file=None,
        faults_file=None,
    )


# Objects


def _agent_config_maps(files: Mapping[str, str], cluster: Cluster) -> list[Manifest]:
    maps: list[dict[str, str]] = [{}]
    size = 0
    for name, text in files.items():
        size += len(text)
        if len(text) > CONFIG_MAP_BYTES:
            raise SettingsError(
                f"--per-process {cluster.per_process}: what a pod is told of so many agents does not fit into a "
                "ConfigMap; put fewer into each"
            )
        if size > CONFIG_MAP_BYTES and maps[-1]:
            maps.append({})
            size = len(text)
        maps[-1][name] = text
    return [
        an_object("v1", "ConfigMap", f"{cluster.agents}s-config-{number}", cluster, "agent", data=data)
        for number, data in enumerate(maps)
    ]


def _environment_config(plan: Plan, scenario: Scenario, cluster: Cluster) -> Manifest:
    terms = f"{CONFIG_DIR}/{TERMS_FILE}"
    about = {"listen": f"tcp://*:{PORT}", "run_dir": RUN_DIR, "terms": terms}
    text = environment_toml(scenario, admit=cluster.admit, keying=plan.keying, **about)
    data = {"environment.toml": text, TERMS_FILE: terms_text(draft_terms(scenario, plan))}
    return an_object("v1", "ConfigMap", f"{cluster.environment}-config", cluster, "environment", data=data)


def _agents_service(cluster: Cluster) -> Manifest:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": labels(cluster, "agent"),
        "ports": [{"name": "gossip", "port": PORT, "targetPort": "gossip"}],
    }
    return an_object("v1", "Service", cluster.service, cluster, "agent", spec=spec)


def _environment_service(cluster: Cluster) -> Manifest:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": labels(cluster, "environment"),
        "ports": [{"name": "bandit", "port": PORT, "targetPort": "bandit"}],
    }
    return an_object("v1", "Service", cluster.environment, cluster, "environment", spec=spec)


def _agents(agents: Sequence[AgentSettings], pods: int, config_maps: Sequence[str], cluster: Cluster) -> list[Manifest]:
    ready_s = max(agent.ready_timeout_s for agent in agents) or _READY_S
    container = _agent_container(ready_s, cluster)
    if cluster.workload == "job" and (cluster.keeps or cluster.roster is not None):
        claims = [volume(cluster.state(pod), cluster) for pod in range(pods)] if cluster.keeps else []
        return [*claims, *(_job_of_one(pod, container, config_maps, cluster) for pod in range(pods))]
    if cluster.roster is not None:
        return [_set_of_one(agent.id, container, config_maps, cluster) for agent in agents]
    if cluster.workload == "job":
        return [_indexed_job(pods, container, config_maps, cluster)]
    template = _agent_template(container, config_maps, cluster, None if cluster.keeps else _SCRATCH)
    return [_stateful_set(cluster.agents, pods, template, cluster, labels(cluster, "agent"))]


def _set_of_one(agent: int, container: Manifest, config_maps: Sequence[str], cluster: Cluster) -> Manifest:
    """The StatefulSet of one agent, which alone mounts its keys."""
    own = {**container, "args": cluster.config(cluster.pod(agent)), "env": [health_variable()]}
    template = _agent_template(own, config_maps, cluster, None if cluster.keeps else _SCRATCH, agent)
    found_by = {**labels(cluster, "agent"), _AGENT_LABEL: str(agent)}
    template["metadata"]["labels"] = found_by
    return _stateful_set(cluster.pod(agent), 1, template, cluster, found_by)


def _stateful_set(
    name: str, replicas: int, template: Manifest, cluster: Cluster, found_by: Mapping[str, str]
) -> Manifest:
    spec: Manifest = {
        "serviceName": cluster.service,
        "replicas": replicas,
        "podManagementPolicy": "Parallel",  # one after the other, the first would wait for the others for ever
        "selector": {"matchLabels": found_by},
        "template": template,
    }
    if cluster.keeps:
        spec["volumeClaimTemplates"] = [claim("state", cluster.agent_storage)]
    return an_object("apps/v1", "StatefulSet", name, cluster, "agent", spec=spec)


def _indexed_job(count: int, container: Manifest, config_maps: Sequence[str], cluster: Cluster) -> Manifest:
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": _RETRIES,
        "maxFailedIndexes": count,
        "template": _agent_template(container, config_maps, cluster, _SCRATCH),
    }
    return an_object("batch/v1", "Job", cluster.agents, cluster, "agent", spec=spec)


def _job_of_one(agent: int, container: Manifest, config_maps: Sequence[str], cluster: Cluster) -> Manifest:
    """The Job of one agent: whatever pod it makes has the agent's name and finds the agent's volume."""
    claim = {"persistentVolumeClaim": {"claimName": cluster.state(agent)}} if cluster.keeps else _SCRATCH
    own = {**container, "args": cluster.config(cluster.pod(agent)), "env": [health_variable()]}
    template = _agent_template(own, config_maps, cluster, claim, agent)
    template["spec"]["hostname"] = cluster.pod(agent)
    spec: Manifest = {"backoffLimit": _RETRIES, "template": template}
    return an_object("batch/v1", "Job", cluster.pod(agent), cluster, "agent", spec=spec)


def _agent_container(ready_s: float, cluster: Cluster) -> Manifest:
    is_job = cluster.workload == "job"
    field = "metadata.annotations['batch.kubernetes.io/job-completion-index']" if is_job else "metadata.name"
    pod = f"{cluster.agents}-$(AGENT)" if is_job else "$(AGENT)"
    memory = 256 + _HOSTED_MEBIBYTES * (cluster.per_process - 1)
    return {
        "name": "agent",
        "image": cluster.image,
        "imagePullPolicy": "IfNotPresent",
        "args": cluster.config(pod),
        # Not AGENTD_…: those variables would be taken for flags.
        "env": [{"name": "AGENT", "valueFrom": {"fieldRef": {"fieldPath": field}}}, health_variable()],
        "ports": [{"name": "gossip", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "25m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": f"{memory}Mi"}},
        **probes(ready_s),
        "securityContext": locked_down(),
        "volumeMounts": [
            *mounts(),
            *keys_mount(cluster),
            {"name": "state", "mountPath": STATE_DIR},
        ],
    }


def _agent_template(
    container: Manifest,
    config_maps: Sequence[str],
    cluster: Cluster,
    state: Mapping[str, Any] | None,
    agent: int | None = None,
) -> Manifest:
    """The pod of an agent; `state` is where it keeps things, None: the workload sees to that. None: of any agent."""
    config = {"name": "config", "projected": {"sources": [{"configMap": {"name": name}} for name in config_maps]}}
    keys = [] if agent is None else keys_volume(agent, cluster)
    volumes = [config, *keys, health_volume()]
    if state is not None:
        volumes.append({"name": "state", **state})
    pod = pod_spec([container], volumes)
    if cluster.workload == "job":
        pod |= {"restartPolicy": "OnFailure", "subdomain": cluster.service}
    return {"metadata": {"labels": labels(cluster, "agent")}, "spec": pod}


def _environment(cluster: Cluster) -> Manifest:
    container = {
        "name": "environment",
        "image": cluster.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["env", "--config", f"{CONFIG_DIR}/environment.toml"],
        "env": [health_variable()],
        "ports": [{"name": "bandit", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        **probes(0.0),
        "securityContext": locked_down(),
        "volumeMounts": [*mounts(), *keys_mount(cluster), {"name": "run", "mountPath": "/var/lib/agentd"}],
    }
    volumes: list[Manifest] = [
        {"name": "config", "configMap": {"name": f"{cluster.environment}-config"}},
        *keys_volume(None, cluster),
        health_volume(),
    ]
    spec: Manifest = {
        "serviceName": cluster.environment,
        "replicas": 1,
        "selector": {"matchLabels": labels(cluster, "environment")},
    }
    if cluster.storage == NO_STORAGE:
        volumes.append({"name": "run", "emptyDir": {}})
    else:
        spec["volumeClaimTemplates"] = [claim("run", cluster.storage)]
    spec["template"] = {"metadata": {"labels": labels(cluster, "environment")}, "spec": pod_spec([container], volumes)}
    return an_object("apps/v1", "StatefulSet", cluster.environment, cluster, "environment", spec=spec)


def _agents_policy(cluster: Cluster) -> Manifest:
    agents, environment = peer(cluster, "agent"), peer(cluster, "environment")
    spec = {
        "podSelector": {"matchLabels": labels(cluster, "agent")},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [agents], "ports": [tcp(PORT)]}],
        "egress": [
            {"to": [agents, environment], "ports": [tcp(PORT)]},
            {"ports": [{**tcp(53), "protocol": "UDP"}, tcp(53)]},
        ],
    }
    return an_object("networking.k8s.io/v1", "NetworkPolicy", cluster.service, cluster, "agent", spec=spec)


def _environment_policy(cluster: Cluster) -> Manifest:
    spec = {
        "podSelector": {"matchLabels": labels(cluster, "environment")},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [peer(cluster, "agent")], "ports": [tcp(PORT)]}],
        "egress": [],  # it answers and never calls
    }
    return an_object("networking.k8s.io/v1", "NetworkPolicy", cluster.environment, cluster, "environment", spec=spec)
