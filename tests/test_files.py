"""A file that is replaced is the old one or the new one, complete, and nothing is left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentd.files import replacing


@pytest.mark.parametrize("shared", [False, True])
def test_what_was_written_beside_takes_the_place(tmp_path: Path, shared: bool) -> None:
    place = tmp_path / "status.json"
    place.write_text("old")
    with replacing(place, shared=shared) as beside:
        beside.write_text("new")
        assert place.read_text() == "old"
    assert place.read_text() == "new"
    assert list(tmp_path.iterdir()) == [place]


def test_a_failure_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    place = tmp_path / "status.json"
    place.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(place) as beside:
        beside.write_text("half \N{EURO SIGN}", encoding="ascii")
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_that_lies_beside_is_not_followed(tmp_path: Path) -> None:
    strangers, place = tmp_path / "strangers", tmp_path / "status.json"
    strangers.write_text("theirs")
    (tmp_path / "status.json.new").symlink_to(strangers)
    with replacing(place) as beside:
        beside.write_text("ours")
    assert (strangers.read_text(), place.read_text()) == ("theirs", "ours")


def test_a_secret_is_the_owners_only(tmp_path: Path) -> None:
    with replacing(tmp_path / "seed", mode=0o600) as beside:
        assert beside.stat().st_mode & 0o777 == 0o600
