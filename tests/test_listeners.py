"""Sockets that a launcher opened: taken once, by whoever binds their address, and served again by the next life."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from evidence import until
from loopback import LONG_S

from agentd import listeners
from agentd.environment.router import Router
from agentd.shell.doors.door import Door
from agentd.shell.sockets import publisher, requester, subscriber
from agentd.wire.topics import FRAME_TOPIC, sync_topic


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture(params=["tcp", "ipc"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """An address, and the launcher's copy of the socket that listens there."""
    if request.param == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "a"))
        listener.listen()
        address = f"ipc://{tmp_path / 'a'}"
    listener.setblocking(False)
    with listener:
        yield address, listener


def test_who_connected_before_there_was_a_publisher_is_heard_at_once_in_every_life(
    opened: tuple[str, socket.socket], context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    address, listener = opened
    hears = subscriber(context, 1, address)
    for life in (b"first", b"second"):
        listeners.hand_over(address, listener.dup())
        says = publisher(context, Door(address))
        assert says.LAST_ENDPOINT.decode() == address
        # A subscriber that connects anew subscribes anew when it is looked at, and not before.
        until(lambda says=says: hears.poll(0) or says.poll(1))
        assert {says.recv(), says.recv()} == {b"\x01" + FRAME_TOPIC, b"\x01" + sync_topic(1)}
        says.send(FRAME_TOPIC + life)
        assert hears.poll(int(LONG_S * 1000))
        assert hears.recv() == FRAME_TOPIC + life
        says.close(linger=0)
    hears.close()


def test_an_environment_serves_the_socket_it_was_given(
    opened: tuple[str, socket.socket], context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    address, listener = opened
    asks = requester(context, address)
    asks.send(b"sent before anybody was there")
    listeners.hand_over(address, listener.dup())
    router = Router(context, address)
    assert router.address == address
    assert router.socket.poll(int(LONG_S * 1000))
    assert [parts[1] for parts in router.waiting()] == [b"sent before anybody was there"]
    router.close()
    asks.close()


def test_a_socket_is_taken_once_and_is_not_passed_on(opened: tuple[str, socket.socket]) -> None:
    address, listener = opened
    copy = listener.dup()
    copy.set_inheritable(True)
    listeners.hand_over(address, copy)
    assert listeners.take("tcp://127.0.0.1:1") is None
    descriptor = listeners.take(address)
    assert descriptor is not None
    assert not os.get_inheritable(descriptor)
    assert listeners.take(address) is None
    os.close(descriptor)
