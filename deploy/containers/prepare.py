"""A testbed prepared for containers: image, user, subnet and document decided, nothing running yet."""

from __future__ import annotations

import secrets
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from agentd.errors import ConfigurationError, SettingsError
from agentd.run.scenario import Scenario
from agentd.settings import Pace
from deploy.containers import compose as compose_up
from deploy.containers import containers, swarm
from deploy.containers.compose import ComposeLauncher
from deploy.containers.compose_document import (
    LABEL_PROJECT,
    RUN_DIR,
    ContainerPlaces,
    Housing,
    compose_document,
    subnet_for,
)
from deploy.containers.container_processes import ContainerCrew, Launcher
from deploy.containers.docker import Docker, require_compose, require_docker
from deploy.containers.image import DEFAULT_TAG
from deploy.containers.stack_document import stack_document
from deploy.containers.swarm import StackLauncher, require_swarm
from deploy.local import preflight
from deploy.local.children import EnvironmentPart
from deploy.plan.plan import Keep, Plan, lay_out, state_name
from deploy.plan.ports import Reservation
from deploy.plan.yaml_text import with_common_part
from deploy.testbed.prepared import Prepared, new_directory, run_of, write_plan

DEFAULT_IMAGE = DEFAULT_TAG
READY_EXTRA_S, READY_PER_AGENT_S = 30.0, 1.0
"""How much longer containers wait for each other, and per agent: the first one runs long before the last."""
MEGABYTES_PER_CONTAINER = 45


def plan_for_containers(scenario: Scenario, pace: Pace, keep: Keep | None = None) -> Plan:
    """The plan, with more patience at the start."""
    extra_s = READY_EXTRA_S + READY_PER_AGENT_S * scenario.graph.nodes
    patient = replace(pace, ready_timeout_s=pace.ready_timeout_s + extra_s)
    return lay_out(scenario, ContainerPlaces(), run=run_of(scenario), pace=patient, keep=keep)


def part_for_containers(scenario: Scenario, plan: Plan) -> EnvironmentPart:
    """What the environment is told."""
    spec = scenario.spec
    return EnvironmentPart(
        listen=plan.environment,
        arms=spec.arms.to_json(),
        agents=spec.network.agents,
        rounds=spec.rounds,
        seed=spec.seed,
        run=plan.run,
        run_dir=RUN_DIR,
    )


def read_subnet(text: str | None) -> IPv4Network | None:
    """The subnet that an operator named."""
    try:
        return IPv4Network(text) if text is not None else None
    except ValueError as fault:
        raise SettingsError(f"--subnet: {fault}; write it like 10.213.0.0/24") from None


def prepare_containers(
    runtime: str,
    scenario: Scenario,
    *,
    run_dir: str | Path | None,
    pace: Pace,
    keep: Keep | None = None,
    image: str | None,
    subnet: IPv4Network | None,
) -> Prepared:
    """Check Docker, image and machine, choose a subnet, and write the document down."""
    docker = require_docker()
    compose = require_compose() if runtime == "compose" else None
    node = require_swarm(docker) if compose is None else ""
    plan = plan_for_containers(scenario, pace, keep)
    containers.require_image(docker, image or DEFAULT_IMAGE)
    preflight.check_memory(MEGABYTES_PER_CONTAINER * (len(plan.agents) + 1), len(plan.agents))
    subnet = _free_subnet(docker, subnet, len(plan.agents))
    directory = new_directory(scenario, run_dir)
    place, project = directory.path, f"agentd-{secrets.token_hex(4)}"
    housing = Housing(
        image=image or DEFAULT_IMAGE,
        user=containers.user_inside(),
        run_dir=str(place),
        subnet=subnet,
        labels={LABEL_PROJECT: project},
    )
    document, text = _document(scenario, plan, housing, node)
    write_plan(directory, scenario, plan, runtime)
    _make_state_directories(place, plan)
    (place / (swarm.FILE if compose is None else compose_up.FILE)).write_text(text, encoding="utf-8")
    launcher: Launcher = StackLauncher(docker, project, place, document)
    if compose is not None:
        launcher = ComposeLauncher(docker, compose, project, place, len(plan.agents) + 1)

    def hire() -> ContainerCrew:
        containers.lend(place, housing.user)
        return ContainerCrew(docker, launcher, project, place)

    return Prepared(scenario, plan, directory, Reservation(0, []), runtime, project, hire)


def _document(scenario: Scenario, plan: Plan, housing: Housing, node: str) -> tuple[dict[str, Any], str]:
    """What to run: a stack where a node of a swarm is named, and a compose project otherwise."""
    part, seed = part_for_containers(scenario, plan), scenario.settings.seed
    if node:
        document = stack_document(plan, part, seed, housing, node=node)
    else:
        document = compose_document(plan, part, seed, housing)
    return document, with_common_part(document, "services", "x-agentd")


def _make_state_directories(place: Path, plan: Plan) -> None:
    """Where agents keep their state: each sees its own and no other's."""
    for settings in plan.agents:
        if settings.state is not None:
            (place / state_name(settings.id)).mkdir(parents=True)


def _free_subnet(docker: Docker, wanted: IPv4Network | None, agents: int) -> IPv4Network:
    """The one that was named, if it is free; else one of many, from a random place on, so that two do not meet."""
    taken = containers.taken_subnets(docker)
    if wanted is None:
        return subnet_for(agents, taken, secrets.randbelow(1 << 14))
    if clash := next((other for other in taken if wanted.overlaps(other)), None):
        raise ConfigurationError(
            f"--subnet {wanted} overlaps with {clash}, which is in use; name another or leave it out"
        )
    return wanted
