"""An operator frees a seat, whether the environment runs or not."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import pytest
from agentd_processes import Process
from env_clients import ask, dealers, hello, pull, serving

from agentd.environment import releasing
from agentd.environment.releasing import Freed, release_seat
from agentd.errors import ConfigurationError, EnvironmentUnreachable
from agentd.wire.environment_messages import Ping, Pong, Refusal, Refused, Release, Reward, Welcome

pytestmark = pytest.mark.system

FLAGS = ("--arms", "0.9,0.5", "--agents", "3", "--rounds", "9", "--seed", "7")
OTHER = b"o" * 16


def begun(place: Path) -> None:
    """A run in which agent 1 has pulled twice, and whose environment was killed."""
    with serving(*FLAGS, "--run-dir", str(place)) as served, dealers(served.address) as [socket]:
        assert isinstance(ask(socket, hello(1)), Welcome)
        assert [type(ask(socket, pull(1, trial, 0))) for trial in (1, 2)] == [Reward] * 2
        served.end(signal.SIGKILL)


def test_where_no_environment_runs_it_is_written_down(tmp_path: Path) -> None:
    begun(tmp_path)
    assert release_seat(tmp_path, 1) == Freed(1, 3, running=False)
    assert release_seat(tmp_path, 1) == Freed(1, 3, running=False), "one that is free stays so"
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address) as [socket]:
        welcome = ask(socket, hello(1, token=OTHER))
        assert isinstance(welcome, Welcome)
        assert (welcome.next_trial, welcome.incarnation) == (3, 2)
        refused = ask(socket, hello(1))
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.WRONG_TOKEN


def test_a_running_environment_is_asked(tmp_path: Path) -> None:
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address) as [socket]:
        ask(socket, hello(1))
        reward = ask(socket, pull(1, 1, 0))
        assert stat.S_IMODE((tmp_path / "operator.json").stat().st_mode) == 0o600
        assert release_seat(tmp_path, 1) == Freed(1, 2, running=True)
        refused = ask(socket, pull(1, 1, 0))
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.WRONG_TOKEN
        welcome = ask(socket, hello(1, token=OTHER))
        assert isinstance(welcome, Welcome)
        assert (welcome.next_trial, welcome.incarnation) == (2, 1)
        for arm in (0, 1):
            again = ask(socket, pull(1, 1, arm, committed=0, token=OTHER))
            assert isinstance(again, Refused), f"{reward} is nobody's business any more"
            assert again.code is Refusal.TRIAL_OUT_OF_ORDER
        assert served.end(signal.SIGTERM) == 0
    assert not (tmp_path / "operator.json").exists()


def test_only_who_has_the_secret_may(tmp_path: Path) -> None:
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address) as [socket]:
        ask(socket, hello(1))
        for secret in (bytes(16), OTHER):
            refused = ask(socket, Release(1, secret))
            assert isinstance(refused, Refused)
            assert refused.code is Refusal.WRONG_TOKEN
        assert isinstance(ask(socket, hello(1, 0)), Welcome)
    with serving(*FLAGS) as served, dealers(served.address) as [socket]:
        assert isinstance(ask(socket, Release(1, bytes(16))), Refused), "without a run directory nobody may"
        assert ask(socket, Ping()) == Pong()


def test_an_environment_that_is_stopped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasing, "PATIENCE_S", 0.2)
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served:
        served.process.send_signal(signal.SIGSTOP)
        with pytest.raises(EnvironmentUnreachable, match=r"did not answer at tcp.* run this where it runs"):
            release_seat(tmp_path, 1)


@pytest.mark.parametrize("text", [None, "", "{}", '{"address": "tcp://127.0.0.1:1", "secret": "zz"}'])
def test_an_environment_that_does_not_tell_its_secret_is_not_asked(tmp_path: Path, text: str | None) -> None:
    with serving(*FLAGS, "--run-dir", str(tmp_path)):
        (tmp_path / "operator.json").unlink()
        if text is not None:
            (tmp_path / "operator.json").write_text(text)
        with pytest.raises(ConfigurationError, match=r"operator\.json in it does not tell how to reach it"):
            release_seat(tmp_path, 1)


@pytest.mark.parametrize("everywhere", ["*", "0.0.0.0"])
def test_an_environment_that_listens_everywhere_is_found(everywhere: str, tmp_path: Path) -> None:
    flags = (*FLAGS, "--insecure", "--run-dir", str(tmp_path))
    with serving(*flags, listen=f"tcp://{everywhere}:0") as served:
        assert served.address.rpartition(":")[0] in ("tcp://[::]", "tcp://0.0.0.0")
        assert release_seat(tmp_path, 2) == Freed(2, 1, running=True)


def test_a_directory_without_a_run_and_an_agent_that_takes_no_part_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run; name the --run-dir"):
        release_seat(tmp_path / "nowhere", 1)
    begun(tmp_path)
    with pytest.raises(ConfigurationError, match="agents are numbered 0…2, not 3"):
        release_seat(tmp_path, 3)


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    begun(tmp_path)
    with Process("env", "release", "1", "--run-dir", str(tmp_path)) as done:
        assert done.wait() == 0, done.errors
        assert done.output == (
            "the seat of agent 1 is free, and goes on with trial 3 (written down for when the environment runs again)\n"
        )
    with Process("env", "release", "1", "--run-dir", str(tmp_path), "--json") as done:
        assert done.wait() == 0, done.errors
        assert json.loads(done.output) == {"agent": 1, "next_trial": 3, "running": False}
    with Process("env", "release", "9", "--run-dir", str(tmp_path)) as done:
        assert done.wait() == 78
        assert done.errors.startswith("error: agents are numbered 0…2, not 9")
