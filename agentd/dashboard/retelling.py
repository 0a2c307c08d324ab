"""A run told again: a bounded number of moments, each only what differs from the one before.

The page folds them just as it folds what a live run sends, so there is one way to draw both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentd.charts.run_facts import RunFacts
from agentd.dashboard.afflictions import DISTRUSTED, DONE, LIAR, Afflictions
from agentd.dashboard.changes import changes
from agentd.dashboard.favoured_arms import LATELY, favoured
from agentd.dashboard.past_traffic import Traffic
from agentd.dashboard.surroundings import Edge
from agentd.runs.regret import NOT_PULLED, regret_curve

MOST_MOMENTS = 240
MOST_MARKED = 4_000_000
"""Agents times moments that are told; larger runs have fewer moments."""


def story_of(
    facts: RunFacts, faults: Sequence[dict[str, Any]], edges: Sequence[Edge], liars: frozenset[int]
) -> list[dict[str, Any]]:
    """The moments of a run, the first in full."""
    rounds, agents = facts.rounds, int(facts.arm.shape[0])
    regret = regret_curve(facts.arm, facts.means) if facts.means else None
    chosen = _chosen_rounds(rounds, agents)
    traffic = Traffic(facts.history, chosen)
    moments, before = [], dict[str, Any]()
    suffering, waiting = Afflictions.none(), sorted(faults, key=lambda fault: int(fault["round"]))
    for place, number in enumerate(chosen):
        while waiting and waiting[0]["round"] <= number:
            suffering.befall(waiting.pop(0))
        now = {
            "round": number,
            "regret": None if regret is None else round(float(regret[number - 1]), 3),
            **traffic.at(place),
            "cut": suffering.cut_edges(edges),
            "agents": _agents(facts, number, suffering, {LIAR: liars, DISTRUSTED: traffic.distrusted(place)}),
        }
        moments.append(changes(before, now))
        before = now
    return moments


def _chosen_rounds(rounds: int, agents: int) -> list[int]:
    most = max(2, min(MOST_MOMENTS, MOST_MARKED // max(1, agents)))
    return sorted({int(each) for each in np.linspace(1, rounds, min(rounds, most)).round()}) if rounds else []


def _agents(
    facts: RunFacts, number: int, suffering: Afflictions, known: Mapping[str, frozenset[int]]
) -> dict[str, dict[str, Any]]:
    window = facts.arm[:, max(0, number - LATELY) : number]
    arms = favoured(window, len(facts.means) or _arms_in(facts)).tolist()
    pulled = (facts.arm[:, number - 1] != NOT_PULLED).tolist()
    return {
        str(agent): {"arm": arm, "marks": _marks(agent, suffering, known, pulled=pulled[agent])}
        for agent, arm in enumerate(arms)
    }


def _marks(agent: int, suffering: Afflictions, known: Mapping[str, frozenset[int]], *, pulled: bool) -> list[str]:
    marks = set(suffering.marks.get(agent, ())) | {mark for mark, who in known.items() if agent in who}
    return sorted(marks - {DONE} if pulled else marks)


def _arms_in(facts: RunFacts) -> int:
    pulled = facts.arm[facts.arm != NOT_PULLED]
    return int(pulled.max()) + 1 if pulled.size else 1
