"""How a run is doing, as plain values for files and people; and what agents reported."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentd.core.message import MAX_TRIAL, TOKEN_BYTES
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.regard import FULL_TRUST, Regard
from agentd.core.upwards import at_least
from agentd.environment.shared_bandit import Seat, SharedBandit
from agentd.runs.blamed import Blamed, blamed_by
from agentd.runs.regret import RegretLedger
from agentd.runs.status import AgentStatus, Status
from agentd.shell.watch.snapshot import Figure, Observed, counter, counters, gauge, gauges
from agentd.wire.environment_messages import MAX_COUNT, MICRO, Report, write_fields

MOST_DOUBTERS = 16


@dataclass(slots=True)
class Tallies:
    """What went wrong at the socket, by reason."""

    malformed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unanswerable: int = 0
    """Replies whose receiver was gone or did not read."""


@dataclass(slots=True)
class Speed:
    """Pulls per second since the last look."""

    _pulls: int
    _at_s: float

    def look(self, pulls: int, now_s: float) -> float:
        """The speed since the last look."""
        passed_s = now_s - self._at_s
        per_s = (pulls - self._pulls) / passed_s if passed_s > 0 else 0.0
        self._pulls, self._at_s = pulls, now_s
        return per_s


def status_of(bandit: SharedBandit, tallies: Tallies, *, address: str, pulls_per_s: float, now_s: float) -> Status:
    """How the run is doing now."""
    return Status(
        run=bandit.terms.run.hex(),
        address=address,
        arms=bandit.terms.arms.count,
        rounds=bandit.terms.rounds,
        agents=_agents_of(bandit, now_s),
        group_regret=bandit.group_regret,
        pulls=bandit.pulls,
        pulls_per_s=round(pulls_per_s, 1),
        refused=dict(sorted(tallies.refused.items())),
        malformed=dict(sorted(tallies.malformed.items())),
        unanswerable=tallies.unanswerable,
        left_open=bandit.terms.agreed.left_open(),
        done=bandit.all_done,
    )


_WATCHED = ("id", "trial", "round", "messages", "bytes", "done", "last_seen_s_ago", "blamed")
"""What others may see of each agent: no regret, which would tell of the arms' true means, and neither ε nor what was
dropped, what a budget refused among it: both may follow from arms that were pulled."""


def observed(status: Status, unready: str) -> Observed:
    """What others may see of a run: who is where, and what was refused; nothing of arms, rewards and regret."""
    furthest = max((agent.round for agent in status.agents), default=0)
    agents = [_watched(agent, furthest) for agent in status.agents]
    said = {
        "run": status.run,
        "rounds": status.rounds,
        "pulls": status.pulls,
        "pulls_per_s": status.pulls_per_s,
        "refused": status.refused,
        "malformed": status.malformed,
        "unanswerable": status.unanswerable,
        "done": status.done,
        "agents": agents,
    }
    return Observed((*_run_figures(status), *_agent_figures(agents)), said, unready)


def _watched(agent: AgentStatus, furthest: int) -> dict[str, Any]:
    silent_s = agent.last_seen_s_ago
    return {name: getattr(agent, name) for name in _WATCHED} | {
        "last_seen_s_ago": None if silent_s is None else int(silent_s),  # who looks on need not know it any better
        "lag": 0 if agent.done else furthest - agent.round,
    }


def _run_figures(status: Status) -> tuple[Figure, ...]:
    there = {
        "done": sum(agent.done for agent in status.agents),
        "seen": len(status.awake()),
        "known": len(status.agents),
    }
    return (
        counter("pulls", "Pulls that were answered.", status.pulls),
        gauge("pulls_per_second", "The same, per second since the last look.", status.pulls_per_s),
        counters("refused", "Requests that were refused, by reason.", "reason", status.refused),
        counters("malformed", "Requests that could not be read, by reason.", "reason", status.malformed),
        counter("unanswerable", "Replies whose receiver was gone or did not read.", status.unanswerable),
        gauges("agents", "How many agents are known, were seen since it started, are done.", "state", there.items()),
    )


def _agent_figures(agents: Iterable[Mapping[str, Any]]) -> tuple[Figure, ...]:
    about = {
        "trial": ("agent_trial", "Pulls of an agent."),
        "lag": ("agent_lag_rounds", "How many rounds it is behind the furthest; 0 once it is done."),
        "last_seen_s_ago": ("agent_silent_seconds", "Since it last asked for something."),
        "done": ("agent_done", "1 if it has reported that it is done."),
    }
    return tuple(
        gauges(name, said, "agent", ((each["id"], each[key]) for each in agents if each[key] is not None))
        for key, (name, said) in about.items()
    )


def blamed_in(reports: Iterable[Report], agents: Iterable[int]) -> dict[int, Blamed]:
    """Who is blamed for what, and who says so."""
    return blamed_by(((report.agent, report.blames) for report in reports), set(agents))


def doubted_by(reports: Iterable[Report]) -> dict[int, tuple[int, ...]]:
    """By agent, who of its neighbours trusts it less than by half; no more of them than are shown. They may lie."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for report in reports:
        for regard in report.regards:
            if 2 * regard.trust < FULL_TRUST and len(found[regard.neighbour]) < MOST_DOUBTERS:
                found[regard.neighbour].append(report.agent)
    return {agent: tuple(sorted(who)) for agent, who in found.items()}


