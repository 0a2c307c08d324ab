"""Settings as the TOML files that `--config` reads: one key per flag, nothing that is at its default for no reason."""

from __future__ import annotations

from collections.abc import Mapping

from agentd.core.policy.knobs import flag_of
from agentd.runs.scenario import Scenario
from agentd.settings import AgentSettings, as_typed, ordered
from deploy.plan.toml_values import to_toml


def agent_toml(agent: AgentSettings) -> str:
    """What `agentd --config FILE` reads as these settings."""
    values = {flag_of(one).removeprefix("--"): getattr(agent, one.name) for one in ordered(AgentSettings)}
    return to_toml(values | {"peers": as_typed(agent.peers), "admit": as_typed(agent.admit) or None})


def environment_toml(
    scenario: Scenario,
    *,
    admit: tuple[str, ...],
    listen: str,
    run_dir: str,
    terms: str,
    keying: Mapping[str, str | None],
) -> str:
    """What `agentd env --config FILE` reads as the environment of a scenario.

    The seed of the rewards is in it only where the operator chose it: whoever knows it knows every reward.
    """
    arms = scenario.spec.arms
    return to_toml(
        {
            "listen": listen,
            "admit": as_typed(admit) or None,
            "insecure": not keying or None,
            **{name.replace("_", "-"): value for name, value in keying.items()},
            "arms": list(arms.requested),
            "reward": arms.kind,
            "agents": scenario.settings.agents,
            "rounds": scenario.spec.rounds,
            "terms": terms,
            "seed": scenario.settings.seed,
            "run-dir": run_dir,
        }
    )
