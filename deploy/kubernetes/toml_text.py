"""Settings as the TOML files that `--config` reads: one key per flag, nothing that is at its default for no reason."""

from __future__ import annotations

import json
from typing import Any

from agentd.core.policy.knobs import flag_of
from agentd.runs.scenario import Scenario
from agentd.settings import AgentSettings, as_typed, ordered


def agent_toml(agent: AgentSettings) -> str:
    """What `agentd --config FILE` reads as these settings."""
    values = {flag_of(one).removeprefix("--"): getattr(agent, one.name) for one in ordered(AgentSettings)}
    return _toml(values | {"peers": as_typed(agent.peers), "admit": as_typed(agent.admit) or None})


def environment_toml(scenario: Scenario, *, admit: tuple[str, ...], listen: str, run_dir: str, terms: str) -> str:
    """What `agentd env --config FILE` reads as the environment of a scenario.

    The seed of the rewards is in it only where the operator chose it: whoever knows it knows every reward.
    """
    arms = scenario.spec.arms
    return _toml(
        {
            "listen": listen,
            "admit": as_typed(admit) or None,
            "insecure": True,
            "arms": list(arms.requested),
            "reward": arms.kind,
            "agents": scenario.settings.agents,
            "rounds": scenario.spec.rounds,
            "terms": terms,
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
