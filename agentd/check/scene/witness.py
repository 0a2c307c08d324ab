"""Who sees everything that happens in a world, and says so at the first thing that must not happen.

exactly the γ-ball      a message never reaches anybody beyond γ hops; without faults everybody within, in time; with
                        delays only, everybody within; after faults, everybody within again
nothing counted twice   what an agent knows is a recount of what came (`recount`)
rewards are one's own   what goes in was paid for this trial of this agent
no trial reused         no pull counts twice, no reward goes in twice, no trial says two things (`spending`)
nothing noised twice, ledger ≥ what was sent, budget kept                                       (`spending`)
on disk before sent     what leaves is in the state that would survive the machine
life, quotas            a relay never has more life than its hops leave it; nobody honest is a flood, or wrong
memory bounded          every table has a size that follows from the terms
seats                   whoever shows another token is told nothing
patience                who is given up as too late has used up its budget
nobody excluded for good, nobody waits for ever, progress after healing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentd.check.oracle.reach import Reach
from agentd.check.oracle.recount import REFUSALS, Recount
from agentd.check.oracle.spending import Spending
from agentd.check.oracle.violation import Violation
from agentd.check.scene.fairness import Fairness
from agentd.core.agent import Agent, Turn
from agentd.core.message import Batch
from agentd.core.saved_state import SavedState
from agentd.environment.shared_bandit import Counted
from agentd.errors import AgentdError, ConfigurationError, StateUnusable
from agentd.shell.link import Link
from agentd.shell.state.reader import found
from agentd.wire.codec import decode_environment, decode_frame
from agentd.wire.environment_messages import Hello, Pull, Refused, Report
from agentd.wire.topics import FRAME_TOPIC

if TYPE_CHECKING:
    from agentd.check.scene.node import Node
    from agentd.check.scene.stage import Stage

__all__ = ["Violation", "Witness"]


class Witness:
    """The oracle of one world."""

    def __init__(self, stage: Stage) -> None:
        world = stage.world
        self._stage, self._world = stage, world
        self._trusts_all = not world.hostile and not world.bends
        self.reach = Reach(world)
        self.fairness = Fairness(stage)
        self.spending = {own: Spending(world.budget) for own in world.honest}
        self.recounts: dict[int, Recount] = {}
        self._pulled: set[tuple[int, int]] = set()
        self._rewards: dict[tuple[int, int], int] = {}
        self.seen: Counter[str] = Counter()
        """What happened, for the summary."""

    @property
    def patience_s(self) -> float:
        """When everybody must have come to the end."""
        return self.fairness.patience_s

    def fail(self, invariant: str, what: str | None, own: int | None = None) -> None:
        """End the world if something is wrong."""
        if what is not None:
            who = "" if own is None else f"agent {own}: "
            raise Violation(invariant, who + what, self._stage.timeline.now_s)

    def begins(self, node: Node, agent: Agent, saved: SavedState | None) -> None:
        """A life begins: from now on all that goes into its agent and comes out is seen."""
        own = node.own
        self.seen["lives"] += 1
        self.fail("nothing noised twice", self.spending[own].begins(agent, saved, node.lineage), own)
        self.recounts[own] = Recount(agent, self._world.algorithms[own], self._world)
        receive, advance = agent.receive, agent.advance

        def witnessed_receive(batches: Sequence[Batch], latest_trial: int) -> None:
            batches = list(batches)
            receive(batches, latest_trial)
            self._received(node, agent, batches, latest_trial)

        def witnessed_advance(reward: int) -> Turn:
            intent = agent.choose()
            paid = self._rewards.get((own, intent.trial))
            wrong = f"trial {intent.trial} was paid {paid}, and it takes {reward}" if paid != reward else None
            self.fail("rewards are one's own", wrong, own)
            turn = advance(reward)
            self.recounts[own].pulled(intent.arm)
            self.fail("no trial reused", self.spending[own].advances(agent, intent, turn, node.lineage), own)
            return turn

        agent.receive = witnessed_receive  # type: ignore[method-assign, assignment]
        agent.advance = witnessed_advance  # type: ignore[method-assign]

    def links(self, node: Node, link: Link) -> None:
        """Its rounds are about to begin."""
        self.fairness.watch(node, link)

    def _received(self, node: Node, agent: Agent, batches: list[Batch], latest: int) -> None:
        own, recount = node.own, self.recounts[node.own]
        assert node.link is not None  # noqa: S101 - who receives has a link
        round_ = node.link.round
        for batch in batches:
            for head in batch.head.tolist():
                self.fail("exactly the γ-ball", self.reach.received(own, head), own)
        recount.hear(batches, latest, round_, self._is_trusted)
        if not self._trusts_all:
            self._only_members(agent, own)
            if not self._world.bends:
                self.fail("nobody speaks for others", recount.misheld(), own)
            return
        self.fail("sums equal to a recount", recount.difference(), own)
        dropped = agent._checks.dropped
        refused = {reason: dropped[reason] for reason in REFUSALS if dropped[reason]}
        self.fail("nothing honest is refused", f"it dropped {refused}" if refused else None, own)

    def _is_trusted(self, origin: int) -> bool:
        return origin in self._stage.nodes

    def _only_members(self, agent: Agent, own: int) -> None:
        """Of whom anything is held."""
        rows = agent._origins._row_of
        strange = [origin for origin in (rows >= 0).nonzero()[0].tolist() if origin >= self._world.agents]
        self.fail("terms", f"it holds something of {strange[:5]}, who do not take part" if strange else None, own)

    def publishes(self, node: Node, part: bytes) -> None:
        """Something leaves an agent."""
        if not part.startswith(FRAME_TOPIC):
            return
        frame = decode_frame(part[len(FRAME_TOPIC) :])
        own, agent, spending = node.own, node.agent, self.spending[node.own]
        assert agent is not None  # noqa: S101 - who speaks has one
        self.fairness.speaks(node)
        for batch in frame.batches:
            for head, body in zip(batch.head.tolist(), batch.body.tolist(), strict=True):
                if head[0] != own:
                    if self._trusts_all:
                        self.fail("life", self.reach.relays(own, head), own)
                    continue
                trial = head[2]
                self.reach.says(own, head, body, frame.round, self._stage.timeline.now_s)
                self.fail("no trial reused", spending.says(head[1], trial, tuple(body)), own)
                if node.keeps_state and trial == agent.turn.trial:
                    self._is_on_disk(node, trial)
                self.fail("ledger and budget", spending.leaves(agent, trial, node.lineage), own)

    def _is_on_disk(self, node: Node, trial: int) -> None:
        held = found(node.disk.synced, Path("disk"))
        kept = -1 if held is None else held.saved.trial
        what = f"trial {trial} leaves, and the disk has {kept}" if kept < trial else None
        self.fail("on disk before sent", what, node.own)

    def counted(self, pulls: Sequence[Counted]) -> None:
        """The environment has counted pulls."""
        for agent, trial, _, reward in pulls:
            twice = (agent, trial) in self._pulled
            self.fail("no trial reused", f"trial {trial} of agent {agent} counts twice" if twice else None)
            self._pulled.add((agent, trial))
            self._rewards[agent, trial] = reward

    def answered(self, request: bytes, reply: bytes) -> None:
        """The environment has answered somebody."""
        asked = decode_environment(request)
        if not isinstance(asked, (Hello, Pull, Report)) or asked.agent not in self._stage.nodes:
            return
        if asked.token not in self._stage.nodes[asked.agent].all_tokens():
            answer: Any = decode_environment(reply)
            told = None if isinstance(answer, Refused) else f"{type(answer).__name__} of agent {asked.agent}'s seat"
            self.fail("seats", f"somebody without its token is told a {told}" if told else None)

    def leaves(self, node: Node) -> None:
        """An agent has ended in good order."""
        self.fairness.leaves(node.own)

    def ends(self, node: Node, fault: AgentdError) -> None:
        """An agent has ended by itself; whoever's fault that is, it is not that of its operator."""
        unusable = isinstance(fault, StateUnusable) and not node.is_old and not node.disk.is_full
        misled = isinstance(fault, ConfigurationError) and not isinstance(fault, StateUnusable)
        self.fail("nobody is sent away", f"ends with {fault}" if unusable or misled else None, node.own)

    def ends_again_and_again(self, node: Node) -> None:
        """A supervisor starts it over and over."""
        self.fail("progress after healing", f"ends again and again: {node.faults[-1:]}", node.own)

    def look(self) -> None:
        """At everybody, now and then."""
        for node in self._stage.nodes.values():
            if node.is_up and node.link is not None and node.agent is not None:
                for invariant, what in self.fairness.look(node, node.agent, node.link):
                    self.fail(invariant, what, node.own)

    def judge_the_end(self) -> None:
        """When the world is over: who has not come to the end, and whom what was said has not reached."""
        self.look()
        for own, node in self._stage.nodes.items():
            self.fail("progress after healing", self.fairness.left_behind(node), own)
        if self._world.bends:
            return  # a liar's changes may be refused, with the message
        for own, missing in self.reach.missing(self.recounts, self.fairness):
            self.fail("exactly the γ-ball", missing, own)
