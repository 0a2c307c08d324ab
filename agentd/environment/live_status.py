"""How a run is doing, as plain values for files and people; and what agents reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentd.environment.shared_bandit import Seat, SharedBandit
from agentd.run.regret import RegretLedger
from agentd.run.status import AgentStatus, Status
from agentd.wire.environment_messages import MAX_COUNT, MICRO, Report, write_fields


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
        agents=tuple(_agent_status(agent, bandit.seats.get(agent), now_s) for agent in bandit.rows),
        group_regret=bandit.group_regret,
        pulls=bandit.pulls,
        pulls_per_s=round(pulls_per_s, 1),
        refused=dict(sorted(tallies.refused.items())),
        malformed=dict(sorted(tallies.malformed.items())),
        unanswerable=tallies.unanswerable,
        done=bandit.all_done,
    )


def epsilon_of(report: Report | None) -> float | None:
    """The privacy that an agent has spent; None where it has no bound or said nothing."""
    if report is None or report.epsilon_micro == MAX_COUNT:
        return None
    return report.epsilon_micro / MICRO


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
    }


def report_from_json(data: Mapping[str, Any]) -> Report:
    """The report that `report_to_json` described; ValueError where it cannot be."""
    try:
        report = Report(
            data["agent"],
            data["trial"],
            data["messages"],
            data["bytes"],
            tuple(data["dropped"].items()),
            data["epsilon_micro"],
            data["done"],
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


def _agent_status(agent: int, seat: Seat | None, now_s: float) -> AgentStatus:
    report = seat.report if seat is not None else None
    ledger: RegretLedger | None = seat.ledger if seat is not None else None
    seen_s = seat.seen_s if seat is not None else None
    return AgentStatus(
        id=agent,
        trial=ledger.rounds_seen if ledger is not None else 0,
        regret=ledger.group_regret if ledger is not None else 0.0,
        messages=report.messages if report is not None else 0,
        bytes=report.bytes if report is not None else 0,
        dropped=sum(count for _, count in report.dropped) if report is not None else 0,
        epsilon=epsilon_of(report),
        done=report.done if report is not None else False,
        last_seen_s_ago=round(now_s - seen_s, 3) if seen_s is not None else None,
    )
