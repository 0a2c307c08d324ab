"""Links that suffer: a line between the socket of a neighbour and whoever reads it, and the watch that sets it up."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import zmq

from agentd.core.chance import Purpose, stream
from agentd.shell.json_log import Log
from agentd.shell.link_faults import Disturbance, read_faults
from agentd.shell.sockets import QUEUE_FRAMES, SLICE_MS

LOOK_EVERY_S = 1.0
"""How often an undisturbed agent looks whether there is a new file."""
LOOK_DISTURBED_S = 0.2
"""The same for one that suffers: the end of a fault is not to be late."""


class OpenLine(Protocol):
    """A line that something can be put between."""

    id: int
    fault: FaultyLine | None
    waiting: deque[bytes]
    """Parts that come before what has not been read yet."""

    def read(self, flags: int) -> bytes | None:
        """The next part, whatever is injected; None where there is none."""
        ...

    def rest(self, milliseconds: int) -> None:
        """Wait for so long, or until something comes."""
        ...


class FaultyLine:
    """Stands between a neighbour's socket and its reader for as long as frames between them are disturbed."""

    def __init__(self, watch: FaultWatch, line: OpenLine) -> None:
        self._watch = watch
        self._line = line
        self._late: deque[tuple[float, bytes]] = deque()
        self.disturbance = Disturbance()

    @property
    def cut(self) -> bool:
        """Whether nothing gets through."""
        return self.disturbance.cut

    def receive(self, wait: bool) -> bytes | None:
        """The next part that gets through: now, or within a slice if waiting is allowed."""
        self._watch.look()
        end_s = self._watch.now_s() + (SLICE_MS / 1000.0 if wait else 0.0)
        while True:
            self._take_in()
            now_s = self._watch.now_s()
            if self._late and self._late[0][0] <= now_s:
                return self._hand_over(self._late.popleft()[1])
            if now_s >= end_s:
                return None
            until_s = min(end_s, self._late[0][0]) if self._late else end_s
            # A whole millisecond at least: what is due sooner than that is not worth another turn.
            self._line.rest(max(1, round((until_s - now_s) * 1000.0)))

    def end(self) -> None:
        """The fault is over: what is still held is heard now, and before anything newer."""
        self._line.waiting.extend(part for _, part in self._late)
        self._late.clear()

    def _take_in(self) -> None:
        """Read what has come, decide what gets through, and when."""
        due_s = self._watch.now_s() + self.disturbance.delay_s
        for _ in range(QUEUE_FRAMES - len(self._late)):
            if (part := self._line.read(zmq.NOBLOCK)) is None:
                return
            if self.disturbance.cut:
                self._watch.dropped["injected-cut"] += 1
            elif self.disturbance.loss and self._watch.chance.random() < self.disturbance.loss:
                self._watch.dropped["injected-loss"] += 1
            else:
                self._late.append((due_s, part))

    def _hand_over(self, part: bytes) -> bytes:
        """The part; where the line has healed this is the first that came through, and the line's work is done."""
        if not self.disturbance:
            self._watch.healed(self._line)
        return part


class FaultWatch:
    """Looks for faults to inject, now and then, and puts them between an agent and its neighbours."""

    def __init__(
        self,
        path: str,
        own: int,
        seed: int | None,
        log: Log,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now_s = now_s
        self._path = Path(path)
        self._own = own
        self._seed = seed
        self._log = log
        self._lines: Collection[OpenLine] = ()
        self._signature: tuple[int, ...] = ()
        self._due_s = 0.0
        self._every_s = LOOK_EVERY_S
        self._round_began_s = 0.0
        self.longest_round_s = 0.0
        """The longest time from one frame of ours to the next."""
        self.dropped: Counter[str] = Counter()
        self._lies = False
        self._on_lies: Callable[[bool], None] = lambda _: None

    @cached_property
    def chance(self) -> np.random.Generator:
        """Decides which frames are lost: a stream of its own, so that noise and decisions stay as they were."""
        seed = self._seed if self._seed is not None else secrets.randbits(63)
        return stream(seed, Purpose.FAULT, self._own)

    def over(self, lines: Collection[OpenLine], dropped: Counter[str]) -> None:
        """Watch over these links; what is dropped on purpose is counted there."""
        self._lines, self.dropped = lines, dropped
        self.look()

    def let_lie(self, tell: Callable[[bool], None]) -> None:
        """Tell the agent, now and whenever it changes, whether an operator wants it to lie."""
        self._on_lies = tell
        if self._lies:
            tell(True)

    def tick(self) -> None:
        """A frame of ours is about to leave."""
        now_s = self.now_s()
        if self._round_began_s:
            self.longest_round_s = max(self.longest_round_s, now_s - self._round_began_s)
        self._round_began_s = now_s
        if now_s >= self._due_s:
            self.look()

    def look(self) -> None:
        """Read the file anew if it is time, and if it is not the one that was read last."""
        now_s = self.now_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._every_s
        signature: tuple[int, ...] = ()
        with contextlib.suppress(OSError):
            about = self._path.lstat()
            signature = (about.st_ino, about.st_mtime_ns, about.st_size)
        if signature != self._signature:
            self._signature = signature
            self._read()

    def healed(self, line: OpenLine) -> None:
        """The first part came through after a fault."""
        self._log.info("heard again", neighbour=line.id)
        self._undisturb(line)

    def _read(self) -> None:
        try:
            faults = read_faults(self._path)
        except ValueError as fault:  # somebody meddled: go on with what was asked for before
            self._log.warning("the faults to inject cannot be read", file=str(self._path), why=str(fault))
            return
        for line in self._lines:
            self._apply(line, faults.between(self._own, line.id))
        disturbed = {line.id: line.fault.disturbance for line in self._lines if line.fault is not None}
        self._log.info(
            "faults changed",
            cut=[peer for peer, disturbance in disturbed.items() if disturbance.cut],
            delayed=[peer for peer, disturbance in disturbed.items() if disturbance.delay_s],
            lossy=[peer for peer, disturbance in disturbed.items() if disturbance.loss],
        )
        self._pace()
        if (lies := self._own in faults.liars) != self._lies:
            self._lies = lies
            self._log.warning("made to lie" if lies else "honest again")
            self._on_lies(lies)

    def _apply(self, line: OpenLine, disturbance: Disturbance) -> None:
        faulty = line.fault
        if faulty is None and disturbance:
            faulty = line.fault = FaultyLine(self, line)
        if faulty is None:
            return
        was_cut, faulty.disturbance = faulty.cut, disturbance
        if not disturbance and not was_cut:
            self._undisturb(line)  # a line that was cut stays until something comes through, to tell of it

    def _undisturb(self, line: OpenLine) -> None:
        if line.fault is not None:
            line.fault.end()
            line.fault = None
            self._pace()

    def _pace(self) -> None:
        disturbed = any(line.fault is not None for line in self._lines)
        self._every_s = LOOK_DISTURBED_S if disturbed else LOOK_EVERY_S
