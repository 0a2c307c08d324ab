"""The one connection of a process to the environment, and the clients of its agents that share it.

What agents ask gathers until nobody in the process can go on, and leaves in parcels; the environment reads, judges and
answers each request as if it had come by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque

import zmq

from agentd.errors import PeerError
from agentd.shell.environment_client import EnvironmentClient
from agentd.shell.host.waits import Waits, wake
from agentd.shell.json_log import Log
from agentd.shell.resolve import Route
from agentd.shell.sockets import requester
from agentd.wire.parcel import MAX_PARCEL_BYTES, MOST_REQUESTS, Parcel, decode_parcel, encode_parcel

MOST_UNDER_WAY = 4096
"""Parcels whose answers are still awaited; those before them will never come."""
RENEW_EVERY_S = 1.0
"""How often the connection is made anew, however many agents ask for it, and only where nothing came for so long."""
LONGEST_LOOK_S = 0.25
"""What the time between two looks counts at most. Thousands of agents may keep a process busy for many seconds: it is
not the environment that is silent then, and to connect anew would lose the answers that lie ready."""
PARTS_AT_ONCE = 256
UNREAD_ANSWERS = 16
"""Of one agent; it has one request under way, and asks again where an answer is lost."""


class Desk:
    """Carries the requests of many agents."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, waits: Waits, log: Log, slice_s: float
    ) -> None:
        self._begin(requester(context, address), address, waits, log, slice_s)
        self.route = Route(self.socket, address)

    def _begin(self, socket: zmq.Socket[bytes], address: str, waits: Waits, log: Log, slice_s: float) -> None:
        """Nobody has asked yet; whatever carries the parcels."""
        self.socket = socket
        self.address = address
        self.waits = waits
        self.slice_s = slice_s
        """How long an agent waits for its answer before it looks up."""
        self._log = log
        self._asked: list[tuple[HostedClient, bytes]] = []
        self._under_way: dict[int, list[HostedClient]] = {}
        self._number = 0
        self._looked_s = waits.now_s()
        self.waited_s = self._heard_s = 0.0
        """For how long the process has listened, and until when something came, by that clock."""

    def ask(self, client: HostedClient, data: bytes) -> None:
        """Take up a request; it leaves with others."""
        self._asked.append((client, data))

    def flush(self) -> None:
        """Let all requests leave."""
        asked, self._asked = self._asked, []
        clients: list[HostedClient] = []
        items: list[bytes] = []
        size = 0
        for client, data in asked:
            if items and (len(items) == MOST_REQUESTS or size + len(data) > MAX_PARCEL_BYTES):
                self._send(clients, items)
                clients, items, size = [], [], 0
            clients.append(client)
            items.append(data)
            size += len(data)
        if items:
            self._send(clients, items)

    def drain(self) -> None:
        """Hand out the answers that have come."""
        now_s = self.waits.now_s()
        self.waited_s += min(now_s - self._looked_s, LONGEST_LOOK_S)
        self._looked_s = now_s
        for _ in range(PARTS_AT_ONCE):
            try:
                data = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._heard_s = self.waited_s
            try:
                answer = decode_parcel(data)
            except PeerError as fault:
                self._log.warning("unreadable answer of the environment", reason=fault.reason)
                continue
            clients = self._under_way.pop(answer.number, [])
            for client, reply in zip(clients, answer.items, strict=False):
                if reply:
                    client.hears(reply)

    def renew(self) -> None:
        """Connect anew, if nothing came since that was done: the environment may have come back elsewhere."""
        if self.waited_s >= self._heard_s + RENEW_EVERY_S:
            self._heard_s = self.waited_s
            self.route.renew()

    def close(self) -> None:
        """Let the last requests leave and close."""
        self.flush()
        self.socket.close()

    def _send(self, clients: list[HostedClient], items: list[bytes]) -> None:
        self._number += 1
        self._under_way[self._number] = clients
        self._under_way.pop(self._number - MOST_UNDER_WAY, None)
        try:
            self.socket.send(encode_parcel(Parcel(self._number, items)), zmq.NOBLOCK)
        except zmq.Again:  # nobody connected and the queue is full: they ask again
            self._log.debug("requests not queued")


class HostedClient(EnvironmentClient):
    """The client of one agent among many: it asks as ever, only what carries the bytes differs."""

    def __init__(self, desk: Desk, log: Log, stop: asyncio.Event) -> None:
        self._desk = desk
        self._answers: deque[bytes] = deque(maxlen=UNREAD_ANSWERS)
        self._waiting: asyncio.Future[None] | None = None
        self._route = desk.route
        self._begin(desk.address, log, stop)

    def now_s(self) -> float:
        """The time, from some beginning."""
        return self._desk.waits.now_s()

    def waited_s(self) -> float:
        """Time in which the process has listened."""
        return self._desk.waited_s

    def hears(self, reply: bytes) -> None:
        """An answer came."""
        self._answers.append(reply)
        wake(self._waiting)

    def interrupt(self) -> None:
        """Let it look at once whether it is to stop."""
        wake(self._waiting)

    def close(self) -> None:
        """The connection is the process's."""

    def _reconnect(self) -> None:
        self._desk.renew()

    def _carry(self, data: bytes) -> None:
        self._desk.ask(self, data)

    def _part_at_once(self) -> bytes | None:
        return self._answers.popleft() if self._answers else None

    async def _next_part(self) -> bytes | None:
        if not self._answers:
            self._waiting = self._desk.waits.within(self._desk.slice_s)
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self._part_at_once()
