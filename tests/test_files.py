"""Files are their user's alone and complete; no link leads a write astray, and nobody else's directory is used."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_user import NOBODY

from agentd.errors import AgentdError, ConfigurationError
from agentd.files import (
    PUBLIC,
    OwnDirectory,
    append_text,
    make_directory,
    open_own,
    replace_text,
    replacing,
    require_own,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("shared", [False, True])
def test_what_was_written_beside_takes_the_place(tmp_path: Path, shared: bool) -> None:
    place = tmp_path / "status.json"
    place.write_text("old")
    with replacing(place, shared=shared) as file:
        file.write(b"new")
        assert place.read_text() == "old"
    assert place.read_text() == "new"
    assert list(tmp_path.iterdir()) == [place]


def test_a_failure_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    place = tmp_path / "status.json"
    place.write_text("old")
    with pytest.raises(TypeError), replacing(place) as file:
        file.writelines([b"half", 7])  # type: ignore[list-item]
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_that_lies_beside_or_in_the_place_is_not_followed(tmp_path: Path) -> None:
    strangers, place = tmp_path / "strangers", tmp_path / "status.json"
    strangers.write_text("theirs")
    (tmp_path / "status.json.new").symlink_to(strangers)
    place.symlink_to(strangers)
    replace_text(place, "ours")
    assert (strangers.read_text(), place.read_text(), place.is_symlink()) == ("theirs", "ours", False)


def test_a_link_put_beside_while_it_is_written_leads_nowhere(tmp_path: Path) -> None:
    """Whoever may write to the directory wins the race for the name, and not for the file."""
    strangers, beside = tmp_path / "strangers", tmp_path / "status.json.new"
    strangers.write_text("theirs")
    with replacing(tmp_path / "status.json") as file:
        beside.unlink()
        beside.symlink_to(strangers)
        file.write(b"ours")
    assert strangers.read_text() == "theirs"


def test_a_directory_that_was_exchanged_meanwhile_gets_nothing(tmp_path: Path) -> None:
    place, theirs = tmp_path / "run", tmp_path / "theirs"
    place.mkdir()
    theirs.mkdir()
    with replacing(place / "x") as file:
        file.write(b"ours")
        place.rename(tmp_path / "moved")
        place.symlink_to(theirs)
    assert list(theirs.iterdir()) == []
    assert (tmp_path / "moved" / "x").read_text() == "ours"


def test_nothing_takes_the_place_of_a_device() -> None:
    before = os.lstat("/dev/stdout")
    with pytest.raises(OSError, match="no place for files"):
        replace_text(Path("/dev/stdout"), "x")
    assert os.lstat("/dev/stdout") == before


@pytest.mark.usefixtures("_umask")
def test_everything_is_made_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b")
    append_text(tmp_path / "a" / "log", "x")
    with replacing(tmp_path / "a" / "whole") as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600, "from the first moment on"
    assert {mode_of(tmp_path / name) for name in ("a", "a/b")} == {0o700}
    assert {mode_of(tmp_path / name) for name in ("a/log", "a/whole")} == {0o600}


def test_what_is_public_says_so(tmp_path: Path) -> None:
    before = os.umask(0o022)
    replace_text(tmp_path / "terms", "x", mode=PUBLIC)
    os.umask(before)
    assert mode_of(tmp_path / "terms") == 0o644


def test_a_link_a_pipe_or_anothers_file_is_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "made")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "pipe"):
        with pytest.raises(OSError):  # noqa: PT011 - the kernel's words differ
            append_text(tmp_path / name, "x")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "made").exists()
    if os.geteuid() == 0:
        (tmp_path / "theirs").touch()
        os.chown(tmp_path / "theirs", NOBODY, NOBODY)
        with pytest.raises(OSError, match="no plain file of yours"):
            append_text(tmp_path / "theirs", "x")


def test_a_file_that_an_earlier_version_left_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "pulls.journal").touch(mode=0o644)
    (tmp_path / "pulls.journal").chmod(0o644)
    os.close(open_own(tmp_path / "pulls.journal", os.O_RDWR))
    assert mode_of(tmp_path / "pulls.journal") == 0o600


def test_only_what_is_surely_ours_is_read(tmp_path: Path) -> None:
    (tmp_path / "ours").write_text("ours")
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    own = OwnDirectory(tmp_path)
    assert own.read("ours") == b"ours"
    assert own.read("nothing") is None
    for name in ("link", "directory", "pipe"):
        with pytest.raises(ConfigurationError, match=name):
            own.read(name)
    with pytest.raises(ConfigurationError, match="far too long"):
        own.read("ours", limit=3)
    own.lock("somebody has it")
    other = OwnDirectory(tmp_path)
    with pytest.raises(AgentdError, match="somebody has it"):
        other.lock("somebody has it")
    own.close()
    other.lock("nobody has it now")
    other.close()


@as_root
def test_a_directory_behind_a_link_or_of_another_user_is_refused_by_root_too(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="it is a link"):
        OwnDirectory(tmp_path / "link")
    (tmp_path / "theirs").mkdir()
    own = OwnDirectory(tmp_path)
    (tmp_path / "file").write_text("theirs")
    for name in ("theirs", "file"):
        os.chown(tmp_path / name, NOBODY, NOBODY)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        OwnDirectory(tmp_path / "theirs")
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        OwnDirectory.made(tmp_path / "theirs")
    with pytest.raises(ConfigurationError, match="no file of yours"):
        own.read("file")
    own.close()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_may_write_to_is_refused_or_closed_to_them(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(ConfigurationError, match="others may write to"):
        require_own(place)
    OwnDirectory.made(place).close()
    assert mode_of(place) == 0o700
    require_own(place)
