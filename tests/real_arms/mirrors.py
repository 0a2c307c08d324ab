"""Three devices and several mirrors, each in a network namespace of its own: what the pilot runs on.

Two networks, as with a link for data beside one for gossip: agents hear each other over 10.77.1.0/24, and reach the
mirrors over 10.77.2.0/24, so that a device whose gossip is cut off still has its arms.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

PAGE = Path(__file__).parents[2] / "docs" / "real-arms.md"
MIRROR = """
import os, select, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
place, mirrors = sys.argv[1], int(sys.argv[2])
log = os.open(place + "/asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class Mirror(BaseHTTPRequestHandler):
    def do_GET(self):
        number = int(self.path[1:])
        os.write(log, f"{self.client_address[0]} {number}\\n".encode())
        select.select([], [], [], float(open(f"{place}/latency-{number}").read()))
        self.send_response(200)
        self.send_header("Content-Length", "4096")
        self.end_headers()
        self.wfile.write(bytes(4096))
    def log_message(self, *_):
        pass

ThreadingHTTPServer(("10.77.2.100", 8000), Mirror).serve_forever()
"""
CAPTURE = """
import socket, struct, sys, time
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # before a bridge takes it
tap.bind((sys.argv[1], 0))
while True:
    data, about = tap.recvfrom(65536)
    now = time.time()
    if data[12:14] != b"\\x08\\x00":
        continue
    ihl = 4 * (data[14] & 15)
    tcp = data[14 + ihl:14 + struct.unpack(">H", data[16:18])[0]]
    if data[23] == 6 and about[2] != socket.PACKET_OUTGOING:
        port, offset = struct.unpack(">H", tcp[:2])[0], 4 * (tcp[12] >> 4)
        if port == 7000 and len(tcp) > offset:
            print(now, len(tcp) - offset, flush=True)
"""


def block(name: str) -> str:
    """The program of this name on the page."""
    found = re.search(rf"```python\n(# {re.escape(name)}.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, name
    return found[1]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class MirrorWorld:
    """The namespaces, the mirrors and all processes; nothing of it outlives the `with` block."""

    def __init__(self, place: Path, latencies_s: list[float], devices: int = 3) -> None:
        self._place = place
        self._devices = devices
        self._mirrors = len(latencies_s)
        self._stack = ExitStack()
        self._hub = f"agentd-hub-{os.getpid()}"
        for number, latency_s in enumerate(latencies_s):
            self.slow_down(number, latency_s)

    def __enter__(self) -> Self:
        try:
            self._lay_wires()
            self.run_python("mirror", MIRROR, str(self._place), str(self._mirrors), within=self._hub)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _lay_wires(self) -> None:
        self._namespace(self._hub)
        for bridge in ("gossip", "data"):
            ip("-n", self._hub, "link", "add", "name", bridge, "type", "bridge")
            ip("-n", self._hub, "link", "set", bridge, "up")
        ip("-n", self._hub, "address", "add", "10.77.2.100/24", "dev", "data")
        for device in range(self._devices):
            self._namespace(self.name(device))
            for net, bridge in ((1, "gossip"), (2, "data")):
                outer, inner = f"{bridge[0]}{device}", f"eth{net}"
                ip(
                    "-n",
                    self._hub,
                    "link",
                    "add",
                    outer,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    inner,
                    "netns",
                    self.name(device),
                )
                ip("-n", self._hub, "link", "set", outer, "master", bridge, "up")
                ip("-n", self.name(device), "address", "add", f"10.77.{net}.{device + 1}/24", "dev", inner)
                ip("-n", self.name(device), "link", "set", inner, "up")

    def _namespace(self, name: str) -> None:
        ip("netns", "add", name)
        self._stack.callback(ip, "netns", "del", name)
        ip("-n", name, "link", "set", "lo", "up")

    @staticmethod
    def name(device: int) -> str:
        return f"agentd-d{device}-{os.getpid()}"

    def slow_down(self, mirror: int, latency_s: float) -> None:
        beside = self._place / f"latency-{mirror}.new"
        beside.write_text(str(latency_s), encoding="ascii")
        beside.rename(self._place / f"latency-{mirror}")

    def cut(self, device: int, *, off: bool) -> None:
        """Take the gossip link of a device down, or up again."""
        ip("-n", self._hub, "link", "set", f"g{device}", "down" if off else "up")

    def run(self, name: str, command: list[str], *, within: str) -> subprocess.Popen[bytes]:
        """A process in a namespace, its output in a file."""
        with (self._place / f"{name}.out").open("ab") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", within, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._place,
            )
        self._stack.callback(_end, process)
        return process

    def run_python(self, name: str, program: str, *words: str, within: str) -> None:
        place = self._place / f"{name}.py"
        place.write_text(program, encoding="utf-8")
        self.run(name, [sys.executable, "-S", str(place), *words], within=within)

    def capture(self, device: int) -> Path:
        """Write down when each frame of a device passes its wire, and how long it is; the file."""
        self.run_python("capture", CAPTURE, f"g{device}", within=self._hub)
        return self._place / "capture.out"

    def asked(self, device: int) -> list[int]:
        """The mirrors that a device asked, in order."""
        place, source = self._place / "asked", f"10.77.2.{device + 1} "
        lines = place.read_text(encoding="ascii").split("\n")[:-1] if place.exists() else []
        return [int(line.removeprefix(source)) for line in lines if line.startswith(source)]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
