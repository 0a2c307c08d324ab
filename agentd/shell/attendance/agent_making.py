"""The agent that settings describe: its policy, noise, coins and lies, continuing where it stopped."""

from __future__ import annotations

import secrets
from dataclasses import replace

from agentd.core.agent import Agent
from agentd.core.assembly import assemble, seeded_liar
from agentd.core.attacks.basis.scheme import Known
from agentd.core.lies import Attack, Liar, in_memory_only
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.shielding import duty_by
from agentd.core.privacy.laplace import Noise
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives
from agentd.errors import SettingsError
from agentd.settings import AgentSettings
from agentd.shell.agreement import assumed
from agentd.shell.noise import noise_of
from agentd.shell.state.keeper import require_up_to_date
from agentd.wire.environment_messages import Welcome


def agent_of(
    settings: AgentSettings,
    welcome: Welcome,
    saved: SavedState | None = None,
    *,
    terms: Terms | None = None,
    lives: Lives | None = None,
    noise: Noise | None = None,
    window: int | None = None,
) -> Agent:
    """The agent that the settings describe, continuing where it stopped, under the terms that it goes by.

    Its incarnation is the environment's to give, its noise that of the settings unless another is handed in.
    """
    counted = welcome.next_trial - 1
    if saved is not None and not settings.has_own_arms:
        require_up_to_date(saved, counted, str(settings.state))
    incarnation = welcome.incarnation
    terms = assumed(settings, welcome.terms) if terms is None else terms
    return assemble(
        settings.id,
        settings.algorithm,
        settings.policy(welcome.arms),
        terms,
        noise=noise or noise_of(settings, incarnation),
        coins=KeyedCoins(_seed(settings), settings.id),
        liar=liar_of(settings, terms, counted) if settings.lies else None,
        incarnation=incarnation,
        trial=counted,
        saved=saved,
        lives=lives,
        neighbours=settings.peers,
        window=window,
        uncounted=settings.has_own_arms,
    )


def liar_of(settings: AgentSettings, terms: Terms, trial: int) -> Liar:
    """What makes the agent lie, after some trials; SettingsError for a lie that it does not know enough for."""
    attack = Attack.parse(settings.attack)
    if attack.knows_everything:
        raise SettingsError(in_memory_only(settings.attack))
    means = tuple(settings.arm_means or ())
    if attack.forges and len(means) != terms.arms:
        raise SettingsError(
            f"--attack {settings.attack} must know what the arms pay, which only the launcher of a testbed tells its "
            "liars: use agentd up --byzantine, or lie about rewards alone, with --attack huber"
        )
    kind = ALGORITHMS[settings.algorithm].tells
    duty = duty_by(settings.algorithm, terms.beacon, settings.id, terms.arms)
    known = Known(settings.id, means, duty)
    return seeded_liar(attack, settings.policy(terms.arms), _seed(settings), known, kind=kind, trial=trial)


def _seed(settings: AgentSettings) -> int:
    """For chance that protects nobody: lies, and the coins of decisions."""
    return settings.seed if settings.seed is not None else secrets.randbits(63)


def lie_on_demand(settings: AgentSettings, terms: Terms, agent: Agent, usual: Liar | None, lies: bool) -> None:
    """Let an agent of a testbed lie in everything, or as it did before."""
    asked = Attack.parse(settings.attack)
    unknown = asked.knows_everything or (asked.forges and not settings.arm_means)  # then about rewards alone
    attack = "worst" if unknown else settings.attack
    always = replace(settings, contamination=1.0, attack=attack)
    agent.liar = liar_of(always, terms, agent.trial) if lies else usual
