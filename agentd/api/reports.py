"""Charts and pages of runs, from a program or a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentd.charts.chart import Chart
from agentd.charts.of_run import charts_of
from agentd.charts.report_page import Told, fragment_html, report_html
from agentd.charts.run_facts import RunFacts
from agentd.errors import SettingsError
from agentd.runs.directory import finite
from agentd.runs.regret import NOT_PULLED, rounds_made

if TYPE_CHECKING:
    from agentd.api.results import Run

__all__ = ["Chart", "fragment_of", "report", "told_of"]


def report(*runs: Run | str | Path) -> str:
    """One HTML page about a run, or about several side by side, as `agentd report` writes it.

    A run is what `simulate`, `run` and `load_run` give, or the name of a run directory.
    """
    if not runs:
        raise SettingsError("a report needs at least one run")
    return report_html([told_of(each) for each in runs])


def fragment_of(run: Run) -> str:
    """What a notebook shows of a run."""
    return fragment_html(told_of(run))


def told_of(run: Run | str | Path) -> Told:
    """What there is to tell of a run; of one that was simulated here, from what it holds."""
    if isinstance(run, (str, Path)):
        return Told.of(run)
    if run.path is not None:
        return Told.of(run.path)
    arm = np.where(run.arm < 0, NOT_PULLED, run.arm).astype(np.uint16)
    facts = RunFacts(
        name=str(run.manifest.get("runtime", "run")),
        arm=arm[:, : rounds_made(arm)],
        means=tuple(run.means.tolist()),
        manifest=finite(run.manifest),
        summary=finite(run.summary),
        references=run.references,
    )
    return Told(facts, charts_of(facts))
