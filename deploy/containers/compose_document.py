"""A plan as a compose document: one service per agent and one for the environment. Pure.

Choices that are not obvious:

- Every service has an address of its own in a subnet of its own, and the names of those it talks to stand in its
  /etc/hosts. A name that has to be asked for, of a neighbour that is not there yet, would hold up the whole agent.
- The network is internal: nothing leads out of it or into it, which is why links without keys are tolerable there
  (`--insecure`). Agents let only their neighbours in, the environment only agents (`--admit`): not even the Docker
  host, whose users would reach them from its own address in the network. Root there can still listen on the way.
- No container has any capability, may gain any, may write outside its mounts and /tmp, or runs as root.
- A crash is followed by a restart, a few times; an end in order, or one that an operator wanted, by none.
- With keys every service has a secret of its own, and the roster; the document names their files and holds none of
  them. Links are encrypted then, and nobody is let in without a key.
- Of the run directory an agent sees its own log, its own state, the secret of its own seat and the faults to inject;
  the environment what it writes itself. Nobody sees what the supervisor writes (`lent_directories` says why).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, summarize_address_range
from typing import Any

from agentd import plugins
from agentd.errors import ConfigurationError
from agentd.runs.status import APART
from agentd.settings import AgentSettings
from deploy.containers import policy_files
from deploy.plan.arguments import agent_arguments, environment_arguments
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.hosts import members
from deploy.plan.names import ENVIRONMENT, agent_name, host_name
from deploy.plan.plan import (
    ENVIRONMENT_KEYS,
    LINK_FAULTS,
    NOT_DRAWN,
    ROSTER,
    Plan,
    keys_name,
    own_log_name,
    seat_name,
    state_name,
)

NETWORK = "mesh"
ENVIRONMENT_PORT = 7000
AGENT_PORT = 7001
RUN_DIR = "/var/lib/agentd/run"
"""Where the run directory is mounted inside."""
SECRETS_DIR = "/run/secrets"
"""Where each container finds its own keys and the roster."""
LABEL_RUN, LABEL_ROLE, LABEL_ID, LABEL_PROJECT = "agentd.run", "agentd.role", "agentd.id", "agentd.project"
"""On every container: which run, where that is known already; `agent` or `environment`, the agent's number, and which
testbed it belongs to."""
LABEL_AGENTS = "agentd.agents"
"""The first and the last agent of a container that holds many, with a dash between; its number is its own."""
HOST_FILES = "hosts"
"""In the run directory: what each container of many agents is told."""
HOST_FILE = "host.json"
RESTARTS = 3
"""How often a container that crashed is started again."""
PIDS = 32
"""Processes and threads per container; an agent has four."""
MOST_AGENTS = 1_000
"""A bridge of the kernel has room for 1,023 containers."""

_FIRST_HOST = 2  # after the network's own address and the gateway
_AGENT_MEGABYTES = 128
_HOSTED_MEGABYTES = 4
"""For each agent of a container of many."""
_ENVIRONMENT_MEGABYTES = 256
_BYTES_PER_PULL = 64
_ROSTER = "roster"
_CHAOS = LINK_FAULTS.partition("/")[0]
_HEALTH_PROBE = ["CMD", "/opt/agentd/bin/python3", "-I", "-S", "/opt/agentd/health.py"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions:
    """What a plan needs to become containers."""

    image: str
    user: str
    """UID:GID inside; never root's."""
    run_dir: str
    """The run directory, as the Docker host or the document sees it."""
    subnet: IPv4Network
    labels: dict[str, str] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    """Files of policies that travel along, as `policy_files` names them."""
    keys: str | None = None
    """The directory of keys and roster, as the Docker host or the document sees it; None: there are none."""


@dataclass(frozen=True, slots=True)
class ContainerPlaces:
    """Every process in a container with an address, a name and a file system of its own."""

    base_port: None = None
    sockets: None = None
    environment: str = f"tcp://{ENVIRONMENT}:{ENVIRONMENT_PORT}"
    insecure: bool = True

    def listen(self, agent: int) -> str:  # noqa: ARG002
        """On all addresses that its container has."""
        return f"tcp://0.0.0.0:{AGENT_PORT}"

    def address(self, agent: int) -> str:
        """By the name of its service."""
        return f"tcp://{agent_name(agent)}:{AGENT_PORT}"

    def inside(self, name: str) -> str:
        """A file of the run directory, where it is mounted."""
        return f"{RUN_DIR}/{name}"

    def log(self, agent: int) -> str:
        """In a directory that no other container sees."""
        return self.inside(own_log_name(agent))


