"""Names that are looked up beside the links, and links that do not wait for them."""

from __future__ import annotations

import socket as system
import threading
from typing import Any

import pytest
import zmq
from evidence import until
from loopback import LONG_S, free_address
from loopback_fixtures import Context, Keep

from agentd.errors import ConfigurationError
from agentd.shell import resolve, sockets
from agentd.shell.resolve import Route, has_ipv6, has_name, look_up
from agentd.shell.sockets import subscriber


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("tcp://127.0.0.1:7001", False),
        ("tcp://[::1]:7001", False),
        ("ipc:///run/x", False),
        ("tcp://a b:7001", False),
        ("tcp://agent-3:7001", True),
        ("tcp://agent-3.mesh.svc.cluster.local:7001", True),
        ("tcp://localhost:7001", True),
        ("tcp://3com:7001", True),
    ],
)
def test_only_names_are_looked_up(address: str, named: bool) -> None:
    assert has_name(address) is named


def test_a_name_of_this_machine_becomes_a_number() -> None:
    assert look_up("tcp://localhost:7001") == "tcp://127.0.0.1:7001"


def known_as(*numbers: str) -> Any:
    """An answer to every lookup."""
    families = {True: system.AF_INET6, False: system.AF_INET}
    return lambda _host, port, **_: [
        (families[":" in number], system.SOCK_STREAM, 6, "", (number, port)) for number in numbers
    ]


def test_a_name_with_one_number_is_not_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "create_connection", None)
    monkeypatch.setattr(system, "getaddrinfo", known_as("fd00::7", "fd00::7"))
    assert look_up("tcp://agent-3:7001") == "tcp://[fd00::7]:7001"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("number", ["127.0.0.1", "::1"])
def test_of_several_numbers_the_one_is_taken_where_somebody_listens(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = system.AF_INET6 if ":" in number else system.AF_INET
    with system.create_server((number, 0), family=family) as there:
        port = there.getsockname()[1]
        for order in (("127.0.0.1", "::1"), ("::1", "127.0.0.1")):
            monkeypatch.setattr(resolve, "numbers_of", lambda _, order=order: list(order))
            expected = f"tcp://[{number}]:{port}" if ":" in number else f"tcp://{number}:{port}"
            assert look_up(f"tcp://agent-3:{port}") == expected


def test_where_nobody_listens_yet_the_first_number_of_ipv4_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(free_address().rpartition(":")[2])
    monkeypatch.setattr(resolve, "numbers_of", lambda _: ["::1", "127.0.0.2", "127.0.0.1"])
    assert look_up(f"tcp://agent-3:{port}") == f"tcp://127.0.0.2:{port}"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_name_that_leads_to_ipv6_only_is_connected_to(
    context: Context, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "getaddrinfo", known_as("::1"))
    out = keep(context.socket(zmq.XPUB))
    out.setsockopt(zmq.IPV6, 1)
    port = out.bind_to_random_port("tcp://[::1]")
    address = f"tcp://agent-3:{port}"
    route = Route(keep(subscriber(context, 1, address)), address)
    assert until(route.find)
    assert out.poll(LONG_S * 1000), "its subscription arrived"


def test_without_ipv6_the_operator_is_told(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "has_ipv6", lambda: False)
    with pytest.raises(ConfigurationError, match=r"^cannot connect to tcp://\[::1\]:7: this machine has no IPv6$"):
        subscriber(context, 1, "tcp://[::1]:7")


@pytest.mark.parametrize("fault", [system.gaierror("unknown"), UnicodeError("too long"), OSError("no network")])
def test_a_name_that_nobody_knows_becomes_nothing(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(system, "getaddrinfo", refuse)
    assert look_up("tcp://agent-3:7001") is None


def test_a_socket_by_name_hears_its_neighbour(context: Context, keep: Keep) -> None:
    out = keep(context.socket(zmq.XPUB))
    port = out.bind_to_random_port("tcp://127.0.0.1")
    address = f"tcp://localhost:{port}"
    route = Route(keep(subscriber(context, 1, address)), address)
    assert until(route.find)
    assert out.poll(LONG_S * 1000), "its subscription arrived"


def test_looking_up_a_slow_name_holds_up_nobody_and_is_not_done_twice_at_once(
    context: Context, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, asked, answered = threading.Event(), [], []

    def slow(address: str) -> str:
        asked.append(address)
        answer.wait(LONG_S)
        answered.append(address)
        return "tcp://127.0.0.1:9"

    monkeypatch.setattr(resolve, "look_up", slow)
    route = Route(keep(context.socket(zmq.SUB)), "tcp://absent:7001")
    for _ in range(100):
        assert not route.find()
        route.renew()
    assert not answered, "somebody waited for it"
    assert until(lambda: asked)  # the thread that looks may not have had its turn yet
    assert asked == ["tcp://absent:7001"]
    answer.set()
    assert until(route.find)


def test_a_name_that_was_not_there_is_looked_up_until_it_is(
    context: Context, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, None, "tcp://127.0.0.1:9"])
    monkeypatch.setattr(resolve, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(resolve, "look_up", lambda _: next(answers))
    route = Route(keep(context.socket(zmq.SUB)), "tcp://late:7001")
    assert until(route.find)


def test_a_neighbour_that_moved_is_found_at_its_new_address(
    context: Context, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = keep(context.socket(zmq.XPUB)), keep(context.socket(zmq.XPUB))
    places = [f"tcp://127.0.0.1:{out.bind_to_random_port('tcp://127.0.0.1')}" for out in (first, second)]
    leads_to = [places[0]]
    monkeypatch.setattr(resolve, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(resolve, "look_up", lambda _: leads_to[0])
    route = Route(keep(subscriber(context, 1, "tcp://agent-1:7001")), "tcp://agent-1:7001")
    assert until(route.find)
    assert first.poll(LONG_S * 1000)
    leads_to[0] = places[1]

    def moved() -> bool:
        route.renew()
        return bool(second.poll(50))

    assert until(moved)


def test_a_number_is_connected_to_anew_without_any_thread(context: Context, keep: Keep) -> None:
    out = keep(context.socket(zmq.XPUB))
    address = f"tcp://127.0.0.1:{out.bind_to_random_port('tcp://127.0.0.1')}"
    route = Route(keep(subscriber(context, 1, address)), address)
    before = set(threading.enumerate())  # by name, not by number: one of an earlier test may end meanwhile
    assert route.find()
    route.renew()
    assert set(threading.enumerate()) <= before
    assert out.poll(LONG_S * 1000)
