"""From an empty directory, with only the wheel: a new environment into which it was installed by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_image import PATIENCE_S, docker_or_skip

from agentd.errors import DISTRIBUTION
from deploy.containers import wheelhouse

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(PATIENCE_S)]

ROOT = Path(__file__).parents[2]
SMALL = ("--agents", "4", "--edge-probability", "1", "--rounds", "30", "--seed", "1", "--algorithm", "sealed")
PROGRAM = """
import agentd
from agentd import load_run, simulate, sweep

assert "site-packages" in agentd.__file__, agentd.__file__
mine = simulate(algorithm="sealed", agents=4, edge_probability=1.0, rounds=30, seed=1)
assert (mine.arm == load_run("run").arm).all()
assert len(sweep({"epsilon": [1.0, 3.0]}, algorithm="sealed", agents=4, rounds=20, repetitions=2, jobs=1)) == 4
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, from a local index; its dependencies are those of this environment."""
    place = tmp_path_factory.mktemp("wheel")
    index = place / "index"
    index.mkdir()
    wheel = wheelhouse.build_wheel(ROOT, index, place / "scratch")
    assert wheel.name.startswith("agentd_bandits-")
    venv.create(place / "new", with_pip=True)
    python = place / "new" / "bin" / "python"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", str(index)]
    said = run(place, python, *install, f"{DISTRIBUTION}[ui,analysis]")
    assert "does not provide the extra" not in said
    (site,) = (place / "new").glob("lib/python*/site-packages")
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # .pth files in a directory that a .pth file names, as that of an editable agentd, are not read.
    (site / "dependencies.pth").write_text("\n".join(sorted(here)) + "\n", encoding="utf-8")
    return python


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def run(place: Path, *words: str | Path) -> str:
    """Run something where nothing of the checkout can be seen; its output, both kinds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTD_", "PYTHON"))}
    environment["XDG_STATE_HOME"] = str(place.parent / "state")
    done = subprocess.run(
        [str(word) for word in words],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_command_and_the_library_work(python: Path, empty: Path) -> None:
    agentd = python.parent / "agentd"
    assert "agentd" in json.loads(run(empty, agentd, "version", "--json"))
    run(empty, agentd, "up", *SMALL, "--round-timeout", "60", "--run-dir", "run")
    run(empty, agentd, "simulate", *SMALL, "--run-dir", "simulated")
    assert (empty / "run" / "pulls.npz").read_bytes() == (empty / "simulated" / "pulls.npz").read_bytes()
    run(empty, agentd, "sweep", *SMALL, "--epsilon", "1,3", "--repetitions", "2", "--jobs", "2", "--out", "sweep")
    assert len((empty / "sweep" / "sweep.csv").read_text(encoding="utf-8").splitlines()) == 1 + 4
    run(empty, python, "-c", PROGRAM)


@pytest.fixture
def tag() -> Iterator[str]:
    docker, name = docker_or_skip(), f"agentd-test-wheel:{os.getpid()}"
    yield name
    docker.run(["image", "rm", name], check=False)


def test_the_image_is_built_without_a_checkout(python: Path, empty: Path, tag: str) -> None:
    docker = docker_or_skip()
    said = run(empty, python.parent / "agentd", "image", "build", "--offline", "--tag", tag)
    assert said.startswith("from the installed package\n")
    inside = docker.run(["run", "--rm", "--network", "none", tag, "version", "--json"]).stdout
    here = json.loads(run(empty, python.parent / "agentd", "version", "--json"))
    assert json.loads(inside)["agentd"] == here["agentd"]