def compose_document(
    plan: Plan, environment: EnvironmentPlan, seed: int | None, options: ContainerOptions
) -> dict[str, Any]:
    """The document, as plain values."""
    _require_room(len(plan.hosts or plan.agents), options.subnet)
    admit = _addresses_of(len(plan.hosts or plan.agents), options.subnet)
    served = environment_service(plan, environment, seed, options, admit)
    services = {ENVIRONMENT: served | _own_address(ENVIRONMENT, options)}
    for host in range(len(plan.hosts)):
        waits = {"depends_on": {ENVIRONMENT: {"condition": "service_healthy"}}}
        hosts = [f"{ENVIRONMENT}:{address_of(ENVIRONMENT, options.subnet)}"]
        own = _own_address(host_name(host), options)
        services[host_name(host)] = host_service(plan, host, options) | waits | {"extra_hosts": hosts} | own
    for settings in () if plan.hosts else plan.agents:
        who = [ENVIRONMENT, *(agent_name(peer) for peer in settings.peers)]
        services[agent_name(settings.id)] = (
            agent_service(plan, settings.id, options)
            | {
                "depends_on": {ENVIRONMENT: {"condition": "service_healthy"}},
                "extra_hosts": [f"{name}:{address_of(name, options.subnet)}" for name in who],
            }
            | _own_address(agent_name(settings.id), options)
        )
    for service in services.values():
        service |= {"security_opt": ["no-new-privileges:true"], "restart": f"on-failure:{RESTARTS}", "init": True}
        service |= {"tmpfs": ["/tmp:size=16m,mode=1777,noexec,nosuid,nodev"], "pids_limit": PIDS}  # noqa: S108
    network = {
        "driver": "bridge",
        "internal": True,
        "ipam": {"config": [{"subnet": str(options.subnet)}]},
        "labels": options.labels,
    }
    networks = {NETWORK: {key: value for key, value in network.items() if value}}
    return {"services": services, "networks": networks, **secret_files(plan, options)}


def secret_files(plan: Plan, options: ContainerOptions) -> dict[str, Any]:
    """Where the secrets of all services are on the host: their names, never what is in them."""
    if options.keys is None:
        return {}
    place = options.keys.replace("$", "$$")
    agents = {_secret_of(agent.id): {"file": f"{place}/{keys_name(agent.id)}"} for agent in plan.agents}
    common = {_secret_of(None): {"file": f"{place}/{ENVIRONMENT_KEYS}"}, _ROSTER: {"file": f"{place}/{ROSTER}"}}
    return {"secrets": {**common, **agents}}


def environment_service(
    plan: Plan, environment: EnvironmentPlan, seed: int | None, options: ContainerOptions, admit: Sequence[str]
) -> dict[str, Any]:
    """The environment, as far as every orchestrator of this family takes it, for who comes from where agents are."""
    listen = f"tcp://0.0.0.0:{ENVIRONMENT_PORT}"
    return (
        _service(plan, options, "environment")
        | _secrets_for(None, options)
        | {
            "command": environment_arguments(environment, admit=admit, listen=listen, run_dir=RUN_DIR, seed=seed),
            "volumes": [_mount(f"{options.run_dir}/{APART}", RUN_DIR), *_policy_mounts(options)],
            "mem_limit": f"{environment_megabytes(environment)}m",
            # Asked often, because agents wait for the answer; the agents themselves are asked twice a minute.
            "healthcheck": {"test": _HEALTH_PROBE, "interval": "2s", "timeout": "5s", "retries": 30},
            "stop_grace_period": "60s",
        }
    )


def agent_service(plan: Plan, agent: int, options: ContainerOptions) -> dict[str, Any]:
    """One agent, as far as every orchestrator of this family takes it."""
    service = _service(plan, options, "agent")
    service["labels"] |= {LABEL_ID: str(agent)}
    service |= _secrets_for(agent, options)
    return service | {
        "command": agent_arguments(plan.agents[agent]),
        "volumes": _agent_mounts(plan, plan.agents[agent], options),
        "mem_limit": f"{_AGENT_MEGABYTES}m",
        "stop_grace_period": "10s",
    }


def host_service(plan: Plan, host: int, options: ContainerOptions) -> dict[str, Any]:
    """A container of many agents, each with its own part of the run directory, which its neighbours here see, too."""
    agents = members(host, plan.per_process, len(plan.agents))
    service = _service(plan, options, "agent")
    service["labels"] |= {LABEL_ID: str(host), LABEL_AGENTS: f"{agents[0]}-{agents[-1]}"}
    told = f"{HOST_FILES}/{host_name(host)}"
    mounts = [_part_of(options, told) | {"read_only": True}]
    for agent in agents:
        mounts += [each for each in _agent_mounts(plan, plan.agents[agent], options) if each not in mounts]
    return service | {
        "command": ["host", f"{RUN_DIR}/{told}/{HOST_FILE}"],
        "volumes": mounts,
        "mem_limit": f"{_AGENT_MEGABYTES + _HOSTED_MEGABYTES * len(agents)}m",
        "stop_grace_period": "30s",
    }


