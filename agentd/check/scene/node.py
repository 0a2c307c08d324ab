"""One agent of a world over all its lives: the daemon itself, on lines, a disk and an environment made of memory.

A life is a process: `shell.attendance.attending.attend` in a fiber. What the daemon does around it (a supervisor that
starts it again, an operator who moves a state away that cannot be used) is done here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from agentd.check.scene.fibers import Fiber, Killed
from agentd.check.scene.lines import MemoryEnd
from agentd.check.scene.memory_client import MemoryClient
from agentd.check.scene.simulated_disk import SimulatedDisk
from agentd.core.agent import Agent
from agentd.core.lies import Attack
from agentd.core.message import TOKEN_BYTES
from agentd.core.policy import ALGORITHMS
from agentd.core.privacy.laplace import SeededLaplace
from agentd.core.saved_state import SavedState
from agentd.errors import AgentdError, BudgetExhausted, LinkError, StateUnusable
from agentd.settings import AgentSettings
from agentd.shell.attendance.agent_making import agent_of
from agentd.shell.attendance.attending import OpeningTransport, attend
from agentd.shell.environment_client import EnvironmentClient, RunOver
from agentd.shell.health import Health
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import StateKeeper, state_identity
from agentd.wire.environment_messages import Welcome

if TYPE_CHECKING:
    from agentd.check.scene.stage import Stage

BACK_S = 0.3
"""How soon a supervisor starts an agent again that ended by itself."""
MOST_STARTS = 60
READY_S = 5.0


class NodeEnd(OpeningTransport, Protocol):
    """The transport of one life of an agent."""

    is_up: bool


class Node:
    """An agent, its disk, its seat and its clock."""

    def __init__(self, stage: Stage, own: int) -> None:
        world = stage.world
        self.stage, self.own = stage, own
        self.settings = settings_of(stage, own)
        self._log = stage.story.log(f"agent {own}")
        self.neighbours = world.neighbours(own)
        self.disk = SimulatedDisk(random.Random(f"{world.seed} disk {own}"))
        self.disk.sync_s = world.sync_s
        self.disk.waits = self._waits
        self.disk.passes = self.passes
        self.keeps_state = own in world.states
        self.rate = 1.0 + (world.skews[own] if world.skews else 0.0)
        self.agent: Agent | None = None
        self.link: Link | None = None
        self.end: NodeEnd | None = None
        self.fiber: Fiber | None = None
        self.stop = asyncio.Event()
        self.lives = self.tokens = 0
        self._tokens: list[bytes] = []
        self.lineage = 0
        """Counts states: one that was lost is another's."""
        self.is_done = self.is_up = False
        self.dies_at = ""
        """At which place in its work it dies next."""
        self.death: tuple[float, str] = (0.0, "kept")
        """For how long it is away then, and what is left of its state."""
        self.faults: list[str] = []
        """Why it ended by itself, each time."""
        self.spoke_s = 0.0
        self.needs_seat = False
        """Whether the secret of its seat is gone."""
        self.is_old = False
        """Whether its state is a copy that somebody restored."""

    @property
    def token(self) -> bytes:
        """Of its seat; what was lost with a state is never used again."""
        return self.all_tokens()[-1]

    def all_tokens(self) -> list[bytes]:
        """That it ever had."""
        while len(self._tokens) <= self.tokens:
            seed = f"{self.stage.world.seed} token {self.own} {len(self._tokens)}"
            self._tokens.append(random.Random(seed).randbytes(TOKEN_BYTES))
        return self._tokens

    @property
    def is_at_the_end(self) -> bool:
        """Whether it has made all its pulls."""
        return self.agent is not None and self.agent.trial >= self.stage.world.rounds

    def now_s(self) -> float:
        """By its own clock."""
        return 1000.0 * (self.own + 1) + self.rate * self.stage.timeline.now_s

    def start(self) -> None:
        """A process begins."""
        if self.is_up or self.is_done:
            return
        if self.needs_seat and not self.stage.release_seat(self):
            self.stage.come_back(BACK_S, self.start)
            return
        self.lives += 1
        self.tell("starts" if self.lives == 1 else f"starts for the {self.lives}. time")
        if self.lives > MOST_STARTS:
            self.stage.witness.ends_again_and_again(self)
        self.is_up, self.dies_at = True, ""
        self.stop = asyncio.Event()
        self.agent = self.link = None
        self._begin()

    def _begin(self) -> None:
        """In a process of its own."""
        end = MemoryEnd(self.own, self.stage.wires, self._fiber_now, self.now_s)
        end.before_publishing, end.after_publishing = self.before_publishing, self.after_publishing
        self.end = self.stage.wires.ends[self.own] = end
        client = MemoryClient(end, self.stage.environment, self.token, self.stop, self._log)
        self.fiber = self.stage.timeline.begin(lambda: _finish(self._live(end, client)))

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        self.stage.story.tell(f"agent {self.own}", what)

    def passes(self, edge: str) -> None:
        """Go past a place in the work, or die there."""
        if self.dies_at == edge and self.is_up:
            self.tell(f"dies {edge}")
            self.die()
            raise Killed

    def die(self) -> None:
        """The process is gone, and perhaps its state; it comes back later."""
        away_s, left = self.death
        if not self.is_up:
            return
        self.tell(f"is gone, its state: {left}")
        self._kill_process(away_s, powerless=left == "machine")
        if left in ("lost", "lost-seat"):
            self.lose_state(seat=left == "lost-seat")

    def falls(self) -> None:
        """Its process is gone."""
        self.is_up, self.dies_at = False, ""
        assert self.end is not None  # noqa: S101 - it is up
        self.end.is_up = False

    def _kill_process(self, away_s: float, *, powerless: bool) -> None:
        """End the process where it is; it comes back later."""
        self.falls()
        self._fiber_now().kill()
        self._is_gone()
        if powerless:
            self.disk.lose_power()
        self.stage.come_back(away_s, self.start)

    def lose_state(self, *, seat: bool) -> None:
        """All that it kept is gone; where its seat is, too, the operator frees that."""
        self.disk.wipe()
        self.is_old = False
        self.needs_seat = self.needs_seat or seat

    def host_sizes(self) -> dict[str, tuple[int, int]]:
        """What its process keeps for it and others, and the most that it may; alone it keeps nothing for others."""
        return {}

    def drain(self) -> None:
        """Tell it to stop in good order."""
        self.stop.set()

    def pause(self, until_s: float) -> None:
        """Stop the process for a while."""
        if self.fiber is not None:
            self.fiber.paused_until_s = max(self.fiber.paused_until_s, until_s)

    def _fiber_now(self) -> Fiber:
        assert self.fiber is not None  # noqa: S101 - only who runs asks
        return self.fiber

    def _waits(self, seconds: float) -> None:
        if seconds and self.fiber is not None:
            self.fiber.wait(self.stage.timeline.now_s + max(0.0, seconds))

    def _is_gone(self) -> None:
        """Its connections break."""
        assert isinstance(self.end, MemoryEnd)  # noqa: S101 - in a process of its own it has no other
        self.stage.wires.gone(self.end, self.neighbours)

    def before_publishing(self, part: bytes) -> None:
        self.passes("before sending")
        self.spoke_s = self.stage.timeline.now_s
        self.stage.witness.publishes(self, part)

    def after_publishing(self) -> None:
        """Something has left."""
        self.passes("after sending")

    async def _live(self, end: NodeEnd, client: EnvironmentClient) -> None:
        """One life, to its end."""
        fault: AgentdError | None = None
        try:
            await self._attend(end, client)
        except (RunOver, BudgetExhausted):
            pass
        except AgentdError as failure:
            fault = failure
        if not self.is_up or self.end is not end:
            return
        self.is_up = end.is_up = False
        self._is_gone()
        if fault is None:
            self.is_done = not self.stop.is_set() or self.is_at_the_end
            if self.is_done:
                self.stage.witness.leaves(self)
            else:
                self.stage.come_back(self.death[0], self.start)
            return
        self.faults.append(f"{type(fault).__name__}: {fault}")
        self.tell(f"ends: {self.faults[-1]}")
        self.stage.witness.ends(self, fault)
        if isinstance(fault, StateUnusable) and not self.disk.is_full:
            self.lose_state(seat=False)  # as its message says: the operator moves it away
        if isinstance(fault, LinkError) and all(self.stage.is_done(peer) for peer in self.neighbours):
            self.is_done = True  # nobody is left to begin with, and it says so
        else:
            self.stage.come_back(BACK_S, self.start)

    async def _attend(self, end: NodeEnd, client: EnvironmentClient) -> None:
        try:
            journal = StateJournal.over(self.disk, _identity(self.settings)) if self.keeps_state else None
        except OSError as fault:  # as `StateJournal.open` does
            raise AgentdError(f"cannot keep state: {fault.strerror}") from None
        keeper = StateKeeper(self.settings, journal, self._log)
        self.passes("before joining")
        health = Health(None, role="agent", number=self.own, log=self._log)
        await attend(
            self.settings,
            end,
            client,
            keeper,
            stop=self.stop,
            log=self._log,
            health=health,
            make=self._make,
            watch_faults=self._linked,
        )

    def _make(self, settings: AgentSettings, welcome: Welcome, saved: SavedState | None, **other: Any) -> Agent:
        noise = SeededLaplace(self.stage.world.seed, self.own + (self.lives << 16))  # another life, other noise
        agent = agent_of(settings, welcome, saved, noise=noise, window=self.stage.world.window, **other)
        self.agent = agent
        self.lineage += saved is None  # rewards from before never enter a release again
        self.stage.witness.begins(self, agent, saved)
        return agent

    def _linked(self, link: Link, _log: Log) -> None:
        self.link = link
        self.stage.witness.links(self, link)


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Carry a coroutine out that waits for nothing but what fibers wait for."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        return
    finally:
        work.close()


def _identity(settings: AgentSettings) -> dict[str, Any]:
    return {name: value for name, value in state_identity(settings).items() if name != "epsilon"}


def settings_of(stage: Stage, own: int) -> AgentSettings:
    """What the daemon of this agent would have been told; the addresses are never used."""
    world = stage.world
    algorithm = ALGORITHMS[world.algorithms[own]]
    lies = {one: (attack, share) for one, attack, share in world.liars}
    attack, share = lies.get(own, ("worst", 0.001))
    return AgentSettings(
        id=own,
        listen="tcp://127.0.0.1:1",
        environment="tcp://127.0.0.1:2",
        peers={peer: f"tcp://127.0.0.1:{1000 + peer}" for peer in world.neighbours(own)},
        algorithm=algorithm.name,
        epsilon=world.epsilon,
        epsilon_budget=world.budget if algorithm.noised else None,
        gamma=world.gamma,
        refresh=world.refresh,
        clock=world.clock,
        interval_s=world.interval_s,
        round_timeout_s=world.timeout_s,
        ready_timeout_s=READY_S,
        lies=own in lies,
        attack=attack,
        contamination=share,
        arm_means=tuple(world.means) if Attack.parse(attack).forges else None,
        seed=world.seed,
    )
