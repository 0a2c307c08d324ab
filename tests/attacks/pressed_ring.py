"""Six honest agents in a ring and neighbours that press on them: how fast rounds go, what memory grows, who is named.

Rates count frames, as somebody hears them who only listens to all six: a frame is a pull, whatever its round is called.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import zmq
from loopback import free_address
from pressing_neighbour import PressingNeighbour
from pressures import PRESSURES
from ring_under_attack import HONEST, Outcome, Setting, Tree, agent_words, environment_of, outcome_of, process_of

TIMEOUT_S = 1.0
READY_S = 10.0
LOOK_EVERY_S = 0.05
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Pressed:
    """A ring, who presses on it how, and for how long."""

    algorithm: str
    pressure: str = "none"
    begin: int = 300
    """After so many rounds the attack begins; 0: before the first."""
    rounds: int = 1500
    attack_s: float = 12.0
    """Then the attack ends, so that a run that was held up comes to its end."""
    until_blamed: bool = False
    """Whether it goes on until the run's status blames somebody, however slow the machine is."""
    attackers: int = 1
    returns: bool = False
    """Whether agent 0 is killed when the attack begins, and started again."""
    stops: bool = False
    """Whether agents are asked to stop when the attack is over: then no machine is too fast for `rounds`."""
    reach: int = 2
    seed: int = 1

    @property
    def ring(self) -> Setting:
        return Setting(
            self.algorithm,
            seed=self.seed,
            rounds=self.rounds,
            reach=self.reach,
            attackers=self.attackers,
            round_timeout_s=TIMEOUT_S,
            ready_timeout_s=READY_S if not self.begin else PATIENCE_S,
        )


@dataclass(frozen=True, kw_only=True)
class Felt:
    """What was felt of it."""

    ring: Outcome
    rate_before: float
    """Frames per second of the slowest honest agent; NaN where the attack was there from the start."""
    rate_during: float
    rate_settled: float
    """In the later half of the attack: what is paid once is paid by then."""
    slowest: tuple[float, ...]
    """Of each honest agent, during the attack."""
    grown_mb: float
    """The most by which the memory of any honest agent has grown since the attack began."""
    named: dict[int, dict[str, int]] = field(default_factory=dict)
    """Who was named in logs, as what, by how many honest agents."""
    blamed: dict[int, dict[str, list[int]]] = field(default_factory=dict)
    """The same in the status of the run."""
    wall_s: float = 0.0

    @property
    def ratio(self) -> float:
        return self.rate_during / self.rate_before

    @property
    def settled_ratio(self) -> float:
        return self.rate_settled / self.rate_before


class Listener:
    """Hears all frames of honest agents, and when; asks nobody to wait for it."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self.heard_s: dict[int, list[float]] = {number: [] for number in addresses}
        self._addresses = addresses
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def rate(self, number: int, since_s: float, until_s: float) -> float:
        """Frames per second of an agent."""
        heard = self.heard_s[number]
        return (bisect_left(heard, until_s) - bisect_left(heard, since_s)) / max(until_s - since_s, 1e-3)

    def _listen(self) -> None:
        with zmq.Context() as context, ExitStack() as sockets:
            poller = zmq.Poller()
            times: dict[Any, list[float]] = {}
            for number, address in self._addresses.items():
                socket = sockets.enter_context(context.socket(zmq.SUB))
                socket.setsockopt(zmq.LINGER, 0)
                socket.subscribe(b"frame/")
                socket.connect(address)
                poller.register(socket, zmq.POLLIN)
                times[socket] = self.heard_s[number]
            while not self._stop.is_set():
                for socket, _ in poller.poll(100):
                    socket.recv()
                    times[socket].append(time.monotonic())


class Memory:
    """How much memory processes hold, and the most that they held."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._base = {pid: _memory_mb(pid) for pid in pids}
        self._most = {pid: rss for pid, (rss, _) in self._base.items()}

    def look(self) -> None:
        for pid in self._pids:
            rss, peak = _memory_mb(pid)
            base_peak = self._base[pid][1]
            self._most[pid] = max(self._most[pid], rss, peak if peak > base_peak + 1 else 0)

    @property
    def grown_mb(self) -> float:
        return max(self._most[pid] - rss for pid, (rss, _) in self._base.items())


