"""Core agents over lines that take time: timeouts, restarts and partitions without sockets, and without waiting.

The in-memory network (`simulate.network`) moves in rounds and has no patience. Here every agent is in a round of its
own and waits for its neighbours as the daemon does: the same machine (`core.rounds`) is told of frames, greetings and
subscriptions at the times at which they arrive, and of the passing of time when it asked to be. Time is a number that
jumps from event to event, so an hour of timeouts takes as long as its frames take to handle, and the same seed gives
the same run to the last bit.

Lines are PUB/SUB links over TCP: in order, unless told otherwise; what is said to somebody who is not there is gone; a
queue that nobody reads loses what comes when it is full.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agentd.core.chance import Purpose, stream
from agentd.core.message import Batch
from agentd.core.rounds import Do, Neighbour, Rounds
from agentd.core.trust.lives import Life, Lives
from agentd.runs.arms import uniforms
from agentd.runs.spec import RunSpec
from agentd.simulation.network import make_agent
from agentd.wire.frame import GOODBYE, GREETING, Frame, together
from agentd.wire.size import encoded_bytes

QUEUE_FRAMES = 128
"""What a line holds that nobody reads: two of ZeroMQ's queues."""
LATE_FRAMES_AT_ONCE = 16
"""Frames taken at once from a neighbour that is not waited for."""
QUEUED_FRAMES = 192
"""The same by who may be behind."""

