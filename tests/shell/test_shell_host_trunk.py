"""The trunk between processes of many agents, over TCP: it carries bundles, and what strangers and others try on it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import evidence
import pytest
import zmq

from agentd.shell.doors.admission import admission_of_agent
from agentd.shell.doors.door import Door
from agentd.shell.host import trunk as trunk_module
from agentd.shell.host.exchange import Exchange, HostedTransport
from agentd.shell.host.trunk import ZmqTrunk
from agentd.shell.host.waits import Waits
from agentd.shell.json_log import open_log
from agentd.wire.bundle import Bundle, encode_bundle, host_topic
from agentd.wire.topics import FRAME_TOPIC

Context = zmq.Context[zmq.Socket[bytes]]


def free_address(host: str = "127.0.0.1") -> str:
    """Of a port that nothing holds: one of the tests takes the place of a host that has gone."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"tcp://{host}:{probe.getsockname()[1]}"


class Keeping(zmq.Context[zmq.Socket[bytes]]):
    """A context that holds on to its sockets, so that nobody has to close them."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[zmq.Socket[bytes]]
        object.__setattr__(self, "kept", [])

    def socket(self, *about: Any, **more: Any) -> zmq.Socket[bytes]:
        self.kept.append(super().socket(*about, **more))
        return self.kept[-1]


class HostAt:
    """One process with one agent of its own number."""

    def __init__(self, own: int, addresses: list[str], admit: tuple[str, ...] = ()) -> None:
        self.context: Context = zmq.Context()
        log = open_log(None, "error")
        others = {host: address for host, address in enumerate(addresses) if host != own}
        door = Door(addresses[own], admission_of_agent(self.context, addresses[own], others.values(), admit, log))
        self.trunk = ZmqTrunk(self.context, own, door, others, log)
        self.changes = 0
        self.trunk.on_change = self._changed
        waits = cast("Waits", SimpleNamespace(now_s=lambda: evidence.in_s(0)))
        self.exchange = Exchange(waits, 1, lambda agent: None if agent == own else agent, self.trunk)
        self.trunk.exchange = self.exchange
        self.agent = HostedTransport(self.exchange, own)
        self.agent.open(dict.fromkeys(others, ""), 0)

    def _changed(self) -> None:
        self.changes += 1

    def heard(self, speaker: int) -> bytes | None:
        return self.agent.lines[speaker].receive(False)

    def close(self) -> None:
        self.trunk.close()
        self.context.destroy()


@pytest.fixture
def hosts() -> Iterator[Callable[..., HostAt]]:
    made: list[HostAt] = []

    def make(*about: Any, **more: Any) -> HostAt:
        made.append(HostAt(*about, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def stranger() -> Iterator[Context]:
    """Its sockets are closed with it."""
    context: Context = Keeping()
    yield context
    context.destroy(linger=0)


def until(turning: list[HostAt], ready: Callable[[], bool]) -> None:
    """Let the hosts go round until something is so."""

    def look() -> bool:
        for each in turning:
            each.trunk.flush()
            each.trunk.drain()
        return ready()

    evidence.until(look)


def carries(one: HostAt, other: HostAt, speaker: int, word: bytes) -> None:
    """What an agent of the one says comes to the agent of the other."""
    got: list[bytes | None] = []

    def came() -> bool:
        one.agent.publish(FRAME_TOPIC + word)
        got.append(other.heard(speaker))
        return got[-1] == FRAME_TOPIC + word

    until([one, other], came)


def test_agents_of_two_hosts_hear_each_other_over_tcp(hosts: Callable[..., HostAt]) -> None:
    addresses = [free_address(), free_address()]
    one, other = hosts(0, addresses), hosts(1, addresses)
    carries(one, other, 0, b"there")
    carries(other, one, 1, b"back")
    assert (one.trunk.refused, one.trunk.wrong, one.exchange.strayed) == (0, 0, 0)


def test_a_host_that_is_known_by_name_is_looked_up(hosts: Callable[..., HostAt]) -> None:
    addresses = [free_address(), free_address()]
    named = [address.replace("127.0.0.1", "localhost") for address in addresses]
    one = hosts(0, [addresses[0], named[1]], admit=("127.0.0.0/8",))
    other = hosts(1, [named[0], addresses[1]], admit=("127.0.0.0/8",))
    carries(one, other, 0, b"there")
    carries(other, one, 1, b"back")


@pytest.mark.parametrize(("slice_s", "anew"), [(0.001, True), (100.0, False)])
def test_a_silent_host_is_looked_up_anew_unless_rounds_take_as_long(
    hosts: Callable[..., HostAt], monkeypatch: pytest.MonkeyPatch, slice_s: float, anew: bool
) -> None:
    monkeypatch.setattr(trunk_module, "SILENT_S", 0.1)
    addresses = [free_address(), free_address()]
    named = [address.replace("127.0.0.1", "localhost") for address in addresses]
    one, other = hosts(0, [addresses[0], named[1]]), hosts(1, [named[0], addresses[1]])
    carries(one, other, 0, b"a word")
    other.exchange.slice_s = slice_s
    heard: list[bool] = []
    monkeypatch.setattr(other.trunk._routes[0], "renew", lambda: heard.append(True))
    over_s = evidence.in_s(1.0)
    until([one, other], lambda: bool(heard) or evidence.in_s(0.0) > over_s)
    assert bool(heard) == anew


def test_whoever_comes_from_elsewhere_is_not_let_in(hosts: Callable[..., HostAt], stranger: Context) -> None:
    addresses = [free_address(), free_address("127.0.0.2")]
    one = hosts(0, addresses)
    spy = stranger.socket(zmq.SUB)
    spy.subscribe(host_topic(1))
    spy.connect(addresses[0])  # from 127.0.0.1, which no other host has
    until([one], lambda: one.trunk.refused > 0)
    one.agent.publish(FRAME_TOPIC + b"secret")
    assert not spy.poll(0)
    assert not one.exchange._far[0], "nobody was taken for a listener"


def test_a_subscription_that_is_too_long_keeps_nobody_else_from_listening(
    hosts: Callable[..., HostAt], stranger: Context
) -> None:
    addresses = [free_address(), free_address()]
    one, other = hosts(0, addresses), hosts(1, addresses)
    carries(one, other, 0, b"before")
    for size in (65, 4096):
        flood = stranger.socket(zmq.SUB)
        flood.subscribe(b"x" * size)
        flood.connect(addresses[0])
        carries(one, other, 0, b"meanwhile %d" % size)
    carries(one, other, 0, b"after")


def test_who_subscribes_what_no_host_does_is_taken_for_nobody(hosts: Callable[..., HostAt], stranger: Context) -> None:
    addresses = [free_address(), free_address()]
    one, other = hosts(0, addresses), hosts(1, addresses)
    carries(one, other, 0, b"before")
    odd = stranger.socket(zmq.XSUB)
    odd.connect(addresses[0])
    for event in (
        b"\x01host/7/",
        b"\x01host/-1/",
        b"\x01host/01/",
        b"\x01host/",
        b"\x01frame/",
        b"\x02x",
        b"\x01" * 60,
    ):
        odd.send(event)
    odd.send_multipart([b"\x01host/1/"] * 3)
    carries(one, other, 0, b"after")
    assert set(one.trunk._ways) == {1}


def test_of_messages_of_several_parts_nothing_is_kept_and_the_socket_goes_with_them(
    hosts: Callable[..., HostAt], stranger: Context
) -> None:
    """Without that, one message that never ends takes all memory."""
    addresses = [free_address(), free_address()]
    one = hosts(0, addresses)
    hostile = stranger.socket(zmq.XPUB)
    hostile.bind(addresses[1])
    hostile.recv()  # it is heard
    for _ in range(1000):
        hostile.send(encode_bundle(0, Bundle(0, [], [])), zmq.SNDMORE | zmq.NOBLOCK)
    hostile.send(b"")
    until([one], lambda: one.changes > 0)
    assert one.trunk.wrong == 1
    hostile.close(linger=0)
    carries(hosts(1, addresses), one, 1, b"after")


@pytest.mark.parametrize("part", [b"", b"\xc1", b"\x94\x01\x00\x90\x90" * 100, b"\xdd\xff\xff\xff\xff"])
def test_a_bundle_that_cannot_be_read_is_counted(part: bytes, hosts: Callable[..., HostAt], stranger: Context) -> None:
    addresses = [free_address(), free_address()]
    one = hosts(0, addresses)
    hostile = stranger.socket(zmq.XPUB)
    hostile.bind(addresses[1])
    hostile.recv()
    hostile.send(host_topic(0) + part)
    until([one], lambda: one.trunk.wrong == 1)


def test_a_host_speaks_for_its_own_agents_only(hosts: Callable[..., HostAt], stranger: Context) -> None:
    addresses = [free_address(), free_address(), free_address()]
    one = hosts(0, addresses)
    hostile = stranger.socket(zmq.XPUB)
    hostile.bind(addresses[1])
    hostile.recv()
    hostile.send(encode_bundle(0, Bundle(0, [(2, 0, True)], [(2, FRAME_TOPIC + b"lie"), (1, FRAME_TOPIC + b"mine")])))
    until([one], lambda: one.exchange.strayed == 2)
    assert (one.heard(1), one.heard(2)) == (FRAME_TOPIC + b"mine", None)
