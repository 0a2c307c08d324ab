"""Time that jumps from event to event, and processes that wait in it, each written as if it were alone.

The daemon blocks: it reads a line, waits for the disk, asks the environment. To run it as it is, each process has a
thread, but only one thread runs at a time, and which one is decided by the events alone. Whoever waits carries the
events out itself, until one of them wakes somebody; if that is another, it is let go on. So the same events come in the
same order on any machine, and a wait that ends with one's own event costs no switch.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable

Event = Callable[[], "Fiber | None"]
"""What happens; the fiber that goes on then, if one does."""


class Killed(KeyboardInterrupt):
    """The process is gone; nothing of the daemon catches this, and asyncio ends its loop with it at once."""


class Timeline:
    """The clock of a world and what will happen in it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.failure: BaseException | None = None
        """What ended the world before its time."""
        self.is_over: Callable[[], bool] = lambda: False
        self.is_closing = False
        """Whether only the threads are still to be ended."""
        self._events: list[tuple[float, int, Event]] = []
        self._serial = 0
        self._main = Fiber(self)
        self._all: list[Fiber] = []

    def at(self, when_s: float, event: Event) -> None:
        """Let something happen, then."""
        self._serial += 1
        heapq.heappush(self._events, (when_s, self._serial, event))

    def run(self) -> None:
        """Let time pass until the world is over, or nothing more happens in it; ends every process then."""
        self._go_on(self._main)
        self.is_closing = True
        for fiber in self._all:
            fiber.end()
        if self.failure is not None:
            raise self.failure

    def begin(self, body: Callable[[], None]) -> Fiber:
        """A new process; it begins at this time, after what happens already."""
        fiber = Fiber(self, body)
        self._all.append(fiber)
        self.at(self.now_s, lambda: fiber)
        return fiber

    def _next(self) -> Fiber:
        """Carry events out until somebody goes on; that is the main thread where the world is over."""
        try:
            while self._events and not self.is_over():
                when_s, _, event = heapq.heappop(self._events)
                self.now_s = max(self.now_s, when_s)
                fiber = event()
                if fiber is not None:
                    return fiber
        except BaseException as fault:  # whoever carries an event out must not take it for a fault of its own
            self.failure = self.failure or fault
        return self._main

    def _go_on(self, me: Fiber) -> None:
        """Let others go on until it is this one's turn again."""
        other = self._next() if self.failure is None else self._main
        if other is not me:
            other.resume()
            me.gate.acquire()

    def _leave(self, me: Fiber) -> None:
        """A process has ended: let others go on."""
        self._all.remove(me)
        (self._next() if self.failure is None else self._main).resume()


class Fiber:
    """One process: a thread that runs only when it is its turn."""

    def __init__(self, timeline: Timeline, body: Callable[[], None] | None = None) -> None:
        self._timeline = timeline
        self._body = body
        self.gate = threading.Lock()
        self.gate.acquire()
        self._thread: threading.Thread | None = None
        self._wait = 0
        """Counts waits: what was to end an earlier one is void."""
        self._ready: Callable[[], bool] | None = None
        self.paused_until_s = 0.0
        self.is_doomed = self.is_over = False

    def resume(self) -> None:
        """Let its thread run; called by whoever stops running right after."""
        if self._body is not None and self._thread is None:
            self._thread = threading.Thread(target=self._live, daemon=True)
            self._thread.start()
        else:
            self.gate.release()

    def wait(self, until_s: float, ready: Callable[[], bool] = lambda: False) -> None:
        """Return when it is ready, as far as somebody pokes, or at this time; never, where it is killed meanwhile."""
        if self.is_doomed:
            raise Killed
        if ready():
            return
        self._wait += 1
        number = self._wait
        self._ready = ready
        self._timeline.at(until_s, lambda: self._woken(number))
        self._timeline._go_on(self)
        self._ready = None
        self._wait += 1
        if self.is_doomed:
            raise Killed

    def poke(self) -> None:
        """Something has come: look whether it is what the process waits for."""
        if self._ready is not None and self._ready():
            self._ready = None
            number = self._wait
            self._timeline.at(self._timeline.now_s, lambda: self._woken(number))

    def kill(self) -> None:
        """End it where it waits."""
        self.is_doomed = True
        if self._thread is None:
            self._body = lambda: None  # it has not begun, and never will
            return
        number = self._wait
        self.paused_until_s = 0.0
        self._timeline.at(self._timeline.now_s, lambda: self._woken(number))

    def end(self) -> None:
        """Unwind a thread that is left over when the world is over."""
        if self._thread is not None and not self.is_over:
            self.is_doomed = True
            self.gate.release()
            self._thread.join()

    def _woken(self, number: int) -> Fiber | None:
        if number != self._wait or self.is_over:
            return None
        if self._timeline.now_s < self.paused_until_s and not self.is_doomed:
            self._timeline.at(self.paused_until_s, lambda: self._woken(number))
            return None
        return self

    def _live(self) -> None:
        assert self._body is not None  # noqa: S101 - only those with a body have a thread
        timeline = self._timeline
        try:
            self._body()
        except Killed:
            pass
        except BaseException as fault:
            if not timeline.is_closing:
                timeline.failure = timeline.failure or fault
        self.is_over = True
        if not timeline.is_closing:
            timeline._leave(self)
