"""The charts of one run, from what its directory tells.

Regret, shares of arms and what they are held against are the environment's view: they are made with the true means or
with pulls that no agent told. Every chart over time is over rounds, and shows what was done to the run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.charts.chart import BARS, Chart, Mark, Series, series_of
from agentd.charts.over_time import (
    bytes_over_time,
    dropped_over_time,
    epsilon_over_time,
    messages_over_time,
    over_time,
)
from agentd.charts.run_facts import RunFacts, mapping, read_facts, text
from agentd.core.rewards import DISTRIBUTIONS
from agentd.experiment import theory
from agentd.plot.curves import REGRET_LABEL
from agentd.runs.regret import NOT_PULLED, regret_curve
from agentd.runs.yardstick import NAMES, SIMULATED

ENVIRONMENTS_VIEW = "The environment's view: made with the true means and with every pull, which no agent knows."
AGENT_LABEL = "agent"
MOST_ARMS, MOST_REASONS = 8, 8
"""Lines and colours that can be told apart; the rest is added up."""
MOST_MARKS = 200
_WINDOWS, _PULLS = 120, 100
"""Windows of rounds that show a bend, and pulls in each that are more than noise."""


def charts_of(run: str | Path | RunFacts) -> list[Chart]:
    """Every chart that there is data for, of a run that is over or under way; ConfigurationError where there is no run.

    Regret, share of arms, time of a round; ε, messages, bytes and drops over time, and of each agent. No series has
    more than a thousand points.
    """
    facts = run if isinstance(run, RunFacts) else read_facts(run)
    makers: tuple[Callable[[RunFacts], Chart | None], ...] = (
        *(_regret, _share, _round_time),
        *(epsilon_over_time, messages_over_time, bytes_over_time, dropped_over_time),
        *(_epsilon, _messages, _bytes, _dropped),
    )
    charts = [chart for make in makers if (chart := make(facts)) is not None]
    return [chart if chart.kind == BARS else replace(chart, marks=marks_of(facts)) for chart in charts]


def marks_of(facts: RunFacts) -> tuple[Mark, ...]:
    """What was done to the run, by round."""
    return tuple(Mark(float(round_), what) for round_, what in sorted(facts.events)[:MOST_MARKS])


def regret_of(facts: RunFacts) -> NDArray[np.float64] | None:
    """Group regret after each round; None where nobody knows it."""
    return regret_curve(facts.arm, facts.means) if facts.means and facts.rounds else None


def share_of_arms(facts: RunFacts) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The last round of each window, and how often each arm was pulled in it (windows × arms)."""
    arms = len(facts.means) or _most_arms(facts.arm)
    width = math.ceil(max(facts.rounds / _WINDOWS, min(_PULLS / max(1, len(facts.arm)), facts.rounds / 10), 1.0))
    ends = np.minimum(np.arange(width, facts.rounds + width, width), facts.rounds)
    counts = np.zeros((len(ends), arms), dtype=np.int64)
    for window, end in enumerate(ends.tolist()):
        pulled = facts.arm[:, max(0, end - width) : end].ravel()
        counts[window] = np.bincount(pulled[pulled != NOT_PULLED], minlength=arms)[:arms]
    return ends.astype(np.float64), counts


def _most_arms(arm: NDArray[np.uint16]) -> int:
    pulled = arm[arm != NOT_PULLED]
    return int(pulled.max()) + 1 if len(pulled) else 1


def _regret(facts: RunFacts) -> Chart | None:
    curve = regret_of(facts)
    if curve is None:
        return None
    rounds = np.arange(1.0, len(curve) + 1.0)
    lines = [series_of("this run", rounds, curve)]
    for name, reference in (*facts.references.items(), *_bound(facts, rounds)):
        told = f"{NAMES[name]} (simulated)" if name in SIMULATED else NAMES[name]
        lines.append(series_of(told, rounds, reference, dashed=name not in SIMULATED))
    note = ENVIRONMENTS_VIEW
    if not facts.over and facts.references:
        note += " The run is under way: the others are simulated as if every agent made every pull."
    elif not facts.over:
        note += " The run is under way: what it is held against is simulated when it is over."
    return over_time(lines, "regret", "Group regret", REGRET_LABEL, note)


def _bound(facts: RunFacts, rounds: NDArray[np.float64]) -> list[tuple[str, NDArray[np.float64]]]:
    """The lower bound, where the run has not got it already and its arms have one."""
    kind = mapping(facts.manifest.get("arms")).get("kind")
    known = DISTRIBUTIONS.get(kind) if isinstance(kind, str) else None
    if "lower_bound" in facts.references or known is None or known.knots is not None:
        return []
    bound = theory.lower(facts.means)
    return [("lower_bound", bound.curve(rounds.astype(np.int64)))] if math.isfinite(bound.slope) else []


