"""How long it takes until everybody is in step again after a fault: a testbed, faults done to it, and the evidence.

In step means two things. Each of two neighbours waits for the other: the last that its log says of the other is not
that rounds go on without it. And their frames, as somebody hears them who only listens, are of the same round or of
the next one.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgpack
import zmq
from click.testing import CliRunner
from evidence import until
from running_testbeds import agentd, read_json

from agentd.cli import cli
from deploy.testbed.control import kill_agent, restart_agent

GONE_ON_WITHOUT = ("neighbour down", "neighbour slow", "neighbour missing")
BACK = ("neighbour back",)
NOTICED_WITHIN_S = 10.0
SETTLED_ROUNDS = 5
"""Whoever keeps step for so many rounds is in step."""


class Rounds:
    """Hears all frames of all agents: which round each of them has reached, and when."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self.heard: dict[int, list[tuple[float, int]]] = {number: [] for number in addresses}
        self._addresses = addresses
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def latest(self, number: int) -> int:
        heard = self.heard[number]
        return heard[-1][1] if heard else 0

    def _listen(self) -> None:
        with zmq.Context() as context, ExitStack() as sockets:
            poller, lists = zmq.Poller(), {}
            for number, address in self._addresses.items():
                socket = sockets.enter_context(context.socket(zmq.SUB))
                socket.setsockopt(zmq.LINGER, 0)
                socket.setsockopt(zmq.RECONNECT_IVL, 20)
                socket.subscribe(b"frame/")
                socket.connect(address)
                poller.register(socket, zmq.POLLIN)
                lists[socket] = self.heard[number]
            while not self._stop.is_set():
                for socket, _ in poller.poll(100):
                    fields = msgpack.unpackb(socket.recv().removeprefix(b"frame/"))
                    lists[socket].append((time.time(), fields[5]))


