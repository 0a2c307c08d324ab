"""What several objects of a testbed have in common: their labels, and the parts of their pods. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deploy.kubernetes.cluster import CONFIG_DIR, Cluster

Manifest = dict[str, Any]

USER = 10_001
"""As in the Dockerfile: a number, so that Kubernetes can see that it is not root's."""
HEALTH_FILE = "/run/agentd/health"
PROBE = ("/opt/agentd/bin/python3", "-I", "-S", "/opt/agentd/health.py")
"""Reads the health file with nothing but the standard library, so that probing hundreds of pods costs little."""
_STARTING_S = 60
"""For the image to start, before anybody waits for neighbours."""
_PROBE_EVERY_S, _LIVE_EVERY_S = 5, 30


def an_object(
    version: str, kind: str, name: str, cluster: Cluster, component: str, **content: Mapping[str, Any] | str | bool
) -> Manifest:
    """One object, as `kubectl apply` takes it."""
    metadata: Manifest = {"name": name, "labels": labels(cluster, component)}
    if cluster.namespace is not None:
        metadata["namespace"] = cluster.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def labels(cluster: Cluster, component: str) -> dict[str, str]:
    """What the objects of one kind are found by."""
    return {
        "app.kubernetes.io/name": "agentd",
        "app.kubernetes.io/instance": cluster.name,
        "app.kubernetes.io/component": component,
    }


def pod_spec(containers: list[Manifest], volumes: list[Manifest]) -> Manifest:
    """A pod that can do nothing but run its containers."""
    return {
        "automountServiceAccountToken": False,  # nobody here talks to the cluster
        "enableServiceLinks": False,  # variables like AGENTD_… would be taken for flags
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            # Otherwise every mount would let the group read what only the agent may: state, ledger.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
        "volumes": volumes,
    }


def locked_down() -> Manifest:
    """What no container may do."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def probes(ready_s: float) -> Manifest:
    """Patience until neighbours are found; then a look every half minute whether it is stuck."""
    probe: Manifest = {"exec": {"command": list(PROBE)}, "timeoutSeconds": 5}
    looks = math.ceil((ready_s + _STARTING_S) / _PROBE_EVERY_S)
    return {
        "startupProbe": {**probe, "periodSeconds": _PROBE_EVERY_S, "failureThreshold": looks},
        "livenessProbe": {**probe, "periodSeconds": _LIVE_EVERY_S, "failureThreshold": 3},
        "readinessProbe": {**probe, "periodSeconds": _LIVE_EVERY_S, "failureThreshold": 1},
    }


def health_variable() -> Manifest:
    """Tells a process where to say how it is."""
    return {"name": "AGENTD_HEALTH_FILE", "value": HEALTH_FILE}


def health_volume() -> Manifest:
    """Where it says so: in memory, for the probes of its pod."""
    return {"name": "health", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}


def mounts() -> list[Manifest]:
    """What every container sees."""
    return [
        {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
        {"name": "health", "mountPath": HEALTH_FILE.rpartition("/")[0]},
    ]


def claim(name: str, storage: str) -> Manifest:
    """The template of a volume per pod."""
    return {"metadata": {"name": name}, "spec": _volume_spec(storage)}


def volume(name: str, cluster: Cluster) -> Manifest:
    """A volume of its own for one agent."""
    spec = _volume_spec(cluster.agent_storage)
    return an_object("v1", "PersistentVolumeClaim", name, cluster, "agent", spec=spec)


def _volume_spec(storage: str) -> Manifest:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}


def peer(cluster: Cluster, component: str) -> Manifest:
    """Pods of one kind, as a NetworkPolicy names them."""
    return {"podSelector": {"matchLabels": labels(cluster, component)}}


def tcp(port: int) -> Manifest:
    """A port, as a NetworkPolicy names it."""
    return {"protocol": "TCP", "port": port}
