"""Units of work on all cores: processes that die with their parent's interest, results as they come."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from agentd.errors import AgentdError, SettingsError
from agentd.simulate.parts import Part
from agentd.simulate.spec import RunSpec
from agentd.simulate.trials import Unit, measure

Task = tuple[Unit, list[RunSpec]]
Done = tuple[Unit, Part]


def carry_out(tasks: Iterable[Task], jobs: int) -> Generator[Done]:
    """Measure every unit, in this process or in `jobs` others, and yield each as it is done.

    Tasks are taken from the iterable only as workers need them. Closing the generator ends the workers at once.
    """
    if jobs == 1:
        return (_work(unit, specs) for unit, specs in tasks)
    return _in_processes(tasks, jobs)


def load_joblib() -> Any:
    """The library behind parallel trials, or a refusal with the cure."""
    try:
        return import_module("joblib")
    except ImportError:
        raise SettingsError("experiments need joblib, which is not installed: install agentd[analysis]") from None


def _in_processes(tasks: Iterable[Task], jobs: int) -> Generator[Done]:
    joblib = load_joblib()
    # One BLAS thread per worker: more only fight for the cores that other workers use.
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, max_nbytes=None)
    with _deaf_to_interrupts():
        results = parallel(joblib.delayed(_work)(unit, specs) for unit, specs in tasks)
    try:
        for done in results:  # noqa: UP028 - `yield from` would close the results by itself, and noisily
            yield done
    except BrokenProcessPool:
        raise AgentdError(
            "a worker process died, perhaps for lack of memory; the same command with fewer --jobs continues"
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that closing early wastes work is known here, and wanted
            results.close()
        pool = import_module("joblib.externals.loky").get_reusable_executor
        pool(reuse=True).shutdown(wait=True, kill_workers=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C: a terminal sends it to everybody, but it is the parent's to handle.

    A process inherits what its parent ignores when it begins. (A blocked signal would not get lost in the parent
    meanwhile, but the pool unblocks it.)
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(unit: Unit, specs: list[RunSpec]) -> Done:
    """One unit, in a worker."""
    return unit, measure(specs, bytes_too=unit.series.bytes_too)
