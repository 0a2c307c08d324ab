"""The environment as a process: killed, restarted, flooded with garbage, told to stop."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import zmq
from env_clients import (
    PATIENCE_S,
    Served,
    ask,
    dealers,
    environment_process,
    hello,
    log_events,
    pull,
    report,
    send,
    serving,
)
from evidence import until
from loopback import free_address

from agentd.runs.arms import Arms, uniforms
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Noted, Ping, Pong, Refused, Reward, Welcome

pytestmark = pytest.mark.system

ARMS = Arms.fixed((0.9, 0.5, 0.3), "beta")
ARM_FLAGS = ("--arms", "0.9,0.5,0.3", "--reward", "beta", "--seed", "7")
AGENTS, ROUNDS, OUTSTANDING = 3, 120, 8


def chosen_arm(agent: int, trial: int) -> int:
    return (agent + trial * trial) % 3


def flags_for(directory: Path, *more: str) -> tuple[str, ...]:
    many = ("--agents", str(AGENTS), "--rounds", str(ROUNDS), "--max-outstanding", str(OUTSTANDING))
    return (*ARM_FLAGS, *many, "--run-dir", str(directory), *more)


def take_seats(sockets: list[zmq.Socket[bytes]]) -> None:
    for agent, socket in enumerate(sockets):
        assert isinstance(ask(socket, hello(agent)), Welcome)


class StubbornAgents:
    """Agents that ask for several trials at once, and again whenever nobody answers."""

    def __init__(self, sockets: list[zmq.Socket[bytes]]) -> None:
        self.sockets = sockets
        self.rewards: list[dict[int, int]] = [{} for _ in sockets]
        self.answers = 0

    def next_trial(self, agent: int) -> int:
        return len(self.rewards[agent]) + 1

    def ask(self) -> None:
        for agent, socket in enumerate(self.sockets):
            first = self.next_trial(agent)
            for trial in range(first, min(first + OUTSTANDING, ROUNDS + 1)):
                send(socket, pull(agent, trial, chosen_arm(agent, trial), committed=first - 1))

    def listen(self, seconds: float) -> None:
        """Take rewards until none has come for so long."""
        poller = zmq.Poller()
        for socket in self.sockets:
            poller.register(socket, zmq.POLLIN)
        while ready := dict(poller.poll(1000 * seconds)):
            for agent, socket in enumerate(self.sockets):
                if socket in ready:
                    self.take(agent, decode_environment(socket.recv()))

    def take(self, agent: int, reply: object) -> None:
        if isinstance(reply, Reward):
            self.answers += 1
            assert self.rewards[agent].setdefault(reply.trial, reply.reward) == reply.reward
        else:  # an old trial answered late makes the next question come too early, nothing else can go wrong
            assert isinstance(reply, Refused), reply

    def pull_until(self, trial: int) -> None:
        until(lambda: self.have_pulled(trial) or self.try_again())

    def have_pulled(self, trial: int) -> bool:
        return min(map(len, self.rewards)) >= trial

    def try_again(self) -> None:
        self.ask()
        self.listen(0.05)


def read_pulls(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(directory / "pulls.npz") as pulls:
        return pulls["arm"], pulls["reward"]


def test_killed_again_and_again_in_mid_run_it_forgets_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    address = free_address()  # nobody else takes it while nobody listens
    with serving(*flags_for(tmp_path), listen=address) as first, dealers(address, AGENTS) as sockets:
        take_seats(sockets)
        agents = StubbornAgents(sockets)
        agents.pull_until(20)
        agents.ask()  # requests and replies are under way
        first.end(signal.SIGKILL)
        for goal in (50, 80):
            with serving(*flags_for(tmp_path), listen=address) as again:
                agents.pull_until(goal)
                agents.ask()
                again.end(signal.SIGKILL)
        with serving(*flags_for(tmp_path), listen=address) as last:
            agents.pull_until(ROUNDS)
            agents.ask()
            agents.listen(0.05)
            assert last.end(signal.SIGTERM) == 0
    arm, reward = read_pulls(tmp_path)
    for agent in range(AGENTS):
        arms = np.array([chosen_arm(agent, trial) for trial in range(1, ROUNDS + 1)])
        assert arm[agent].tolist() == arms.tolist()
        assert reward[agent].tolist() == ARMS.deal(arms, uniforms(7, agent, 1, ROUNDS)).tolist()
        assert reward[agent].tolist() == [agents.rewards[agent][trial] for trial in range(1, ROUNDS + 1)]
    assert agents.answers >= AGENTS * ROUNDS
    assert (tmp_path / "pulls.journal").stat().st_size == 32 + 16 * AGENTS * ROUNDS


def test_ten_thousand_messages_of_garbage_are_all_answered_and_counted(tmp_path: Path) -> None:
    chance = np.random.Generator(np.random.Philox(11))
    sample = encode_environment(report(0, 1, 2, 3, (("stale", 4),), 5, False))
    refused = 0
    with serving(*flags_for(tmp_path)) as served:
        with dealers(served.address) as [socket]:
            for _ in range(20):
                for _ in range(500):
                    garbage = bytearray(sample if chance.random() < 0.5 else chance.bytes(int(chance.integers(0, 60))))
                    for place in chance.integers(0, max(1, len(garbage)), size=min(3, len(garbage))):
                        garbage[place] = int(chance.integers(0, 256))
                    socket.send_multipart([bytes(garbage)] * (2 if chance.random() < 0.1 else 1))
                for _ in range(500):
                    assert socket.poll(1000 * PATIENCE_S)
                    refused += isinstance(decode_environment(socket.recv()), Refused)
            assert ask(socket, Ping()) == Pong()
        assert served.end(signal.SIGTERM) == 0
        summary = json.loads(served.printed())
    assert sum(summary["malformed"].values()) + sum(summary["refused"].values()) == refused
    assert refused > 9_000
    assert len(summary["malformed"]) >= 6


def test_sigterm_writes_everything_and_exits_with_0(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        assert isinstance(ask(socket, hello(0)), Welcome)
        assert isinstance(ask(socket, pull(0, 1, 1)), Reward)
        assert served.end(signal.SIGTERM) == 0
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        "environment.json", "history.jsonl", "logs", "manifest.json", "pulls.journal", "pulls.npz", "regret.csv",
        "regret.svg", "reports.json", "seats.journal", "status.json", "summary.json",
    }  # fmt: skip
    assert log_events(tmp_path / "logs" / "environment.jsonl") == ["listening", "hello", "ending", "ended"]
    arm, _ = read_pulls(tmp_path)
    assert arm.shape == (AGENTS, ROUNDS)
    assert (arm != 65535).sum() == 1


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipe: until somebody reads it, an environment in this directory waits before it writes its results."""
    monkeypatch.setenv("AGENTD_PLUGINS", "held_results")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent / "plugins"))
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


