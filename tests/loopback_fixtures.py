"""Fixtures on real sockets, for the conftest.py of every directory that needs them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import zmq
from loopback import RUN, Peer
from structlog.typing import FilteringBoundLogger
from virtual_transport import VirtualPeer, VirtualTransport

from agentd.shell.doors.door import Door
from agentd.shell.json_log import open_log
from agentd.shell.link import Link
from agentd.shell.transport import ZmqTransport

Context = zmq.Context[zmq.Socket[bytes]]
Keep = Callable[[zmq.Socket[bytes]], zmq.Socket[bytes]]


class MakeLink(Protocol):
    def __call__(
        self, own: int, peers: tuple[int, ...], *, run: bytes = ..., incarnation: int = ..., round_: int = ...
    ) -> Link: ...


class MakePeer(Protocol):
    def __call__(self, own: int, other: int, *, hears: int | None = ...) -> Peer: ...


MakeVirtual = Callable[..., Awaitable[tuple[Link, VirtualTransport, list[VirtualPeer]]]]


class Addresses:
    """Where agents listen: ipc sockets in a directory whose name is short enough for them."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __getitem__(self, agent: int) -> str:
        return f"ipc://{self._directory}/{agent}"


@pytest.fixture
def addresses() -> Iterator[Addresses]:
    with tempfile.TemporaryDirectory(prefix="agentd.") as directory:
        yield Addresses(directory)


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def keep(context: Context) -> Iterator[Keep]:
    """Holds sockets until the test is over, and closes them then."""
    kept: list[zmq.Socket[bytes]] = []

    def hold(socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        kept.append(socket)
        return socket

    yield hold
    for socket in kept:
        socket.close(linger=0)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def log(log_file: Path) -> Iterator[FilteringBoundLogger]:
    made: Any = open_log(str(log_file), "debug")
    yield made
    made._logger._file.close()  # a daemon leaves this to the end of its process


@pytest.fixture
def stop() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def make_link(context: Context, addresses: Addresses, log: FilteringBoundLogger) -> Iterator[MakeLink]:
    made: list[Link] = []

    def make(
        own: int,
        peers: tuple[int, ...],
        *,
        run: bytes = RUN,
        incarnation: int = 0,
        round_: int = 0,
        fast_path: bool = True,
    ) -> Link:
        transport = ZmqTransport(
            context, own=own, door=Door(addresses[own]), peers={peer: addresses[peer] for peer in peers}
        )
        link = Link(transport, own=own, log=log, fast_path=fast_path)
        made.append(link)
        link.introduce(run=run, arms=2, incarnation=incarnation, round_=round_)
        return link

    yield make
    for link in made:
        link.close()


@pytest.fixture
def virtual(log: FilteringBoundLogger) -> MakeVirtual:
    """Makes a link on a clock that is a number, with its transport and neighbours that both sides hear already."""

    async def make(*peers: int) -> tuple[Link, VirtualTransport, list[VirtualPeer]]:
        transport = VirtualTransport(1, peers)
        link = Link(transport, own=1, log=log)
        link.introduce(run=RUN, arms=2, incarnation=0, round_=0)
        voices = [VirtualPeer(transport, peer) for peer in peers]
        for voice in voices:
            voice.join()
        await link.wait_until_ready(1.0, asyncio.Event(), some_needed=True)
        return link, transport, voices

    return make


@pytest.fixture
def make_peer(context: Context, addresses: Addresses) -> Iterator[MakePeer]:
    made: list[Peer] = []

    def make(own: int, other: int, *, hears: int | None = None) -> Peer:
        peer = Peer(context, own, other, listen=addresses[own], hears=addresses[hears or other])
        made.append(peer)
        return peer

    yield make
    for peer in made:
        peer.close()
