"""A world is played: agents, lines, disks and the environment put together, and every fault at its time.

The agents are the daemon as it is shipped (`node`), the environment is the service as it is shipped but for its sockets
(`hosted_environment`). Between them go bytes. `witness` sees all that is said, heard, pulled and written down, and ends
the world at the first thing that must not be.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agentd.check.scene.fibers import Timeline
from agentd.check.scene.hosted_environment import HostedEnvironment
from agentd.check.scene.hostile import Hostile
from agentd.check.scene.hostile_host import HostileHost
from agentd.check.scene.lines import Wires
from agentd.check.scene.node import Node
from agentd.check.scene.shared_process import HostedNode, SharedProcess
from agentd.check.scene.story import Story
from agentd.check.scene.witness import Violation, Witness
from agentd.check.world import Fault, World
from agentd.core.terms import BEACON_BYTES, RUN_BYTES, Clock, Terms
from agentd.environment.run_terms import RunTerms
from agentd.runs.agreed_terms import policy_terms
from agentd.runs.arms import Arms
from agentd.runs.seats import seat_hash

LOOK_EVERY_S = 0.5
"""How often the witness looks at everybody, beside all that it is told."""


class Stage:
    """One world while it is played."""

    def __init__(self, world: World, place: Path) -> None:
        self.world = world
        self.timeline = Timeline()
        self.healed_s = world.heals_s
        """When the last fault is over; who dies at some place in its work does so when it comes there."""
        self.story = Story(lambda: self.timeline.now_s)
        self.terms = terms_of_world(world)
        self.wires = Wires(self.timeline, random.Random(f"{world.seed} wires"), world.latency_s, world.jitter_s)
        terms = RunTerms(agreed=self.terms, seed=world.seed, arms=Arms(world.means), started_ms=self.terms.start_ms)
        self.environment = HostedEnvironment(terms, place, self.timeline, self.story)
        self.environment.latency_s = world.work_s / 2
        self.witness = Witness(self)
        strangers = dict(world.hostile)
        self.processes = {
            number: SharedProcess(self, number, agents)
            for number, agents in enumerate(world.hosts)
            if strangers.keys().isdisjoint(agents)
        }
        """Where agents share them."""
        self.nodes = {own: self._node(own) for own in world.honest}
        self.hostile = [self._stranger(own) for own in strangers]

    def place_of(self, agent: int) -> int:
        """Where the lines of an agent begin: the number of its host, or its own."""
        return self.world.host_of(agent)

    def _node(self, own: int) -> Node:
        return HostedNode(self, own, self.processes[self.place_of(own)]) if self.processes else Node(self, own)

    def _stranger(self, own: int) -> Hostile:
        lines: Wires | HostileHost = self.wires
        if self.processes:
            lines = HostileHost(self.world, self.wires, self.place_of(own))
        hostile = Hostile(self.world, own, self.terms.run, lines, self.environment)
        if isinstance(lines, HostileHost):
            lines.hostile = hostile
        else:
            lines.ends[own] = hostile
        return hostile

    def play(self) -> Witness:
        """To the end; Violation where something happens that must not."""
        timeline, environment = self.timeline, self.environment
        environment.on_death = self.come_back
        environment.counted, environment.judge = self.witness.counted, self.witness.answered
        self._reserve_seats()
        for hostile in self.hostile:
            if isinstance(hostile._wires, HostileHost):
                hostile._wires.start()
            hostile.start()
        for node in self.nodes.values():
            node.start()
        for fault in self.world.faults:
            timeline.at(fault.at_s, partial(self._strike, fault))
        timeline.at(LOOK_EVERY_S, self._look)
        timeline.is_over = self._is_over
        try:
            timeline.run()
            self.witness.judge_the_end()
        finally:
            environment.close()
        return self.witness

    def later(self, seconds: float, event: Callable[[], None]) -> None:
        """Let something happen in a while."""
        self.timeline.at(self.timeline.now_s + seconds, event)

    def come_back(self, away_s: float, start: Callable[[], None]) -> None:
        """Let somebody who died start again; all is well after that at the earliest."""
        self.healed_s = max(self.healed_s, self.timeline.now_s + away_s)
        self.later(away_s, start)

    def release_seat(self, node: Node) -> bool:
        """What the operator does for an agent whose token is gone, if the environment is there; then it has another."""
        environment = self.environment
        if not environment.is_up or environment.paused_until_s > self.timeline.now_s:
            return False
        environment.bandit.free(node.own)
        environment.server._save()
        node.tokens += 1
        node.needs_seat = False
        return True

    def is_done(self, agent: int) -> bool:
        """Whether an agent is done, or none."""
        return agent not in self.nodes or self.nodes[agent].is_done

    def _reserve_seats(self) -> None:
        """What a launcher does: nobody else can take a seat before its agent."""
        seating, run = self.environment.bandit.seating, self.terms.run
        seating.reserve({own: seat_hash(run, own, node.token) for own, node in self.nodes.items()})
        self.environment.server._save()

    def _is_over(self) -> bool:
        if self.timeline.now_s > self.witness.patience_s:
            return True
        return all(node.is_done for node in self.nodes.values())

    def _look(self) -> None:
        self.witness.look()
        self.later(LOOK_EVERY_S, self._look)

    def _strike(self, fault: Fault) -> None:
        """Let a fault begin, and end when its time is over."""
        self.story.tell(
            "world", f"{fault.kind} {fault.how} {fault.agents or ''} {fault.amount or ''} for {fault.for_s:g} s"
        )
        _FAULTS[fault.kind](self, fault)

    def _weather(self, fault: Fault) -> None:
        name = {"loss": "loss", "duplication": "duplication", "reordering": "reordering_s"}[fault.kind]
        setattr(self.wires.weather, name, fault.amount)
        self.later(fault.for_s, lambda: setattr(self.wires.weather, name, 0.0))

    def _cut(self, fault: Fault) -> None:
        lines, stalls = self._across(fault), fault.kind == "stall"
        apart = self.wires.stalls if stalls else self.wires.cuts
        apart.update(lines)

        def heal() -> None:
            apart.subtract(lines)
            for line in lines:
                if stalls and not apart[line]:
                    self.wires.flow(line)

        self.later(fault.for_s, heal)

    def _across(self, fault: Fault) -> list[tuple[int, int]]:
        """The lines, both ways, between those named and the others; with `how`, out of them only."""
        inside = set(fault.agents)
        out = [self._line(a, b) for a, b in _both_ways(self.world) if a in inside and b not in inside]
        out = [(a, b) for a, b in out if a != b]  # within a process nothing is ever cut
        return out if fault.how == "one-way" else out + [(b, a) for a, b in out]

    def _line(self, speaker: int, listener: int) -> tuple[int, int]:
        return self.place_of(speaker), self.place_of(listener)

    def _slow(self, fault: Fault) -> None:
        for agent in fault.agents:
            place = self.place_of(agent)
            self.wires.slow_s[place] = fault.amount
            self.later(fault.for_s, partial(self.wires.slow_s.__setitem__, place, 0.0))

    def _slow_line(self, fault: Fault) -> None:
        line = self._line(fault.agents[0], fault.agents[1])
        self.wires.slow_lines_s[line] = fault.amount
        self.later(fault.for_s, partial(self.wires.slow_lines_s.__setitem__, line, 0.0))

    def _pause(self, fault: Fault) -> None:
        for node in self._named(fault):
            node.pause(fault.ends_s)

    def _crash(self, fault: Fault) -> None:
        """At once, or at the next place in its work that the fault names."""
        for node in self._named(fault):
            edge, _, left = fault.how.partition("/")
            node.death = fault.for_s, left or "kept"
            if edge == "anywhere":
                node.die()
            elif node.is_up:
                node.dies_at = edge

    def _restore(self, fault: Fault) -> None:
        for node in self._named(fault):
            if node.is_up and node.keeps_state:
                node.death = fault.for_s, "kept"
                node.die()
                node.disk.restore(int(fault.amount))
                node.is_old = True

    def _stop(self, fault: Fault) -> None:
        for node in self._named(fault):
            if node.is_up:
                node.death = fault.for_s, "kept"
                node.drain()

    def _slow_disk(self, fault: Fault) -> None:
        for node in self._named(fault):
            node.disk.sync_s = fault.amount
            self.later(fault.for_s, partial(setattr, node.disk, "sync_s", self.world.sync_s))

    def _full_disk(self, fault: Fault) -> None:
        for node in self._named(fault):
            node.disk.is_full = True
            self.later(fault.for_s, partial(setattr, node.disk, "is_full", False))

    def _environment(self, fault: Fault) -> None:
        environment = self.environment
        environment.away_s = fault.for_s
        if fault.how == "at once":
            environment.stop()
        else:
            environment.dies_at = fault.how

    def _environment_pause(self, fault: Fault) -> None:
        self.environment.paused_until_s = fault.ends_s

    def _environment_disk(self, fault: Fault) -> None:
        self.environment.is_full = True
        self.later(fault.for_s, lambda: setattr(self.environment, "is_full", False))

    def _named(self, fault: Fault) -> list[Node]:
        return [self.nodes[agent] for agent in fault.agents if agent in self.nodes]


_FAULTS: dict[str, Callable[[Stage, Fault], None]] = {
    "loss": Stage._weather,
    "duplication": Stage._weather,
    "reordering": Stage._weather,
    "cut": Stage._cut,
    "stall": Stage._cut,
    "slow": Stage._slow,
    "slow-line": Stage._slow_line,
    "pause": Stage._pause,
    "crash": Stage._crash,
    "restore": Stage._restore,
    "stop": Stage._stop,
    "slow-disk": Stage._slow_disk,
    "full-disk": Stage._full_disk,
    "environment": Stage._environment,
    "environment-pause": Stage._environment_pause,
    "environment-disk": Stage._environment_disk,
}
KINDS = tuple(_FAULTS)
"""What can happen."""


def _both_ways(world: World) -> list[tuple[int, int]]:
    return [*world.edges, *((b, a) for a, b in world.edges)]


def terms_of_world(world: World) -> Terms:
    """What its agents agree on."""
    free = world.clock == "free"
    return Terms(
        arms=len(world.means),
        lifetime=world.gamma,
        run=random.Random(f"{world.seed} run").randbytes(RUN_BYTES),
        horizon=world.rounds,
        clock=Clock.FREE if free else Clock.LOCKSTEP,
        interval_us=round(world.interval_s * 1e6) if free else 0,
        start_ms=1 if free else 0,
        beacon=bytes(BEACON_BYTES),
        policies=policy_terms(dict(enumerate(world.algorithms)), world.epsilon, 1.1),
    )


def play(world: World, place: Path) -> Violation | None:
    """Play a world in an empty directory; what was wrong in it, if anything."""
    stage = Stage(world, place)
    try:
        stage.play()
    except Violation as found:
        violation = found
    except Exception as fault:
        where = traceback.extract_tb(fault.__traceback__)[-1]
        what = f"{type(fault).__name__}: {fault} ({Path(where.filename).name}:{where.lineno})"
        violation = Violation("no exception but those foreseen", what, stage.timeline.now_s)
    else:
        return None
    violation.story = stage.story.text()
    return violation
