"""A supervisor that outlives the command that started it: two forks, a session of its own, no terminal.

The command waits for news through a pipe: one JSON object when the testbed runs or has failed to.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from agentd.errors import AgentdError
from agentd.files import open_own
from deploy.testbed.display import Nothing
from deploy.testbed.launch import carry_out
from deploy.testbed.runtime import Prepared
from deploy.testbed.supervisor import LOG

Tell = Callable[[dict[str, Any]], None]
"""Sends the news; only the first counts."""


def detached(work: Callable[[Tell], None], log: Path) -> dict[str, Any]:
    """Run `work` in a process of its own; returns the first news it tells. What it prints goes to the log."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # A Ctrl-C waits until it is known whom it has to take along; otherwise the daemon would be left behind.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _become_daemon(work, writing, log, mask)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading, encoding="utf-8") as news:
            return _first_news(news.readline, log, mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def start_detached(prepared: Prepared) -> dict[str, Any]:
    """Carry a testbed out in a process of its own; tells `failure` and `exit_code` once all agents run."""

    def work(tell: Tell) -> None:
        result = carry_out(prepared, Nothing(), on_ready=lambda: tell({"failure": "", "exit_code": 0}))
        tell({"failure": result.ending.failure, "exit_code": result.ending.exit_code})

    try:
        return detached(work, prepared.directory.path / LOG)
    finally:
        prepared.release()  # the supervisor has its own copies


def _first_news(readline: Callable[[], str], log: Path, mask: Iterable[int]) -> dict[str, Any]:
    """The news; a Ctrl-C while waiting for it takes the daemon along."""
    daemon = readline()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        line = readline()
    except KeyboardInterrupt:
        with contextlib.suppress(ValueError, ProcessLookupError):  # it never came to be, or has ended
            os.kill(int(daemon), signal.SIGTERM)
        readline()
        raise click.exceptions.Abort from None
    if not line:
        raise AgentdError(f"the supervisor ended before the testbed ran; see {log}")
    news: dict[str, Any] = json.loads(line)
    return news


def _become_daemon(work: Callable[[Tell], None], writing: int, log: Path, mask: Iterable[int]) -> None:
    """Leave the terminal and the parent, do the work, and never return."""
    code = 1
    try:
        os.setsid()
        if os.fork():  # whoever leads a session could get a terminal again; its child cannot
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _redirect(log)
        os.write(writing, f"{os.getpid()}\n".encode())
        work(_teller(writing))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _teller(writing: int) -> Tell:
    told = False

    def tell(news: dict[str, Any]) -> None:
        nonlocal told
        if not told:
            told = True
            os.write(writing, json.dumps(news).encode() + b"\n")
            os.close(writing)

    return tell


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    sink = open_own(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(nothing)
    os.close(sink)
