"""Agents with arms of their own as processes, as on devices: a command that pays, terms, states, logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import zmq
from agentd_processes import Process
from evidence import wall_ms
from loopback import events

from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.terms_file import write_terms_file
from agentd.wire.codec import decode_frame
from agentd.wire.frame import GREETING
from agentd.wire.topics import FRAME_TOPIC, payload

MEANS = (0.2, 0.5, 0.8)
BEST = 2
ARM = """
import select, sys
means, latencies = eval(sys.argv[1]), eval(sys.argv[2])
with open(sys.argv[3], "a") as journal:
    for line in sys.stdin:
        arm, trial = line.split()
        journal.write(line)
        journal.flush()
        select.select([], [], [], latencies[int(arm)])
        print(means[int(arm)], trial, flush=True)
"""


class Devices:
    """Up to three agents on loopback, each with a command for arms; nothing is shared but the terms."""

    def __init__(self, place: Path, addresses: list[str], *, interval_s: float = 0.1, epsilon: float = 2.0) -> None:
        self._place = place
        self._addresses = addresses
        ids = ((0, max(2, len(addresses) - 1)),)
        self.terms = Terms(
            run=b"devices!",
            arms=len(MEANS),
            lifetime=2,
            clock=Clock.FREE,
            interval_us=round(interval_s * 1e6),
            start_ms=wall_ms(),
            policies=(PolicyTerms("sealed", 4, epsilon, 1.1, ids),),
        )
        write_terms_file(place / "terms.json", self.terms)
        (place / "arm.py").write_text(ARM, encoding="ascii")

    def start(self, own: int, *flags: str, latency_s: float = 0.0, state: bool = True) -> Process:
        """One of them; its neighbours are all others."""
        peers = ",".join(f"{n}={address}" for n, address in enumerate(self._addresses) if n != own)
        arm = [sys.executable, "-S", str(self._place / "arm.py"), str(MEANS).replace(" ", "")]
        arm += [str((latency_s,) * len(MEANS)).replace(" ", ""), str(self._place / f"pulls-{own}")]
        where = ("--listen", self._addresses[own], "--peers", peers, "--terms", str(self._place / "terms.json"))
        kept = ("--state", str(self.state(own))) if state else ()
        log = ("--log-file", str(self._place / f"log-{own}.jsonl"))
        return Process("--id", str(own), *where, "--environment", f"exec:{' '.join(arm)}", *kept, *log, *flags)

    def state(self, own: int) -> Path:
        return self._place / f"state-{own}"

    def pulls(self, own: int) -> list[tuple[int, int]]:
        """The arm and the trial of every pull, as the command saw them."""
        place = self._place / f"pulls-{own}"
        lines = place.read_text(encoding="ascii").splitlines() if place.exists() else []
        return [(int(arm), int(trial)) for arm, trial in (line.split() for line in lines)]

    def log(self, own: int, event: str | None = None) -> list[dict[str, Any]]:
        return events(self._place / f"log-{own}.jsonl", event)


class Ear:
    """Hears the frames of one agent as a neighbour does, and when each came, in seconds since the start of the run."""

    def __init__(self, address: str, terms: Terms) -> None:
        self._start_ms = terms.start_ms
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.SUBSCRIBE, FRAME_TOPIC)
        self._socket.connect(address)

    def next(self) -> tuple[int, float]:
        """The round of the next frame, and when it came."""
        while True:
            assert self._socket.poll(60_000), "nothing was said for a minute"
            data = self._socket.recv()
            came_s = (wall_ms() - self._start_ms) / 1000
            frame = decode_frame(payload(data, FRAME_TOPIC))
            if not frame.flags & GREETING:
                return frame.round, came_s

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


def copied(state: Path, to: Path) -> None:
    """What a backup does."""
    subprocess.run(["cp", "-a", str(state), str(to)], check=True)
