"""Directories of sockets: private, short, locked while they are used, and removed only where they are surely ours."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.errors import ConfigurationError
from deploy.local import socket_directory
from deploy.local.socket_directory import LONGEST_PATH, SocketDirectory, remove
from deploy.local.socket_files import SocketFiles


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory with a short name."""
    with tempfile.TemporaryDirectory(prefix="home-") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield Path(made)


def left_behind(home: Path, name: str = "agentd-abcd1234") -> Path:
    """A directory as a supervisor that was killed leaves it."""
    place = home / name
    place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "a0"))
    (place / "e.lock").touch()
    return place


def test_a_directory_is_entered_by_its_user_only_and_its_paths_are_short(home: Path) -> None:
    files = SocketFiles(3)
    place = Path(files.places(Path()).sockets)
    assert place.parent == home
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert sorted(path.name for path in place.iterdir()) == ["a0", "a1", "a2", "e"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert list(files.listeners) == [f"ipc://{place}/{name}" for name in ("e", "a0", "a1", "a2")]
    for address in files.listeners:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address.removeprefix("ipc://"))
    files.release()
    files.release()
    assert not place.exists()


def test_a_home_that_is_too_deep_is_not_used_and_one_of_ours_that_others_may_write_to_neither(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = home / ("x" * (LONGEST_PATH - len(str(home)) - 20))
    deep.mkdir()
    open_to_all = home / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link = home / "link"
    link.symlink_to(home)
    for unfit in (deep, open_to_all, link, home / "nowhere", Path("relative")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(unfit))
        directory = SocketDirectory()
        assert Path(directory.path).parent == Path("/tmp")  # noqa: S108
        directory.release()
    monkeypatch.setattr(socket_directory, "_COMMON_HOME", str(open_to_all))
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid)
    with pytest.raises(ConfigurationError, match="--transport tcp"):
        SocketDirectory()


def test_what_is_in_use_stays_until_the_last_copy_lets_go(home: Path) -> None:
    directory = SocketDirectory()
    place = Path(directory.path)
    assert place.parent == home
    copy = os.dup(directory._lock)  # as a supervisor in the background has one
    assert not remove(directory.path)
    directory.release()
    assert place.is_dir()
    os.close(copy)
    assert remove(str(place))
    assert not remove(str(place))


def test_what_a_killed_supervisor_left_is_removed(home: Path) -> None:
    place = left_behind(home)
    assert remove(str(place))
    assert not place.exists()


def test_nothing_else_is_removed_whatever_is_written_down(home: Path, tmp_path: Path) -> None:
    real = left_behind(home)
    elsewhere = left_behind(tmp_path)
    strangely_named = left_behind(home, "agentd-ab")
    link = home / "agentd-link1234"
    link.symlink_to(real)
    for path in (
        elsewhere,
        strangely_named,
        link,
        home / ".." / home.name / ".." / real.name,
        "",
        "agentd-abcd1234",
        "/",
    ):
        assert not remove(str(path))
    assert all((place / "a0").exists() for place in (real, elsewhere, strangely_named))
    assert link.is_symlink()


def test_what_we_did_not_make_is_left_where_it_is(home: Path, tmp_path: Path) -> None:
    place = left_behind(home)
    (place / "notes.txt").touch()
    (place / "a1").symlink_to(tmp_path)
    (place / "a2").mkdir()
    assert not remove(str(place))
    assert sorted(path.name for path in place.iterdir()) == ["a1", "a2", "notes.txt"]


def test_a_directory_of_another_user_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = left_behind(home)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert not remove(str(place))
    assert (place / "a0").exists()
