"""The settings that decided what a run came to, for who reads its result without its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from agentd.core.policy.knobs import PolicyKnobs, about
from agentd.runs.scenario import Scenario

_IN_WORDS = {"byzantine": "{} liars", "attack": "attack {}"}


def decisive_settings(scenario: Scenario) -> dict[str, Any]:
    """Arms, graph, γ, what the algorithms read (or was turned), who lied; as flags are named."""
    settings, spec = scenario.settings, scenario.spec
    graph = "topology" if settings.topology is not None else "edge_probability"
    told = {"arms": spec.arms.count, "reward": settings.reward}
    told |= {graph: getattr(settings, graph), "gamma": settings.gamma}
    running = {spec.algorithm_of(agent) for agent in range(settings.agents)}
    for one in fields(PolicyKnobs):
        value = getattr(settings, one.name)
        if running & set(about(one).read_by) or value != one.default:
            told[one.name] = value
    if spec.liars:
        told |= {"byzantine": len(spec.liars), "attack": settings.attack, "contamination": settings.contamination}
    if spec.overrides:
        told["policies"] = {str(agent): name for agent, name in spec.overrides.items()}
    if settings.rewards_per_person > 1:
        told["rewards_per_person"] = settings.rewards_per_person
    return told


def in_words(summary: Mapping[str, Any]) -> str:
    """The settings of a summary in a line; what is as it always is goes without saying."""
    told = summary["settings"]
    usual = {one.name: one.default for one in fields(PolicyKnobs)}
    words = [
        f"{summary['agents']} agents, {told['arms']} {told['reward']} arms",
        f"graph of diameter {_diameter(summary)}, γ = {summary['gamma']}",
    ]
    if "epsilon" in told:
        words.append(_epsilon(told, rate=summary["privacy"]["mechanism"] == "discrete Laplace"))
    for name, value in told.items():
        if name in _IN_WORDS:
            words.append(_IN_WORDS[name].format(f"{value:g}" if isinstance(value, float) else value))
        elif name in usual and name != "epsilon" and value != usual[name]:
            words.append(f"{name} {value}")
    if "policies" in told:
        words.append(f"{len(told['policies'])} with an algorithm of their own")
    words.append("no seed" if summary["seed"] is None else f"seed {summary['seed']}")
    return ", ".join(words)


def hops_shown(bounds: Sequence[int]) -> str:
    """A diameter, or what it is at least and at most."""
    least, most = bounds
    return str(least) if least == most else f"{least} to {most}"


def _diameter(summary: Mapping[str, Any]) -> str:
    if summary["diameter"] is None and (bounds := summary.get("diameter_bounds")) is not None:
        return hops_shown(bounds)
    return str(summary["diameter"])


def _epsilon(told: Mapping[str, Any], *, rate: bool) -> str:
    epsilon, rewards = told["epsilon"], told.get("rewards_per_person", 1)
    if rewards > 1:
        return f"ε = {epsilon:g} for {rewards} rewards of a person"
    return f"nominal ε = {epsilon:g}" if rate else f"ε = {epsilon:g}"
