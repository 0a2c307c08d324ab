"""Agents that keep state, as real processes: they come back as themselves, flush on SIGTERM, and stop when in doubt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import zmq
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from evidence import until
from loopback import LONG_S, Peer, StandIn, events, free_address
from loopback_fixtures import Context

from agentd.core.bodies import SEALED, Kind
from agentd.core.privacy.sealing import Weighting
from agentd.core.privacy.series import cost, scale_steps
from agentd.errors import StateUnusable
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.reader import DATABASE, read_state
from agentd.wire.codec import decode_frame
from agentd.wire.topics import FRAME_TOPIC

pytestmark = pytest.mark.system


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


def solo(environment: StandIn, state: Path, log: Path, **flags: object) -> list[str]:
    """The command line of an agent without neighbours."""
    usual: dict[str, object] = {"clock": "free", "interval": 0.001, "state": state, "log_file": log}
    usual["algorithm"] = "private-ucb"  # which releases something in every round
    return agent_arguments(1, free_address(), environment.address, {}, **(usual | flags))


def test_an_agent_that_was_killed_comes_back_as_itself(context: Context, tmp_path: Path) -> None:
    own, other, log = free_address(), free_address(), tmp_path / "log"
    with StandIn(free_address()) as environment:
        about = {"state": tmp_path / "state", "log_file": log, "gamma": 1, "algorithm": "private-ucb"}
        arguments = agent_arguments(1, own, environment.address, {2: other}, **about)
        peer = Peer(context, 2, 1, listen=other, hears=own)
        with Process(*arguments) as process:
            peer.join()
            peer.publish(1)
            (before,) = peer.hear_round(2).batches[0].messages()
            process.kill()
        with Process(*arguments) as process:
            peer.await_subscription(times=2)
            peer.greet(2)
            frame = peer.hear_round(3)
            process.terminate()
            assert process.wait() == 0, process.errors
        peer.close()
    said = {message.trial: message for batch in frame.batches for message in batch.messages()}
    assert frame.incarnation == 0
    assert sorted(said) == [2, 3]
    assert said[2].body == before.body
    assert read_state(tmp_path / "state").trial >= 3


@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_a_copy_from_before_the_last_round_gives_that_round_up_and_an_older_one_is_refused(
    context: Context, tmp_path: Path, algorithm: str
) -> None:
    """With a real environment; the round that the copy lacks was sent, and heard."""
    own, other, state, log = free_address(), free_address(), tmp_path / "state", tmp_path / "log"
    with EnvironmentProcess("--arms", "0.9,0.1") as environment:
        arguments = agent_arguments(
            1, own, environment.address, {2: other}, state=state, log_file=log, gamma=1, algorithm=algorithm, epsilon=8
        )
        peer = Peer(context, 2, 1, listen=other, hears=own)
        peer.run = environment.run
        with Process(*arguments) as process:
            peer.join()
            for round_ in (1, 2, 3, 4):
                peer.hear_round(round_)  # it waits for us, and nothing is under way
                shutil.copytree(state, tmp_path / f"copy-{round_}")
                peer.publish(round_)
            peer.hear_round(5)
            process.kill()
        newest = read_state(state)
        shutil.rmtree(state)
        (tmp_path / "copy-4").rename(state)
        with Process(*arguments) as process:
            peer.await_subscription(times=2)
            peer.greet(5)
            frame = peer.hear_round(6)
            process.kill()
        peer.close()
        shutil.copytree(tmp_path / "copy-3", tmp_path / "old")
        with Process(*(flag if flag != str(state) else str(tmp_path / "old") for flag in arguments)) as process:
            assert process.wait() == 78
    assert "refuses this state" in process.errors or "this is an older copy" in process.errors
    (line,) = [line for line in events(log) if "the trial is given up" in line["event"]]
    assert (newest.trial, newest.incarnation, line["trial"], line["incarnation"], line["arm"]) == (
        5,
        0,
        5,
        5,
        "unknown",
    )
    assert frame.incarnation == 5
    assert {message.trial for batch in frame.batches for message in batch.messages()} == {6}
    saved = read_state(state)
    lost = [release for release, _ in newest.releases if release.trial == 5]
    possible = [release for release, value in saved.releases if value is None]
    assert len(possible) == line["charged"] == 2
    assert set(lost) <= set(possible)
    assert (saved.trial, saved.incarnation) == (6, 5)


def test_sigterm_flushes_the_ledger(tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    with StandIn(free_address()) as environment, Process(*solo(environment, state, log)) as process:
        until(lambda: len(environment.pulls.get(1, {})) > 5)
        process.terminate()
        assert process.wait() == 0, process.errors
        report = environment.reports[1]
    assert sorted(path.name for path in state.iterdir()) == [DATABASE, "lock", "seat"]
    saved = read_state(state)
    assert saved.trial == report.trial == len(saved.releases)


def test_a_spent_budget_stops_where_that_is_asked_for(tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    flags = {"epsilon_budget": 1.5, "on_budget": "stop"}
    with StandIn(free_address()) as environment, Process(*solo(environment, state, log, **flags)) as process:
        assert process.wait() == 75
        assert environment.reports[1].done
    assert "the privacy budget of 1.5 is spent" in process.errors
    assert read_state(state).refused == 1


def test_a_spent_budget_is_told_once_and_the_agent_goes_on(tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    with (
        StandIn(free_address()) as environment,
        Process(*solo(environment, state, log, epsilon_budget=1.5, rounds=40)) as process,
    ):
        assert process.wait() == 0, process.errors
        assert environment.reports[1].epsilon_micro <= 1_500_000
        assert dict(environment.reports[1].dropped)["budget"] > 1
    (line,) = events(log, "privacy budget spent")
    assert line["budget"] == 1.5
    assert read_state(state).trial == 40


def test_a_full_disk_ends_it_before_anything_is_sent(context: Context, tmp_path: Path) -> None:
    """Files may not grow beyond 96 kB: what the agent is told then is what a full disk tells it."""
    own, other, state = free_address(), free_address(), tmp_path / "state"
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (98304, 98304)); "
    limited += "sys.argv[0] = 'agentd'; runpy.run_module('agentd', run_name='__main__')"
    with StandIn(free_address()) as environment:
        arguments = agent_arguments(
            *(1, own, environment.address, {2: other}),
            algorithm="private-ucb",
            state=state,
            gamma=1,
            clock="free",
            interval=0.001,
        )
        peer = Peer(context, 2, 1, listen=other, hears=own)
        process = subprocess.Popen([sys.executable, "-c", limited, *arguments], stderr=subprocess.PIPE, text=True)
        peer.join()
        sent: dict[int, tuple[int, ...]] = {}
        while not (frame := peer.hear()).goodbye:
            sent |= {message.trial: message.body for batch in frame.batches for message in batch.messages()}
        _, errors = process.communicate(timeout=LONG_S)
        peer.close()
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith(f"error: cannot write the ledger in {state}: ")
    assert "was sent and the agent stops here" in errors
    assert "Traceback" not in errors
    saved = read_state(state)
    assert max(sent) <= saved.trial
    assert len(saved.releases) >= max(sent)


@pytest.mark.parametrize("place", ["read-only", "not a directory"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    state = tmp_path / "state"
    if place == "not a directory":
        state.write_text("", encoding="utf-8")
    elif os.geteuid() == 0:  # root may write into any directory, unless the file system says no
        state.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(state)], check=False)
        if mounted.returncode:
            pytest.skip("root without the right to mount finds no directory that it may not write")
    else:
        state.mkdir(mode=0o500)
    try:
        with pytest.raises(StateUnusable, match=r"cannot keep state in .* name a place that can be written") as refused:
            StateJournal.open(state, {})
    finally:
        subprocess.run(["umount", str(state)], check=False, capture_output=True)
    assert refused.value.exit_code == 78


def test_a_disk_without_room_is_refused_or_stops_the_agent(tmp_path: Path) -> None:
    """A real full file system: 100 kB of memory."""
    state = tmp_path / "state"
    state.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(state)], check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        with StandIn(free_address()) as environment, Process(*solo(environment, state, tmp_path / "log")) as process:
            assert process.wait() == 1
            assert "No space left on device" in process.errors
            pulled = len(environment.pulls[1])
        assert pulled - 1 <= read_state(state).trial <= pulled
    finally:
        subprocess.run(["umount", str(state)], check=True)


def test_a_damaged_state_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with StandIn(free_address()) as environment:
        with Process(*solo(environment, state, tmp_path / "log", rounds=30)) as process:
            assert process.wait() == 0, process.errors
        with (state / DATABASE).open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * 8192)
        environment.requests.clear()
        with Process(*solo(environment, state, tmp_path / "log")) as process:
            assert process.wait() == 78
        assert not environment.requests
    assert "is damaged" in process.errors


class Capture:
    """Everything that agents publish, heard beside their neighbours."""

    def __init__(self, context: Context, addresses: list[str]) -> None:
        self.frames: dict[int, dict[int, Any]] = {}
        self._sub = context.socket(zmq.SUB)
        self._sub.setsockopt(zmq.LINGER, 0)
        self._sub.setsockopt(zmq.RCVHWM, 0)
        self._sub.setsockopt(zmq.RECONNECT_IVL, 20)
        self._sub.subscribe(FRAME_TOPIC)
        for address in addresses:
            self._sub.connect(address)

    def drain(self) -> None:
        while self._sub.poll(0):
            frame = decode_frame(self._sub.recv().removeprefix(FRAME_TOPIC))
            self.frames.setdefault(frame.sender, {})[frame.sequence] = frame

    def close(self) -> None:
        """What is still in the socket is heard first."""
        self.drain()
        self._sub.close()

    def own_bodies(self, agent: int) -> list[tuple[Kind, tuple[int, ...]]]:
        """What an agent said of itself; every frame of it must be here."""
        frames = self.frames[agent]
        assert sorted(frames) == list(range(1, len(frames) + 1)), f"frames of agent {agent} were missed"
        return [
            (batch.kind, message.body)
            for _, frame in sorted(frames.items())
            for batch in frame.batches
            for message in batch.messages()
            if message.origin == agent
        ]


def recount(bodies: list[tuple[Kind, tuple[int, ...]]]) -> dict[int, tuple[int, Fraction]]:
    """Releases and their ε per arm, from nothing but what was said; n^(v/2) and 1/ε are the algorithms' own."""
    releases: dict[int, dict[int, Fraction]] = {}
    for kind, body in bodies:
        if kind is SEALED:
            arm, _, batches, *_ = body
            for number in range(1, batches + 1):
                releases.setdefault(arm, {})[number] = cost(Weighting.of(1.0).scale)
        else:
            for arm in range(len(body) // 3):
                if at := body[3 * arm + 1]:
                    releases.setdefault(arm, {})[at] = cost(scale_steps(at))
    return {arm: (len(each), sum(each.values(), Fraction())) for arm, each in releases.items()}


@pytest.mark.parametrize("algorithm", ["private-ucb", "sealed"])
def test_the_ledgers_of_twenty_agents_say_what_was_on_the_wire(
    algorithm: str, context: Context, tmp_path: Path
) -> None:
    place = tmp_path / "run"
    flags = ["--agents", "20", "--rounds", "40", "--algorithm", algorithm, "--round-timeout", "60"]
    with Process("up", *flags, "--run-dir", str(place), "--json") as testbed:
        until((place / "plan.json").exists)
        plan = json.loads(until(lambda: (place / "plan.json").read_text(encoding="utf-8")))
        capture = Capture(context, [agent["listen"] for agent in plan["agents"]])
        until(lambda: capture.drain() or testbed._popen.poll() is not None, within_s=3 * LONG_S)
        assert testbed.wait() == 0, testbed.errors
        capture.close()
    done = subprocess.run(
        [sys.executable, "-m", "agentd", "ledger", str(place), "--json"], capture_output=True, text=True, check=True
    )
    ledgers = json.loads(done.stdout)
    assert len(ledgers) == 20
    for ledger in ledgers:
        counted = recount(capture.own_bodies(ledger["agent"]))
        told = {arm["arm"]: (arm["releases"], pytest.approx(arm["pure"], rel=1e-12)) for arm in ledger["per_arm"]}
        assert {arm: (number, float(spent)) for arm, (number, spent) in counted.items()} == told
    releases = sum(ledger["total"]["releases"] for ledger in ledgers)
    assert releases > 20
    privacy = json.loads((place / "summary.json").read_text(encoding="utf-8"))["privacy"]
    worst = max(ledger["one_reward"]["pure"] for ledger in ledgers)
    assert (privacy["releases"], privacy["per_agent_epsilon"]) == (releases, pytest.approx(worst))


def test_what_a_life_spent_whose_state_was_moved_away_stays_in_the_summary(tmp_path: Path) -> None:
    """Two lives of one agent: one reward is exposed to the one that spent more, one reward in each to both."""
    run_dir, state = tmp_path / "run", tmp_path / "state"

    def reported() -> float:
        path = run_dir / "reports.json"
        listed = json.loads(path.read_text(encoding="utf-8"))["reports"] if path.exists() else []
        return float(listed[0]["epsilon"]) if listed else 0.0

    with EnvironmentProcess("--arms", "0.9,0.1", "--agents", "2", "--run-dir", str(run_dir)) as environment:
        usual = {"algorithm": "private-ucb", "clock": "free", "interval": 0.002}
        kept = {"state": state, "seat": tmp_path / "seat"}
        arguments = agent_arguments(1, free_address(), environment.address, {}, **usual, **kept)
        with Process(*arguments) as agent:
            until(lambda: reported() > 4.0)
            agent.kill()
        spent = until(reported)
        state.rename(tmp_path / "moved away")
        with Process(*arguments) as agent:
            until(lambda: 0.5 < reported() < spent)
            agent.terminate()
            assert agent.wait() == 0, agent.errors
        summary = environment.end()
    (told,) = json.loads((run_dir / "reports.json").read_text(encoding="utf-8"))["reports"]
    privacy = summary["privacy"]
    assert told["lives_before"][0] == 1
    assert (privacy["lives"], privacy["per_agent_epsilon"]) == (2, max(spent, told["epsilon"]))
    assert privacy["epsilon_over_lives"] == pytest.approx(spent + told["epsilon"])
