"""Agents that share a process: the host as it is shipped, on a loop whose time is the world's.

`shell.host` lets agents hear each other (`exchange`), carries what goes to other hosts (`trunk`) and to the environment
(`desk`); all three are driven as they are. The loop is asyncio's own; where it would wait for sockets it lets the time
of the world pass instead. Who kills a process takes all of its agents with it; one that ends by itself comes back in
the same process, and the others must not mind.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentd.check.scene.fibers import Fiber, Killed
from agentd.check.scene.host_lines import HostEnd, MemoryDesk, MemoryTrunk
from agentd.check.scene.node import Node
from agentd.shell.host.desk import HostedClient
from agentd.shell.host.exchange import Exchange, HostedTransport
from agentd.shell.host.host_loop import LOOK_EVERY
from agentd.shell.host.waits import Waits
from agentd.wire.topics import FRAME_TOPIC

if TYPE_CHECKING:
    from agentd.check.scene.stage import Stage

FOR_EVER_S = 3600.0
MOST_TURNS = 1_000_000
"""Of a loop in which no time passes."""


class WorldLoop(asyncio.SelectorEventLoop):
    """An event loop by the clock of a world."""

    def __init__(self, now_s: Callable[[], float], turn: Callable[[float | None], None]) -> None:
        self._now_s = now_s
        super().__init__(_NoSockets(turn))
        self.set_debug(False)  # others than its own thread hand it things, but never while it runs
        self.set_exception_handler(lambda _loop, _about: None)  # of tasks that ended with their process

    def time(self) -> float:
        """By the clock of the process."""
        return self._now_s()

    @property
    def can_go_on(self) -> bool:
        """Whether there is something to do at once."""
        return bool(self._ready)  # type: ignore[attr-defined]


class _NoSockets(selectors.SelectSelector):
    """Waits for nothing but the world."""

    def __init__(self, turn: Callable[[float | None], None]) -> None:
        super().__init__()
        self._turn = turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As asyncio asks for it."""
        self._turn(timeout)
        return []


class SharedProcess:
    """One host over all its lives."""

    def __init__(self, stage: Stage, number: int, agents: Sequence[int]) -> None:
        self.stage, self.number, self.agents = stage, number, agents
        self.nodes: list[HostedNode] = []
        self.is_up = self.is_away = False
        """Whether it runs, and whether somebody will start it again."""
        self.fiber: Fiber | None = None
        skews = stage.world.skews
        self.rate = 1.0 + (skews[agents[0]] if skews else 0.0)
        self._log = stage.story.log(f"host {number}")
        self._others = [other for other in range(len(stage.world.hosts)) if other != number]
        self._returning: list[HostedNode] = []
        self._beginning: list[HostedNode] = []
        """Who begins to live as soon as there is a loop."""
        self._lives: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._turns = 0
        self.loop: WorldLoop | None = None
        self.end = self._new_end()
        self.end.is_up = False

    def now_s(self) -> float:
        """By its own clock."""
        return 1000.0 * (self.number + 1) + self.rate * self.stage.timeline.now_s

    def begin(self, node: HostedNode) -> None:
        """Let an agent live; the process is started if nobody else does."""
        if self.is_away:
            node.is_up = False
            self._returning.append(node)
            return
        if not self.is_up:
            self.is_up, self.end, self.loop = True, self._new_end(), None
            self.fiber = self.stage.timeline.begin(self._run)
            for other in self._others:
                self.stage.wires.listen(self.end, other)
        node.fiber = self.fiber
        if self.loop is None:
            self._beginning.append(node)
        else:
            self._lives.add(self.loop.create_task(self._carry(node)))
            self.poke()

    def poke(self) -> None:
        """Something has come for the process."""
        if self.fiber is not None:
            self.fiber.poke()

    def kill(self, away_s: float, *, powerless: bool) -> None:
        """All of it is gone; it comes back later, with the agents that were there."""
        assert self.fiber is not None  # noqa: S101 - it is up
        self.stage.story.tell(f"host {self.number}", "is gone")
        self._returning = [node for node in self.nodes if node.is_up]
        self._beginning = []
        for node in self._returning:
            node.falls()
        self.is_up, self.is_away = False, True
        self.fiber.kill()
        self._is_gone()
        for node in self.nodes if powerless else ():
            node.disk.lose_power()
        self.stage.come_back(away_s, self._come_back)

    def _new_end(self) -> HostEnd:
        end = HostEnd(self.number, self._others, self.stage.wires, self.poke)
        self.stage.wires.ends[self.number] = end
        return end

    def _set_up(self, loop: WorldLoop) -> None:
        self.trunk = MemoryTrunk(self.end, self.stage.wires, self._log)
        self.exchange = self.trunk.exchange = Exchange(Waits(loop), len(self.agents), self._host_of, self.trunk)
        self.desk = MemoryDesk(self.stage.environment, self.end, self.poke, self.exchange, self._log)

    def _host_of(self, agent: int) -> int | None:
        host = self.stage.place_of(agent)
        return None if host == self.number else host

    def _come_back(self) -> None:
        self.is_away = False
        returning, self._returning = self._returning, []
        for node in returning:
            node.start()

    async def _carry(self, node: HostedNode) -> None:
        try:
            await node.live_here()
        except (Killed, GeneratorExit):
            raise
        except BaseException as fault:  # the world is over, and says why
            self._failure = fault
            raise Killed from None

    def _run(self) -> None:
        """One life of the process, as long as any of its agents lives."""
        end, loop = self.end, WorldLoop(self.now_s, self._turn)
        self.loop, self._lives = loop, set()
        self._set_up(loop)
        beginning, self._beginning = self._beginning, []
        self._lives.update(loop.create_task(self._carry(node)) for node in beginning)
        try:
            loop.run_until_complete(self._until_all_end(self._lives))
            self.trunk.flush()
            self.desk.flush()
        except Killed:
            pass
        finally:
            _unwind(loop)
        if self._failure is not None:
            raise self._failure
        if self.is_up and self.end is end and not self.stage.timeline.is_closing:
            self.is_up = self.end.is_up = False
            self._is_gone()

    async def _until_all_end(self, lives: set[asyncio.Task[None]]) -> None:
        while lives:
            done, _ = await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
            lives -= done

    def _turn(self, timeout: float | None) -> None:
        """Let time pass where nobody can go on, after all has left that was said."""
        self._turns += 1
        can_go_on = timeout is not None and timeout <= 0
        if can_go_on and self._turns % LOOK_EVERY:
            if self._turns > MOST_TURNS:
                raise AssertionError("a process goes on and on while no time passes")
            return
        self.trunk.flush()
        self.desk.flush()
        if not can_go_on:
            self._turns = 0
            assert self.fiber is not None  # noqa: S101 - it runs
            left_s = FOR_EVER_S if timeout is None else timeout / self.rate
            self.fiber.wait(self.stage.timeline.now_s + left_s, self._has_something)
        self.trunk.drain()
        self.desk.drain()

    def _has_something(self) -> bool:
        assert self.loop is not None  # noqa: S101 - it runs
        return self.loop.can_go_on or bool(self.desk.inbox.parts) or self.end.has_something

    def _is_gone(self) -> None:
        self.stage.wires.gone(self.end, self._others)


