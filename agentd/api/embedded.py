"""One agent inside a program of somebody else: no socket, no process, no disk, no clock.

    agent = Agent(0, arms=5, agents=10)
    arm = agent.choose()
    frame = agent.reward(0.7)       # bytes for every neighbour: carry them however you like
    agent.hear(frame_of_a_neighbour)

What arrives is judged as by the daemon: what breaks the protocol, or what the run cannot have, is dropped and counted.
The ledger is in memory only: whoever starts such an agent again on the same rewards spends again.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any

from agentd.api.policies import named
from agentd.core.assembly import assemble
from agentd.core.chance import SEED_LIMIT
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS, PolicySettings
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace, SeededLaplace
from agentd.core.terms import RUN_BYTES, Clock, Terms
from agentd.errors import AgentdError, PeerError, SettingsError
from agentd.runs.agreed_terms import policy_terms
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import Frame, together

LARGEST_GROUP = 4096
MOST_AHEAD = 64
"""Trials that somebody may be ahead of this agent; what claims to be from further ahead is refused."""


class Agent:
    """An agent of a group of equals, numbered from 0; everybody is made with the same numbers, but for `own`."""

    def __init__(
        self,
        own: int,
        *,
        arms: int,
        agents: int,
        algorithm: str | type = "sealed",
        gamma: int = 1,
        rounds: int | None = None,
        run: bytes = bytes(RUN_BYTES),
        seed: int | None = None,
        **knobs: Any,
    ) -> None:
        """`knobs` are those of the algorithm, such as epsilon; with a seed it is reproducible, and not private."""
        if not 0 <= own < agents <= LARGEST_GROUP:
            raise SettingsError(f"own must be one of the agents 0…{agents - 1}, and agents at most {LARGEST_GROUP}")
        if len(run) != RUN_BYTES:
            raise SettingsError(f"run is {RUN_BYTES} bytes that the frames of one group share, got {len(run)}")
        if seed is not None and not 0 <= seed < SEED_LIMIT:
            raise SettingsError(f"seed must be in [0, 2^64), got {seed}")
        self.algorithm = named(algorithm)
        if self.algorithm not in ALGORITHMS:
            raise SettingsError(f"no algorithm {self.algorithm!r}; there are {', '.join(ALGORITHMS)}")
        try:
            settings = PolicySettings(arms=arms, **knobs)
        except (TypeError, ValueError) as fault:
            raise SettingsError(str(fault)) from None
        policies = policy_terms(dict.fromkeys(range(agents), self.algorithm), settings.epsilon, settings.v)
        terms = Terms(arms, gamma, run, rounds or 0, Clock.LOCKSTEP, policies=policies)
        noise = ExactLaplace(secrets.token_bytes) if seed is None else SeededLaplace(seed, own)
        coins = KeyedCoins(secrets.randbits(63) if seed is None else seed, own)
        try:
            self._agent = assemble(own, self.algorithm, settings, terms, noise=noise, coins=coins)
        except ValueError as fault:
            raise SettingsError(str(fault)) from None
        self._run, self._arms = run, arms
        self._refused: Counter[str] = Counter()

    @property
    def trial(self) -> int:
        """Pulls whose rewards are in."""
        return self._agent.trial

    @property
    def epsilon(self) -> float | None:
        """What the ledger says that one reward is exposed to so far; None where no noise is added."""
        ledger = self._agent.policy.ledger
        return None if ledger is None else ledger.epsilon_one_reward()

    @property
    def dropped(self) -> dict[str, int]:
        """Frames and messages that were refused, by reason."""
        return dict(self._agent.dropped + self._refused)

    def choose(self) -> int:
        """The arm to pull next; the same until its reward is in."""
        return self._agent.choose().arm

    def reward(self, value: float) -> bytes:
        """Take in what the arm paid, in [0, 1]; returns what every neighbour is to hear now."""
        if not 0.0 <= value <= 1.0:  # which refuses NaN, too
            raise SettingsError(f"a reward is a number in [0, 1], got {value!r}")
        self._agent.choose()
        turn = self._agent.advance(round(value * UNIT))
        turn.committed()  # nothing is kept here
        batches = tuple(turn.outbox())
        own, now = self._agent.own, self._agent.trial
        return encode_frame(Frame(self._run, own, self._agent.incarnation, now, now, 0, batches, self._arms))

    def hear(self, frame: bytes) -> bool:
        """Take in what a neighbour says; False where it was refused, which is counted and does no harm."""
        try:
            heard = decode_frame(frame, arms=self._arms)
        except PeerError as fault:
            self._refused[fault.reason] += 1
            return False
        except (TypeError, ValueError, AgentdError):
            self._refused["shape"] += 1
            return False
        if heard.run != self._run:
            self._refused["run"] += 1
            return False
        ahead = min(heard.round, self.trial + MOST_AHEAD)
        self._agent.receive(together([heard], self._agent.dropped), latest_trial=max(self.trial, ahead))
        return True
