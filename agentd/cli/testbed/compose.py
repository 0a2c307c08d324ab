"""agentd compose: the file of a testbed in containers, for people who run it themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.options import FROM_ENVIRONMENT, scenario_of, taken, testbed_options, testbed_settings
from agentd.cli.testbed.common_options import keep_of, keep_options, plan_options
from agentd.errors import SettingsError
from agentd.runs.status import APART
from agentd.runs.summary import banner
from agentd.settings import Pace, Spending
from deploy.containers import policy_files
from deploy.containers.compose_document import ContainerOptions, compose_document, subnet_for
from deploy.containers.container_runtime import (
    DEFAULT_IMAGE,
    IN_CONTAINERS,
    environment_for_containers,
    plan_for_containers,
    read_subnet,
)
from deploy.containers.containers import user_inside
from deploy.containers.stack_document import stack_document
from deploy.plan.plan import NOT_DRAWN, Plan, own_log_name, seat_name, state_name
from deploy.plan.yaml_text import with_common_part

_PER_LINE = 10
_OPEN = (
    "Links are neither encrypted nor authenticated (--insecure), so the network is internal: nothing leads into it",
    "or out of it, and who is not in it is not let in. Root of the Docker host can still listen on the way.",
)
_ENCRYPTED = "Links are encrypted, with the keys in {}: 0600, of {}:{}. Whoever may read them is these agents."
_START = {
    False: "docker compose up",
    True: "docker stack deploy --resolve-image never --compose-file THIS-FILE agentd",
}


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@testbed_options
@keep_options
@plan_options
@click.option("--user", metavar="UID:GID", help="Whom the containers run as.  [default: you; never root]")
@click.option(
    "--keys",
    "keys_dir",
    metavar="DIR",
    help="Encrypt all links: make keys there, a file for each container and for you only, which the document names.",
)
@click.option("--stack", is_flag=True, help="For docker stack deploy in a swarm of one node.")
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="JSON, which compose reads as well.")
def compose(
    *,
    image: str | None,
    subnet: str | None,
    user: str | None,
    stack: bool,
    keys_dir: str | None,
    state: bool | None,
    run_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Print a testbed as a docker-compose.yml; the same flags as agentd up, nothing is started.

    \b
    agentd compose --agents 8 --edge-probability 0.5 --rounds 200 > docker-compose.yml

    Its first lines say how to start it. Results go to --run-dir, by default ./run beside the file. Nothing here needs
    Docker; the image comes from agentd image build.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    pace, spending = Pace(**taken(Pace, flags)), Spending(**taken(Spending, flags))
    scenario = scenario_of(testbed_settings(**flags))
    plan = plan_for_containers(scenario, pace, keep_of(scenario, state, spending), run=NOT_DRAWN)
    options = ContainerOptions(
        image=image or DEFAULT_IMAGE,
        user=_user(user),
        run_dir=_as_place(run_dir or "run"),
        subnet=read_subnet(subnet) or subnet_for(len(plan.agents), []),
        policies=policy_files.named_files(),
    )
    if keys_dir is not None:
        plan, options = _with_keys(plan, options, keys_dir)
    environment = environment_for_containers(scenario, plan)
    make = stack_document if stack else compose_document
    document = make(plan, environment, scenario.settings.seed, options)
    if as_json:
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(
            _head(banner(scenario), plan, options, _START[stack]) + with_common_part(document, "services", "x-agentd"),
            nl=False,
        )


def _with_keys(plan: Plan, options: ContainerOptions, directory: str) -> tuple[Plan, ContainerOptions]:
    """Make keys of all containers in a directory; what is there is never overwritten."""
    from deploy.local.throwaway_keys import lend_keys, make_keys

    fingerprint = make_keys(Path(directory), [agent.id for agent in plan.agents])
    lend_keys(Path(directory), options.user)
    keyed = plan.with_keys(directory, fingerprint, inside=IN_CONTAINERS.secrets, note=IN_CONTAINERS.note)
    return keyed, replace(options, keys=_as_place(directory))


def _policies(options: ContainerOptions) -> list[tuple[str, str]]:
    """The files of policies, and where containers look for them in the run directory."""
    return [
        (entry.rpartition(":")[0], f"{policy_files.DIRECTORY}/{policy_files.name_inside(number, entry)}")
        for number, entry in enumerate(options.policies)
    ]


def _head(about: str, plan: Plan, options: ContainerOptions, start: str) -> str:
    uid, _, gid = options.user.partition(":")
    place = options.run_dir
    own = [f"{place}/{APART}"]
    own += [f"{place}/{own_log_name(agent.id).rpartition('/')[0]}" for agent in plan.agents]
    own += [f"{place}/{seat_name(agent.id).rpartition('/')[0]}" for agent in plan.agents]
    own += [f"{place}/{state_name(agent.id)}" for agent in plan.agents if agent.state is not None]
    some = [own[first : first + _PER_LINE] for first in range(0, len(own), _PER_LINE)]
    lines = [
        *about.splitlines(),
        "",
        "Make the run directory, with a part of it for each container, and start them (the image: agentd image build):",
        f"  install -d -m 700 {place}",
        f"  install -d {place}/logs {place}/seats {place}/state {place}/chaos",
        *(f"  install -d -m 700 -o {uid} -g {gid} {' '.join(places)}" for places in some),
        *(f"  install -D -m 644 {name} {place}/{inside}" for name, inside in _policies(options)),
        f"  {start}",
        f"What came of it is in {place}/{APART} then. Look at it as at what a stranger sent you.",
        *(_OPEN if options.keys is None else (_ENCRYPTED.format(options.keys, uid, gid),)),
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _as_place(run_dir: str) -> str:
    """A path, and not the name of a volume."""
    return run_dir if run_dir.startswith(("/", "./", "../")) else f"./{run_dir}"


def _user(user: str | None) -> str:
    if user is None:
        return user_inside()
    uid, _, gid = user.partition(":")
    if not (uid.isascii() and uid.isdigit() and gid.isascii() and gid.isdigit() and int(uid)):
        raise SettingsError(f"--user must be UID:GID, two numbers and not root's, got {user!r}")
    return user