class HostedNode(Node):
    """An agent among others of its process."""

    def __init__(self, stage: Stage, own: int, process: SharedProcess) -> None:
        super().__init__(stage, own)
        self.process = process
        process.nodes.append(self)
        self._client: HostedClient | None = None

    def now_s(self) -> float:
        """By the clock of its process."""
        return self.process.now_s()

    def host_sizes(self) -> dict[str, tuple[int, int]]:
        """Of the exchange, the trunk and the desk."""
        exchange, trunk, edges = self.process.exchange, self.process.trunk, 2 * len(self.stage.world.edges)
        far = [len(listeners) for hosts in exchange._far.values() for listeners in hosts.values()]
        return {
            "listeners here": (sum(map(len, exchange._ears.values())), edges),
            "listeners elsewhere": (sum(far), edges + len(self.stage.world.hostile) * self.stage.world.agents),
            "told of listeners": (sum(len(way.ears) for way in trunk._ways.values()), 64 * edges),
        }

    def drain(self) -> None:
        """As the host does it."""
        super().drain()
        if isinstance(self.end, HostedEnd) and self._client is not None:
            self.end.interrupt()
            self._client.interrupt()
            self.process.poke()

    async def live_here(self) -> None:
        """One life, in the loop of its process."""
        client = self._client = HostedClient(self.process.desk, self._log, self.stop)
        client.token = self.token
        end = HostedEnd(self.process.exchange, self)
        self.end = end
        with contextlib.closing(end):
            await self._live(end, client)

    def _begin(self) -> None:
        self.end = None
        self.process.begin(self)

    def falls(self) -> None:
        """Its process is gone, perhaps before it could begin."""
        self.is_up, self.dies_at = False, ""
        if self.end is not None:
            self.end.is_up = False

    def _kill_process(self, away_s: float, *, powerless: bool) -> None:
        self.process.kill(away_s, powerless=powerless)

    def _is_gone(self) -> None:
        """The process tells those who listen."""


class HostedEnd(HostedTransport):
    """The transport of one life among many, watched."""

    def __init__(self, exchange: Exchange, node: HostedNode) -> None:
        super().__init__(exchange, node.own)
        self.is_up = True
        self._node = node

    def publish(self, part: bytes) -> None:
        """Say it, unless the process is gone."""
        if not self.is_up:
            return
        self._node.before_publishing(part)
        if part.startswith(FRAME_TOPIC):
            hearing = {*self._ears, *(each for listeners in self._far.values() for each in listeners)}
            stage = self._node.stage
            stage.wires.lost += sum(peer in stage.nodes and stage.nodes[peer].is_up for peer in {*self.lines} - hearing)
        super().publish(part)
        self._node.after_publishing()


def _unwind(loop: WorldLoop) -> None:
    """What the end of a process does to whatever went on in it: nothing is said any more."""
    for task in asyncio.all_tasks(loop):
        with contextlib.suppress(Killed):
            task.get_coro().close()
    loop.close()