def epsilon_of(report: Report | None) -> float | None:
    """The privacy that an agent has spent, rounded up; None where it has no bound or said nothing."""
    return None if report is None else in_units(report.epsilon_micro)


def in_units(epsilon_micro: int) -> float | None:
    """An ε that was reported in millionths, rounded up; None where it has no bound."""
    return None if epsilon_micro == MAX_COUNT else at_least(epsilon_micro, MICRO)


def report_to_json(report: Report) -> dict[str, Any]:
    """All that `report_from_json` needs, and ε for whoever reads it."""
    return {
        "agent": report.agent,
        "trial": report.trial,
        "messages": report.messages,
        "bytes": report.bytes,
        "dropped": dict(report.dropped),
        "epsilon": epsilon_of(report),
        "epsilon_micro": report.epsilon_micro,
        "done": report.done,
        "returns": report.returns,
        "round": report.round,
        "blames": [list(map(int, blame)) for blame in report.blames],
        "regards": [list(regard) for regard in report.regards],
    }


def report_from_json(data: Mapping[str, Any]) -> Report:
    """The report that `report_to_json` described; ValueError where it cannot be."""
    try:
        report = Report(
            data["agent"],
            bytes(TOKEN_BYTES),
            data["trial"],
            data["messages"],
            data["bytes"],
            tuple(data["dropped"].items()),
            data["epsilon_micro"],
            data["done"],
            data.get("returns", 0),  # what was written before there were any
            data.get("round", 0),
            tuple(Blame(neighbour, Why(why), times) for neighbour, why, times in data.get("blames", ())),
            tuple(Regard(*regard) for regard in data.get("regards", ())),
        )
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"it holds a report without {fault}") from None
    write_fields(report)  # held to the same rules as one that arrives
    return report


def dropped_in_all(reports: Iterable[Report]) -> dict[str, int]:
    """Dropped messages by reason, over all agents."""
    total: Counter[str] = Counter()
    for report in reports:
        total.update(dict(report.dropped))
    return dict(sorted(total.items()))


def _agents_of(bandit: SharedBandit, now_s: float) -> tuple[AgentStatus, ...]:
    rows, seats = bandit.rows, bandit.seats
    blaming = (seat.report for seat in seats.values() if seat.report is not None and seat.report.blames)
    blamed = blamed_in(blaming, rows)
    last = bandit.terms.rounds or MAX_TRIAL
    real = bandit.real is not None
    doubted = doubted_by(seat.report for seat in seats.values() if seat.report is not None)
    return tuple(
        replace(
            _agent_status(agent, seats.get(agent), now_s, last, blamed.get(agent, {}), real=real),
            doubted=doubted.get(agent, ()),
        )
        for agent in rows
    )


def _agent_status(
    agent: int, seat: Seat | None, now_s: float, last: int, blamed: Blamed, *, real: bool = False
) -> AgentStatus:
    report = seat.report if seat is not None else None
    ledger: RegretLedger | None = seat.ledger if seat is not None else None
    seen_s = seat.seen_s if seat is not None else None
    regret = math.nan if real else ledger.group_regret if ledger is not None else 0.0
    return AgentStatus(
        id=agent,
        trial=ledger.rounds_seen if ledger is not None else 0,
        regret=regret,
        messages=report.messages if report is not None else 0,
        bytes=report.bytes if report is not None else 0,
        dropped=sum(count for _, count in report.dropped) if report is not None else 0,
        epsilon=in_units(seat.spent.largest) if seat is not None and report is not None else None,
        done=report.done if report is not None else False,
        last_seen_s_ago=round(now_s - seen_s, 3) if seen_s is not None else None,
        round=min(seat.reached, last) if seat is not None else 0,
        blamed=blamed,
    )
