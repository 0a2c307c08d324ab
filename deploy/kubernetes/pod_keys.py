"""The keys of a testbed in a cluster: a Secret for each pod, and the roster for all of them. Pure.

Pods of one StatefulSet or Job have one template, and so would all see the same Secret: where there are keys, every
agent has a workload of its own, which mounts its own Secret and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.kubernetes.cluster import Cluster
from deploy.kubernetes.parts import Manifest, an_object
from deploy.plan.plan import ENVIRONMENT_KEYS, ROSTER, keys_name

KEYS_DIR = "/etc/agentd/keys"
_GROUP_READS = 0o440
"""Root's, and readable for the group of the pod (`fsGroup`)."""


def secrets_of(texts: Mapping[int | None, str], cluster: Cluster) -> list[Manifest]:
    """The Secret of each agent, and of the environment (None); they belong into a file of their own."""
    return [
        an_object(
            "v1",
            "Secret",
            cluster.keys(agent),
            cluster,
            "environment" if agent is None else "agent",
            type="Opaque",
            immutable=True,
            stringData={file_of(agent): text},
        )
        for agent, text in texts.items()
    ]


def roster_maps(cluster: Cluster) -> Sequence[Manifest]:
    """The roster, which is no secret; nothing where there are no keys."""
    if cluster.roster is None:
        return ()
    return (an_object("v1", "ConfigMap", cluster.roster_config, cluster, "agent", data={ROSTER: cluster.roster}),)


def keys_volume(agent: int | None, cluster: Cluster) -> list[Manifest]:
    """What one pod sees of keys: its own and the roster."""
    if cluster.roster is None:
        return []
    own = {"name": cluster.keys(agent), "items": [{"key": file_of(agent), "path": file_of(agent)}]}
    sources = [{"secret": own}, {"configMap": {"name": cluster.roster_config}}]
    return [{"name": "keys", "projected": {"defaultMode": _GROUP_READS, "sources": sources}}]


def keys_mount(cluster: Cluster) -> list[Manifest]:
    """Where it sees them."""
    return [] if cluster.roster is None else [{"name": "keys", "mountPath": KEYS_DIR, "readOnly": True}]


def file_of(agent: int | None) -> str:
    """What the keys of an agent, or of the environment, are called in their pod."""
    return ENVIRONMENT_KEYS if agent is None else keys_name(agent)
