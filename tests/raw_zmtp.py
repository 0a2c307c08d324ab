"""ZMTP 3.0 by hand, as a stranger would speak it who keeps to none of libzmq's limits; also a program that floods.

    python raw_zmtp.py HOST PORT SOCKET-TYPE TIMES HEX

sends the bytes HEX so many times after the handshake, as fast as they are taken, and then closes.
"""

from __future__ import annotations

import socket
import sys

AT_ONCE = 1000


def frame(part: bytes, *, more: bool = False) -> bytes:
    """One part of a message on the wire."""
    if len(part) < 256:
        return bytes([more, len(part)]) + part
    return bytes([more | 2]) + len(part).to_bytes(8, "big") + part


def message(*parts: bytes) -> bytes:
    return b"".join([*(frame(part, more=True) for part in parts[:-1]), frame(parts[-1])])


def stranger(host: str, port: int, kind: str) -> socket.socket:
    """A connection that has shaken hands as a socket of this type."""
    made = socket.create_connection((host, port))
    made.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind.encode()
    made.sendall(bytes([4, len(ready)]) + ready)
    received = b""
    while len(received) < 64 + 2:  # its greeting, and the beginning of its own READY
        if not (data := made.recv(4096)):
            raise ConnectionError("refused")
        received += data
    return made


def flood(host: str, port: int, kind: str, times: int, data: bytes) -> None:
    with stranger(host, port, kind) as made:
        for _ in range(times // AT_ONCE):
            made.sendall(data * AT_ONCE)
        made.shutdown(socket.SHUT_WR)
        while made.recv(1 << 16):  # until the other side has read all of it and closes
            pass


if __name__ == "__main__":
    flood(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), bytes.fromhex(sys.argv[5]))