class Bed:
    """A testbed that runs in the background, and what is known of it."""

    def __init__(self, place: Path, *flags: str, listens: bool = True) -> None:
        self.place = place
        agentd("up", *flags, "--run-dir", str(place), "--detach")
        plan = read_json(place / "plan.json")["agents"]
        self.peers = {one["id"]: sorted(int(peer) for peer in one["peers"]) for one in plan}
        self._stack = ExitStack()
        self.rounds: Rounds | None = None
        if listens:
            self.rounds = self._stack.enter_context(Rounds(_addresses(plan)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        agentd("down", str(self.place), code=None)

    def events(self, agent: int) -> list[dict[str, Any]]:
        name = f"agent-{agent}.jsonl"
        text = self._found(f"logs/{name}", f"logs/agent-{agent}/{name}").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def pid(self, name: str) -> int:
        return int(read_json(self.place / "testbed.json")["children"][name]["pid"])

    def progress(self) -> int:
        """The trial of the slowest agent."""
        status = read_json(self._found("status.json", "environment/status.json")) or {"agents": []}
        return min((int(one["trial"]) for one in status["agents"]), default=0)

    def _found(self, here: str, in_containers: str) -> Path:
        """A file of the run: containers have a directory each, and write nowhere else."""
        own = self.place / in_containers
        return own if own.exists() else self.place / here

    def goes_without(self, agent: int) -> dict[int, float]:
        """Whom an agent does not wait for, and since when."""
        without: dict[int, float] = {}
        for event in self.events(agent):
            at = datetime.fromisoformat(event["timestamp"]).timestamp()
            if event["event"] == "joined":
                without = {}
            elif event["event"] == "starting without neighbours":
                without |= dict.fromkeys(map(int, event["missing"]), at)
            elif event["event"] in GONE_ON_WITHOUT:
                without[event["neighbour"]] = at
            elif event["event"] in BACK:
                without.pop(event["neighbour"], None)
        return without

    def last_return_s(self, since_s: float) -> float:
        """When the last neighbour came back to anybody."""
        at = [
            datetime.fromisoformat(event["timestamp"]).timestamp()
            for agent in self.peers
            for event in self.events(agent)
            if event["event"] in (*BACK, "ready")
        ]
        return max((one for one in at if one >= since_s), default=since_s)

    def given_up_since(self, since_s: float) -> list[tuple[int, int]]:
        """Who went on without whom since then."""
        return [
            (agent, event["neighbour"])
            for agent in self.peers
            for event in self.events(agent)
            if event["event"] in GONE_ON_WITHOUT and datetime.fromisoformat(event["timestamp"]).timestamp() > since_s
        ]

    def all_wait_for_all(self) -> bool:
        return not any(self.goes_without(agent) for agent in self.peers)

    def in_step_s(self, since_s: float, within_s: float = 60.0) -> float:
        """Seconds until everybody was in step for good."""

        def look() -> bool:
            return self.all_wait_for_all() and self._keeps_step(since_s) is not None

        until(look, within_s)
        stepped_s = self._keeps_step(since_s)
        return max(self.last_return_s(since_s), stepped_s or 0.0) - since_s

    def _keeps_step(self, since_s: float) -> float | None:
        """Since when the frames of neighbours are of one round or the next; None: they are not, or not for long."""
        if self.rounds is None:
            return since_s
        begun = since_s
        for agent, peers in self.peers.items():
            for peer in peers:
                if (at := _apart_until(self.rounds.heard[agent], self.rounds.heard[peer], since_s)) is None:
                    return None
                begun = max(begun, at)
        return begun


def _apart_until(one: list[tuple[float, int]], other: list[tuple[float, int]], since_s: float) -> float | None:
    """When the rounds of two were last more than one apart (and one for how they are heard)."""
    mine = one[bisect_left(one, (since_s,)) :]  # only these: whoever looks at all of a long run holds the listener up
    first = {round_: at for at, round_ in reversed(other[bisect_left(other, (since_s - 1.0,)) :])}
    apart = since_s
    kept = 0
    for at, round_ in mine:
        # A neighbour that waits for us, and we for it, has said its frame of the round before by now.
        if first.get(round_ - 1, at + 1) <= at + 0.05 or first.get(round_, at + 1) <= at + 0.05:
            kept += 1
        else:
            apart, kept = at, 0
    return apart if kept >= SETTLED_ROUNDS else None


def _addresses(plan: list[dict[str, Any]]) -> dict[int, str]:
    """Where the agents are heard: what their neighbours were told."""
    return {int(peer): address for one in plan for peer, address in one["peers"].items()}


def chaos(*args: str) -> str:
    """In this process: another interpreter takes long to start on a busy machine."""
    done = CliRunner().invoke(cli, ["chaos", *args])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return done.stdout


# Faults


def restarted(bed: Bed, agent: int, gone_s: float) -> float:
    """Kill an agent, let it be given up, bring it back; seconds until all are in step."""
    kill_agent(bed.place, agent)
    _noticed(lambda: all(agent in bed.goes_without(peer) for peer in bed.peers[agent]))
    let_pass(gone_s)
    since_s = time.time()
    restart_agent(bed.place, agent)
    return bed.in_step_s(since_s)


def partitioned(bed: Bed, cut_s: float) -> float:
    """Cut a testbed into halves for a while; seconds until all are in step."""
    half = len(bed.peers) // 2
    across = {a: {p for p in peers if (p < half) != (a < half)} for a, peers in bed.peers.items()}
    chaos("partition", f"0-{half - 1}|{half}-{len(bed.peers) - 1}", "--run-dir", str(bed.place))
    _noticed(lambda: all(far <= set(bed.goes_without(a)) for a, far in across.items()))
    let_pass(cut_s)
    since_s = time.time()
    chaos("heal", "--run-dir", str(bed.place))
    return bed.in_step_s(since_s)


def paused(bed: Bed, name: str, still_s: float) -> float:
    """Stop a process in its tracks for a while; seconds until all are in step."""
    pid = bed.pid(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        let_pass(still_s)
    finally:
        since_s = time.time()
        os.kill(pid, signal.SIGCONT)
    return bed.in_step_s(since_s)


def _noticed(look: Callable[[], bool]) -> None:
    """Wait until all have noticed something; whoever was late before may be given up without a word once more."""
    with suppress(AssertionError):
        until(look, NOTICED_WITHIN_S)


def let_pass(seconds: float) -> None:
    threading.Event().wait(seconds)


# A busy machine


def _spin(until_s: float) -> None:
    while time.time() < until_s:
        pass


@contextmanager
def busy_machine(cores: int, for_s: float) -> Iterator[None]:
    """A loop that does nothing on each core, for no longer than it is said."""
    end_s = time.time() + for_s
    spinning = [multiprocessing.Process(target=_spin, args=(end_s,), daemon=True) for _ in range(cores)]
    for each in spinning:
        each.start()
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.join()
