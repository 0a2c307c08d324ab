"""Where an agent is put together, whoever drives it: the daemon, the in-memory network, the audit, the warm-up."""

from __future__ import annotations

from agentd.core.agent import Agent
from agentd.core.chance import Purpose, stream
from agentd.core.lies import Attack, Liar
from agentd.core.policy import Policy, PolicySettings, make_policy
from agentd.core.policy.coins import Coins
from agentd.core.privacy.laplace import Noise
from agentd.core.saved_state import SavedState, resume
from agentd.core.terms import Terms


def assemble(
    own: int,
    algorithm: str | Policy,
    settings: PolicySettings,
    terms: Terms,
    *,
    noise: Noise,
    coins: Coins | None = None,
    liar: Liar | None = None,
    incarnation: int = 0,
    trial: int = 0,
    saved: SavedState | None = None,
) -> Agent:
    """An agent that runs an algorithm, or a policy that is ready, and goes on after so many trials.

    With the state it saved it goes on where it was; without, under the incarnation it is given.
    """
    ready = make_policy(algorithm, settings, own, noise, coins) if isinstance(algorithm, str) else algorithm
    life = incarnation if saved is None else saved.incarnation
    agent = Agent(own, ready, terms=terms, incarnation=life, trial=trial, liar=liar)
    if saved is not None:
        resume(agent, saved, trial, noise)
    return agent


def seeded_liar(attack: Attack, contamination: float, seed: int, own: int) -> Liar:
    """What makes an agent lie, with a stream of chance of its own."""
    purpose = Purpose.RELAY_LIE if attack.on_relay else Purpose.LIE
    return Liar(attack, contamination, stream(seed, purpose, own).random)
