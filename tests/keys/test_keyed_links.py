"""Over real sockets, tcp and ipc: who has no key, another's or one that was revoked gets nothing from an agent."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq
from evidence import until
from keyed_world import Context, World, subscriber
from loopback import LONG_S, RUN, events, free_address
from loopback_fixtures import Addresses
from structlog.typing import FilteringBoundLogger

from agentd.core.rounds.contacts import RECONNECT_EVERY_S
from agentd.keys.key_files import new_keys
from agentd.shell.doors.door import Door
from agentd.shell.doors.key_admission import KeyAdmission
from agentd.shell.doors.keyring import Keyring
from agentd.shell.link import Link
from agentd.shell.transport import ZmqTransport
from agentd.wire.topics import FRAME_TOPIC, sync_topic

GLANCE_MS = 300
"""Longer than a connection on one machine takes by far; a slower one would only let a test pass that should not."""


class KeyedAgent:
    """The links of one agent with keys, in a ZeroMQ context of its own as if it were a process."""

    def __init__(self, world: World, own: int, places: dict[int, str], log: FilteringBoundLogger) -> None:
        self.context: Context = zmq.Context()
        self.keyring: Keyring = world.keyring(own, log)
        self.address = places[own]
        peers = {peer: place for peer, place in places.items() if peer != own}
        self.admission = KeyAdmission(self.context, self.keyring, log, only=peers.keys())
        door = Door(places[own], self.admission, self.keyring)
        self.transport = ZmqTransport(self.context, own=own, door=door, peers=peers)
        self.link = Link(self.transport, own=own, log=log)
        self.link.introduce(run=RUN, arms=2, incarnation=0, round_=0)
        self.round = 0

    def publish(self) -> None:
        self.round += 1
        self.link.publish(self.round, ())

    def look(self) -> None:
        self.link.greet_subscribers()

    def close(self) -> None:
        self.link.close()
        self.context.destroy(linger=0)


Start = Callable[..., KeyedAgent]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, (3, 4, 5, 9))


@pytest.fixture(params=["tcp", "ipc"])
def places(request: pytest.FixtureRequest, addresses: Addresses) -> dict[int, str]:
    return {number: free_address() if request.param == "tcp" else addresses[number] for number in (3, 4, 5)}


@pytest.fixture
def start(world: World, places: dict[int, str], log: FilteringBoundLogger) -> Iterator[Start]:
    made: list[KeyedAgent] = []

    def begin(own: int) -> KeyedAgent:
        made.append(KeyedAgent(world, own, places, log))
        return made[-1]

    yield begin
    for each in made:
        each.close()


@pytest.fixture
def others() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


def hears(agent: KeyedAgent, socket: zmq.Socket[bytes]) -> bool:
    """Whether a subscriber hears what an agent publishes, tried for as long as a few connections take."""
    for _ in range(5):
        agent.look()
        agent.publish()
        if socket.poll(GLANCE_MS // 5):
            return True
    return False


def test_neighbours_with_keys_play_rounds(start: Start) -> None:
    agents = [start(3), start(4), start(5)]
    stop = asyncio.Event()

    async def play() -> None:
        await asyncio.gather(*(each.link.wait_until_ready(LONG_S, stop, some_needed=True) for each in agents))
        for _ in range(20):
            for each in agents:
                each.publish()
            for each in agents:
                await each.link.gather(LONG_S, stop)

    asyncio.run(play())
    assert [dict(each.link.dropped) for each in agents] == [{}, {}, {}]
    assert [each.link.down for each in agents] == [[], [], []]


class Tap:
    """Passes connections on over TCP, and keeps every byte that goes either way."""

    def __init__(self, target: str) -> None:
        self.passed = bytearray()
        self._target = target.removeprefix("tcp://").split(":")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._take, daemon=True)]
        self._threads[0].start()

    def _take(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection((self._target[0], int(self._target[1])))
        self._ends += [near, far]
        for source, sink in ((near, far), (far, near)):
            self._threads.append(threading.Thread(target=self._pass_on, args=(source, sink), daemon=True))
            self._threads[-1].start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self.passed += data
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()


@pytest.mark.parametrize("places", ["tcp"], indirect=True)
def test_who_listens_on_the_way_reads_nothing(start: Start, others: Context, world: World) -> None:
    agent = start(3)
    tap = Tap(agent.address)
    with subscriber(others, tap.address, world.agents[5], world.agents[3].curve_public) as neighbour:
        assert until(lambda: hears(agent, neighbour))
        assert neighbour.recv().startswith(FRAME_TOPIC)
    tap.close()
    assert len(tap.passed) > 300
    in_clear = (FRAME_TOPIC, b"sync/", RUN, world.agents[5].curve_public)
    assert not [word for word in in_clear if word in tap.passed]


def test_a_stranger_without_a_key_hears_nothing(start: Start, others: Context) -> None:
    agent = start(3)
    with subscriber(others, agent.address, None, b"") as stranger:
        assert not hears(agent, stranger)
    assert not agent.link.dropped


def test_an_unknown_key_is_refused_counted_and_named_once(
    start: Start, others: Context, world: World, log_file: Path
) -> None:
    agent, unknown = start(3), new_keys("agent", 4)
    for _ in range(2):
        with subscriber(others, agent.address, unknown, world.agents[3].curve_public) as stranger:
            refused = agent.admission.refused
            until(lambda refused=refused: agent.admission.refused > refused)
            assert not hears(agent, stranger)
    assert agent.link.dropped["refused-connections"] >= 2
    (line,) = events(log_file, "connection refused")
    assert line["key"] == unknown.curve_public.hex()[:16]
    assert line["whose"] == "of no agent in the roster"


def test_an_agent_that_is_no_neighbour_is_refused_though_it_is_in_the_roster(
    start: Start, others: Context, world: World
) -> None:
    agent = start(3)
    with subscriber(others, agent.address, world.agents[9], world.agents[3].curve_public) as another:
        until(lambda: agent.admission.refused)
        assert not hears(agent, another)


def test_a_neighbour_that_subscribes_as_another_is_sent_away_and_counted(
    start: Start, others: Context, world: World
) -> None:
    agent, key = start(3), world.agents[3].curve_public
    with subscriber(others, agent.address, world.agents[5], key, sync_topic(4)) as thief:
        monitor = thief.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        until(lambda: agent.look() or agent.link.dropped["key"])
        assert until(lambda: monitor.poll(10)), "its connection was ended"
        thief.disable_monitor()
        monitor.close()
        assert agent.link.rounds[4].standing.name == "UNKNOWN", "nobody is taken for agent 4"
    with subscriber(others, agent.address, world.agents[5], key, sync_topic(5)) as honest:
        until(lambda: agent.look() or honest.poll(10))  # greeted in its own name


def test_whoever_is_at_a_neighbours_address_without_its_key_is_not_heard(
    start: Start, others: Context, world: World, places: dict[int, str]
) -> None:
    """With a valid key of its own, even: an agent seeks the key that the roster names for this neighbour."""
    with others.socket(zmq.XPUB) as false:
        false.setsockopt(zmq.LINGER, 0)
        false.setsockopt(zmq.CURVE_SERVER, 1)
        false.setsockopt(zmq.CURVE_SECRETKEY, world.agents[5].curve_secret)
        false.bind(places[4])
        agent = start(3)
        line = agent.transport.lines[4]
        for _ in range(5):
            false.send(FRAME_TOPIC + b"forged")
            assert not false.poll(GLANCE_MS // 5), "no subscription arrives there"
        assert not line.is_readable()


def test_a_revoked_key_is_cut_off_at_once_and_lets_nobody_in(
    start: Start, others: Context, world: World, log_file: Path
) -> None:
    agent, key = start(3), world.agents[3].curve_public
    with (
        subscriber(others, agent.address, world.agents[4], key) as staying,
        subscriber(others, agent.address, world.agents[5], key) as leaving,
    ):
        assert until(lambda: hears(agent, staying) and hears(agent, leaving))
        world.publish(world.roster(2, without=[5]))
        assert agent.keyring.renew()
        until(lambda: agent.admission.refused)  # it has tried to connect again
        while leaving.poll(0):
            leaving.recv()
        assert not hears(agent, leaving)
        while staying.poll(0):
            staying.recv()
        assert hears(agent, staying)
    (line,) = events(log_file, "roster renewed")
    assert (line["version"], line["changed"]) == (2, [5])


def test_another_key_of_the_same_id_takes_its_place(start: Start, others: Context, world: World) -> None:
    agent, key, old = start(3), world.agents[3].curve_public, world.agents[5]
    with subscriber(others, agent.address, old, key) as before:
        assert until(lambda: hears(agent, before))
        world.agents[5] = new_keys("agent", 5)
        world.publish(world.roster(2))
        assert agent.keyring.renew()
        with subscriber(others, agent.address, world.agents[5], key) as after:
            assert until(lambda: hears(agent, after))
        until(lambda: agent.admission.refused)
        while before.poll(0):
            before.recv()
        assert not hears(agent, before)


def test_an_agent_that_is_let_in_later_is_heard_without_a_restart(
    start: Start, world: World, log: FilteringBoundLogger
) -> None:
    world.publish(world.roster(2, without=[5]))
    agent = start(3)
    world.publish(world.roster(3))
    late = start(5)
    until(lambda: agent.admission.refused)  # it asks too early, and ZeroMQ does not ask again after a refusal
    assert agent.keyring.renew()
    asked_s = -math.inf

    def both_hear() -> bool:
        nonlocal asked_s
        agent.look()
        late.look()
        line, now_s = late.transport.lines[3], late.transport.now_s()
        if not line.is_readable() and now_s > asked_s + RECONNECT_EVERY_S:  # as rounds do while a neighbour is down
            asked_s = now_s
            line.reconnect()
        return agent.transport.lines[5].is_readable() and line.is_readable()

    until(both_hear)


@pytest.mark.parametrize("fault", ["older", "expired", "forged", "gone", "terms"])
def test_a_roster_that_is_refused_leaves_the_old_one_in_force(
    fault: str, start: Start, world: World, others: Context, log_file: Path
) -> None:
    world.publish(world.roster(2))
    agent = start(3)
    if fault == "older":
        world.publish(world.roster(1, without=[5]))
    elif fault == "expired":
        world.publish(world.roster(3, without=[5], seconds=-10))
    elif fault == "forged":
        world.publish(world.roster(3, without=[5]), by=new_keys("operator"))
    elif fault == "terms":
        from dataclasses import replace

        world.publish(replace(world.roster(3, without=[5]), terms="ab" * 32))
    else:
        world.roster_file.unlink()
    assert agent.keyring.renew()
    assert agent.keyring.roster.version == 2
    with subscriber(others, agent.address, world.agents[5], world.agents[3].curve_public) as still:
        assert until(lambda: hears(agent, still))
    (line,) = events(log_file, "roster refused")
    assert line["in_force"] == 2
    assert "\n" not in line["why"]
