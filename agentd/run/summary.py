"""What a run says about itself, before and after: banner, manifest, summary, table."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentd.core.policy import ALGORITHMS, Algorithm
from agentd.run.regret import group_regret
from agentd.run.scenario import Scenario
from agentd.run.spec import DELTA, Outcome
from agentd.run.versions import versions

NOT_PRIVATE = "reproducible, not private"


def banner(scenario: Scenario) -> str:
    """One line about what is going to run, and a warning where the noise is not."""
    spec, settings = scenario.spec, scenario.settings
    drawn = f" ({scenario.graph.redraws} redraws)" if scenario.graph.redraws else ""
    lines = [
        f"{settings.algorithm}: {settings.agents} agents, {spec.arms.count} {settings.reward} arms, "
        f"{settings.rounds} rounds, graph of diameter {spec.network.diameter}{drawn}, γ = {spec.gamma}"
    ]
    if scenario.reproducible:
        lines.append(f"seed {spec.seed}: {NOT_PRIVATE}")
    return "\n".join(lines)


def manifest(scenario: Scenario, runtime: str) -> dict[str, Any]:
    """All that is needed to understand, and with a seed to repeat, the run."""
    spec, graph = scenario.spec, scenario.graph
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "runtime": runtime,
        "versions": versions(),
        "settings": scenario.settings.to_json(),
        "seed": spec.seed if scenario.reproducible else None,
        "privacy_note": NOT_PRIVATE if scenario.reproducible else "",
        "gamma": spec.gamma,
        "arms": spec.arms.to_json(),
        "topology": {
            "family": graph.family,
            "nodes": graph.nodes,
            "edges": len(graph.edges),
            "diameter": spec.network.diameter,
            "redraws": graph.redraws,
        },
        "liars": sorted(spec.liars),
    }


def summarise(scenario: Scenario, outcome: Outcome, wall_s: float) -> dict[str, Any]:
    """The figures of a run, as `summary.json` promises them."""
    spec, settings = scenario.spec, scenario.settings
    regret = group_regret(outcome.arm, spec.arms.means)
    summary = {
        "algorithm": settings.algorithm,
        "agents": settings.agents,
        "rounds": settings.rounds,
        "gamma": spec.gamma,
        "diameter": spec.network.diameter,
        "group_regret": regret,
        "regret_per_agent": regret / settings.agents,
        "messages": outcome.messages,
        "bytes": outcome.bytes,
        "dropped": dict(sorted(outcome.dropped.items())),
        "privacy": privacy(scenario, outcome),
        "wall_s": round(wall_s, 3),
        "seed": spec.seed if scenario.reproducible else None,
    }
    if outcome.estimates:
        summary["estimates_that_fell_back"] = outcome.fallbacks / outcome.estimates
    return summary


def privacy(scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    """What one changed reward is exposed to; the largest over the agents, pure and at δ."""
    algorithms = [ALGORITHMS[scenario.spec.algorithm_of(agent)] for agent in range(scenario.settings.agents)]
    noised = any(algorithm.noised for algorithm in algorithms)
    epsilon = float(outcome.epsilon.max()) if outcome.epsilon is not None else math.inf
    at_delta = float(outcome.epsilon_at_delta.max()) if outcome.epsilon_at_delta is not None else math.inf
    return {
        "per_agent_epsilon": epsilon,
        "epsilon_at_delta": at_delta,
        "delta": DELTA,
        "nominal_epsilon": scenario.settings.epsilon if noised else None,
        "mechanism": _mechanism(algorithms),
        "releases": outcome.releases,
        "transcript_private": all(algorithm.transcript_private for algorithm in algorithms),
        "note": NOT_PRIVATE if scenario.reproducible else "",
    }


def _mechanism(algorithms: Sequence[Algorithm]) -> str:
    if not any(algorithm.noised for algorithm in algorithms):
        return "none"
    sealed = all(algorithm.transcript_private for algorithm in algorithms)
    return "discrete Laplace, one release per reward" if sealed else "discrete Laplace"


def table(summary: dict[str, Any], place: Path) -> str:
    """The summary for a person."""
    spent = summary["privacy"]
    lines = [
        f"group regret      {summary['group_regret']:,.1f} ({summary['regret_per_agent']:.2f} per agent)",
        f"messages          {summary['messages']:,} ({summary['bytes']:,} bytes)",
    ]
    if spent["mechanism"] != "none":
        lines += _spent_lines(spent)
    if summary["dropped"]:
        lines.append("dropped           " + ", ".join(f"{why} {n}" for why, n in summary["dropped"].items()))
    lines.append(f"took              {summary['wall_s']:.2f} s")
    lines.append(f"written to        {place}")
    return "\n".join(lines)


def _spent_lines(spent: dict[str, Any]) -> list[str]:
    if spent["transcript_private"]:
        return [
            f"privacy spent     ε = {spent['per_agent_epsilon']:.3g} per reward, against any set of other agents,",
            "                  of everything that leaves an agent; r rewards of one person cost r·ε",
        ]
    return [
        f"privacy spent     ε = {spent['per_agent_epsilon']:.3g} per reward "
        f"({spent['epsilon_at_delta']:.3g} at δ = {spent['delta']:g}), nominal {spent['nominal_epsilon']:g}",
        "                  of the noised sums only; the counts beside them are not private",
    ]
