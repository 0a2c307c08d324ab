"""Ctrl-C and pools of processes: a terminal sends it to everybody, but it is the parent's to handle."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType


def start_deaf(pool: Executor) -> None:
    """Start a pool's processes such that they never see Ctrl-C, not even before their first line of ours.

    The first task starts them: all workers of loky, or the server that forks those of a forkserver pool.
    """
    resource_tracker.ensure_running()  # whoever starts it first finds the signal unblocked afterwards
    with interrupts_later():
        pool.submit(int)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Let Ctrl-C wait until this is done, and processes that begin meanwhile be deaf to it for good.

    Blocked, the signal does not reach this thread nor, as they inherit that, the new processes. But it may reach
    another thread, such as those of BLAS, and its handler runs in this one all the same: so that only takes note.
    """
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def signals_noted(patience: int | None = None) -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM only be noted, in the order of their coming, for who looks now and then.

    With `patience`, one more than so many is Ctrl-C as it always is: nobody has to wait for who does not look.
    """
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if patience is not None and len(came) > patience:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: left to itself it would leave behind what was started."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
