"""Units of work on all cores: processes that die with their parent's interest, results as they come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, TypeVar

from agentd.errors import AgentdError, SettingsError, install_with
from agentd.interrupts import interrupts_later, start_deaf

Task = TypeVar("Task")
Done = TypeVar("Done")
Work = Callable[[Task], Done]
"""Does one task; a function of a module, because it travels to other processes by name."""

_IDLE_S = 300.0
"""After so long without work a worker ends by itself, so that it does not outlive a killed parent by much."""
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
"""One BLAS thread per worker: more only fight for the cores that other workers use."""


def carry_out(work: Work[Task, Done], tasks: Iterable[Task], jobs: int) -> Generator[Done]:
    """Do every task, in this process or in `jobs` others, and yield what came of each as it is done.

    Tasks are taken from the iterable only as workers need them. Closing the generator ends the workers at once.
    """
    if jobs == 1:
        return (work(task) for task in tasks)
    return _in_processes(work, tasks, jobs)


def usual_jobs() -> int:
    """One for each core; a single one where joblib, which more than one need, is not installed."""
    return (os.cpu_count() or 1) if find_spec("joblib") is not None else 1


def load_joblib() -> Any:
    """The library behind parallel repetitions, or a refusal with the cure."""
    try:
        return import_module("joblib")
    except ImportError:
        raise SettingsError(
            f"several processes need joblib, which is not installed: {install_with('analysis')}, or say --jobs 1"
        ) from None


def _in_processes(work: Work[Task, Done], tasks: Iterable[Task], jobs: int) -> Generator[Done]:
    load_joblib()
    loky = import_module("joblib.externals.loky")  # not joblib.Parallel: see _end
    pool = loky.ProcessPoolExecutor(jobs, timeout=_IDLE_S, env=_ONE_THREAD)
    try:
        start_deaf(pool)
        yield from _done(pool, work, tasks, ahead=2 * jobs)  # each worker finds its next task waiting
    except BrokenProcessPool:
        raise AgentdError(
            "a worker process died, perhaps for lack of memory; the same command with fewer --jobs continues"
        ) from None
    finally:
        _end(pool)


def _done(pool: Executor, work: Work[Task, Done], tasks: Iterable[Task], ahead: int) -> Generator[Done]:
    """What came of each task, with at most `ahead` in the pool's hands."""
    tasks = iter(tasks)
    running: set[Future[Done]] = set()
    while True:
        running |= {pool.submit(work, task) for task in islice(tasks, ahead - len(running))}
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def _end(pool: Any) -> None:
    """Kill the workers, but only when the pool has passed on all that it was given.

    Told to kill, loky's thread forgets its tasks, then stumbles with a traceback over the number of one that it has
    not passed on. Tasks are passed on in order and submitted by this thread alone, so when the last is on its way, all
    are. (joblib.Parallel submits from loky's own thread, whenever a result comes: nobody else can tell which is last.)
    """
    with interrupts_later():
        with suppress(BrokenProcessPool):
            last = pool.submit(int)
            while not (last.running() or last.done()):
                time.sleep(0.001)
        pool.shutdown(wait=True, kill_workers=True)
