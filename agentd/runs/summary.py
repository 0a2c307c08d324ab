"""What a run says about itself, before and after: banner, manifest, summary, table."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.policy import ALGORITHMS, Algorithm
from agentd.core.privacy.sealing import cost_of_rewards
from agentd.core.upwards import at_least_times, shown
from agentd.quantities import as_bytes, counted
from agentd.runs import blamed
from agentd.runs.decisive import decisive_settings, hops_shown, in_words
from agentd.runs.proofs import has_passed
from agentd.runs.regret import group_regret, honest_regret, rounds_made
from agentd.runs.scenario import Scenario
from agentd.runs.spec import DELTA, Outcome
from agentd.runs.versions import versions
from agentd.runs.yardstick import table_lines
from agentd.settings import TestbedSettings

NOT_PRIVATE = "reproducible, not private"
SIMULATED = "simulated: no agent ran and nothing left one, ε is what running agents would have spent"
NOT_CLAIMED = "nothing: no noise is added"
UNPROVEN = "unproven: what a plug-in claims"


def banner(scenario: Scenario) -> str:
    """One line about what is going to run, and a warning where the noise is not."""
    spec, settings = scenario.spec, scenario.settings
    drawn = f" ({scenario.graph.redraws} redraws)" if scenario.graph.redraws else ""
    arms, hops = counted(spec.arms.count, f"{settings.reward} arm"), hops_shown(spec.network.spans)
    lines = [
        f"{settings.algorithm}: {counted(settings.agents, 'agent')}, {arms}, "
        f"{counted(settings.rounds, 'round')}, graph of diameter {hops}{drawn}, γ = {spec.gamma}"
    ]
    if settings.rewards_per_person > 1:
        lines.append(promise(settings))
    if scenario.reproducible:
        lines.append(f"seed {spec.seed}: {NOT_PRIVATE}")
    return "\n".join(lines)


def promise(settings: TestbedSettings) -> str:
    """What one reward and what one person is promised, in a line."""
    return (
        f"each reward ε = {shown(settings.reward_epsilon, 4)}, so that a person behind {settings.rewards_per_person} "
        f"rewards at most has ε = {settings.epsilon:g}"
    )


def manifest(scenario: Scenario, runtime: str) -> dict[str, Any]:
    """All that is needed to understand, and with a seed to repeat, the run."""
    spec, graph = scenario.spec, scenario.graph
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "runtime": runtime,
        "versions": versions(),
        "settings": scenario.settings.to_json(),
        "seed": spec.seed if scenario.reproducible else None,
        "privacy_note": _note(scenario, simulated=runtime.startswith("simulate")),
        "gamma": spec.gamma,
        "arms": spec.arms.to_json(),
        "topology": {
            "family": graph.family,
            "nodes": graph.nodes,
            "edges": len(graph.edges),
            "diameter": spec.network.diameter,
            "diameter_bounds": list(spec.network.spans),
            "redraws": graph.redraws,
        },
        "liars": sorted(spec.liars),
    }


def summarise(scenario: Scenario, outcome: Outcome, wall_s: float, *, simulated: bool = False) -> dict[str, Any]:
    """The figures of a run, as `summary.json` promises them."""
    spec, settings = scenario.spec, scenario.settings
    regret = group_regret(outcome.arm, spec.arms.means)
    summary = {
        "algorithm": settings.algorithm,
        "agents": settings.agents,
        "rounds": settings.rounds,
        "rounds_made": rounds_made(outcome.arm),
        "gamma": spec.gamma,
        "diameter": spec.network.diameter,
        "diameter_bounds": list(spec.network.spans),
        "group_regret": regret,
        "regret_per_agent": regret / settings.agents,
        "honest_regret_per_agent": honest_regret(outcome.arm, spec.arms.means, spec.liars),
        "messages": outcome.messages,
        "bytes": outcome.bytes,
        "dropped": dict(sorted(outcome.dropped.items())),
        "privacy": privacy(scenario, outcome, simulated=simulated),
        "wall_s": round(wall_s, 3),
        "seed": spec.seed if scenario.reproducible else None,
        "settings": decisive_settings(scenario),
    }
    if outcome.estimates:
        summary["estimates_that_fell_back"] = outcome.fallbacks / outcome.estimates
    if outcome.distrusted is not None:
        summary["distrusted"] = {str(origin): times for origin, times in outcome.distrusted.items()}
    return summary


def privacy(scenario: Scenario, outcome: Outcome, *, simulated: bool = False) -> dict[str, Any]:
    """What one changed reward is exposed to; the largest over the agents.

    `transcript_private` is true of what has really happened, and of nothing else: agents ran, their noise was nobody's
    to know, and everything that left them is covered by a claim that was proven.
    """
    spec = scenario.spec
    algorithms = [ALGORITHMS[spec.algorithm_of(agent)] for agent in range(scenario.settings.agents)]
    noised = any(algorithm.noised for algorithm in algorithms)
    epsilon, over_lives = _largest(outcome.epsilon), outcome.epsilon_over_lives
    per_person = scenario.settings.rewards_per_person
    return {
        "per_agent_epsilon": epsilon,
        "epsilon_over_lives": epsilon if over_lives is None else _largest(over_lives),
        "lives": outcome.lives,
        "rewards_per_person": per_person,
        "per_person_epsilon": _of_a_person(epsilon, spec.policy.epsilon, per_person),
        "epsilon_at_delta": _largest(outcome.epsilon_at_delta),
        "delta": DELTA,
        "at_delta_of": f"the schedule: an arm pulled in each of {spec.rounds} rounds, with all releases due then",
        "nominal_epsilon": spec.policy.epsilon if noised else None,
        "mechanism": _mechanism(algorithms),
        "releases": outcome.releases,
        "covers": _covers(algorithms),
        "transcript_private": _transcript_private(algorithms) if not simulated and not scenario.reproducible else False,
        "simulated": simulated,
        "reproducible": scenario.reproducible,
        "note": _note(scenario, simulated=simulated),
    }


def _transcript_private(algorithms: Sequence[Algorithm]) -> bool | str:
    """Whether everything that left the agents is private; a claim that nobody has proven is neither yes nor no."""
    if not all(algorithm.transcript_private for algorithm in algorithms):
        return False
    return True if all(map(has_passed, algorithms)) else "unproven"


def _of_a_person(epsilon: float, noised_for: float, rewards: int) -> float:
    """What a person behind so many rewards has spent, rounded up once.

    The ε of a reward is told rounded up to a double, and so many times that rounding would be seen: 5 rewards at a
    fifth cost 1, and not the next number above.
    """
    if not math.isfinite(epsilon):
        return epsilon
    if epsilon == cost_of_rewards(noised_for, 1):
        return cost_of_rewards(noised_for, rewards)
    return at_least_times(epsilon, rewards)


def _largest(figures: NDArray[np.float64] | None) -> float:
    return float(figures.max()) if figures is not None else math.inf


def _note(scenario: Scenario, *, simulated: bool) -> str:
    said = (SIMULATED if simulated else "", NOT_PRIVATE if scenario.reproducible else "")
    return "; ".join(filter(None, said))


def _mechanism(algorithms: Sequence[Algorithm]) -> str:
    if not any(algorithm.noised for algorithm in algorithms):
        return "none"
    once = all(algorithm.disjoint for algorithm in algorithms)
    return "discrete Laplace, one release per reward" if once else "discrete Laplace"


def _covers(algorithms: Sequence[Algorithm]) -> str:
    """What ε is about, of each algorithm in the run that says something else."""
    said = (
        NOT_CLAIMED
        if not each.noised
        else (f"{UNPROVEN}, {each.covers}" if each.transcript_private and not has_passed(each) else each.covers)
        for each in algorithms
    )
    return "; ".join(dict.fromkeys(said))


def table(summary: dict[str, Any], place: Path) -> str:
    """The summary for a person."""
    spent, made = summary["privacy"], summary.get("rounds_made", summary["rounds"])
    lines = [f"rounds made       {made:,} of {summary['rounds']:,}"] if made < summary["rounds"] else []
    lines += [
        f"group regret      {summary['group_regret']:,.1f} ({summary['regret_per_agent']:.2f} per agent)",
        *_under("compared with", table_lines(summary["yardstick"]) if "yardstick" in summary else []),
        *_under("settings", [in_words(summary)] if "settings" in summary else []),
        f"messages          {summary['messages']:,} ({_size(summary['bytes'])})",
    ]
    if spent["mechanism"] != "none":
        lines += _spent_lines(spent)
    if summary["dropped"]:
        lines.append("dropped           " + ", ".join(f"{why} {n}" for why, n in summary["dropped"].items()))
    said = blamed.blamed_lines(blamed.from_json(summary.get("blamed", {})))
    lines += _under("blamed", said)
    lines.append(f"took              {summary['wall_s']:.2f} s")
    lines.append(f"written to        {place}")
    return "\n".join(lines)


def _size(size: int | None) -> str:
    return "bytes n/a: no frame has ids for so many" if size is None else as_bytes(size)


def _under(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"{'' if number else heading:17} {line}" for number, line in enumerate(lines)]


def _spent_lines(spent: dict[str, Any]) -> list[str]:
    """What was spent, and of what; a simulation and a seeded run say that they are one."""
    first = (
        f"{'privacy' if spent['simulated'] else 'privacy spent':17} ε = {shown(spent['per_agent_epsilon'])} per reward"
    )
    if spent["mechanism"] != "discrete Laplace":
        lines = [f"{first}, against any set of other agents, of {spent['covers']};"]
        lines.append(f"r rewards of one person cost r·ε: {_per_person(spent)}")
    else:
        lines = [f"{first}, nominal {spent['nominal_epsilon']:g}, of", spent["covers"]]
        at_delta = f"{shown(spent['epsilon_at_delta'])} at δ = {spent['delta']:g}"
        lines.append(f"before the run, for an arm that is pulled every time: ε = {at_delta}")
    if spent["lives"] > 1:
        in_each = shown(spent["epsilon_over_lives"])
        lines.append(f"an agent had {spent['lives']} lives: whoever is behind one reward in each has ε = {in_each}")
    lines += filter(None, spent["note"].split("; "))
    return [f"{'':18}{line}" if number else line for number, line in enumerate(lines)]


def _per_person(spent: dict[str, Any]) -> str:
    person = spent["rewards_per_person"]
    if person == 1:
        return "see --rewards-per-person"
    return f"{person} of them ε = {shown(spent['per_person_epsilon'])}"
