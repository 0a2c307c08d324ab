"""The flags of work that a Dask cluster may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agentd.cluster.scheduler_place import SchedulerPlace
from agentd.errors import SettingsError

_FLAGS = (
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Let the workers of this Dask scheduler do it: tls://HOST:PORT, or tcp:// on loopback.",
    ),
    click.option("--cluster-tls-ca", metavar="FILE", help="Certificate of who signs those of the cluster."),
    click.option("--cluster-tls-cert", metavar="FILE", help="Certificate to show to the scheduler."),
    click.option("--cluster-tls-key", metavar="FILE", help="Its key, a file that only you may read."),
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of them."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def chosen_cluster(jobs: int | None, flags: dict[str, Any]) -> SchedulerPlace | None:
    """Take them out of a command's flags, checked; None where no cluster is named."""
    address = flags.pop("cluster")
    files = [flags.pop(f"cluster_tls_{name}") for name in ("ca", "cert", "key")]
    if address is None:
        if any(files):
            raise SettingsError("--cluster-tls-… says how to open a cluster, and there is none: name it with --cluster")
        return None
    if jobs is not None:
        raise SettingsError("--jobs is about processes of this machine; with --cluster as many work as it has workers")
    place = SchedulerPlace(address, *files)
    from agentd.cluster.dask_client import load_distributed

    load_distributed()
    return place
