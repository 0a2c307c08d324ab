"""A dashboard beside a testbed: a process of its own, which ends with who started it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from agentd.errors import SettingsError

_PATIENCE_S = 5.0


class PageBeside:
    """The page of a run, while its launcher lives."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def stay(self) -> None:
        """Keep the page when the run is over, until somebody has seen enough of it."""
        click.echo("the page stays until you press Ctrl-C", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            self._process.wait()


@contextlib.contextmanager
def page_beside(run_dir: Path, *, allow_chaos: bool) -> Iterator[PageBeside]:
    """Serve the page of a run and say where; it ends with us, also where we are killed: its standard input does."""
    words = [sys.executable, "-m", "agentd", "dashboard", str(run_dir), "--until-eof"]
    process = subprocess.Popen(
        [*words, *(["--allow-chaos"] if allow_chaos else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C is ours to answer: it ends the run first, and the page last
    )
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    try:
        told = process.stdout.readline().strip()
        if not told:
            raise SettingsError("the dashboard did not start; see the line above, or leave out --dashboard")
        click.echo(told, err=True)
        yield PageBeside(process)
    finally:
        process.stdin.close()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
