"""Settings as the TOML files that `--config` reads: one key per flag, nothing that is at its default for no reason."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from agentd.run.scenario import Scenario
from agentd.settings import AgentSettings

_FLAGS = {"interval_s": "interval", "round_timeout_s": "round-timeout", "ready_timeout_s": "ready-timeout"}
"""Fields whose flag has another name, for the unit that the field names."""


def agent_toml(agent: AgentSettings) -> str:
    """What `agentd --config FILE` reads as these settings."""
    values = {field.name: getattr(agent, field.name) for field in fields(agent)}
    values["peers"] = ",".join(f"{peer}={address}" for peer, address in agent.peers.items())
    return _toml({_FLAGS.get(name, name.replace("_", "-")): value for name, value in values.items()})


def environment_toml(scenario: Scenario, *, listen: str, run_dir: str) -> str:
    """What `agentd env --config FILE` reads as the environment of a scenario.

    The seed of the rewards is in it only where the operator chose it: whoever knows it knows every reward.
    """
    arms = scenario.spec.arms
    return _toml(
        {
            "listen": listen,
            "insecure": True,
            "arms": list(arms.requested),
            "reward": arms.kind,
            "agents": scenario.settings.agents,
            "rounds": scenario.spec.rounds,
            "seed": scenario.settings.seed,
            "run-dir": run_dir,
        }
    )


def _toml(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: Any) -> str:
    """A value as TOML writes it; strings, lists and booleans are as in JSON, numbers as Python writes them."""
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)
