"""Where an agent is put together, whoever drives it: the daemon, the in-memory network, the audit, the warm-up."""

from __future__ import annotations

from collections.abc import Iterable

from agentd.core.agent import Agent
from agentd.core.attacks import SCHEMES
from agentd.core.attacks.basis.scheme import Known
from agentd.core.attacks.forger import Forger, forger_of
from agentd.core.bodies import Kind
from agentd.core.chance import Purpose, stream
from agentd.core.lies import Attack, Liar
from agentd.core.policy import Policy, PolicySettings, make_policy
from agentd.core.policy.coins import Coins
from agentd.core.privacy.laplace import Noise
from agentd.core.saved_state import SavedState, resume
from agentd.core.signed.signatures import Signatures
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives


def assemble(
    own: int,
    algorithm: str | Policy,
    settings: PolicySettings,
    terms: Terms,
    *,
    noise: Noise,
    coins: Coins | None = None,
    liar: Liar | None = None,
    incarnation: int | None = None,
    trial: int = 0,
    saved: SavedState | None = None,
    lifetime: int | None = None,
    lives: Lives | None = None,
    neighbours: Iterable[int] = (),
    window: int | None = None,
    uncounted: bool = False,
    signatures: Signatures | None = None,
) -> Agent:
    """An agent that runs an algorithm, or a policy that is ready, and goes on after so many trials.

    With the state it saved it goes on where it was, under the incarnation of that state or a newer one it is given.
    `Agent` says what most of the others are for, `saved_state` what it is that nobody counted its pulls.
    """
    ready = make_policy(algorithm, settings, own, coins) if isinstance(algorithm, str) else algorithm
    if incarnation is None:
        incarnation = saved.incarnation if saved is not None else 0
    agent = Agent(
        own,
        ready,
        terms=terms,
        noise=noise,
        incarnation=incarnation,
        trial=trial,
        liar=liar,
        lifetime=lifetime,
        lives=lives,
        neighbours=neighbours,
        window=window,
        signatures=signatures,
    )
    if saved is not None:
        resume(agent, saved, trial, noise, uncounted=uncounted)
    return agent


def seeded_liar(
    attack: Attack,
    settings: PolicySettings,
    seed: int,
    known: Known,
    *,
    kind: Kind | None = None,
    trial: int = 0,
) -> Liar:
    """What makes an agent lie that tells bodies of this kind, with a stream of chance of its own, after some trials."""
    purpose = Purpose.RELAY_LIE if attack.on_relay else Purpose.LIE
    forger = seeded_forger(attack, settings, seed, known, kind) if attack.forges and kind is not None else None
    if forger is not None:
        forger.catch_up(trial)
    return Liar(attack, settings.contamination, stream(seed, purpose, known.own).random, forger)


def seeded_forger(attack: Attack, settings: PolicySettings, seed: int, known: Known, kind: Kind) -> Forger:
    """Who makes up what a liar says."""
    scheme = SCHEMES[attack.shape](known, stream(seed, Purpose.LIE, known.own).random)
    return forger_of(kind, scheme, settings.epsilon, settings.v)
