"""Other users of the machine: they reach no socket of a local testbed, and what a killed one leaves is found again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from evidence import until
from other_user import as_another_user
from running_testbeds import agentd, agentd_json, end_all, nothing_runs, pids_of, read_json

pytestmark = pytest.mark.system

FLAGS = ("--agents", "3", "--edge-probability", "1", "--rounds", "100000", "--detach")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory, in a world where no other testbed exists; whatever a test leaves running is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "run"
    end_all()


def sockets_of(place: Path) -> Path:
    """The directory of its sockets, which both files name."""
    recorded = read_json(place / "testbed.json")["sockets"]
    assert recorded == read_json(place / "plan.json")["sockets"]
    return Path(recorded)


def addresses_of(place: Path) -> list[str]:
    plan = read_json(place / "plan.json")
    return [plan["environment"], *(agent["listen"] for agent in plan["agents"])]


def reached(addresses: Sequence[str]) -> list[str]:
    """The sockets that whoever calls can connect to."""
    found = []
    for address in addresses:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(address.removeprefix("ipc://"))
            except PermissionError:
                continue
            found.append(address)
    return found


def crashed(place: Path) -> None:
    """Kill the supervisor, and wait until all it had started is gone."""
    pids = pids_of(place)
    os.kill(read_json(place / "testbed.json")["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: nothing_runs(pids))


def test_another_user_connects_to_no_socket_of_a_running_testbed(place: Path) -> None:
    agentd_json("up", *FLAGS, "--run-dir", str(place))
    addresses, sockets = addresses_of(place), sockets_of(place)
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert sorted(addresses) == sorted(f"ipc://{path}" for path in sockets.iterdir())
    assert reached(addresses) == addresses
    assert as_another_user(lambda: reached(addresses)) == []
    assert as_another_user(lambda: os.access(sockets, os.X_OK) or os.access(sockets, os.R_OK)) is False
    agentd("env", "release", "1", "--run-dir", str(place))  # found through operator.json
    agentd("down", str(place))
    assert not sockets.exists()


@pytest.mark.parametrize("verb", ["down", "resume"])
def test_the_sockets_of_a_testbed_that_was_killed_are_removed(verb: str, place: Path) -> None:
    agentd_json("up", *FLAGS, "--run-dir", str(place))
    sockets = sockets_of(place)
    crashed(place)
    assert sockets.is_dir()
    if verb == "resume":
        agentd_json("up", "--resume", str(place), "--detach")
        assert sockets_of(place) != sockets
        assert sockets_of(place).is_dir()
    else:
        agentd(verb)
    assert not sockets.exists()


def test_a_testbed_json_that_names_another_place_removes_nothing_there(place: Path, tmp_path: Path) -> None:
    agentd_json("up", *FLAGS, "--run-dir", str(place))
    sockets = sockets_of(place)
    crashed(place)
    precious = tmp_path / "agentd-abcd1234"
    precious.mkdir()
    (precious / "a0").touch()
    written = read_json(place / "testbed.json")
    (place / "testbed.json").write_text(json.dumps({**written, "sockets": str(precious)}), encoding="utf-8")
    agentd("ps")
    agentd("down", str(place))
    assert (precious / "a0").exists()
    (place / "testbed.json").write_text(json.dumps(written), encoding="utf-8")
    agentd("ps")
    assert not sockets.exists()


def test_what_is_asked_of_the_transport_makes_sense_or_is_refused(place: Path) -> None:
    both = agentd("up", "--transport", "ipc", "--base-port", "17000", "--run-dir", str(place), code=2)
    assert "leave one of them out" in both.stderr
    contained = agentd("up", "--transport", "ipc", "--runtime", "compose", "--run-dir", str(place), code=2)
    assert "containers of --runtime compose speak tcp" in contained.stderr
    assert not place.exists()
    plan = agentd_json("up", "--agents", "2", "--edge-probability", "1", "--rounds", "5", "--transport", "tcp")
    addresses = addresses_of(Path(plan["run_dir"]))
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A run directory in a place that everybody may enter, as /tmp is."""
    with tempfile.TemporaryDirectory(prefix="agentd-test-") as place:
        Path(place).chmod(0o755)
        yield Path(place) / "runs" / "one"


def readable(places: Sequence[Path]) -> list[str]:
    """What whoever calls can open or list."""
    found = []
    for place in places:
        with contextlib.suppress(OSError):
            if place.is_dir():
                list(place.iterdir())
            else:
                place.read_bytes()
            found.append(str(place))
    return found


def test_another_user_reads_nothing_of_a_run_whatever_the_umask(reachable: Path) -> None:
    """pulls.journal and pulls.npz tell every reward of every agent."""
    openly = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    agentd("up", *FLAGS, "--run-dir", str(reachable), prefix=openly)
    during = [reachable.parent, reachable, *reachable.rglob("*")]
    assert reachable / "pulls.journal" in during
    assert as_another_user(lambda: readable(during)) == []
    assert [path for path in during if path.lstat().st_mode & 0o077] == []
    agentd("down", str(reachable), prefix=openly)
    after = [reachable.parent, reachable, *reachable.rglob("*"), *Path(os.environ["XDG_STATE_HOME"]).rglob("*")]
    assert {reachable / "pulls.npz", reachable / "summary.json"} <= set(after)
    assert as_another_user(lambda: readable(after)) == []
    assert [path for path in after if path.lstat().st_mode & 0o077] == []
