"""A plan as a document for `docker stack deploy`: the compose document in the dialect of a swarm. Pure.

What differs, and why:

- Addresses are the swarm's to give, so neighbours are found by name; agents look names up beside their links. Everybody
  in the network is let in, but not the host, which has its first address: a task that is made anew has another address,
  sooner than its name leads there.
- `endpoint_mode: dnsrr`: a name leads straight to the container, not to a virtual address in between.
- Limits stand under `deploy`, /tmp is a volume: a swarm refuses or ignores the other ways.
- A swarm knows no `no-new-privileges`. No capability can be gained without one to begin with: all are dropped.
- Agents have no health check: a swarm lets a name lead to a container only once that is healthy, and the first look
  comes late. Their neighbours notice sooner, and do without them.
- Secrets are the swarm's own, in memory of their container, and say there whose they are.
- Everything is placed on one node, whose disk holds the run directory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from deploy.containers.compose_document import (
    NETWORK,
    PIDS,
    RESTARTS,
    ContainerOptions,
    agent_service,
    environment_service,
    host_service,
    secret_files,
)
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.names import ENVIRONMENT, agent_name, host_name
from deploy.plan.plan import Plan

_OWNER_READS = 0o400
_UNCHECKED = {"healthcheck": {"disable": True}}
_TMP = {"type": "tmpfs", "target": "/tmp", "tmpfs": {"size": 16 << 20}}  # noqa: S108


def stack_document(
    plan: Plan, environment: EnvironmentPlan, seed: int | None, options: ContainerOptions, *, node: str = ""
) -> dict[str, Any]:
    """The document, as plain values; `node` is the id of the one that everything is placed on."""
    admit = all_but_the_host(options.subnet)
    plan = replace(plan, agents=tuple(replace(settings, admit=admit) for settings in plan.agents))
    services = {ENVIRONMENT: environment_service(plan, environment, seed, options, admit)}
    for host in range(len(plan.hosts)):
        services[host_name(host)] = host_service(plan, host, options) | _UNCHECKED
    for settings in () if plan.hosts else plan.agents:
        services[agent_name(settings.id)] = agent_service(plan, settings.id, options) | _UNCHECKED
    network = {
        "driver": "overlay",
        "internal": True,
        "ipam": {"config": [{"subnet": str(options.subnet)}]},
        "labels": options.labels,
    }
    return {
        "version": "3.9",
        "services": {name: _for_swarm(service, node) for name, service in services.items()},
        "networks": {NETWORK: {key: value for key, value in network.items() if value}},
        **secret_files(plan, options),
    }


def only(document: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The document with these services only, and their secrets."""
    chosen = {name: service for name, service in document["services"].items() if name in names}
    if "secrets" not in document:
        return {**document, "services": chosen}
    used = {each["source"] for service in chosen.values() for each in service["secrets"]}
    secrets = {name: file for name, file in document["secrets"].items() if name in used}
    return {**document, "services": chosen, "secrets": secrets}


def all_but_the_host(subnet: IPv4Network) -> tuple[str, ...]:
    """Every address of the network but the one that the Docker host has in it."""
    return tuple(map(str, sorted(subnet.address_exclude(IPv4Network(subnet[1])))))


def _for_swarm(service: dict[str, Any], node: str) -> dict[str, Any]:
    memory = service.pop("mem_limit")
    deploy: dict[str, Any] = {
        "replicas": 1,
        "endpoint_mode": "dnsrr",
        "restart_policy": {"condition": "on-failure", "delay": "1s", "max_attempts": RESTARTS},
        "resources": {"limits": {"memory": memory, "pids": PIDS}},
    }
    if node:
        deploy["placement"] = {"constraints": [f"node.id=={node}"]}
    if "secrets" in service:
        uid, _, gid = service["user"].partition(":")
        own = {"uid": uid, "gid": gid, "mode": _OWNER_READS}
        service["secrets"] = [{**each, **own} for each in service["secrets"]]
    volumes = [*service.pop("volumes"), _TMP]
    return {**service, "init": True, "volumes": volumes, "networks": [NETWORK], "deploy": deploy}