_SAYS = {
    Do.GIVE_UP: "gives up",
    Do.WELCOME: "has back",
    Do.GREET: "greets",
    Do.RECONNECT: "connects anew to",
    Do.RECONNECT_UNLESS_HEARD: "looks for",
    Do.SHUN: "shuns",
    Do.ACCUSE: "accuses",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in seconds."""

    timeout_s: float = 2.0
    """How long a round waits."""
    latency_s: float = 0.001
    work_s: float = 0.004
    """From a complete round to the next frame."""
    ready_s: float = 5.0
    """How long a starting agent waits for its neighbours."""
    rejoin_s: float = 1.0
    """The same for one that comes back."""
    word_s: float = 0.05
    """How old the environment's word is when it comes."""


USUAL = Timing()


@dataclass(slots=True)
class Weather:
    """What befalls every frame, by chance."""

    loss: float = 0.0
    duplication: float = 0.0
    jitter_s: float = 0.0
    """More latency, up to so much."""
    reorder: bool = False
    """Whether frames with less of it overtake others."""


class Node:
    """One agent, its rounds, and what lies in its lines."""

    def __init__(self, spec: RunSpec, own: int, now_s: float) -> None:
        self.agent = make_agent(spec, own, lives=Lives())
        self.neighbours = spec.network.neighbours[own]
        self.life = 0
        """Counts starts: what was set going in an earlier life is void."""
        self.longest_s = 0.0
        """The longest time between two frames of its own."""
        self.start(now_s)

    def start(self, now_s: float) -> None:
        """A process begins: nothing is known of the neighbours, nothing was said."""
        self.rounds: Rounds[Frame] = Rounds(self.neighbours, now_s=now_s)
        if self.agent.trial:
            self.rounds.enter(self.agent.trial)
            self.rounds.were_away()
        self.lines: dict[int, deque[tuple[Frame, int]]] = {peer: deque() for peer in self.neighbours}
        self.sequence, self.spoke_s = 0, now_s
        self.life += 1
        self.up, self.paused, self.started, self.waiting = True, False, False, False

    def stop(self) -> None:
        """It ends."""
        self.life += 1
        self.up = self.waiting = False


class TimedNetwork:
    """A running testbed whose clock is a number; `log` tells what the rounds decided, and when."""

    def __init__(self, spec: RunSpec, timing: Timing = USUAL) -> None:
        self.spec = spec
        self.timing = timing
        self.weather = Weather()
        self.now_s = 0.0
        self.log: list[tuple[float, int, str]] = []
        self.nodes = [Node(spec, own, 0.0) for own in range(spec.network.agents)]
        self._returned: list[Life] = []
        """Who came back without its state, and under which incarnation: what an environment tells everybody."""
        self.cuts: set[tuple[int, int]] = set()
        """Lines on which nothing gets through: (from, to)."""
        self.slow_s: dict[int, float] = {}
        """Agents whose frames take longer, and by how much."""
        self._chance = stream(spec.seed, Purpose.FAULT)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._arrived_s: dict[tuple[int, int], float] = {}
        self.has_word = True
        """Whether there is an environment that tells where the run is."""
        for own, node in enumerate(self.nodes):
            for peer in node.neighbours:
                self._subscription(peer, own, joined=True)
            self._start_late(node, timing.ready_s)

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        """Let something happen, then."""
        self._serial += 1
        heapq.heappush(self._events, (when_s, self._serial, event))

    def run(self, until_s: float) -> None:
        """Let time pass, and all that happens in it."""
        while self._events and self._events[0][0] <= until_s:
            when_s, _, event = heapq.heappop(self._events)
            self.now_s = max(self.now_s, when_s)
            event()
        self.now_s = until_s

    def kill(self, own: int) -> None:
        """An agent ends without a word; its connections break."""
        self._note(own, "is killed")
        self._end(own)

    def leave(self, own: int) -> None:
        """An agent is told to stop: it says goodbye."""
        self._note(own, "leaves")
        self._publish(self.nodes[own], [], flags=GOODBYE, leaves=True)
        self._end(own)

    def bring_back(self, own: int, *, keeps_state: bool = True) -> None:
        """Start it again."""
        self._note(own, "comes back" if keeps_state else "comes back without its state")
        node = self.nodes[own]
        if not keeps_state:  # the environment remembers the trials; the incarnation is named after those that are lost
            trial = node.agent.trial
            self._returned.append((own, trial))
            node.agent = make_agent(self.spec, own, incarnation=trial, trial=trial, lives=Lives(self._returned))
            for other in self.nodes:
                assert other.agent.lives is not None
                other.agent.lives.told(self._returned)
        node.start(self.now_s)
        if self.has_word:
            node.rounds.where.told(self.run_round())
        for peer in node.neighbours:
            self._subscription(peer, own, joined=True)
            self._subscription(own, peer, joined=True)
        self._start_late(node, self.timing.rejoin_s)

    def pause(self, own: int) -> None:
        """Stop the process; what is said to it waits in its lines."""
        self._note(own, "is paused")
        self.nodes[own].paused = True

    def resume(self, own: int) -> None:
        """Let it go on."""
        self._note(own, "goes on")
        self.nodes[own].paused = False
        self._wake(self.nodes[own])

    def say(self, sender: int, receiver: int, frame: Frame) -> None:
        """Put a frame on the line between two agents."""
        here, there = self.nodes[sender], self.nodes[receiver]
        if (sender, receiver) in self.cuts or self._chance_of(self.weather.loss):
            return
        for _ in range(2 if self._chance_of(self.weather.duplication) else 1):
            when_s = self.now_s + self.timing.latency_s + self.slow_s.get(sender, 0.0)
            if self.weather.jitter_s:
                when_s += self.weather.jitter_s * self._chance.random()
            if not self.weather.reorder:
                when_s = max(when_s, self._arrived_s.get((sender, receiver), 0.0))
                self._arrived_s[sender, receiver] = when_s
            self._later(there, when_s, lambda: self._arrive(there, here.agent.own, frame))

    def _end(self, own: int) -> None:
        self.nodes[own].stop()
        for peer in self.nodes[own].neighbours:
            self._subscription(peer, own, joined=False)

    def _chance_of(self, share: float) -> bool:
        return bool(share) and self._chance.random() < share

    def _note(self, own: int, what: str) -> None:
        self.log.append((self.now_s, own, what))

    def _later(self, node: Node, when_s: float, event: Callable[[], None]) -> None:
        """Let something happen to a node, unless its life ends before."""
        life = node.life
        self.at(when_s, lambda: event() if node.life == life else None)

    def _start_late(self, node: Node, patience_s: float) -> None:
        self._later(node, self.now_s + patience_s, lambda: self._start(node, late=True))

    def _subscription(self, own: int, subscriber: int, *, joined: bool) -> None:
        """Let an agent see that another hears it, or does no more."""
        node, other = self.nodes[own], self.nodes[subscriber]

        def seen() -> None:
            if node.paused:
                self._later(node, self.now_s + self.timing.work_s, seen)
            elif node.up and other.up == joined and (own, subscriber) not in self.cuts:
                node.rounds.subscription(subscriber, joined=joined, now_s=self.now_s)
                self._carry_out(node)

        self._later(node, self.now_s + self.timing.latency_s, seen)

    def _arrive(self, node: Node, sender: int, frame: Frame) -> None:
        if len(node.lines[sender]) < QUEUE_FRAMES:
            node.lines[sender].append((frame, encoded_bytes(frame)))
        self._wake(node)

    def _wake(self, node: Node) -> None:
        """Look at what came."""
        if not node.up or node.paused:
            return
        if node.waiting:
            self._wait(node)
        elif not node.started:
            self._start(node, late=False)

    def _start(self, node: Node, *, late: bool) -> None:
        """Begin the rounds, if every neighbour was heard and hears us, or if it is too late to wait for them."""
        if node.started:
            return
        for neighbour in node.rounds.missing:
            line = node.lines[neighbour.id]
            if line and line[0][0].greeting:
                node.rounds.greeted(neighbour, line.popleft()[0])
            elif line:
                neighbour.speaks()
        if (missing := node.rounds.missing) and not late:
            return
        if missing:
            self._note(node.agent.own, f"begins without {_names(missing)}")
        node.rounds.begin_without(missing)
        node.started = True
        self._begin(node)

    def _begin(self, node: Node) -> None:
        """One trial: pull, publish, wait."""
        if node.paused:
            self._later(node, self.now_s + self.timing.work_s, lambda: self._begin(node))
            return
        agent = node.agent
        if agent.trial >= self.spec.rounds:
            return
        self._listen(node)
        trial, arm, *_ = agent.choose()
        turn = agent.advance(self.spec.arms.deal_one(arm, float(uniforms(self.spec.seed, agent.own, trial, 1)[0])))
        turn.committed()  # nothing is kept here
        last = agent.trial == self.spec.rounds
        self._publish(node, turn.outbox(), flags=GOODBYE if last else 0)
        if last:
            return
        ordinary = node.rounds.wait(self.now_s, self.timing.timeout_s)
        node.rounds._lateness.look_closely()  # time is exact here
        if not ordinary:
            for neighbour in node.rounds.down:
                if self._hear(node, neighbour, LATE_FRAMES_AT_ONCE):
                    node.rounds.returned(neighbour, self.now_s)
            node.rounds.settle(self.now_s)
        node.waiting = True
        self._wait(node)

    def _publish(self, node: Node, batches: list[Batch], *, flags: int, leaves: bool = False) -> None:
        next_round = node.rounds.next_round
        if node.rounds.may_be_behind:
            self._catch_up(node)
            next_round = node.rounds.looked_around()
        node.rounds.enter(node.rounds.round if leaves else next_round)
        node.sequence += 1
        node.longest_s, node.spoke_s = max(node.longest_s, self.now_s - node.spoke_s), self.now_s
        frame = self._frame(node, flags, batches)
        for peer in node.neighbours:
            self.say(node.agent.own, peer, frame)

    def _frame(self, node: Node, flags: int, batches: list[Batch]) -> Frame:
        agent = node.agent
        arms = self.spec.arms.count
        return Frame(b"", agent.own, agent.incarnation, node.sequence, node.rounds.round, flags, tuple(batches), arms)

    def _catch_up(self, node: Node) -> None:
        """Look at all that lies ready."""
        for neighbour in node.rounds.everybody:
            line, heard = node.lines[neighbour.id], 0
            while line and heard < QUEUED_FRAMES:
                heard += 1
                node.rounds.hear(neighbour, *line.popleft(), newest=True)
            if heard:
                node.rounds.returned(neighbour, self.now_s)

    def _listen(self, node: Node) -> None:
        """The environment's word, for who asks: the round that a quarter of all have reached, a little later."""
        where = node.rounds.where
        if where.ask and self.has_word:
            where.ask = False
            told = self.run_round()
            self._later(node, self.now_s + self.timing.word_s, lambda: where.told(told))

    def run_round(self) -> int:
        """The largest round that a quarter of those that are up have reached, and two at least."""
        reached = sorted([node.rounds.round for node in self.nodes if node.up and not node.paused], reverse=True)
        return reached[min(len(reached), max(2, -(-len(reached) // 4))) - 1] if reached else 0

    def _hear(self, node: Node, neighbour: Neighbour[Frame], most: int) -> int:
        """Hand the machine what lies in a line; how many frames that was."""
        line, heard = node.lines[neighbour.id], 0
        while line and heard < most and neighbour.held is None:
            heard += 1
            node.rounds.hear(neighbour, *line.popleft())
        return heard

    def _wait(self, node: Node) -> None:
        """One frame of each that is waited for, as the link reads them, until nothing is left to read."""
        rounds = node.rounds
        while rounds.waiting:
            heard = sum([self._hear(node, neighbour, 1) for neighbour in rounds.waiting])
            rounds.tick(self.now_s)
            if not heard:
                break
        self._carry_out(node)
        if rounds.waiting:
            self._later(node, rounds.next_s, lambda: self._wake(node))
            return
        node.waiting = False
        node.agent.receive(together(rounds.take(self.now_s), rounds.dropped), latest_trial=rounds.latest)
        self._later(node, self.now_s + self.timing.work_s, lambda: self._begin(node))

    def _carry_out(self, node: Node) -> None:
        """Note what the machine orders, and do it."""
        orders = node.rounds.take_orders()
        node.rounds.take_accusations()  # the orders say whom people are told of
        for do in Do:
            whom = [number for what, number in orders if what is do]
            if whom:
                self._note(node.agent.own, f"{_SAYS[do]} {' '.join(map(str, whom))}")
            for number in whom:
                if do is Do.GREET:
                    self.say(node.agent.own, number, self._frame(node, GREETING, []))
                elif do is Do.RECONNECT or (do is Do.RECONNECT_UNLESS_HEARD and not node.lines[number]):
                    self._subscription(number, node.agent.own, joined=True)


def _names(neighbours: list[Neighbour[Frame]]) -> str:
    return " ".join(str(neighbour.id) for neighbour in neighbours)
