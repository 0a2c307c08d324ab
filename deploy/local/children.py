"""What runs inside the processes of a testbed, from the moment they are forked.

Every child leaves the terminal (a Ctrl-C is the supervisor's to answer), asks to be told when its supervisor or the
fork server dies, and sends what it would print to RUN/logs/stderr.log. How a child failed is one line in
RUN/logs/failures.jsonl, because an exit code alone tells an operator nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import multiprocessing
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentd import listeners, plugins
from agentd.errors import AgentdError
from agentd.files import append_text, open_own
from agentd.settings import AgentSettings
from agentd.untrusted import decode_json, printable, read_in
from deploy.plan.environment import EnvironmentPlan
from deploy.plan.names import ENVIRONMENT_LOG, STDERR

if TYPE_CHECKING:
    from agentd.shell.host.host import HostPlace

FAILURES = "logs/failures.jsonl"

GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that reach a whole process group; blocked from the fork server on, until a child has left its group."""

_BUG = 70
_PR_SET_PDEATHSIG = 1
_LONGEST_FAILURE = 2_000


Target = Callable[..., int]
"""What a child runs; returns its exit code."""

Listener = tuple[str, socket.socket]
"""An address, and the socket that listens there for a child."""


def agent_target(settings: AgentSettings) -> int:
    """Run one agent."""
    from agentd.shell.daemon import run_agent

    plugins.load()
    return run_agent(settings)


def host_target(agents: Sequence[AgentSettings], place: HostPlace, pipe: Connection) -> int:
    """Run many agents; how each of them ends goes through the pipe, and which to start anew comes through it."""
    from agentd.shell.host.host import run_host

    plugins.load()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    by_id = {settings.id: settings for settings in agents}

    def tell(agent: int, code: int, why: str) -> None:
        with contextlib.suppress(OSError):  # a supervisor that is gone needs no news
            pipe.send((agent, code, why[:_LONGEST_FAILURE]))

    def asked() -> AgentSettings | None:
        return by_id.get(pipe.recv()) if pipe.poll() else None

    return run_host(agents, place, tell, (pipe.fileno(), asked))


def environment_target(environment: EnvironmentPlan, ready: Connection) -> int:
    """Serve the bandit until every agent is done."""
    from agentd.environment.service import EnvironmentSettings, run_environment
    from agentd.keys.keying import Keying
    from agentd.runs.arms import Arms
    from agentd.terms_file import terms_from_json

    settings = EnvironmentSettings(
        listen=environment.listen,
        arms=Arms.from_json(environment.arms),
        agents=environment.agents,
        rounds=environment.rounds,
        seed=environment.seed,
        run=environment.run,
        terms=terms_from_json(environment.terms),
        run_dir=environment.run_dir,
        seats=environment.seats,
        keying=Keying(**environment.keying),
        until_done=True,
        together=True,
        log_file=str(Path(environment.run_dir) / ENVIRONMENT_LOG),
    )

    def tell(address: str) -> None:
        with contextlib.suppress(OSError):  # a supervisor that is gone needs no news
            ready.send(address)
        ready.close()

    return run_environment(settings, on_ready=tell)


def child_main(name: str, run_dir: str, listener: Listener | None, target: Target, *arguments: Any) -> None:
    """Become a child of the testbed, run the target, and exit with what it returns."""
    _leave_terminal(Path(run_dir))
    _hear_of_deaths()
    if listener is not None:
        listeners.hand_over(*listener)
    code = 1
    try:
        code = target(*arguments)
    except AgentdError as fault:
        code = fault.exit_code
        _write_failure(Path(run_dir), name, code, str(fault))
    except Exception as bug:
        code = _BUG
        traceback.print_exc()
        _write_failure(Path(run_dir), name, code, f"{type(bug).__name__}: {bug}; a bug, see {STDERR}")
    finally:
        sys.stderr.flush()
        os._exit(code)  # no handler of the fork server's or of multiprocessing's has anything to do here


def failures(run_dir: Path) -> dict[str, str]:
    """The last words of every child that said why it failed."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in read_in(run_dir, FAILURES).splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = decode_json(line)
                found[str(said["name"])] = printable(str(said["error"])[:_LONGEST_FAILURE])
    return found


def _leave_terminal(run_dir: Path) -> None:
    with contextlib.suppress(PermissionError):  # a leader of a session has left already
        os.setsid()
    # A Ctrl-C that came before we had left was not for us; ignoring it drops it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)
    sink = open_own(run_dir / STDERR, os.O_WRONLY | os.O_APPEND)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)


def _hear_of_deaths() -> None:
    """SIGTERM when the supervisor dies, and when the fork server does.

    The fork server is the parent, so the kernel tells of its death. The supervisor is not; but it holds the other end
    of a pipe, and a pipe can be told to send a signal when that end closes. No thread has to wait for it.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        pipe = supervisor.sentinel
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
        if not supervisor.is_alive():  # it died before we listened
            os.kill(os.getpid(), signal.SIGTERM)


def _write_failure(run_dir: Path, name: str, code: int, error: str) -> None:
    line = json.dumps({"name": name, "exit_code": code, "error": error[:_LONGEST_FAILURE]}, ensure_ascii=False)
    with contextlib.suppress(OSError):
        append_text(run_dir / FAILURES, line + "\n")
