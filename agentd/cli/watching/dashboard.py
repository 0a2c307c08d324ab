"""agentd dashboard: a web page that shows runs, live or again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import socket
import sys
import threading
from pathlib import Path

import click

from agentd.addresses import is_loopback
from agentd.errors import ConfigurationError, SettingsError, install_with
from agentd.files import require_own
from agentd.untrusted import printable
from agentd.watching import host_and_port
from deploy.testbed import registry

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
"""No AGENTD_… variables: AGENTD_LISTEN is where an agent listens."""
USUAL = "127.0.0.1:8420"
MOST_RUNS = 20
_SIGNS_OF_A_RUN = ("manifest.json", "status.json", "environment/status.json", "topology.json", "testbed.json")
_POLITENESS = 5
"""Added to the niceness: whoever looks on must not slow what is looked at."""


@click.command(context_settings=_HELP)
@click.argument("run_dirs", nargs=-1, metavar="[RUN_DIR]...", type=click.Path(path_type=Path))
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Where the page is served.  [default: {USUAL}, or a free port if that is taken]",
)
@click.option(
    "--listen-insecure",
    is_flag=True,
    help="Let it listen beyond this machine: whoever reaches it reads it, unencrypted.",
)
@click.option(
    "--allow-chaos", is_flag=True, help="Let the page kill, pause and cut off agents, with the token in its address."
)
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input does: a launcher holds it.")
def dashboard(
    run_dirs: tuple[Path, ...], listen: str | None, listen_insecure: bool, allow_chaos: bool, until_eof: bool
) -> None:
    """Show runs on a web page: live while they last, again when they are over, side by side if they are several.

    \b
    agentd dashboard                       the testbed of this directory, or the newest
    agentd dashboard runs/a                one run, also one that was copied here
    agentd dashboard runs/a runs/b runs/c  three of them, compared

    Only the run directory is read, and nothing raw of a private run is shown. Every user of this machine can open the
    page; only who has the address with the token can change something, and only with --allow-chaos. Ctrl-C ends it.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    try:
        from agentd.dashboard.page_server import PageServer
    except ImportError:
        raise SettingsError(f"the dashboard needs aiohttp, which is not installed: {install_with('ui')}") from None
    from agentd.cli.watching.testbed_behind import RunDirectorySurroundings
    from agentd.dashboard.served_run import ServedRun
    from agentd.dashboard.web_guard import Guard

    places = [_run_directory(path) for path in run_dirs] or [registry.choose(None).run_dir]
    if len(places) > MOST_RUNS:
        raise SettingsError(f"a page shows at most {MOST_RUNS} runs, got {len(places)}")
    _refuse_strangers(listen, insecure=listen_insecure, allow_chaos=allow_chaos)
    runs = [ServedRun(number, path, RunDirectorySurroundings(path)) for number, path in enumerate(places)]
    listener = _listening(listen)
    host, port = listener.getsockname()[:2]
    token = secrets.token_urlsafe(24) if allow_chaos else None
    names = (socket.gethostname().lower(),) if listen_insecure else ()
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"dashboard: http://{shown}:{port}/" + (f"#token={token}" if token else ""))
    for run in runs:
        click.echo(f"  shows {printable(str(run.path))}")
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.nice(_POLITENESS)
    asyncio.run(_serve(PageServer(runs, Guard(port, token, names)), listener, until_eof=until_eof))


async def _serve(server: object, listener: socket.socket, *, until_eof: bool) -> None:
    from agentd.dashboard.page_server import PageServer

    assert isinstance(server, PageServer)  # noqa: S101 - imported late, for its extra
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        threading.Thread(target=_await_eof, args=(loop, stop), daemon=True).start()
    await server.serve(listener, stop)


def _await_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    with contextlib.suppress(RuntimeError):  # it has ended by itself meanwhile
        loop.call_soon_threadsafe(stop.set)


def _run_directory(path: Path) -> Path:
    """The directory, if it is one of a run; it may be a copy, but not another user's."""
    if not path.is_dir():
        raise ConfigurationError(f"there is no directory {path}; name the run directory of a run")
    require_own(path)
    if not any(os.path.lexists(path / name) for name in _SIGNS_OF_A_RUN):
        raise ConfigurationError(f"{path} holds no run: there is none of {', '.join(_SIGNS_OF_A_RUN)} in it")
    return path.resolve()


def _refuse_strangers(listen: str | None, *, insecure: bool, allow_chaos: bool) -> None:
    if listen is None:
        return
    if host_and_port(listen) is None:
        raise SettingsError(f"--listen must be of the form HOST:PORT, as in {USUAL}, got {listen!r}")
    if is_loopback(f"tcp://{listen}"):
        return
    if allow_chaos:
        raise SettingsError("--allow-chaos is for loopback only: leave --listen out, and come through ssh -L from afar")
    if not insecure:
        raise SettingsError(
            f"--listen {listen} is reachable from other machines, unencrypted; add --listen-insecure if that is what "
            "you want"
        )


def _listening(listen: str | None) -> socket.socket:
    """A socket that listens; without a wish, at the usual place or at any that is free."""
    wanted = host_and_port(listen or USUAL)
    assert wanted is not None  # noqa: S101 - checked before
    host, port = wanted
    try:
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as fault:
            if listen is not None or fault.errno != errno.EADDRINUSE:
                raise
            return socket.create_server((host, 0))
    except OSError as fault:
        raise ConfigurationError(
            f"cannot listen on {listen or USUAL}: {fault.strerror or fault}; choose another place with --listen"
        ) from None
