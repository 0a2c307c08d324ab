"""A sweep from its grid to its rows: what is done already is taken from the disk, the rest measured."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from agentd import __version__
from agentd.cluster.dask_client import carry_out_on
from agentd.cluster.scheduler_place import SchedulerPlace
from agentd.experiment.parallel import carry_out, usual_jobs
from agentd.sweeps.combinations import Configuration
from agentd.sweeps.measuring import Row
from agentd.sweeps.rows_from_afar import MEASURE, Done
from agentd.sweeps.rows_on_disk import RowStore


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is to be measured."""

    configurations: Sequence[Configuration]
    repetitions: int
    jobs: int = 1
    cluster: SchedulerPlace | None = None
    """Where it is measured; None: in this machine's processes."""

    @classmethod
    def on_cores(
        cls,
        configurations: Sequence[Configuration],
        repetitions: int,
        jobs: int | None,
        cluster: SchedulerPlace | None = None,
    ) -> Sweep:
        """With so many processes, or as many as are usual here."""
        return cls(configurations, repetitions, jobs or usual_jobs(), cluster)

    def digest(self, configuration: Configuration) -> str:
        return configuration.digest(self.repetitions, __version__)


def carry_out_sweep(sweep: Sweep, store: RowStore | None, on_done: Callable[[], None]) -> list[Row]:
    """All rows, in the order of the grid; `on_done` is called for each configuration that was measured now."""
    found = {each.number: rows for each in sweep.configurations if (rows := _kept(sweep, store, each)) is not None}
    todo = [each for each in sweep.configurations if each.number not in found]
    with closing(_measured(sweep, todo)) as measured:
        for configuration, rows in measured:
            if store is not None:
                store.save(sweep.digest(configuration), rows)
            found[configuration.number] = rows
            on_done()
    return [row for each in sweep.configurations for row in found[each.number]]


def how_many_left(sweep: Sweep, store: RowStore) -> int:
    """Configurations that are still to be measured."""
    return sum(_kept(sweep, store, each) is None for each in sweep.configurations)


def _kept(sweep: Sweep, store: RowStore | None, configuration: Configuration) -> list[Row] | None:
    return None if store is None else store.load(sweep.digest(configuration), sweep.repetitions)


def _measured(sweep: Sweep, todo: Sequence[Configuration]) -> Generator[Done]:
    # The dearest first, so that no core ends long after the others.
    ordered = sorted(todo, key=lambda each: -each.settings.agents * each.settings.rounds)
    tasks = [(each, sweep.repetitions) for each in ordered]
    if sweep.cluster is not None and tasks:
        return carry_out_on(sweep.cluster, MEASURE, tasks)
    return carry_out(MEASURE.work, tasks, min(sweep.jobs, max(1, len(todo))))
