"""Pulls under way: handed to threads that may wait, looked for when their time is over, and never waited for.

Whoever drives an agent asks (`ask`), goes on with other things, and takes (`take`) what has come by a time that was
fixed beforehand. So nothing that the caller does depends on how long an arm took, which may be the reward itself. What
has not come by then, or is no reward, counts as the lower bound and as a fault; a later answer is thrown away.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentd.core.grid import quantise
from agentd.real_arms.worker import ArmFault, Reason, Worker, within

LEAST = 0
"""The lower bound, on the grid."""


MOST_WAITING = 2
"""Pulls per worker that may wait for one: those that were given up are passed over as soon as somebody looks."""


class Outcome(NamedTuple):
    """What became of a pull."""

    reward: int
    """On the grid."""
    fault: Reason | None
    why: str = ""


class _Job(NamedTuple):
    key: int
    arm: int
    trial: int
    deadline_s: float
    agent: int | None


class Pulling:
    """Hands pulls to workers, each in a thread of its own; every one is asked one pull at a time."""

    def __init__(
        self,
        workers: Sequence[Worker],
        bounds: tuple[float, float],
        on_fault: Callable[[Reason, str], None] | None = None,
    ) -> None:
        self._bounds = bounds
        self._on_fault = on_fault
        self._workers = workers
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._came: dict[int, Outcome] = {}
        self._wanted: set[int] = set()
        self._lock = threading.Lock()
        self.faults: Counter[str] = Counter()
        """Pulls that counted as the lower bound, by reason. How many they are follows from rewards: for nobody else."""
        for worker in workers:
            threading.Thread(target=self._work, args=(worker,), name="arm", daemon=True).start()

    def ask(self, key: int, arm: int, trial: int, deadline_s: float, agent: int | None = None) -> None:
        """Have an arm pulled; `key` is what the outcome is taken by."""
        with self._lock:
            self._wanted.add(key)
        if self._jobs.qsize() >= MOST_WAITING * len(self._workers):
            self._note(key, Outcome(LEAST, Reason.BUSY, "all that could be asked are still at earlier pulls"))
        else:
            self._jobs.put(_Job(key, arm, trial, deadline_s, agent))

    def has(self, key: int) -> bool:
        """Whether the outcome of a pull is there."""
        with self._lock:
            return key in self._came

    def take(self, key: int) -> int:
        """What a pull paid, on the grid: the lower bound if nothing came; from now on it is too late."""
        with self._lock:
            self._wanted.discard(key)
            outcome = self._came.pop(key, None)
        if outcome is None:
            outcome = Outcome(LEAST, Reason.LATE, "nothing came in time")
        if outcome.fault is not None:
            self.faults[outcome.fault.value] += 1
            if self._on_fault is not None:
                self._on_fault(outcome.fault, outcome.why)
        return outcome.reward

    def close(self) -> None:
        """End what was started; threads that wait end with the process."""
        for worker in self._workers:
            worker.close()

    def _note(self, key: int, outcome: Outcome) -> None:
        with self._lock:
            if key in self._wanted:  # else it is too late: the pull was counted
                self._came[key] = outcome

    def _work(self, worker: Worker) -> None:
        worker.begin()
        while True:
            job = self._jobs.get()
            with self._lock:
                wanted = job.key in self._wanted
            if wanted:
                self._note(job.key, self._outcome(worker, job))

    def _outcome(self, worker: Worker, job: _Job) -> Outcome:
        try:
            reward = within(worker.pull(job.arm, job.trial, job.deadline_s, job.agent), *self._bounds)
            return Outcome(quantise(reward), None)
        except ArmFault as fault:
            return Outcome(LEAST, fault.reason, str(fault))
        except Exception as fault:  # a worker that fails otherwise is asked again all the same
            return Outcome(LEAST, Reason.ENDED, f"{type(fault).__name__}: {fault!s:.200}")
