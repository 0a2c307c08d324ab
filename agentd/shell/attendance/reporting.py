"""What an agent tells of itself: to the environment in reports, to its operator in the log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentd.core.agent import Agent
from agentd.core.message import MAX_TRIAL
from agentd.core.policy.beliefs import DOUBTED, as_figures
from agentd.core.trust.regard import Regard, most_telling, regards_of
from agentd.core.upwards import whole_up
from agentd.settings import AgentSettings
from agentd.shell.environment_client import EnvironmentClient
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.wire.environment_messages import (
    MAX_BLAMES,
    MAX_COUNT,
    MAX_REASON_CHARS,
    MAX_REASONS,
    MAX_REGARDS,
    MICRO,
    Report,
)

if TYPE_CHECKING:  # hardly any agent loads it
    from agentd.shell.alone.own_arms import OwnArms


def report_of(
    settings: AgentSettings, agent: Agent, link: Link, environment: EnvironmentClient | OwnArms, *, done: bool
) -> Report:
    """What the environment is told."""
    ledger = agent.policy.ledger
    # A liar's sequence numbers can make a count of lost frames larger than any honest one.
    counted = ((reason[:MAX_REASON_CHARS], min(count, MAX_COUNT)) for reason, count in dropped_by(agent, link).items())
    return Report(
        agent=settings.id,
        token=environment.token,
        trial=agent.trial,
        messages=link.messages,
        bytes=link.bytes,
        dropped=tuple(sorted(counted)[:MAX_REASONS]),
        epsilon_micro=min(whole_up(ledger.cost_of_rewards(), MICRO), MAX_COUNT) if ledger else MAX_COUNT,
        done=done,
        returns=environment.lives.known if environment.lives is not None else 0,
        round=link.round if settings.clock == "lockstep" else 0,
        blames=link.blames[:MAX_BLAMES],
        regards=_regards(agent, link),
    )


def _regards(agent: Agent, link: Link) -> tuple[Regard, ...]:
    """How the neighbours are seen; trust as far as the algorithm has any, which it computes from released values."""
    told = getattr(agent.policy, "trust_in_others", None)
    trust = {int(doubt.origin): int(doubt.trust) for doubt in told()} if told is not None else {}
    known = ((each.id, each.round, each.sequence) for each in link.rounds.everybody)
    return most_telling(regards_of(known, link.round, trust, (MAX_TRIAL, MAX_COUNT)), MAX_REGARDS)


def dropped_by(agent: Agent, link: Link) -> Counter[str]:
    """What was dropped, by reason, wherever that was."""
    ledger = agent.policy.ledger
    return agent.dropped + link.dropped + Counter({"budget": ledger.refused if ledger else 0})


def tell_of_trust(agent: Agent, log: Log) -> None:
    """Log who has lost this agent's trust or regained it, once per change; algorithms without trust log nothing."""
    told = getattr(agent.policy, "changes_of_trust", None)
    for doubt in told() if told is not None else ():
        lost = doubt.trust < 1000 * DOUBTED
        log.warning("trust lost" if lost else "trust regained", **as_figures(doubt))
