"""Where the work of an audit is done: in this process, or in as many as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from agentd import plugins
from agentd.interrupts import start_deaf

Portion = TypeVar("Portion")
Done = TypeVar("Done")


class Workers:
    """Carries out portions of work, in any order."""

    def __init__(self, pool: ProcessPoolExecutor | None) -> None:
        self._pool = pool

    def carry_out(self, work: Callable[[Portion], Done], portions: Sequence[Portion]) -> Iterator[Done]:
        """The results as they come; whoever has enough may stop asking, and what was not begun is never done."""
        if self._pool is None:
            yield from map(work, portions)
            return
        futures = [self._pool.submit(work, portion) for portion in portions]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def workers(processes: int) -> Iterator[Workers]:
    """So many processes, started afresh: nothing that draws is shared with this one."""
    if processes == 1:
        yield Workers(None)
        return
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin)
    try:
        start_deaf(pool)
        yield Workers(pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """In every worker: know the policies of others, and do not wait for work for ever."""
    plugins.load()
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def default_processes() -> int:
    """As many as there are cores for us."""
    return len(os.sched_getaffinity(0))
