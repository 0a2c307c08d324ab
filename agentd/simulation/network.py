"""Core agents on an in-memory network, in lockstep, with seeded faults.

The agents and their rounds (`core.rounds`) are the daemon's own; only sockets, processes and waiting are missing. Every
round each agent that is up chooses, pulls, publishes one frame to each neighbour, and takes in the frames that arrived.
Without faults a frame of round t arrives before round t+1. Faults act on frames, as they do on a real link. Time is the
number of the round, and patience is none: who is late is given up, and back after three timely frames, which makes no
difference to what is taken in: late frames count as they come. Everybody's round is the network's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from agentd.core.agent import Agent
from agentd.core.assembly import assemble, seeded_liar
from agentd.core.attacks.basis.honest_pool import HonestPool
from agentd.core.chance import Purpose, stream
from agentd.core.lies import Liar
from agentd.core.message import Batch
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.base import Restorable
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.shielded import Shielded
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.rounds import Rounds, Standing
from agentd.core.saved_state import Charged, SavedState
from agentd.core.terms import Terms
from agentd.core.trust.lives import Life, Lives
from agentd.runs.agreed_terms import known_to, terms_of
from agentd.runs.arms import uniforms
from agentd.runs.scenario import require_ids
from agentd.runs.spec import NOT_PULLED, Outcome, RunSpec, scheduled_at_delta
from agentd.simulation.memory_transport import InFlight, MemoryTransport
from agentd.simulation.network_faults import NO_FAULTS, Faults
from agentd.wire.frame import Frame, together
from agentd.wire.size import encoded_bytes

_UNIFORMS_AT_ONCE = 256


def make_agent(
    spec: RunSpec,
    own: int,
    *,
    incarnation: int = 0,
    trial: int = 0,
    lives: Lives | None = None,
    terms: Terms | None = None,
    saved: SavedState | None = None,
    pool: HonestPool | None = None,
) -> Agent:
    """The agent a run starts with, or one that comes back with its state or without; the terms, if at hand."""
    return assemble(
        own,
        spec.algorithm_of(own),
        spec.policy,
        terms or terms_of(spec),
        noise=SeededLaplace(spec.seed, own + (incarnation << 32)),  # another life, another stream: no draw twice
        coins=KeyedCoins(spec.seed, own),
        liar=_liar(spec, own, trial, pool) if own in spec.liars else None,
        incarnation=incarnation,
        trial=trial,
        lives=lives,
        saved=saved,
    )


def _liar(spec: RunSpec, own: int, trial: int, pool: HonestPool | None) -> Liar:
    kind = ALGORITHMS[spec.algorithm_of(own)].tells
    return seeded_liar(spec.attack, spec.policy, spec.seed, known_to(spec, own, pool), kind=kind, trial=trial)


class InMemoryNetwork:
    """A running testbed without processes."""

    def __init__(self, spec: RunSpec, faults: Faults = NO_FAULTS) -> None:
        self.spec = spec
        self.faults = faults
        agents = spec.network.agents
        self._terms = terms_of(spec)
        self._pool = HonestPool(spec.arms.count) if spec.liars and spec.attack.knows_everything else None
        self.agents = [
            make_agent(spec, own, lives=Lives(), terms=self._terms, pool=self._pool) for own in range(agents)
        ]
        self.round = 0
        self.rounds = [self._rounds_of(own) for own in range(agents)]
        self._up = [True] * agents
        self._returned: list[Life] = []
        """Who came back without its state, and under which incarnation, as an environment would tell."""
        self._released: list[list[Charged]] = [[] for _ in range(agents)]
        """What each has released, as its ledger on disk would say."""
        self._lost: list[Agent] = []
        """Agents as they were when they lost their state: what they counted and spent still happened."""
        self._transport = MemoryTransport(faults, stream(spec.seed, Purpose.FAULT))
        self._uniforms = [np.zeros(0)] * agents
        self.outcome = Outcome(
            np.full((agents, spec.rounds), NOT_PULLED, dtype=np.uint16),
            np.full((agents, spec.rounds), -1, dtype=np.int32),
        )

    def run(self, stop: Callable[[], bool] = lambda: False) -> Outcome:
        """All rounds, unless asked to stop, and the sums at the end."""
        while self.round < self.spec.rounds and not stop():
            self.step()
        return self.finish()

    def step(self) -> None:
        self.round += 1
        self._strike()
        for agent in self._running():
            self._pull(agent)
        for agent in self._running():
            batches = agent.turn.outbox()
            self._tell_liars(agent.own, batches)
            self._publish(agent.own, batches)
        self._deliver()

    def _tell_liars(self, sender: int, batches: Sequence[Batch]) -> None:
        """Let those liars know what an honest agent says of its own who are to know everything."""
        if self._pool is None or sender in self.spec.liars:
            return
        for batch in batches:
            for body in batch.body[batch.origin == sender].tolist():
                self._pool.hear(sender, batch.kind, body)

    def finish(self) -> Outcome:
        """Add up what the agents counted themselves."""
        outcome = self.outcome
        lives = [*self._lost, *self.agents]
        for agent in lives:
            outcome.dropped += agent.dropped
            if isinstance(agent.policy, ByzantineUcb):
                outcome.fallbacks += agent.policy.fallbacks
                outcome.estimates += agent.policy.estimates
        trusting = [agent.policy for agent in self.agents if isinstance(agent.policy, Shielded)]
        if trusting:
            times = Counter(origin for policy in trusting for origin in policy.distrusted())
            outcome.distrusted = dict(sorted(times.items()))
        if any(agent.policy.ledger is not None for agent in lives):
            self._charge(lives)
        return outcome

    def _charge(self, lives: list[Agent]) -> None:
        """What one changed reward is exposed to: by one life of its agent, or by an agent that adds no noise, all."""
        epsilon, at_delta, over_lives = np.zeros((3, len(self.agents)))
        releases = 0
        for agent in lives:
            ledger = agent.policy.ledger
            spent = ledger.epsilon_one_reward() if ledger else math.inf
            epsilon[agent.own] = max(epsilon[agent.own], spent)
            over_lives[agent.own] += spent
            at_delta[agent.own] = scheduled_at_delta(self.spec, self.spec.algorithm_of(agent.own))
            releases += ledger.releases() if ledger else 0
        self.outcome.releases = releases
        self.outcome.epsilon, self.outcome.epsilon_at_delta = epsilon, at_delta
        if self._lost:
            self.outcome.epsilon_over_lives = over_lives
            self.outcome.lives = 1 + max(Counter(agent.own for agent in self._lost).values())

    def _running(self) -> Iterable[Agent]:
        return (agent for agent, up in zip(self.agents, self._up, strict=True) if up)

    def _strike(self) -> None:
        """Carry out the crashes and restarts that are due."""
        for crash in self.faults.crashes:
            if crash.at == self.round:
                self._up[crash.agent] = False
                self.outcome.events.append((self.round, f"agent {crash.agent} down"))
            if crash.back == self.round:
                self._up[crash.agent] = True
                self.rounds[crash.agent] = self._rounds_of(crash.agent)
                if crash.keeps_state:
                    self._restore(crash.agent)
                else:
                    self._lose_state(crash.agent)
                kept = "with" if crash.keeps_state else "without"
                self.outcome.events.append((self.round, f"agent {crash.agent} back {kept} state"))
        for cut in self.faults.partitions:
            if self.round in (cut.at, cut.heals):
                self.outcome.events.append((self.round, "partition" if self.round == cut.at else "healed"))

    def _restore(self, own: int) -> None:
        """Start an agent again from what it finds on its disk, as the daemon does: what others said is gone."""
        agent = self.agents[own]
        if not isinstance(agent.policy, Restorable) or agent.policy.ledger is None:
            return  # an algorithm that keeps no state has slept
        self.outcome.dropped += agent.dropped
        saved = SavedState(
            about={"incarnation": agent.incarnation},
            trial=agent.trial,
            policy=agent.turn.state,
            said=None,
            releases=tuple(self._released[own]),
            refused=agent.policy.ledger.refused,
            intent=None,
        )
        self.agents[own] = make_agent(
            self.spec,
            own,
            incarnation=agent.incarnation,
            trial=agent.trial,
            lives=Lives(self._returned),
            terms=self._terms,
            saved=saved,
            pool=self._pool,
        )

    def _lose_state(self, own: int) -> None:
        self._lost.append(self.agents[own])
        trial = self.agents[
            own
        ].trial  # the environment remembers which trials were pulled, and names the life after them
        self._returned.append((own, trial))
        self._released[own] = []
        lives = Lives(self._returned)
        self.agents[own] = make_agent(
            self.spec, own, incarnation=trial, trial=trial, lives=lives, terms=self._terms, pool=self._pool
        )
        for agent in self.agents:
            if agent.lives is not None:
                agent.lives.told(self._returned[-1:])

    def _pull(self, agent: Agent) -> None:
        trial, arm, *_ = agent.choose()
        reward = self.spec.arms.deal_one(arm, self._uniform(agent.own, trial))
        turn = agent.advance(reward)
        turn.committed()  # nothing is kept here
        if turn.releases:
            self._released[agent.own] += [Charged(*released) for released in turn.releases]
        self.outcome.arm[agent.own, trial - 1] = arm
        self.outcome.reward[agent.own, trial - 1] = reward

    def _uniform(self, own: int, trial: int) -> float:
        block, place = divmod(trial - 1, _UNIFORMS_AT_ONCE)
        if place == 0 or not len(self._uniforms[own]):
            first = block * _UNIFORMS_AT_ONCE + 1
            self._uniforms[own] = uniforms(self.spec.seed, own, first, _UNIFORMS_AT_ONCE)
        return float(self._uniforms[own][place])

    def _rounds_of(self, own: int) -> Rounds[Frame]:
        """What an agent that starts knows of its neighbours: they are there."""
        rounds: Rounds[Frame] = Rounds(self.spec.network.neighbours[own], now_s=self.round)
        for neighbour in rounds.everybody:
            neighbour.standing = Standing.LIVE
        return rounds

    def _publish(self, sender: int, batches: Sequence[Batch]) -> None:
        neighbours = self.spec.network.neighbours[sender]
        incarnation, now = self.agents[sender].incarnation, self.round  # the daemon numbers frames like rounds, too
        frame = Frame(b"", sender, incarnation, now, now, 0, tuple(batches), self.spec.arms.count)
        self.rounds[sender].enter(now)
        size = encoded_bytes(frame)
        self.outcome.messages += frame.messages * len(neighbours)
        self.outcome.bytes = (self.outcome.bytes or 0) + size * len(neighbours)
        for receiver in neighbours:
            self._transport.send(frame, size, receiver, now)

    def _deliver(self) -> None:
        """Hand over what is due; a frame for an agent that is down is lost, as on a real PUB/SUB link."""
        inbox: dict[int, list[InFlight]] = {agent.own: [] for agent in self._running()}
        for flight in self._transport.arrivals(self.round):
            if flight.receiver in inbox:
                inbox[flight.receiver].append(flight)
        for receiver, flights in inbox.items():
            rounds = self.rounds[receiver]
            for flight in flights:
                rounds.hear(rounds[flight.frame.sender], flight.frame, flight.size)
            for flight in flights:
                rounds.returned(rounds[flight.frame.sender], self.round)
            rounds.wait(self.round, timeout_s=0)
            rounds.settle(self.round)
            rounds.tick(self.round)
            self.agents[receiver].receive(together(rounds.take(self.round), rounds.dropped), latest_trial=rounds.latest)


def run_agents(spec: RunSpec, faults: Faults = NO_FAULTS, stop: Callable[[], bool] = lambda: False) -> Outcome:
    """The whole run on the in-memory network, or what was made of it when it was asked to stop."""
    require_ids(spec.network.agents)
    return InMemoryNetwork(spec, faults).run(stop)
