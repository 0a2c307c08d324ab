"""Over TCP only who is admitted gets in, by the address that a connection comes from."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zmq
from evidence import until
from loopback import LONG_S, events, free_address
from loopback_fixtures import Context, Keep
from structlog.typing import FilteringBoundLogger

from agentd.addresses import networks
from agentd.errors import ConfigurationError
from agentd.shell.doors import admission as module
from agentd.shell.doors.admission import (
    MOST_NAMED,
    Admission,
    GuestList,
    admission_of_agent,
    admission_of_environment,
    plain_number,
)
from agentd.shell.doors.door import Door
from agentd.shell.resolve import has_ipv6
from agentd.shell.sockets import publisher
from agentd.wire.topics import FRAME_TOPIC

Doors = Any


class Doorway:
    """A publisher over TCP that lets in whom a test says, and strangers that knock from where a test says."""

    def __init__(self, keep: Keep, log: FilteringBoundLogger) -> None:
        self._keep, self._log = keep, log
        self.context: Context = zmq.Context()
        self.others: Context = zmq.Context()
        self.address = free_address()
        self.door: Door | None = None

    def open(self, peers: Sequence[str] = (), admit: Sequence[str] = (), listen: str | None = None) -> None:
        self.address = listen or self.address
        made = admission_of_agent(self.context, self.address, peers, admit, self._log)
        self.door = Door(self.address, made)
        self.out = publisher(self.context, self.door)

    def knock(self, source: str, to: str | None = None) -> zmq.Socket[bytes]:
        made = self.others.socket(zmq.SUB)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.IPV6, int(":" in source))
        made.subscribe(FRAME_TOPIC)
        target = (to or self.address).removeprefix("tcp://")
        made.connect(f"tcp://[{source}]:0;{target}" if ":" in source else f"tcp://{source}:0;{target}")
        return made

    def lets_in(self, source: str) -> bool:
        """Whether a subscription from there arrives; if not, that it was refused is the evidence."""
        assert self.door is not None
        door, refused, seen = self.door, self.door.refused, []

        def decided() -> bool:
            while self.out.poll(10):
                seen.append(self.out.recv())
            return b"\x01" + FRAME_TOPIC in seen or door.refused > refused

        with self.knock(source):
            assert until(decided)
        return b"\x01" + FRAME_TOPIC in seen

    def close(self) -> None:
        self.others.destroy(linger=0)
        if self.door is not None:
            self.out.close(linger=0)
            self.door.close()
        self.context.term()


@pytest.fixture
def doorway(keep: Keep, log: FilteringBoundLogger) -> Iterator[Doorway]:
    made = Doorway(keep, log)
    yield made
    made.close()


def test_neighbours_by_number_are_let_in_and_others_are_not(doorway: Doorway) -> None:
    doorway.open(peers=["tcp://127.0.0.1:9", "tcp://127.0.0.3:9", "ipc:///run/x"])
    assert doorway.lets_in("127.0.0.1")
    assert not doorway.lets_in("127.0.0.2")
    assert doorway.lets_in("127.0.0.3")


def test_networks_that_the_operator_names_are_let_in(doorway: Doorway) -> None:
    doorway.open(peers=["tcp://127.0.0.1:9"], admit=["127.4.0.0/16", "127.5.0.9", "fd00::/8"])
    assert [doorway.lets_in(source) for source in ("127.4.7.7", "127.5.0.9", "127.5.0.8")] == [True, True, False]


def test_nothing_is_heard_by_who_was_not_let_in(doorway: Doorway) -> None:
    doorway.open(peers=["tcp://127.0.0.1:9"])
    with doorway.knock("127.0.0.1") as inside, doorway.knock("127.0.0.2") as outside:
        assert doorway.out.poll(LONG_S * 1000)
        assert until(lambda: doorway.door is not None and doorway.door.refused)
        doorway.out.send(FRAME_TOPIC + b"for neighbours")
        assert inside.recv() == FRAME_TOPIC + b"for neighbours"
        assert not outside.poll(100)


def test_a_refusal_is_logged_once_for_an_address_and_many_are_not(
    doorway: Doorway, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_NAMED", 3)
    doorway.open(peers=["tcp://127.0.0.1:9"])
    for last in (2, 2, 3, 4, 5, 6, 2):
        assert not doorway.lets_in(f"127.0.0.{last}")
    named = [line["address"] for line in events(log_file, "connection refused")]
    assert named == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert len(events(log_file, "connections refused from many addresses, the rest are only counted")) == 1
    assert doorway.door is not None
    assert doorway.door.refused >= 7
    assert MOST_NAMED <= 256


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_ipv4_and_ipv6_are_told_apart_where_both_come_in(doorway: Doorway) -> None:
    port = free_address().rpartition(":")[2]
    doorway.open(peers=["tcp://127.0.0.1:9"], listen=f"tcp://*:{port}")
    doorway.address = f"tcp://127.0.0.1:{port}"
    assert doorway.lets_in("127.0.0.1")
    assert not doorway.lets_in("127.0.0.2")
    doorway.address = f"tcp://[::1]:{port}"
    assert not doorway.lets_in("::1")


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_neighbour_over_ipv6_is_let_in(doorway: Doorway) -> None:
    port = free_address().rpartition(":")[2]
    doorway.open(peers=["tcp://[::1]:9"], listen=f"tcp://[::1]:{port}")
    assert doorway.lets_in("::1")


def test_a_neighbour_by_name_is_looked_up_when_it_knocks(doorway: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to, asked = [["127.0.0.7"]], []
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(module, "numbers_of", lambda name: asked.append(name) or leads_to[0])
    doorway.open(peers=["tcp://gate-1:9", "tcp://127.0.0.1:9"])
    assert doorway.lets_in("127.0.0.1")
    assert asked == [], "who is known need not wait for names"
    assert doorway.lets_in("127.0.0.7")
    assert not doorway.lets_in("127.0.0.8")
    leads_to[0] = ["127.0.0.9", "127.0.0.8"]  # it came back elsewhere
    assert doorway.lets_in("127.0.0.8")
    assert not doorway.lets_in("127.0.0.7")


def test_a_name_that_nobody_answers_for_holds_up_nobody_who_is_known(
    doorway: Doorway, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()
    monkeypatch.setattr(module, "numbers_of", lambda _: answer.wait(LONG_S) and [])
    doorway.open(peers=["tcp://absent:9", "tcp://127.0.0.1:9"])
    waits = doorway.knock("127.0.0.2")
    assert until(lambda: doorway.door is not None and doorway.door._admission is not None)
    assert doorway.lets_in("127.0.0.1")
    answer.set()
    assert until(lambda: doorway.door is not None and doorway.door.refused == 1)
    waits.close()


def test_a_request_that_is_none_is_passed_over(doorway: Doorway) -> None:
    doorway.open(peers=["tcp://127.0.0.1:9"])
    forger = doorway.context.socket(zmq.DEALER)
    forger.setsockopt(zmq.LINGER, 0)
    forger.connect("inproc://zeromq.zap.01")
    good = [b"", b"1.0", b"1", b"agentd", b"127.0.0.1", b"", b"NULL"]
    wrong: list[list[bytes]] = [[b""], [b"", b"1.0"], [b""] * 7, good[:-1], [*good[:-1], b"PLAIN"]]
    wrong += [[*good[:4], address, *good[5:]] for address in (b"", b"localhost:0:0:1", b"\xff", b"127.0.0.1/8")]
    wrong += [[*good[:3], b"another", *good[4:]], [*good[:1], b"2.0", *good[2:]]]
    for parts in wrong:
        forger.send_multipart(parts)
    assert until(lambda: doorway.door is not None and doorway.door.refused == len(wrong))
    assert not forger.poll(0)
    forger.send_multipart(good)
    assert forger.recv_multipart() == [b"", b"1.0", b"1", b"200", b"", b"", b""]
    forger.close()


def test_closing_leaves_no_thread_and_never_hangs(doorway: Doorway) -> None:
    doorway.open(peers=["tcp://127.0.0.1:9"])
    assert [thread for thread in threading.enumerate() if thread.name == "admission"]
    doorway.close()
    doorway.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "admission"]


def test_after_closing_nobody_is_let_in(doorway: Doorway) -> None:
    doorway.open(peers=["tcp://127.0.0.1:9"])
    assert doorway.door is not None
    doorway.door.close()
    with doorway.knock("127.0.0.1"):
        assert not doorway.out.poll(300)


def test_a_second_listener_in_a_context_is_refused(doorway: Doorway, log: FilteringBoundLogger) -> None:
    doorway.open()
    with pytest.raises(ConfigurationError, match="a second listener over TCP"):
        Admission(doorway.context, GuestList((), ()), log)


def test_where_nothing_listens_on_tcp_there_is_no_thread(context: Context, log: FilteringBoundLogger) -> None:
    assert admission_of_agent(context, "ipc:///run/3", ["tcp://127.0.0.1:9"], [], log) is None
    assert admission_of_environment(context, "ipc:///run/3", ["10.0.0.0/8"], log) is None
    assert admission_of_environment(context, "tcp://127.0.0.1:9", [], log) is None


def test_an_environment_admits_what_is_named_and_its_own_machine(context: Context, log: FilteringBoundLogger) -> None:
    made = admission_of_environment(context, "tcp://192.168.7.1:7000", ["10.0.0.0/8"], log)
    assert made is not None
    admits = {text: made._guests.admits(plain_number(text)) for text in ("10.9.9.9", "127.0.0.1", "::1", "192.168.7.1")}
    assert set(admits.values()) == {True}
    assert not made._guests.admits(plain_number("192.168.7.2"))
    made.close()


def test_an_address_of_ipv4_is_the_same_over_ipv6() -> None:
    guests = GuestList(["tcp://10.0.0.1:7", "tcp://[::ffff:10.0.0.2]:7", "tcp://a b:7"], networks(["10.1.0.0/16"]))
    for text in ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "::ffff:10.1.2.3"):
        assert guests.admits(plain_number(text))
    assert not guests.admits(plain_number("::10.0.0.1"))
