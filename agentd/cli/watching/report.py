"""agentd report: runs as one page for people, and their charts as files for papers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.files import make_directory, replace_text
from agentd.untrusted import printable

if TYPE_CHECKING:
    from agentd.charts.chart import Chart
    from agentd.charts.report_page import Told

PAGE = "report.html"
_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("runs", nargs=-1, metavar="[RUN_DIR]...", type=click.Path(path_type=Path))
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), help=f"Where to write the page.  [default: {PAGE}]"
)
@click.option("--svg", metavar="DIR", type=click.Path(path_type=Path), help="Write every chart as SVG into DIR.")
@click.option("--csv", metavar="DIR", type=click.Path(path_type=Path), help="Write every chart as CSV into DIR.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written, as JSON.")
def report(
    *, runs: tuple[Path, ...], out: Path | None, svg: Path | None, csv: Path | None, force: bool, as_json: bool
) -> None:
    """Write one page about a run: charts, figures, ledgers, settings. Several runs are compared on it.

    \b
    agentd report runs/mine --out mine.html
    agentd report runs/a runs/b runs/c --out compared.html
    agentd report runs/mine --svg figures --csv figures

    The page needs no server, no network and no script: send it, print it. RUN_DIR may be of a run under way or of
    somebody else; whatever stands in it is shown as text. Only you may read what is written: it tells of every pull.
    With --svg or --csv and without --out no page is written. Without RUN_DIR the testbed is meant that `agentd status`
    shows.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    from agentd.charts.report_page import Told, report_html

    runs = runs or (_usual(),)
    told = [Told.of(run) for run in runs]
    place = out if out is not None else None if svg is not None or csv is not None else Path(PAGE)
    files = list(_files(told, svg, csv))
    if place is not None:
        files.insert(0, (place, report_html(told)))
    _write(files, force=force)
    left_out = [f"{run.facts.name}: {why}" for run in told for why in run.facts.left_out]
    if as_json:
        said = {"runs": [str(run) for run in runs], "written": [str(path) for path, _ in files], "left_out": left_out}
        click.echo(json.dumps(said, ensure_ascii=False))
        return
    for why in left_out:
        click.echo(f"left out of {why}", err=True)
    for path, _ in files:
        click.echo(f"written to {printable(str(path))}")


def _usual() -> Path:
    from deploy.testbed import registry

    place = registry.choose(None).run_dir
    click.echo(f"of {printable(str(place))}", err=True)
    return place


def _files(told: Sequence[Told], svg: Path | None, csv: Path | None) -> Iterator[tuple[Path, str]]:
    """Every chart as a file; those of several runs by the name of their run, and those of all together without."""
    from agentd.charts.chart_files import csv_of, marks_csv, svg_of
    from agentd.charts.comparing import compared, labels_of

    if svg is None and csv is None:
        return
    facts = [run.facts for run in told]
    named: list[tuple[str, Chart]] = []
    if len(told) > 1:
        named += [(chart.name, chart) for chart in compared(facts)]
    for number, (run, name) in enumerate(zip(told, labels_of(facts), strict=True), start=1):
        before = f"{number}-{_safe(name)}-" if len(told) > 1 else ""
        named += [(f"{before}{chart.name}", chart) for chart in run.charts]
        if csv is not None and run.charts and run.charts[0].marks:
            yield csv / f"{before}marks.csv", marks_csv(run.charts[0])
    for name, chart in named:
        if svg is not None:
            yield svg / f"{name}.svg", svg_of(chart)
        if csv is not None:
            yield csv / f"{name}.csv", csv_of(chart)


def _safe(name: str) -> str:
    """A name of a run, as part of the name of a file."""
    return "".join(char if char in _SAFE else "_" for char in name)[:60]


def _write(files: Sequence[tuple[Path, str]], *, force: bool) -> None:
    """Write all of it, or say before the first what is in the way."""
    if not files:
        raise ConfigurationError("there is nothing to draw in what was named")
    there = [path for path, _ in files if os.path.lexists(path)]
    if there and not force:
        others = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise SettingsError(f"{there[0]}{others} exists already; name another place, or write over it with --force")
    for path, content in files:
        try:
            make_directory(path.parent)
            replace_text(path, content)
        except OSError as fault:
            raise AgentdError(f"cannot write {path}: {fault.strerror or fault}") from None
