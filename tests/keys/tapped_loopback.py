"""What somebody on the way sees: every TCP byte on the loopback to and from some ports, by a raw socket (root's)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from threading import Event, Thread
from typing import Self

ALL_PROTOCOLS = 3
ROOM_BYTES = 64 << 20
_AT_BEGIN = struct.Struct(">HH")


class Tap:
    """Listens from when it is entered until it is left; `streams` are what went over each connection, each way."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = frozenset(ports)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PROTOCOLS))
        with suppress(PermissionError):  # the default room may do
            self._socket.setsockopt(socket.SOL_SOCKET, 33, ROOM_BYTES)  # SO_RCVBUFFORCE
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.1)
        self._over = Event()
        self._thread = Thread(target=self._listen, daemon=True)
        self._pieces: dict[tuple[int, int], list[bytes]] = {}

    @property
    def streams(self) -> list[bytes]:
        return [b"".join(pieces) for pieces in self._pieces.values()]

    def holds(self, wanted: bytes) -> bool:
        return any(wanted in stream for stream in self.streams)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        """Read on until it is over and nothing is left to read."""
        while True:
            try:
                packet, about = self._socket.recvfrom(1 << 17)
            except TimeoutError:
                if self._over.is_set():
                    return
                continue
            if about[2] != socket.PACKET_OUTGOING:  # on the loopback everything is seen twice
                self._take(packet)

    def _take(self, packet: bytes) -> None:
        if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        segment = packet[4 * (packet[0] & 15) : struct.unpack_from(">H", packet, 2)[0]]
        ends = _AT_BEGIN.unpack_from(segment)
        if self._ports.intersection(ends):
            self._pieces.setdefault(ends, []).append(segment[4 * (segment[12] >> 4) :])
