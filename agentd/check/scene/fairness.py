"""Who is waited for, who waits, and how much anybody keeps: what must hold of rounds whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentd.core.agent import Agent
from agentd.core.rounds import Neighbour, Standing
from agentd.core.trust.blame import Why
from agentd.shell.link import Link

if TYPE_CHECKING:
    from agentd.check.scene.node import Node
    from agentd.check.scene.stage import Stage

APART_S = 8.0
"""How long after all faults two agents may go on without each other, beside some rounds and timeouts."""
SILENT_S = 12.0
"""How long an agent may say nothing then: it asks the environment every eight seconds at worst."""
END_S = 30.0
NATURAL_ROUNDS = 10
"""How much longer than by nature the rest of the run may take then, beside `END_S`."""
REFILL = 0.2
"""What a timely round gives back of a budget of lateness, in natural rounds."""
LATENESS_TIMEOUTS = 1.5
DOUBT, LEAST = 0.4, 0.02
"""How much of what the oracle's own account of lateness has left must be used up, and how much of a full one never
matters: it knows only the rounds that were looked at."""


class Fairness:
    """What rounds are held against."""

    def __init__(self, stage: Stage) -> None:
        world = stage.world
        self._stage, self._world = stage, world
        shared = max([len(host) for host in world.hosts], default=1)  # one disk after the other
        pull_s = world.work_s + 2 * shared * world.sync_s + 2 * world.latency_s + 2 * world.jitter_s
        self._natural_s = pull_s if world.clock == "lockstep" else max(pull_s, world.interval_s)
        slow_s = sum(
            [f.amount or f.for_s for f in world.faults if f.kind in ("slow", "slow-line", "reordering", "stall")]
        )
        self.line_s = world.latency_s + world.jitter_s + slow_s
        """What anything takes on a line, at most."""
        self.longest_s = 0.0
        """The longest round since everybody is together."""
        self.longest_ever_s = 0.0
        self.together_s = 0.0
        """Since when everybody has waited for all its neighbours."""
        self.first_end_s = float("inf")
        """When the first agent had nothing more to hear."""
        self._began_s: dict[int, float] = {}
        self._spoke_s: dict[int, float] = {}
        self._well: dict[int, bool] = {}
        """Whether each was with all its neighbours when it last spoke."""
        self._apart_s: dict[tuple[int, int], float] = {}

    @property
    def patience_s(self) -> float:
        world = self._world
        hostile = len(world.hostile) * 20 * world.timeout_s
        timeouts = 8 * world.timeout_s * (1 + len(world.faults))
        return self._stage.healed_s + END_S + NATURAL_ROUNDS * world.rounds * self._natural_s + timeouts + hostile

    @property
    def well_since_s(self) -> float:
        """Since when there was no fault any more, and everybody together."""
        return max(self.together_s, self._stage.healed_s)

    @property
    def nothing_is_lost(self) -> bool:
        """Whether all that was ever said came, to those who heard it before."""
        stage = self._stage
        return not self._world.hostile and not stage.wires.lost and all(n.lives == 1 for n in stage.nodes.values())

    def speaks(self, node: Node) -> None:
        """An agent says its frame of a round."""
        now_s = self._stage.timeline.now_s
        assert node.link is not None  # noqa: S101
        apart = [n for n in node.link.rounds.everybody if n.standing is not Standing.LIVE and self._goes_on(n.id)]
        well = not apart and self._knows_all_lives(node) and now_s > self._stage.healed_s
        was_well, self._well[node.own] = self._well.get(node.own, True), well
        took_s = now_s - self._spoke_s.get(node.own, self._first_round_s(node.own, now_s))
        self.longest_ever_s = max(self.longest_ever_s, took_s)
        if not (well and was_well):
            self.together_s, self.longest_s = now_s, 0.0
        else:
            self.longest_s = max(self.longest_s, took_s)
        self._spoke_s[node.own] = now_s

    def _first_round_s(self, own: int, now_s: float) -> float:
        """Since when a first round counts: from its start, if it lasted until others had nothing more to hear."""
        return self._began_s[own] if self.first_end_s < now_s else now_s

    def _knows_all_lives(self, node: Node) -> bool:
        """Whether the environment has told it in which life everybody is; before that, what they say is refused."""
        lives = node.agent.lives if node.agent is not None else None
        others = [other.agent for other in self._stage.nodes.values() if other.agent is not None]
        return lives is not None and all(lives.of(other.own) == other.incarnation for other in others)

    def _goes_on(self, own: int) -> bool:
        node = self._stage.nodes.get(own)
        return node is not None and not node.is_done

    def leaves(self, own: int) -> None:
        """An agent has ended in good order: since its last frame it had nothing to choose and has not listened."""
        self.first_end_s = min(self.first_end_s, self._spoke_s.get(own, self._stage.timeline.now_s))

    def left_behind(self, node: Node) -> str | None:
        """What is wrong with where an agent is when time is up."""
        if node.is_done:
            return None
        trial = node.agent.trial if node.agent is not None else 0
        why = f"; it ended with {node.faults[-1]}" if node.faults else ""
        return f"is at trial {trial} of {self._world.rounds}, {self._stage.timeline.now_s:.0f} s after the start{why}"

    def watch(self, node: Node, link: Link) -> None:
        """Follow whom the rounds of one life take for late, with an account of one's own."""
        self._began_s[node.own] = self._stage.timeline.now_s
        if node.lives > 1:  # who comes back before it ever spoke, and waits for others, passes nothing on meanwhile
            self._spoke_s.setdefault(node.own, self._stage.timeline.now_s)
        rounds: Any = link.rounds
        patience, lateness = rounds._patience, rounds._lateness
        spent: dict[int, tuple[float, int]] = {}
        """Of each what was left after it was late last, and how many rounds there were since."""
        end, suspect = lateness.end, patience.suspect

        def left_s(number: int) -> float:
            full_s = LATENESS_TIMEOUTS * lateness.timeout_s
            before_s, rounds_since = spent.get(number, (full_s, 0))
            return float(min(full_s, before_s + rounds_since * REFILL * lateness.natural_s))

        def witnessed_end(came_s: dict[int, float], half_s: float | None, now_s: float) -> None:
            end(came_s, half_s, now_s)
            if half_s is None:
                return
            for number, (before_s, rounds_since) in spent.items():
                spent[number] = before_s, rounds_since + 1
            for number, when_s in came_s.items():
                charge_s = when_s - half_s - lateness.natural_s
                if charge_s > 0:
                    spent[number] = max(0.0, left_s(number) - charge_s), 0

        def witnessed_suspect(neighbour: Neighbour[Any], now_s: float, turn: int) -> None:
            half_s, left = patience.half_s([neighbour]), left_s(neighbour.id)
            late_s = now_s - (lateness.began_s if half_s is None else half_s) - lateness.natural_s
            if late_s < DOUBT * left - LEAST * LATENESS_TIMEOUTS * lateness.timeout_s:
                what = f"goes on without {neighbour.id}, which is late by {late_s:.3f} s and has {left:.3f} s left"
                self._stage.witness.fail("patience", what, node.own)
            suspect(neighbour, now_s, turn)

        lateness.end, patience.suspect = witnessed_end, witnessed_suspect

    def look(self, node: Node, agent: Agent, link: Link) -> Iterator[tuple[str, str | None]]:
        """What is wrong with one agent, now."""
        yield "quotas", self._blamed(link)
        yield "memory bounded", self._too_much(node, agent, link)
        now_s, world = self._stage.timeline.now_s, self._world
        timeouts = 4 * world.timeout_s * (1 + len(world.hostile))
        healed_s = now_s - self._stage.healed_s
        assert node.fiber is not None  # noqa: S101 - it is up
        since_s = min(healed_s, now_s - max(node.spoke_s, node.fiber.paused_until_s))
        if since_s > SILENT_S + timeouts:
            yield "nobody waits for ever", f"has said nothing for {since_s:.1f} s"
        for neighbour in link.rounds.everybody:
            yield "nobody excluded for good", self._excluded(node, neighbour, APART_S + timeouts + 60 * self._natural_s)

    def _excluded(self, node: Node, neighbour: Neighbour[Any], most_s: float) -> str | None:
        """Whether rounds go on without an honest neighbour that is there, for too long after all faults."""
        pair, now_s = (node.own, neighbour.id), self._stage.timeline.now_s
        other = self._stage.nodes.get(neighbour.id)
        together = other is None or not other.is_up or other.is_done or other.link is None or node.lives > 40
        if together or neighbour.standing <= Standing.LIVE or now_s <= self._stage.healed_s:
            self._apart_s.pop(pair, None)
            return None
        since_s = now_s - self._apart_s.setdefault(pair, now_s)
        if since_s <= most_s:
            return None
        return f"has gone on without {neighbour.id} ({neighbour.standing.name}) for {since_s:.1f} s"

    def _blamed(self, link: Link) -> str | None:
        honest = self._stage.nodes
        wrong = [b for b in link.blames if b.neighbour in honest and b.why is not Why.SLOW]
        return f"blames honest neighbours: {wrong}" if wrong else None

    def _too_much(self, node: Node, agent: Agent, link: Link) -> str | None:
        world, rounds, gossip = self._world, link.rounds, agent._gossip
        assert node.end is not None  # noqa: S101 - it is up
        machine: Any = rounds
        most = world.agents * (world.window + 2 * world.gamma + 8)
        sizes = {
            "origins": (len(agent._origins), world.agents),
            "relays": (gossip._queued, 4 * most),
            "ring": (gossip._ring.size, (world.window + 1) * (2 * world.agents + 16)),
            "latecomers": (len(gossip._latecomers), 4 * world.agents * (len(world.means) + 1)),
            "frames of a round": (len(machine._frames), 200 * len(node.neighbours)),
            "orders": (len(rounds.orders), 64 * len(node.neighbours)),
            "suspects": (len(machine._patience._suspects), len(node.neighbours)),
            "claims": (len(machine._intake._claims), len(node.neighbours)),
            "seats": (len(self._stage.environment.bandit.seats), world.agents),
        }
        sizes |= node.host_sizes()
        beyond = {name: size for name, (size, bound) in sizes.items() if size > bound}
        return f"{beyond} are more than the terms account for" if beyond else None
