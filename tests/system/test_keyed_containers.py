"""Testbeds in containers with keys: the same arms, every container its own secret, and no secret anywhere else."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_image import docker_or_skip
from running_testbeds import PATIENT, agentd, agentd_json, end_all, read_json
from swarms import swarm_of_one
from test_containers import ENDLESS, SMALL, nothing_is_left, project_of, same_as_the_simulation
from zmq.utils import z85

from deploy.containers.containers import ids_of
from deploy.containers.docker import Docker, find_composes

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def docker() -> Docker:
    return docker_or_skip()


@pytest.fixture
def place(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if not find_composes():
        pytest.skip("there is no compose: neither `docker compose` nor docker-compose")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def test_every_container_sees_its_own_secret_only_and_it_is_in_no_document_layer_or_run_directory(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    agentd(
        "up", "--runtime", "compose", "--keys", "--image", agentd_image, *ENDLESS, "--detach", "--run-dir", str(place)
    )
    keys = Path(read_json(place / "plan.json")["keys"])
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.glob("*.key")} == {0o600}
    held = [
        json.loads(path.read_text())[name] for path in keys.glob("*.key") for name in ("curve_secret", "sign_secret")
    ]
    assert len(held) == 8
    raw = [bytes.fromhex(each) for each in held]
    secrets = [form for each in raw for form in (each, each.hex().encode(), z85.encode(each))]
    project = project_of(place)
    for container in ids_of(docker, project):
        about = docker.run(["inspect", container]).stdout
        own = json.loads(about)[0]["Config"]["Labels"]["com.docker.compose.service"]
        seen = docker.run(["exec", container, "ls", "/run/secrets"]).stdout.split()
        assert sorted(seen) == sorted([f"{own}.key", "roster.json"])
        told = [about, docker.run(["logs", container]).stdout, docker.run(["diff", container]).stdout]
        assert not [each for each in secrets if each in "".join(told).encode()]
    layers = tmp_path / "layers.tar"  # of the image and of what the last container wrote, without what is mounted
    docker.run(["export", "--output", str(layers), container])
    agentd("down", str(place))
    assert nothing_is_left(docker, project)
    assert not keys.exists()
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        assert not [each for each in secrets if each in content], path


@pytest.mark.long
def test_containers_with_keys_do_to_the_bit_what_the_simulation_does(
    docker: Docker, agentd_image: str, place: Path, tmp_path: Path
) -> None:
    for runtime in ("compose", "swarm"):
        flags = ("--runtime", runtime, "--keys", "--image", agentd_image, *SMALL, *PATIENT)
        if runtime == "swarm":
            with swarm_of_one(docker):
                run = agentd_json("up", *flags, "--run-dir", str(tmp_path / runtime))
                assert not docker.run(["secret", "ls", "--quiet"]).stdout.strip(), "they go with the stack"
        else:
            run = agentd_json("up", *flags, "--run-dir", str(tmp_path / runtime))
        assert (run["runtime"], run["agents_lost"], run["failure"], run["dropped"]) == (runtime, [], "", {})
        assert same_as_the_simulation(tmp_path / runtime, tmp_path / f"beside-{runtime}", SMALL)
    assert not place.exists()
