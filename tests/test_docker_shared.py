"""Containers of one test survive that another one leaves the swarm."""

from __future__ import annotations

import fcntl
from pathlib import Path

import container_image
import docker_shared
import pytest
from swarms import swarm_of_one

from deploy.containers.docker import Docker


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another one than that of the tests that run beside this."""
    monkeypatch.setattr(docker_shared, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(docker_shared, "GATE", tmp_path / "gate")
    return tmp_path / "lock"


def is_free(place: Path, how: int) -> bool:
    with place.open("a") as other:
        try:
            fcntl.flock(other, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_whoever_asks_for_docker_shares_it_and_nobody_leaves_the_swarm_until_its_test_ends(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_image, "require_docker", lambda: Docker("docker", "28", "20"))
    container_image.docker_or_skip()
    assert is_free(lock, fcntl.LOCK_SH), "others may have containers, too"
    assert not is_free(lock, fcntl.LOCK_EX)
    docker_shared.give_back()
    assert is_free(lock, fcntl.LOCK_EX)


def test_who_made_a_swarm_leaves_it_when_nobody_else_has_containers(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a Docker that only notes what it is told, and whether another test could have containers then."""
    told: list[tuple[list[str], bool]] = []
    monkeypatch.setattr("swarms.INIT", "true")
    monkeypatch.setattr(Docker, "info", lambda _: {"Swarm": {"LocalNodeState": "inactive"}})
    monkeypatch.setattr(Docker, "run", lambda _, words: told.append((words, is_free(lock, fcntl.LOCK_SH))))
    with swarm_of_one(Docker("docker", "28", "20")):
        assert told == []
    assert told == [(["swarm", "leave", "--force"], False)]
    assert is_free(lock, fcntl.LOCK_SH)


def test_while_somebody_waits_to_be_alone_no_newcomer_is_let_in(lock: Path) -> None:
    """Else tests with containers, one after the other, would keep it waiting beyond its time."""
    with docker_shared.alone():
        assert not is_free(docker_shared.GATE, fcntl.LOCK_EX)
    assert is_free(docker_shared.GATE, fcntl.LOCK_EX)
    assert is_free(lock, fcntl.LOCK_SH)
    docker_shared.give_back()
    assert is_free(lock, fcntl.LOCK_EX)
