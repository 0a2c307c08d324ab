"""An agent's settings under the terms of a run, and the terms as the agent goes by them.

Terms only narrow what the agent's operator has allowed: they may make its ε smaller, its horizon nearer and its pulls
rarer, and nothing else. Whoever sends them (an environment, a file) can therefore not make an agent say more about its
rewards, or run anything, that its operator did not choose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentd.core.policy import ALGORITHMS
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.errors import ConfigurationError
from agentd.settings import AgentSettings
from agentd.shell.json_log import Log
from agentd.wire.terms_digest import difference, digest

MICROSECONDS = 1_000_000
_CLOCK_FLAGS = {Clock.LOCKSTEP: "lockstep", Clock.FREE: "free"}


def agree(settings: AgentSettings, terms: Terms, own: Terms | None, log: Log) -> tuple[AgentSettings, Terms]:
    """Settings and terms to take part with, under the terms of a welcome; `own` are those of the operator's file."""
    if own is not None and (other := difference(own, terms)):
        raise ConfigurationError(
            f"the environment at {settings.environment} serves a run on other terms than those in {settings.terms}: "
            f"there {other} here. Ask its operator for the file, or name another --environment"
        )
    settings, adopted = narrowed(settings, terms)
    log.info("terms", digest=digest(terms), adopted=adopted)
    if left_open := terms.left_open():
        log.warning("open run: cannot refuse what was not agreed on", open=left_open)
    return settings, assumed(settings, terms)


def require_pinned(terms: Terms, pinned: str | None) -> None:
    """Refuse terms that are not those whose digest the roster pins; None: it pins none."""
    if pinned is not None and digest(terms) != pinned:
        raise ConfigurationError(
            f"the terms of run {terms.run.hex()} are not those that the operator signed in the roster "
            f"({digest(terms):.16}…, not {pinned:.16}…); take part in the run that the roster is for"
        )


def file_terms(settings: AgentSettings) -> Terms | None:
    """The terms that the operator has given, if any."""
    if settings.terms is None:
        return None
    from agentd.terms_file import read_terms_file  # hardly any agent has one

    return read_terms_file(settings.terms)


def narrowed(settings: AgentSettings, terms: Terms) -> tuple[AgentSettings, dict[str, Any]]:
    """The settings, as narrow as the terms make them, and what that changed.

    ConfigurationError where the operator did not allow the terms.
    """
    if faults := list(_beyond(settings, terms)):
        raise ConfigurationError(
            f"the terms of run {terms.run.hex()} ask for what the settings of this agent do not allow: "
            f"{'; '.join(faults)}. Give the flags if you agree, or take part in another run"
        )
    adopted = dict(_narrower(settings, terms))
    return replace(settings, **adopted), adopted


def said_for(agent: int, terms: Terms) -> dict[str, Any]:
    """The settings that terms give one agent, by their names; what they leave open is not in it."""
    policy = terms.policy_of(agent) or PolicyTerms("", None, None, None, ())
    said = {
        "algorithm": policy.algorithm or None,
        "epsilon": policy.epsilon,
        "v": policy.v,
        "gamma": terms.lifetime,
        "clock": _CLOCK_FLAGS.get(terms.clock),
        "interval_s": terms.interval_us / MICROSECONDS or None,
        "rounds": terms.horizon or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _beyond(settings: AgentSettings, terms: Terms) -> Iterator[str]:
    """What the terms ask for that the operator did not allow, each with the flag that would."""
    policy = terms.policy_of(settings.id)
    if terms.closed and policy is None:
        yield f"agent {settings.id} does not take part (--id)"
    if policy is not None:
        yield from _beyond_policy(settings, policy)
    if terms.lifetime not in (None, settings.gamma):
        yield f"messages live {terms.lifetime} hops (--gamma {terms.lifetime}), not {settings.gamma}"
    clock = _CLOCK_FLAGS.get(terms.clock, settings.clock)
    if clock != settings.clock:
        yield f"the clock is {clock} (--clock {clock}), not {settings.clock}"


def _beyond_policy(settings: AgentSettings, policy: PolicyTerms) -> Iterator[str]:
    own = ALGORITHMS[settings.algorithm]
    if policy.algorithm not in ("", settings.algorithm):
        yield f"this agent runs {policy.algorithm} (--algorithm {policy.algorithm}), not {settings.algorithm}"
        return  # what else it says is about the other one
    tag = 0 if own.tells is None else own.tells.tag
    if policy.tag not in (None, tag):
        yield f"this agent sends bodies of kind {policy.tag}, and {settings.algorithm} (--algorithm) those of {tag}"
    if not own.noised:
        return
    if policy.epsilon is None and policy.algorithm:
        own_epsilon = f"{settings.reward_epsilon:g}"
        yield f"this agent adds no noise, and {settings.algorithm} (--algorithm) does, for an ε of {own_epsilon}"
    if policy.epsilon is not None and policy.epsilon > settings.reward_epsilon:
        yield _larger_epsilon(settings, policy.epsilon)
    if policy.v not in (None, settings.v):
        yield f"v is {policy.v:g} (--v {policy.v:g}), not {settings.v:g}"


def _larger_epsilon(settings: AgentSettings, asked: float) -> str:
    if settings.rewards_per_person == 1:
        return f"ε is {asked:g} (--epsilon {asked:g}), more than {settings.reward_epsilon:g}"
    return (
        f"the ε of each reward is {asked:g}, more than {settings.reward_epsilon:g}, which is --epsilon "
        f"{settings.epsilon:g} over --rewards-per-person {settings.rewards_per_person}"
    )


def _narrower(settings: AgentSettings, terms: Terms) -> Iterator[tuple[str, Any]]:
    """The settings that the terms make narrower, with their new values."""
    said = said_for(settings.id, terms)
    if ALGORITHMS[settings.algorithm].noised and said.get("epsilon", math.inf) < settings.reward_epsilon:
        yield "epsilon" if settings.rewards_per_person == 1 else "agreed_epsilon", said["epsilon"]
    if settings.clock == "free" and said.get("interval_s", 0.0) > settings.interval_s:
        yield "interval_s", said["interval_s"]
    if "rounds" in said and (settings.rounds is None or said["rounds"] < settings.rounds):
        yield "rounds", said["rounds"]


def assumed(settings: AgentSettings, terms: Terms) -> Terms:
    """The terms as an agent goes by them: what they leave open it takes to be as with itself.

    But for what it cannot know: others may publish another kind of body, and pull more often.
    """
    taken = replace(
        terms,
        lifetime=settings.gamma if terms.lifetime is None else terms.lifetime,
        clock=terms.clock or Clock[settings.clock.upper()],
        policies=tuple(_assumed_policy(settings, policy) for policy in terms.policies),
    )
    return taken if taken.closed else taken.assuming(settings.reward_epsilon, settings.v)


def _assumed_policy(settings: AgentSettings, policy: PolicyTerms) -> PolicyTerms:
    if policy.algorithm:
        return policy
    return replace(policy, epsilon=policy.epsilon or settings.reward_epsilon, v=policy.v or settings.v)
