"""What is said of Docker and compose, as they are found or not found."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from agentd.errors import ToolMissing
from deploy.containers import docker
from deploy.containers.docker import Docker, DockerFailed


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is all there is to find programs in."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(place: Path, name: str, body: str) -> None:
    """A real program that answers as the body says."""
    program = place / name
    program.write_text(f"#!{sys.executable} -IS\nimport sys\nasked = sys.argv[1:]\n{body}\n", encoding="utf-8")
    program.chmod(0o755)


ENGINE = json.dumps({"Client": {"Version": "28.2.2"}, "Server": {"Version": "20.10.24"}})


def test_without_docker_one_line_names_what_to_install(programs: Path) -> None:
    with pytest.raises(ToolMissing, match=r"no docker command here; install it \(apt install docker.io") as caught:
        docker.require_docker()
    assert caught.value.exit_code == 69
    assert "\n" not in str(caught.value)
    assert docker.find_docker() is None


def test_an_engine_that_is_not_running_is_told_from_a_missing_client(programs: Path) -> None:
    client_only = json.dumps({"Client": {"Version": "28.2.2"}, "Server": None})
    put(
        programs, "docker", f"print('''{client_only}'''); print('first\\ncannot connect', file=sys.stderr); sys.exit(1)"
    )
    with pytest.raises(ToolMissing, match=r"its engine does not answer \(cannot connect\); start it"):
        docker.require_docker()


def test_a_running_engine_is_found_with_both_versions(programs: Path) -> None:
    put(programs, "docker", f"print('''{ENGINE}''')")
    found = docker.require_docker()
    assert (found.client_version, found.engine_version) == ("28.2.2", "20.10.24")


def test_the_newest_compose_comes_first(programs: Path) -> None:
    put(programs, "docker-compose", "print('1.29.2')")
    put(programs, "docker", "print('v2.26.1-4')")
    assert [one.command for one in docker.find_composes()] == [("docker", "compose"), ("docker-compose",)]
    assert [one.major for one in docker.find_composes()] == [2, 1]


def test_a_client_without_the_plugin_leaves_the_old_compose(programs: Path) -> None:
    put(programs, "docker", "sys.exit('unknown command')")
    put(programs, "docker-compose", "print('docker-compose version 1.29.2, build unknown')")
    found = docker.require_compose()
    assert (found.command, found.version) == (("docker-compose",), "1.29.2")


def test_without_compose_one_line_names_what_to_install(programs: Path) -> None:
    with pytest.raises(ToolMissing, match="neither `docker compose` nor docker-compose; install it"):
        docker.require_compose()
    assert docker.find_composes() == []


def test_a_failed_command_raises_its_last_words(programs: Path) -> None:
    put(programs, "docker", "print('much\\nno such thing\\n', file=sys.stderr); sys.exit(3)")
    client = Docker(str(programs / "docker"), "1", "1")
    with pytest.raises(DockerFailed, match=r"^docker image rm failed: no such thing$"):
        client.run(["image", "rm", "x"])
    assert client.run(["image"], check=False).returncode == 3
    assert client.image("x") is None


def test_a_command_that_hangs_is_ended_and_said_to_hang(programs: Path) -> None:
    put(programs, "docker", "import signal; signal.pause()")
    with pytest.raises(DockerFailed, match=r"did not end within 0\.2 s"):
        Docker(str(programs / "docker"), "1", "1").run(["info"], timeout_s=0.2)


def test_input_and_environment_reach_the_command(programs: Path) -> None:
    put(programs, "docker", "import os; print(os.environ.get('COLOUR'), sys.stdin.read())")
    client = Docker(str(programs / "docker"), "1", "1")
    assert client.run(["x"], stdin=b"said", environment={**os.environ, "COLOUR": "red"}).stdout == "red said\n"


@pytest.mark.parametrize("text", ["", "not json"])
def test_an_answer_that_is_no_answer_has_no_versions(text: str) -> None:
    assert docker.read_versions(text) == (None, None)