@pytest.mark.usefixtures("gate")
def test_a_second_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served:
        served.process.send_signal(signal.SIGTERM)
        until(lambda: "ending" in log_events(tmp_path / "logs" / "environment.jsonl"))
        assert served.process.poll() is None
        assert served.end(signal.SIGTERM) == -signal.SIGTERM


def report_done(served: Served, sockets: list[zmq.Socket[bytes]]) -> None:
    take_seats(sockets)
    for agent, socket in enumerate(sockets):
        assert ask(socket, report(agent, 1, 2, 3, (), 4, True)) == Noted(1, 0)


def test_told_to_it_ends_by_itself_when_every_agent_is_done(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path, "--until-done")) as served, dealers(served.address, AGENTS) as sockets:
        report_done(served, sockets)
        assert served.process.wait(PATIENCE_S) == 0
        summary = json.loads(served.printed())
        assert summary["agents_done"] == AGENTS
    with environment_process(*flags_for(tmp_path, "--until-done")) as again:
        assert again.wait(PATIENCE_S) == 0, "who was done before is still done"
        again.communicate()


def test_ending_by_itself_it_is_not_kept_from_it_by_a_sigterm(tmp_path: Path, gate: Path) -> None:
    with serving(*flags_for(tmp_path, "--until-done")) as served, dealers(served.address, AGENTS) as sockets:
        report_done(served, sockets)
        log = tmp_path / "logs" / "environment.jsonl"
        until(lambda: "ending" in log_events(log))
        served.process.send_signal(signal.SIGTERM)
        gate.read_bytes()  # the reader comes: it goes on instead of having died
        until((tmp_path / "regret.csv").exists)
        assert served.process.wait(PATIENCE_S) == 0


def test_status_is_kept_while_it_runs(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        assert json.loads((tmp_path / "status.json").read_text())["address"] == served.address
        ask(socket, hello(1))
        ask(socket, pull(1, 1, 0))
        until(lambda: json.loads((tmp_path / "status.json").read_text())["pulls"] == 1)


def test_a_second_service_in_the_same_directory_is_refused_and_the_first_unharmed(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        ask(socket, hello(0))
        with environment_process(*flags_for(tmp_path)) as second:
            _, complaint = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 78
        assert complaint == (
            f"error: another environment service is using {tmp_path}; stop it or name another --run-dir\n"
        )
        assert isinstance(ask(socket, pull(0, 1, 0)), Reward)


def test_an_occupied_port_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with serving(*ARM_FLAGS) as served:
        with environment_process(*flags_for(tmp_path), listen=served.address) as second:
            _, complaint = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 78
        assert complaint == (
            f"error: cannot listen on {served.address}: address already in use; choose another address with --listen\n"
        )
        assert not (tmp_path / "environment.json").exists()


def test_the_same_command_without_a_seed_takes_up_the_run_that_it_began(tmp_path: Path) -> None:
    flags = ("--random-arms", "4", "--run-dir", str(tmp_path))
    with serving(*flags) as served, dealers(served.address) as [socket]:
        ask(socket, hello(0))
        run, reward = served.ready["run"], ask(socket, pull(0, 1, 3))
        served.end(signal.SIGKILL)
    with serving(*flags) as served, dealers(served.address) as [socket]:
        assert served.ready["run"] == run
        assert ask(socket, pull(0, 1, 3)) == reward
        assert served.end(signal.SIGINT) == 0
    assert json.loads((tmp_path / "manifest.json").read_text())["seed"] is None
