"""agentd manifests: a testbed as files for somebody else's machines."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from agentd import __version__
from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.configuration.forms import Networks, joined
from agentd.cli.options import FROM_ENVIRONMENT, group_options, scenario_of, taken, testbed_options, testbed_settings
from agentd.cli.testbed.common_options import keep_of, keep_options
from agentd.core.policy.knobs import about
from agentd.errors import ConfigurationError, SettingsError
from agentd.files import make_new
from agentd.keys.key_files import secret_text
from agentd.runs.summary import NOT_PRIVATE
from agentd.settings import Hosting, Pace, Spending
from deploy.kubernetes.cluster import AGENT_STORAGE, NO_STORAGE, PRIVATE_NETWORKS, WORKLOADS, Cluster
from deploy.kubernetes.manifests import kubernetes_manifests
from deploy.kubernetes.pod_keys import KEYS_DIR, secrets_of
from deploy.plan.plan import NOT_DRAWN, Plan, make_plan
from deploy.plan.yaml_text import to_yaml_stream

_PACE_PAGE: dict[str, dict[str, Any]] = {
    **{one.name: {"help": about(one).help} for one in fields(Pace)},
    "ready_timeout_s": {"default": 300.0, "help": "Longest wait for neighbours at the start."},
}
"""Short, and patient: pods may wait for an image, or for a machine to run on."""
_ANY_PORT = 1024


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def manifests() -> None:
    """Write a testbed down for other machines to run."""


@manifests.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@testbed_options
@click.option("--image", default=f"agentd:{__version__}", show_default=True, help="What the pods run.")
@click.option("--name", default="agentd", show_default=True, help="What the names of all objects begin with.")
@click.option("--namespace", help="Where to put them.  [default: where kubectl is]")
@click.option(
    "--workload",
    type=click.Choice(WORKLOADS),
    default=WORKLOADS[0],
    show_default=True,
    help="A StatefulSet starts agents again whatever happens; a Job lets them end when their rounds are done.",
)
@click.option(
    "--storage",
    default="1Gi",
    show_default=True,
    help=f"Size of the volume that keeps the run directory; {NO_STORAGE}: it is gone with its pod.",
)
@click.option(
    "--agent-storage",
    default=AGENT_STORAGE,
    show_default=True,
    help=f"Size of a volume per agent for its ledger and state; {NO_STORAGE}: they are gone with the pod.",
)
@click.option("--network-policy/--no-network-policy", default=True, show_default=True, help="Keep other pods out.")
@click.option(
    "--admit",
    type=Networks(),
    multiple=True,
    callback=joined,
    help="Where the cluster's pods have their addresses from: nobody else is let in; may be repeated.  [default: "
    "all private networks]",
)
@click.option(
    "--secrets",
    metavar="FILE",
    help="Encrypt all links: make keys, one Secret for each pod, and write these there, for you only; apply it first.",
)
@keep_options
@group_options(Hosting, per_process={"help": "Agents that share a pod."})
@group_options(Pace, **_PACE_PAGE)
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="One List as JSON instead of YAML.")
def kubernetes(
    *,
    image: str,
    name: str,
    namespace: str | None,
    workload: str,
    storage: str,
    agent_storage: str,
    network_policy: bool,
    admit: tuple[str, ...],
    secrets: str | None,
    state: bool | None,
    as_json: bool,
    run_dir: str | None,
    **flags: Any,
) -> None:
    """Print Kubernetes manifests of the testbed that `agentd up` would start with the same flags.

    \b
    agentd manifests kubernetes --agents 20 --seed 7 --image registry/agentd:1 > testbed.yaml
    kubectl apply -f testbed.yaml
    kubectl cp agentd-environment-0:/var/lib/agentd/run run

    Without --seed every call draws another graph and other arms. Nothing is encrypted between pods without
    --secrets; see --network-policy.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if run_dir is not None:
        raise SettingsError("--run-dir has no meaning here: the environment's pod writes to its volume; see --storage")
    hosting = Hosting(**taken(Hosting, flags))
    cluster = Cluster(
        name=name,
        namespace=namespace,
        image=image,
        storage=storage,
        agent_storage=agent_storage,
        workload=workload,
        network_policy=network_policy,
        admit=admit or PRIVATE_NETWORKS,
    )
    pace, spending = Pace(**taken(Pace, flags)), Spending(**taken(Spending, flags))
    scenario = scenario_of(testbed_settings(**flags))
    keep = keep_of(scenario, state, spending)
    per_process = _per_process(hosting, scenario.settings.agents, keyed=secrets is not None)
    cluster = replace(cluster, per_process=per_process)
    plan = make_plan(scenario, run=NOT_DRAWN, base_port=_ANY_PORT, run_dir=Path(), pace=pace, keep=keep)
    if secrets is not None:
        plan, cluster = _with_keys(plan, cluster, Path(secrets))
    objects = kubernetes_manifests(plan, scenario, cluster)
    if scenario.reproducible:
        click.echo(f"seed {scenario.spec.seed}: {NOT_PRIVATE}", err=True)
    if as_json:
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, ensure_ascii=False))
    else:
        click.echo(to_yaml_stream(objects), nl=False)


def _per_process(hosting: Hosting, agents: int, *, keyed: bool) -> int:
    """How many agents share a pod."""
    if hosting.per_process == "auto":
        raise SettingsError("--per-process auto goes by the cores of this machine; say how many agents share a pod")
    if keyed and hosting.per_process != "1":
        raise SettingsError(
            f"--per-process {hosting.per_process}: a key is for one agent's links, and agents that share a pod have "
            "none; leave out --secrets, or --per-process"
        )
    return min(int(hosting.per_process), agents)


def _with_keys(plan: Plan, cluster: Cluster, place: Path) -> tuple[Plan, Cluster]:
    """Make keys for all pods, and put their secrets into a file that is not there yet."""
    from deploy.local.throwaway_keys import draw_keys

    keys, roster = draw_keys(agent.id for agent in plan.agents)
    objects = secrets_of({each.id: secret_text(each) for each in keys}, cluster)
    try:
        make_new(place, to_yaml_stream(objects))
    except FileExistsError:
        raise ConfigurationError(
            f"{place} is there already, and secrets are never overwritten; name another --secrets, or move it away"
        ) from None
    except OSError as fault:
        raise ConfigurationError(f"cannot write {place}: {fault.strerror}; name another --secrets") from None
    click.echo(f"{len(objects)} secrets in {place}: apply it before the manifests, and keep it from others", err=True)
    return plan.with_keys(KEYS_DIR, roster.fingerprint), replace(cluster, roster=roster.text())
