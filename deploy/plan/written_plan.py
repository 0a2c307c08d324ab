"""A plan and its settings, read back from what `agentd up` wrote down before it started anything. Pure.

Whatever is in those files, either a plan that `lay_out` could have made comes out, or ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.scenario import Scenario
from agentd.settings import AgentSettings, TestbedSettings
from agentd.untrusted import decode_json
from deploy.plan.plan import LINK_FAULTS, Places, Plan, seat_name, state_name

Settings = TypeVar("Settings", AgentSettings, TestbedSettings)
Read = TypeVar("Read")


def read_manifest(text: bytes) -> tuple[TestbedSettings, frozenset[int]]:
    """The settings of a run, and who lies in it."""

    def read(data: Mapping[str, Any]) -> tuple[TestbedSettings, frozenset[int]]:
        return settings_from_json(TestbedSettings, data["settings"]), frozenset(int(agent) for agent in data["liars"])

    return _read(text, "manifest.json", read)


def read_plan(text: bytes, scenario: Scenario) -> Plan:
    """The plan of a scenario, as `Plan.to_json` wrote it."""

    def read(data: Mapping[str, Any]) -> Plan:
        agents = tuple(settings_from_json(AgentSettings, each) for each in data["agents"])
        graph = scenario.graph
        for own, agent in enumerate(agents):
            if agent.id != own or set(agent.peers) != set(graph.neighbours(own)):
                raise ValueError(f"agent {own} is not the one of the graph")
        if len(agents) != graph.nodes:
            raise ValueError(f"it has {len(agents)} agents, and the graph {graph.nodes}")
        per_process = data.get("per_process", 1)
        if type(per_process) is not int or not 1 <= per_process <= max(1, len(agents)):
            raise ValueError(f"{per_process!r} agents cannot share a process")
        plan = Plan(
            run=bytes.fromhex(data["run"]),
            base_port=None if data["base_port"] is None else int(data["base_port"]),
            sockets=None if data["sockets"] is None else str(data["sockets"]),
            environment=str(data["environment"]),
            agents=agents,
            links=len(graph.edges),
            keys=None if data.get("keys") is None else str(data["keys"]),
        )
        return plan.hosted(per_process)

    return _read(text, "plan.json", read)


def laid_out_again(plan: Plan, places: Places) -> Plan:
    """The same plan elsewhere: every address and every file is of these places."""
    again = replace(
        plan,
        base_port=places.base_port,
        sockets=places.sockets,
        environment=places.environment,
        agents=tuple(_agent_again(agent, places) for agent in plan.agents),
        keys=None,
    )
    return again.hosted(plan.per_process)


def _agent_again(agent: AgentSettings, places: Places) -> AgentSettings:
    return replace(
        agent,
        listen=places.listen(agent.id),
        environment=places.environment,
        peers={peer: places.address(peer) for peer in agent.peers},
        insecure=places.insecure,
        log_file=places.log(agent.id),
        faults_file=places.inside(LINK_FAULTS),
        state=places.inside(state_name(agent.id)) if agent.state is not None else None,
        seat=places.inside(seat_name(agent.id)) if agent.seat is not None else None,
        # No testbed names these; a plan.json that somebody sent could name any file, to be overwritten.
        health_file=None,
        terms=None,
        # Keys are thrown away with the testbed that they were made for: who takes it up makes others.
        keys=None,
        roster=None,
        operator_fingerprint=None,
        roster_note=None,
    )


def _read(text: bytes, name: str, read: Callable[[Mapping[str, Any]], Read]) -> Read:
    try:
        data = decode_json(text)
        if not isinstance(data, dict):
            raise TypeError("it holds no object")
        return read(data)
    except (ValueError, KeyError, TypeError, AttributeError, SettingsError) as fault:
        raise ConfigurationError(
            f"{name} is damaged, or another version of agentd wrote it: {fault}; only that version can take it up"
        ) from None


def settings_from_json(kind: type[Settings], data: Mapping[str, Any]) -> Settings:
    """Settings as `to_json` wrote them; a mapping has text for its keys there, and a tuple is a list."""
    if set(data) != {one.name for one in fields(kind)}:
        raise ValueError(f"other settings than ours: {', '.join(set(data) ^ {one.name for one in fields(kind)})}")
    return kind(**{name: _as_it_was(value) for name, value in data.items()})


def _as_it_was(value: Any) -> Any:
    if isinstance(value, dict):
        return {int(key): str(each) for key, each in value.items()}
    return tuple(value) if isinstance(value, list) else value
