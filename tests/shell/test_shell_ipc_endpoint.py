"""An ipc path is listened on by one process, in a directory of its own, and nobody else gets in."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zmq
from loopback import LONG_S
from loopback_fixtures import Context, Keep

from agentd.errors import ConfigurationError
from agentd.shell.doors.door import Door
from agentd.shell.sockets import publisher, subscriber

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="agentd.") as directory:  # short, and 0700
        yield Path(directory)


def listening(context: Context, door: Door, keep: Keep) -> zmq.Socket[bytes]:
    return keep(publisher(context, door))


def fault_of(context: Context, path: Path) -> str:
    with pytest.raises(ConfigurationError) as fault:
        publisher(context, Door(f"ipc://{path}"))
    return str(fault.value)


def test_subscribers_come_and_the_file_is_for_its_owner_only(context: Context, place: Path, keep: Keep) -> None:
    out = listening(context, Door(f"ipc://{place}/3"), keep)
    keep(subscriber(context, 1, f"ipc://{place}/3"))
    assert out.poll(LONG_S * 1000)
    about = (place / "3").stat()
    assert stat.S_ISSOCK(about.st_mode)
    assert about.st_mode & 0o777 == 0o600


def test_a_second_listener_is_refused_and_the_first_goes_on(context: Context, place: Path, keep: Keep) -> None:
    out = listening(context, Door(f"ipc://{place}/3"), keep)
    why = "address already in use; choose another address with --listen"
    assert fault_of(context, place / "3") == f"cannot listen on ipc://{place}/3: {why}"
    keep(subscriber(context, 1, f"ipc://{place}/3"))
    assert out.poll(LONG_S * 1000), "the first one still has the path"


def test_closing_leaves_nothing_behind_and_the_next_one_may_listen(context: Context, place: Path, keep: Keep) -> None:
    first = Door(f"ipc://{place}/3")
    publisher(context, first).close(linger=0)
    first.close()
    first.close()  # once more does no harm
    assert list(place.iterdir()) == []
    second = Door(f"ipc://{place}/3")
    out = listening(context, second, keep)
    first.close()
    keep(subscriber(context, 1, f"ipc://{place}/3"))
    assert out.poll(LONG_S * 1000), "who ceased before does not remove what came after"
    second.close()


LISTEN = """
import sys, time, zmq
from agentd.shell.doors.door import Door
from agentd.shell.sockets import publisher
kept = publisher(zmq.Context(), Door(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


def test_the_file_of_a_process_that_was_killed_is_replaced(context: Context, place: Path, keep: Keep) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, f"ipc://{place}/3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"listening\n"
        assert "address already in use" in fault_of(context, place / "3")
        other.send_signal(signal.SIGKILL)
    assert (place / "3").is_socket()
    out = listening(context, Door(f"ipc://{place}/3"), keep)
    keep(subscriber(context, 1, f"ipc://{place}/3"))
    assert out.poll(LONG_S * 1000)


def test_what_is_no_socket_is_not_removed(context: Context, place: Path) -> None:
    (place / "3").write_text("precious", encoding="utf-8")
    assert "is there already and is no socket" in fault_of(context, place / "3")
    (place / "4").symlink_to(place / "3")
    assert "is there already and is no socket" in fault_of(context, place / "4")
    assert (place / "3").read_text(encoding="utf-8") == "precious"
    assert not list(place.glob("*.lock"))


def test_a_directory_that_others_may_write_to_is_refused(context: Context, place: Path) -> None:
    for mode in (0o770, 0o707, 0o1777):
        place.chmod(mode)
        assert f"other users may write to {place}" in fault_of(context, place / "3")


def test_no_directory_on_the_way_may_be_changed_by_others(context: Context, place: Path) -> None:
    (place / "own").mkdir(mode=0o700)
    place.chmod(0o777)
    assert f"other users may write to {place};" in fault_of(context, place / "own" / "3")
    place.chmod(0o1777)  # as /tmp: nobody can move what is ours
    door = Door(f"ipc://{place}/own/3")
    publisher(context, door).close(linger=0)
    door.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_another_user_is_refused(context: Context, place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    assert f"{place} belongs to another user" in fault_of(context, place / "3")


TRY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
made = socket.socket(socket.AF_UNIX)
try:
    made.connect(sys.argv[1])
except PermissionError:
    print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect(context: Context, place: Path, keep: Keep) -> None:
    """Neither through the directory nor, where its mode was widened, through the file."""
    out = listening(context, Door(f"ipc://{place}/3"), keep)
    for mode in (0o700, 0o755):
        place.chmod(mode)
        tried = subprocess.run(
            [sys.executable, "-I", "-S", "-c", TRY, str(place / "3")], capture_output=True, text=True, check=False
        )
        assert (tried.stdout, tried.stderr) == ("refused\n", "")
    assert not out.poll(0)