def _share(facts: RunFacts) -> Chart | None:
    if not facts.rounds:
        return None
    ends, counts = share_of_arms(facts)
    total = counts.sum(axis=1)
    shares = np.divide(100.0 * counts, total[:, None], out=np.full(counts.shape, np.nan), where=total[:, None] > 0)
    shown = np.argsort(-counts.sum(axis=0), kind="stable")[:MOST_ARMS]
    lines = [series_of(_arm_label(facts, arm), ends, shares[:, arm]) for arm in sorted(shown.tolist())]
    if others := counts.shape[1] - len(shown):
        rest = np.delete(shares, shown, axis=1).sum(axis=1)
        lines.append(series_of(f"the other {others} arms", ends, rest, dashed=True))
    width = int(ends[0])
    over = "each round" if width == 1 else f"{width} rounds"
    note = f"All agents, over {over}. The environment's view: made with every pull, which no agent knows."
    return over_time(lines, "share", "Pulls by arm", "share of pulls (%)", note)


def _arm_label(facts: RunFacts, arm: int) -> str:
    if not facts.means:
        return f"arm {arm}"
    best = ", the best" if facts.means[arm] == max(facts.means) else ""
    return f"arm {arm} (mean {facts.means[arm]:.3g}{best})"


def _round_time(facts: RunFacts) -> Chart | None:
    if facts.pace is None:
        return None
    rounds = np.array(facts.pace.rounds, dtype=np.float64)
    lines = [series_of("median of the agents", rounds, 1000.0 * np.array(facts.pace.usual_s))]
    note = "The mean since the milestone before, by the clocks of the agents' logs."
    if facts.pace.slowest_s:
        lines.append(series_of("slowest agent", rounds, 1000.0 * np.array(facts.pace.slowest_s)))
    else:
        note = "The mean since the look before, by the clock of the environment."
    return over_time(lines, "round_time", "Time of a round", "milliseconds", note)


def _epsilon(facts: RunFacts) -> Chart | None:
    agents = facts.status.agents if facts.status is not None else ()
    spent = {agent.id: agent.epsilon for agent in agents if agent.epsilon is not None and agent.epsilon >= 0.0}
    if not spent or not any(spent.values()):
        return None
    bars = [_bars("spent", spent)]
    left = {agent: max(0.0, facts.budgets[agent] - spent[agent]) for agent in spent if agent in facts.budgets}
    if left:
        bars.append(_bars("left of its budget", left, dashed=True))
    covers = mapping(facts.summary.get("privacy")).get("covers")
    note = f"Of {text(covers)}, as agents reported it." if isinstance(covers, str) else "As agents reported it."
    if not left:
        note += " No budget was set: --epsilon-budget."
    note += " A person behind r rewards has spent r times that."
    return Chart(
        "epsilon", "Privacy spent on one reward, by agent", AGENT_LABEL, "ε", tuple(bars), note=note, kind=BARS
    )


def _messages(facts: RunFacts) -> Chart | None:
    return _traffic(facts, "messages", "Messages sent, by agent", "messages", "messages")


def _bytes(facts: RunFacts) -> Chart | None:
    return _traffic(facts, "bytes", "Bytes sent, by agent", "bytes", "bytes")


def _traffic(facts: RunFacts, name: str, title: str, y_label: str, what: str) -> Chart | None:
    agents = facts.status.agents if facts.status is not None else ()
    sent = {agent.id: float(getattr(agent, what)) for agent in agents}
    if not any(sent.values()):
        return None
    note = "As agents reported it, each message counted once for each neighbour that it was sent to."
    return Chart(name, title, AGENT_LABEL, y_label, (_bars(what, sent),), note=note, kind=BARS)


def _dropped(facts: RunFacts) -> Chart | None:
    total: Counter[str] = Counter()
    for said in facts.dropped.values():
        total.update(said)
    reasons = [reason for reason, count in total.most_common(MOST_REASONS) if count]
    if not reasons:
        return None
    bars = [_bars(reason, {who: said.get(reason, 0) for who, said in facts.dropped.items()}) for reason in reasons]
    rest = {who: sum(n for why, n in said.items() if why not in reasons) for who, said in facts.dropped.items()}
    if any(rest.values()):
        bars.append(_bars("other reasons", rest))
    note = "As agents reported what they heard and did not use."
    return Chart("dropped", "Dropped, by agent and reason", AGENT_LABEL, "messages", tuple(bars), note=note, kind=BARS)


def _bars(label: str, by_agent: Mapping[int, Any], *, dashed: bool = False) -> Series:
    who = sorted(by_agent)
    heights = np.array([float(by_agent[agent]) for agent in who], dtype=np.float64)
    return series_of(label, np.array(who, dtype=np.float64), heights, dashed=dashed)
