"""An agent that is off-line for long learns alone; on return both sides have all that was released meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import complete, line, spec

from agentd.core.agent import Agent
from agentd.core.gossip import WINDOW
from agentd.core.message import Batch
from agentd.runs.arms import uniforms
from agentd.runs.spec import RunSpec
from agentd.simulation.network import make_agent

MINUTES = 3 * WINDOW
"""Trials of a cut: longer than anything is remembered by its trial."""


class Company:
    """Agents that pull at the same pace, each on its own, and hear each other unless a link is cut."""

    def __init__(self, run: RunSpec) -> None:
        self.run = run
        self.agents: list[Agent] = [make_agent(run, own) for own in range(run.network.agents)]
        self.cut: set[frozenset[int]] = set()
        self.most_sent = 0
        """Messages in the longest frame."""

    def play(self, trials: int) -> None:
        for _ in range(trials):
            said = [self._pull(agent) for agent in self.agents]
            for own, agent in enumerate(self.agents):
                links = (peer for peer in self.run.network.neighbours[own] if frozenset((own, peer)) not in self.cut)
                agent.receive([batch for peer in links for batch in said[peer]])

    def _pull(self, agent: Agent) -> tuple[Batch, ...]:
        intent = agent.decide()
        agent.draw()
        u = uniforms(self.run.seed, agent.own, intent.trial, 1)
        turn = agent.advance(self.run.arms.deal_one(intent.arm, float(u[0])))
        turn.committed()
        out = tuple(turn.outbox())
        self.most_sent = max(self.most_sent, sum(len(batch) for batch in out))
        return out

    def released(self, own: int) -> list[int]:
        """Pulls of each arm that an agent has released."""
        return [record.pulls for record in self.agents[own].policy._own]  # type: ignore[attr-defined]

    def held(self, own: int) -> set[tuple[int, ...]]:
        """Of each origin that an agent has heard of: pulls of each arm that it knows to be released."""
        pulls = self.agents[own].policy._pool.held[:, :, 0]  # type: ignore[attr-defined]
        return {tuple(row) for row in pulls.tolist() if any(row)}


@pytest.mark.parametrize("network", [line(3), complete(4)])
def test_what_was_released_off_line_reaches_everybody_after_the_return(network: object) -> None:
    run = spec(network, "sealed", rounds=4 * MINUTES, gamma=2, means=(0.6, 0.5, 0.4), seed=7)  # type: ignore[arg-type]
    company = Company(run)
    company.play(50)
    last = len(company.agents) - 1
    company.cut = {frozenset((last, peer)) for peer in run.network.neighbours[last]}
    before = company.released(last)
    company.play(MINUTES)
    alone = company.released(last)
    assert sum(alone) > sum(before), "it learned, and released, alone"
    assert not any(tuple(alone) in company.held(own) for own in range(last))
    company.cut = set()
    company.play(run.policy.refresh // 2)
    for own in range(len(company.agents)):
        others = {tuple(company.released(peer)) for peer in range(len(company.agents)) if peer != own}
        known = np.array(sorted(company.held(own)))
        behind = [peer for peer in others if not (known >= 0.9 * np.array(peer)).all(axis=1).any()]
        assert not behind, f"agent {own} has not heard all of {behind}"
    assert company.most_sent <= 2 * 3 * len(company.agents), "what is told again comes little by little"