def environment_megabytes(environment: EnvironmentPlan) -> int:
    """What the environment may take: it holds every pull in memory."""
    return _ENVIRONMENT_MEGABYTES + (_BYTES_PER_PULL * environment.agents * environment.rounds >> 20)


def subnet_for(agents: int, taken: list[IPv4Network], start: int = 0) -> IPv4Network:
    """A private subnet with room for the agents that overlaps with none taken, searched from the start-th on."""
    bits = max(24 - max(0, (agents + _FIRST_HOST + 1).bit_length() - 7), 16)
    choices = list(IPv4Network("10.192.0.0/10").subnets(new_prefix=bits))
    for number in range(len(choices)):
        subnet = choices[(start + number) % len(choices)]
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise ConfigurationError(
        "no subnet of 10.192.0.0/10 is free; remove networks that nobody uses (docker network ls) or name one: --subnet"
    )


def _require_room(agents: int, subnet: IPv4Network) -> None:
    if agents > MOST_AGENTS:
        raise ConfigurationError(f"one Docker host carries at most {MOST_AGENTS} agents, not {agents}; use fewer")
    if subnet.num_addresses < agents + _FIRST_HOST + 2:
        raise ConfigurationError(f"the subnet {subnet} is too small for {agents} agents; name a larger one: --subnet")


def _service(plan: Plan, options: ContainerOptions, role: str) -> dict[str, Any]:
    run = {LABEL_RUN: plan.run.hex()} if plan.run != NOT_DRAWN else {}
    return {
        "image": options.image,
        "labels": {**run, LABEL_ROLE: role, **options.labels},
        "user": options.user,
        "read_only": True,
        "cap_drop": ["ALL"],
        "environment": {"HOME": "/tmp", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"} | _policies(options),  # noqa: S108
        "logging": {"driver": "json-file", "options": {"max-size": "1m", "max-file": "2"}},
    }


def _mount(source: str, target: str) -> dict[str, Any]:
    # A dollar sign would be taken for a variable.
    return {"type": "bind", "source": source.replace("$", "$$"), "target": target}


def _agent_mounts(plan: Plan, settings: AgentSettings, options: ContainerOptions) -> list[dict[str, Any]]:
    log, seat = (name.rpartition("/")[0] for name in (own_log_name(settings.id), seat_name(settings.id)))
    # Whoever has drawn the run's id has drawn the secret, too; else the agent does, and must write it down. With keys
    # there is no such secret, and the agent notes there which roster it took up.
    drawn = plan.run != NOT_DRAWN and not settings.has_keys
    secret = _part_of(options, seat) | ({"read_only": True} if drawn else {})
    mounts = [_part_of(options, log), _part_of(options, _CHAOS) | {"read_only": True}, secret]
    mounts += _policy_mounts(options)
    return [*mounts, _part_of(options, state_name(settings.id))] if settings.state is not None else mounts


def _secrets_for(agent: int | None, options: ContainerOptions) -> dict[str, Any]:
    """What one service sees in SECRETS_DIR: its own keys, and who is who."""
    if options.keys is None:
        return {}
    own = ENVIRONMENT_KEYS if agent is None else keys_name(agent)
    return {"secrets": [{"source": _secret_of(agent), "target": own}, {"source": _ROSTER, "target": ROSTER}]}


def _secret_of(agent: int | None) -> str:
    return f"{ENVIRONMENT if agent is None else agent_name(agent)}-keys"


def _policies(options: ContainerOptions) -> dict[str, str]:
    return {plugins.VARIABLE: policy_files.variable(options.policies)} if options.policies else {}


def _policy_mounts(options: ContainerOptions) -> list[dict[str, Any]]:
    if not options.policies:
        return []
    place = f"{options.run_dir}/{policy_files.DIRECTORY}"
    return [_mount(place, policy_files.INSIDE) | {"read_only": True}]


def _part_of(options: ContainerOptions, directory: str) -> dict[str, Any]:
    return _mount(f"{options.run_dir}/{directory}", f"{RUN_DIR}/{directory}")


def _own_address(name: str, options: ContainerOptions) -> dict[str, Any]:
    return {"networks": {NETWORK: {"ipv4_address": address_of(name, options.subnet)}}}


def _addresses_of(agents: int, subnet: IPv4Network) -> list[str]:
    """The addresses of all agents and of nobody else, as few networks."""
    first, last = (IPv4Address(address_of(agent_name(agent), subnet)) for agent in (0, agents - 1))
    return [str(network) for network in summarize_address_range(first, last)]


def address_of(name: str, subnet: IPv4Network) -> str:
    """The environment's address comes first, then the agents' by their ids, or those of containers of many."""
    place = 0 if name == ENVIRONMENT else 1 + int(name.rpartition("-")[2])
    return str(subnet[_FIRST_HOST + place])