def _memory_mb(pid: int) -> tuple[float, float]:
    """Of a process: now, and at the most; nothing once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return tuple(int(status.partition(name)[2].split()[0]) / 1024 for name in ("VmRSS:", "VmHWM:"))  # type: ignore[return-value]
    except (OSError, IndexError):
        return 0.0, 0.0


def press(pressed: Pressed, tree: Tree | None = None, keep: Path | None = None) -> Felt:
    """Run the ring to its end under pressure; its logs stay where `keep` says."""
    if keep is not None:
        keep.mkdir(parents=True)
        return _press(pressed, tree or Tree(), keep)
    with tempfile.TemporaryDirectory(prefix="pressed-") as directory:
        return _press(pressed, tree or Tree(), Path(directory))


def _press(pressed: Pressed, tree: Tree, directory: Path) -> Felt:
    setting, started_s = pressed.ring, time.monotonic()
    addresses = [free_address() for _ in range(HONEST + pressed.attackers)]
    with ExitStack() as stack:
        environment = stack.enter_context(environment_of(setting, tree, directory))
        agents = _Agents(pressed, tree, addresses, environment["address"], directory)
        stack.enter_context(agents)
        listener = stack.enter_context(Listener({number: addresses[number] for number in range(HONEST)}))
        pressing = [
            stack.enter_context(_pressing(pressed, setting, number, addresses, environment))
            for number in range(HONEST, HONEST + pressed.attackers)
        ]
        told = _watch(pressed, agents, listener, pressing, directory)
        exits = agents.exits()
    return Felt(
        ring=outcome_of(setting, directory, exits),
        named=_named(directory),
        blamed=_blamed(directory),
        wall_s=time.monotonic() - started_s,
        **told,
    )


def _pressing(
    pressed: Pressed, setting: Setting, own: int, addresses: list[str], environment: Mapping[str, Any]
) -> PressingNeighbour:
    pressure = PRESSURES[pressed.pressure](setting.scene, timeout_s=TIMEOUT_S, horizon=setting.rounds)
    neighbours = {number: addresses[number] for number in range(setting.reach)}
    run = bytes.fromhex(environment["run"])
    at = environment["address"]
    return PressingNeighbour(own, addresses[own], neighbours, run, pressure, begin=pressed.begin, environment=at)


class _Agents:
    """The honest agents as processes; one may be killed and started again."""

    def __init__(self, pressed: Pressed, tree: Tree, addresses: list[str], environment: str, directory: Path) -> None:
        self._stack = ExitStack()
        self._tree = tree
        self._words = [
            [*agent_words(pressed.ring, number, addresses, environment, directory), *_seat(directory, number)]
            for number in range(HONEST)
        ]
        self.processes = [self._start(number) for number in range(HONEST)]

    def _start(self, number: int) -> subprocess.Popen[str]:
        quiet = {"stderr": subprocess.DEVNULL}
        return self._stack.enter_context(process_of(self._tree, *self._words[number], **quiet))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def restart(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()
        self.processes[number] = self._start(number)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()

    def running(self) -> set[int]:
        return {number for number, process in enumerate(self.processes) if process.poll() is None}

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def exits(self) -> tuple[int, ...]:
        """How they ended; whoever does not end in time was stopped, which is no exit of its own: -9."""
        deadline_s = time.monotonic() + PATIENCE_S
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline_s - time.monotonic()))
            if process.poll() is None:
                process.kill()
        return tuple(process.wait() for process in self.processes)


def _seat(directory: Path, number: int) -> list[str]:
    """Where an agent finds its seat again, though it keeps no state."""
    return ["--seat", str(directory / f"seat-{number}")]


def _watch(
    pressed: Pressed, agents: _Agents, listener: Listener, pressing: Sequence[PressingNeighbour], directory: Path
) -> dict[str, Any]:
    """Wait for the attack, for its end, and for the end of the run; what was seen meanwhile."""
    between_looks = threading.Event()

    def until_or(seconds: float, over: Any, look: Any = lambda: None) -> None:
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s and agents.running() and not over():
            look()
            between_looks.wait(LOOK_EVERY_S)

    heard_s = listener.heard_s
    until_or(PATIENCE_S, lambda: all(each.began.is_set() for each in pressing))
    if not pressed.begin:
        until_or(3 * READY_S, lambda: all(len(heard) > 3 for heard in heard_s.values()))
    began_s = time.monotonic()
    memory = Memory(agents.pids[1:] if pressed.returns else agents.pids)
    if pressed.returns:
        agents.restart(0)
    until_or(pressed.attack_s, lambda: False, memory.look)
    if pressed.until_blamed:
        until_or(PATIENCE_S, lambda: _blamed(directory), memory.look)
    ended_s = time.monotonic()
    running = agents.running()
    for each in pressing:
        each.calm_down()
    if pressed.stops:
        agents.stop()
    until_or(PATIENCE_S, lambda: False, memory.look)
    ends_s = {n: ended_s if n in running else max([*heard_s[n][-1:], began_s]) for n in range(HONEST)}
    before = [listener.rate(n, heard_s[n][min(50, len(heard_s[n]) // 2)], began_s) for n in range(HONEST) if heard_s[n]]
    during = [listener.rate(n, began_s, ends_s[n]) for n in range(HONEST)]
    settled = [listener.rate(n, (began_s + ends_s[n]) / 2, ends_s[n]) for n in range(HONEST)]
    return {
        "rate_before": min(before) if pressed.begin and len(before) == HONEST else float("nan"),
        "rate_during": min(during),
        "rate_settled": min(settled),
        "slowest": tuple(round(rate, 1) for rate in during),
        "grown_mb": round(memory.grown_mb, 1),
    }


def _named(directory: Path) -> dict[int, dict[str, int]]:
    """Whom honest agents named in warnings, and as what."""
    named: dict[int, Counter[str]] = {}
    for number in range(HONEST):
        place = directory / f"agent-{number}.jsonl"
        lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()] if place.exists() else []
        said = {
            (int(who), _as_what(line, int(who)))
            for line in lines
            if line["level"] != "info"
            for who in ([line["neighbour"]] if "neighbour" in line else line.get("missing", ()))
        }
        for who, what in said:
            named.setdefault(who, Counter())[what] += 1
    return {who: dict(what) for who, what in sorted(named.items())}


def _as_what(line: Mapping[str, Any], who: int) -> str:
    why = line.get("why")
    if isinstance(why, Mapping):  # of each neighbour, after its address
        why = str(why.get(str(who), "")).partition(" ")[2]
    return f"{line['event']} ({why})" if why else str(line["event"])


def _blamed(directory: Path) -> dict[int, dict[str, list[int]]]:
    """Whom the environment's last status names, where it names anybody."""
    try:
        status = json.loads((directory / "run" / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {one["id"]: one["blamed"] for one in status["agents"] if one.get("blamed")}
