"""The parts of a run directory that containers see: a directory for each of them, lent to their user, then taken back.

What runs in a container may turn against us: it can put a link, a pipe or anything else where it may write, and whoever
follows it there, as the user of this machine, does its work. So the run directory and what is in it stay their user's
alone, and no two containers share a place that they may write to:

    environment/        all that the environment writes, as the run directory that it sees
    logs/agent-N/       the log of an agent
    state/agent-N/      its state, where it keeps one
    seats/agent-N/      the secret of its seat, which it only reads; with keys its note on the roster, which it writes
    chaos/              faults to inject, which all agents only read
    hosts/host-N/       what a container of many agents is told, which it only reads; it sees the places of its agents

While containers run, what is read there is read as from a stranger (`agentd.untrusted`). When they have gone, plain
files with the names that are expected are moved to where every run directory has them; pulls.npz and the curves are
made anew from the journal, because a file of pulls can be made to fill any memory.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agentd.environment.pull_journal import NAME as PULLS
from agentd.environment.pull_journal import longest_journal
from agentd.environment.seat_journal import NAME as SEATS
from agentd.environment.store import OPERATOR, REPORTS, TERMS
from agentd.errors import ConfigurationError
from agentd.files import DIRECTORY, FILE
from agentd.keys.keying import NOTE
from agentd.runs.history.history_file import FILE as HISTORY
from agentd.runs.history.history_file import LONGEST_HISTORY
from agentd.runs.status import APART
from agentd.runs.status import FILE as STATUS
from agentd.untrusted import LONGEST_JSON, open_in, read_in
from deploy.containers.compose_document import HOST_FILE, HOST_FILES
from deploy.plan.names import ENVIRONMENT_LOG, host_name
from deploy.plan.plan import LINK_FAULTS, SEAT_HASHES, Plan, log_name, note_name, own_log_name, seat_name, state_name
from deploy.plan.written_plan import read_manifest

LONGEST_LOG = 1 << 30
"""Bytes of a log that is kept."""
_LONGEST_SEATS = 64 << 20
_MADE_ANEW = ("pulls.npz", "regret.csv", "regret.svg", "manifest.json", "summary.json", OPERATOR, NOTE)
"""What the environment writes and nobody takes over."""


def make_directories(place: Path, plan: Plan, user: str) -> None:
    """Make the directories, after the plan was written down."""
    (place / APART).mkdir(mode=DIRECTORY)
    if plan.keys is None:
        (place / SEAT_HASHES).replace(place / APART / SEAT_HASHES)
    else:
        (place / note_name(0)).parent.parent.mkdir(mode=DIRECTORY)
    if any(agent.state is not None for agent in plan.agents):
        (place / state_name(0)).parent.mkdir(mode=DIRECTORY)
    for agent in plan.agents:
        (place / own_log_name(agent.id)).parent.mkdir(mode=DIRECTORY)
        if plan.keys is not None:
            (place / note_name(agent.id)).parent.mkdir(mode=DIRECTORY)
        if agent.state is not None:
            (place / state_name(agent.id)).mkdir(mode=DIRECTORY)
    if user.partition(":")[0] != str(os.geteuid()):
        (place / LINK_FAULTS).parent.chmod(0o755)  # read by another user, in a run directory that only we may enter


def make_host_file(place: Path, host: int, text: str) -> None:
    """What a container of many agents is told: read by another user, in a run directory that only we may enter."""
    directory = place / HOST_FILES / host_name(host)
    directory.parent.mkdir(mode=DIRECTORY, exist_ok=True)
    directory.mkdir(mode=DIRECTORY)
    (directory / HOST_FILE).write_text(text, encoding="utf-8")
    (directory / HOST_FILE).chmod(0o644)
    directory.chmod(0o755)


def lend(place: Path, user: str) -> None:
    """Let containers of root's write to what is theirs; where the caller is not root, it is their user's already."""
    if os.geteuid() == 0:
        uid, gid = map(int, user.split(":"))
        for directory in _lent(place):
            _change_owner(directory, uid, gid)


def take_back(place: Path) -> None:
    """Own everything again after the containers have gone, and put what they wrote where it belongs."""
    if os.geteuid() == 0:
        for directory in _lent(place):
            _change_owner(directory, 0, os.getegid())
    _gather(place)


def _lent(place: Path) -> Iterator[Path]:
    """Directories of ours in which only their containers can have changed anything."""
    yield place / APART
    for kind in (own_log_name(0).partition("/")[0], state_name(0).partition("/")[0], seat_name(0).partition("/")[0]):
        with contextlib.suppress(FileNotFoundError), os.scandir(place / kind) as entries:
            yield from [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _change_owner(place: Path, uid: int, gid: int) -> None:
    """By descriptors and never through a link, whatever a container has put there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for _, directories, files, inside in os.fwalk(place, follow_symlinks=False):
            os.fchown(inside, uid, gid)
            for name in [*directories, *files]:
                with contextlib.suppress(FileNotFoundError):
                    os.chown(name, uid, gid, dir_fd=inside, follow_symlinks=False)


def _gather(place: Path) -> None:
    journal = _longest_journal(place)
    limits = {TERMS: LONGEST_JSON, REPORTS: LONGEST_JSON, STATUS: LONGEST_JSON, SEAT_HASHES: LONGEST_JSON}
    limits |= {PULLS: journal, SEATS: _LONGEST_SEATS, HISTORY: LONGEST_HISTORY, ENVIRONMENT_LOG: LONGEST_LOG}
    for name, limit in limits.items():
        _move(place / APART, name, place / name, limit)
    for name in _MADE_ANEW:
        with contextlib.suppress(OSError):
            (place / APART / name).unlink()
    for empty in (place / APART / "logs", place / APART):
        with contextlib.suppress(OSError):  # something unexpected is in it, or it was gathered before
            empty.rmdir()
    for directory in [path for path in _lent(place) if path.parent == place / "logs"]:
        number = directory.name.removeprefix("agent-")
        if number.isdecimal() and directory.name == f"agent-{number}":
            _move(directory, f"{directory.name}.jsonl", place / log_name(int(number)), LONGEST_LOG)
            with contextlib.suppress(OSError):
                directory.rmdir()


def _longest_journal(place: Path) -> int:
    """As long as the journal of the run can be that was planned; nothing of it is taken where that is not known."""
    try:
        settings, _ = read_manifest(read_in(place, "manifest.json"))
    except (OSError, ValueError, ConfigurationError):
        return 0
    return longest_journal(settings.agents * settings.rounds)


def _move(directory: Path, name: str, target: Path, limit: int) -> None:
    """Take a plain file over that has only this name, and is no longer than it can be; leave anything else."""
    with contextlib.suppress(OSError):
        descriptor = open_in(directory, name)
        try:
            about = os.fstat(descriptor)
            if about.st_nlink == 1 and about.st_size <= limit and stat.S_ISREG(about.st_mode):
                os.fchmod(descriptor, FILE)
                (directory / name).replace(target)
        finally:
            os.close(descriptor)
