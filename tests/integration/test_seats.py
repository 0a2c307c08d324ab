"""A seat has a secret: nobody reads another agent's rewards, and nobody is locked out of their own seat.

Real environments, real agents and an attacker with plain sockets that knows everything but the secrets.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import pytest
import zmq
from agentd_processes import Process, agent_arguments
from env_clients import PATIENCE_S, TOKEN, ask, dealers, hello, pull, receive, report, send, serving
from evidence import until
from loopback import LONG_S, events, free_address

from agentd.runs.seats import seat_hash, write_seats
from agentd.shell.state.reader import read_state
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import EnvironmentMessage, Noted, Refusal, Refused, Request, Reward, Welcome

pytestmark = pytest.mark.system

VICTIM, ATTACKER = 0, 1
TRIALS, ARMS = 1000, 2
PORTION = 200
ATTACKERS = b"attacker's token"
FORGED = (ATTACKERS, bytes(16), TOKEN, b"\xff" * 16)
RUN = "00112233445566ff"


def flags_for(place: Path, *more: str) -> tuple[str, ...]:
    many = ("--agents", "2", "--rounds", str(TRIALS), "--run", RUN, "--run-dir", str(place))
    return ("--arms", "0.9,0.5", "--seed", "7", *many, *more)


def pulled(place: Path) -> int:
    """How many pulls the environment has counted."""
    return ((place / "pulls.journal").stat().st_size - 32) // 16


def victims(place: Path, environment: str, *, interval: float = 0.002, **flags: object) -> Process:
    """A real agent that keeps no state, alone on a clock of its own."""
    usual = {"algorithm": "ucb1", "clock": "free", "interval": interval, "log_file": place / "victim.jsonl"}
    return Process(*agent_arguments(VICTIM, free_address(), environment, {}, **(usual | flags)))


@contextmanager
def attacker(address: str) -> Iterator[zmq.Socket[bytes]]:
    with dealers(address) as [socket]:
        yield socket


def in_portions(socket: zmq.Socket[bytes], requests: list[Request]) -> Iterator[EnvironmentMessage]:
    """The replies to many requests; whoever reads none of them for long loses those that find no room."""
    for start in range(0, len(requests), PORTION):
        portion = requests[start : start + PORTION]
        for request in portion:
            send(socket, request)
        for _ in portion:
            yield receive(socket)


def rewards_read(socket: zmq.Socket[bytes]) -> int:
    """How many of the victim's rewards an attacker gets who asks for every trial with every arm and several tokens.

    Nor does it learn anything else: all refusals say the same.
    """
    read, said = 0, set()
    for token in FORGED:
        asked = [pull(VICTIM, t, arm, committed=0, token=token) for t in range(1, TRIALS + 1) for arm in range(ARMS)]
        for reply in in_portions(socket, [hello(VICTIM, token=token), hello(VICTIM, 0, token=token), *asked]):
            read += isinstance(reply, Reward)
            said.add(reply)
    assert len(said) == 1
    (refused,) = said
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.WRONG_TOKEN
    return read


def rewards_read_without_a_token(socket: zmq.Socket[bytes]) -> int:
    """The same with messages as they were before there were tokens, or without them."""
    read = 0
    for trial in range(1, TRIALS + 1):
        for fields in ([1, 3, VICTIM, trial, 0], [1, 3, VICTIM, b"", trial, 0, 0], [1, 3, VICTIM, None, trial, 0, 0]):
            socket.send(msgpack.packb(fields))
            reply = receive(socket)
            assert isinstance(reply, Refused)
            assert reply.code is Refusal.MALFORMED
            read += isinstance(reply, Reward)
    return read


def test_none_of_a_thousand_past_rewards_is_read_by_another_agent(tmp_path: Path) -> None:
    """During the run, after the victim was killed, after the environment was, and at the end; with forged tokens."""
    address, seat = free_address(), tmp_path / "seat"
    with serving(*flags_for(tmp_path), listen=address) as first:
        with attacker(address) as socket, victims(tmp_path, address, seat=seat) as victim:
            assert isinstance(ask(socket, hello(ATTACKER, token=ATTACKERS)), Welcome), "an agent of the run itself"
            until(lambda: pulled(tmp_path) > 100)
            assert rewards_read(socket) == 0, "during the run"
            victim.kill()
            assert rewards_read(socket) == 0, "after the victim was killed"
            assert rewards_read_without_a_token(socket) == 0
        first.end(signal.SIGKILL)
    with serving(*flags_for(tmp_path), listen=address) as again:
        with attacker(address) as socket:
            assert rewards_read(socket) == 0, "after the environment was killed and started again"
            with victims(tmp_path, address, seat=seat, interval=1e-4) as victim:
                assert victim.wait(2 * LONG_S) == 0, victim.errors
            assert rewards_read(socket) == 0, "after the run"
        assert again.end(signal.SIGTERM) == 0
        assert json.loads(again.printed())["pulls"] == TRIALS
    (_, back) = events(tmp_path / "victim.jsonl", "joined")
    assert back["trial"] > 100, "the victim came back to its seat and went on"


def test_not_even_the_token_gives_past_rewards_away(tmp_path: Path) -> None:
    """Only the last trial, and that only to who says not to have committed it."""
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        ask(socket, hello(VICTIM))
        for trial in range(1, 51):
            assert isinstance(ask(socket, pull(VICTIM, trial, trial % 2)), Reward)
        for trial in range(1, 50):
            for arm in range(ARMS):
                refused = ask(socket, pull(VICTIM, trial, arm, committed=0))
                assert isinstance(refused, Refused)
                assert refused.code is Refusal.TRIAL_OUT_OF_ORDER
        assert isinstance(ask(socket, pull(VICTIM, 50, 0)), Reward)
        assert isinstance(ask(socket, report(VICTIM, 50, 0, 0, (), 0, False)), Noted)
        assert isinstance(ask(socket, pull(VICTIM, 50, 0)), Refused)


def test_before_agents_arrive_their_seats_are_held_by_hashes_that_a_launcher_handed_over(tmp_path: Path) -> None:
    seats, seat = tmp_path / "seats.jsonl", tmp_path / "seat"
    seat.write_text(TOKEN.hex() + "\n")
    write_seats(seats, {agent: seat_hash(bytes.fromhex(RUN), agent, TOKEN) for agent in range(2)})
    forged = [token for token in FORGED if token != TOKEN]
    with serving(*flags_for(tmp_path / "run", "--seats", str(seats))) as served, attacker(served.address) as socket:
        for token in forged:
            for request in (hello(VICTIM, token=token), pull(VICTIM, 1, 0, token=token)):
                refused = ask(socket, request)
                assert isinstance(refused, Refused)
                assert refused.code is Refusal.WRONG_TOKEN
        with victims(tmp_path, served.address, seat=seat, interval=1e-4) as victim:
            assert victim.wait(2 * LONG_S) == 0, victim.errors
        assert served.end(signal.SIGTERM) == 0
        assert json.loads(served.printed())["refused"] == {"wrong_token": 2 * len(forged)}
    with serving(*flags_for(tmp_path / "run")) as served, attacker(served.address) as socket:
        assert isinstance(ask(socket, hello(ATTACKER, token=ATTACKERS)), Refused), "they are in the journal now"


def test_a_welcome_that_was_lost_can_be_asked_for_again(tmp_path: Path) -> None:
    journal = tmp_path / "seats.journal"
    with serving(*flags_for(tmp_path)) as served:
        nobody = journal.stat().st_size
        with dealers(served.address) as [socket]:
            send(socket, hello(VICTIM))
            until(lambda: journal.stat().st_size > nobody)  # it was taken; nobody reads the welcome
        served.end(signal.SIGKILL)
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        assert isinstance(ask(socket, hello(VICTIM, token=ATTACKERS)), Refused)
        welcome = ask(socket, hello(VICTIM))
        assert isinstance(welcome, Welcome)
        assert (welcome.next_trial, welcome.incarnation) == (1, 0)


def test_an_agent_without_state_comes_back_through_its_seat_file_or_after_its_seat_was_released(tmp_path: Path) -> None:
    seat, log = tmp_path / "seat", tmp_path / "victim.jsonl"

    def joined() -> list[int]:
        return [line["trial"] for line in events(log, "joined")]

    with serving(*flags_for(tmp_path)) as served:

        def killed(**flags: object) -> None:
            """Killed once it has pulled and its log says so: log lines are written beside the work, not before it."""
            before, lives = pulled(tmp_path), len(joined())
            with victims(tmp_path, served.address, **flags) as victim:
                until(lambda: pulled(tmp_path) > before and len(joined()) > lives)
                victim.kill()

        killed(seat=seat)
        killed(seat=seat)
        with victims(tmp_path, served.address) as victim:
            assert victim.wait() == 78
            assert "is held with another token" in victim.errors
            assert "agentd env release 0" in victim.errors
        with Process("env", "release", str(VICTIM), "--run-dir", str(tmp_path), "--json") as released:
            assert released.wait() == 0, released.errors
        with victims(tmp_path, served.address, interval=1e-4) as victim:
            assert victim.wait(2 * LONG_S) == 0, victim.errors
        first, second, third = joined()
        assert (first, third) == (0, json.loads(released.output)["next_trial"] - 1)
        assert 0 < second < third
        with dealers(served.address) as [socket]:
            ask(socket, hello(ATTACKER))
            noted = ask(socket, report(ATTACKER, 0, 0, 0, (), 0, False))
            assert noted == Noted(0, 2, ((VICTIM, third),)), "each return is a new life, named after what was pulled"


def test_an_agent_that_died_before_it_wrote_its_new_life_down_is_not_locked_out(tmp_path: Path) -> None:
    """Its state is one trial behind, it was given a new incarnation for that, and then it died."""
    state = tmp_path / "state"
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        with victims(tmp_path, served.address, algorithm="private-ucb", state=state) as victim:
            until(lambda: pulled(tmp_path) > 20)
            victim.kill()
        token, kept = bytes.fromhex((state / "seat").read_text()), read_state(state).trial
        while (trial := pulled(tmp_path)) < kept + 1:
            assert isinstance(ask(socket, pull(VICTIM, trial + 1, 0, token=token)), Reward)
        welcome = ask(socket, hello(VICTIM, token=token))
        assert isinstance(welcome, Welcome)
        assert welcome.incarnation == kept + 1
        flags = {"algorithm": "private-ucb", "state": state, "interval": 1e-3}
        with victims(tmp_path, served.address, **flags) as victim:
            assert victim.wait(2 * LONG_S) == 0, victim.errors
        assert read_state(state).incarnation == kept + 1
        refused = ask(socket, hello(VICTIM, 0, token=token))
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.OLD_INCARNATION


def test_forged_reports_do_not_end_a_run(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path, "--until-done")) as served, attacker(served.address) as socket:
        for token in FORGED[:2]:
            for agent in (VICTIM, ATTACKER):
                refused = ask(socket, report(agent, TRIALS, 0, 0, (), 0, True, token=token))
                assert isinstance(refused, Refused), "not before anybody has the seat"
        for agent in (VICTIM, ATTACKER):
            ask(socket, hello(agent))
        for token in FORGED[:2]:
            for agent in (VICTIM, ATTACKER):
                refused = ask(socket, report(agent, TRIALS, 0, 0, (), 0, True, token=token))
                assert isinstance(refused, Refused)
                assert refused.code is Refusal.WRONG_TOKEN
        assert isinstance(ask(socket, report(ATTACKER, TRIALS, 0, 0, (), 0, True)), Noted)
        assert isinstance(ask(socket, pull(VICTIM, 1, 0)), Reward), "the run goes on"
        assert served.process.poll() is None
        assert isinstance(ask(socket, report(VICTIM, 1, 0, 0, (), 0, True)), Noted)
        assert served.process.wait(PATIENCE_S) == 0


def test_an_environment_that_stalls_gives_no_seat_away(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served, dealers(served.address, 2) as [own, other]:
        ask(own, hello(VICTIM))
        ask(own, pull(VICTIM, 1, 0))
        served.process.send_signal(signal.SIGSTOP)
        own.close(linger=0)  # its connection breaks in the meantime
        for request in (hello(VICTIM, token=ATTACKERS), pull(VICTIM, 1, 0, committed=0, token=ATTACKERS)):
            send(other, request)
        served.process.send_signal(signal.SIGCONT)
        for _ in range(2):
            refused = receive(other)
            assert isinstance(refused, Refused)
            assert refused.code is Refusal.WRONG_TOKEN
        assert isinstance(ask(other, pull(VICTIM, 2, 1)), Reward), "the token is welcome from any connection"


def test_tokens_stay_out_of_logs_and_files(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        for request in (hello(VICTIM), pull(VICTIM, 1, 0), pull(VICTIM, 1, 1), report(VICTIM, 0, 0, 0, (), 0, True)):
            ask(socket, request)
        ask(socket, hello(VICTIM, token=ATTACKERS))
        assert served.end(signal.SIGTERM) == 0
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for token in (TOKEN, ATTACKERS):
            assert token not in content, path
            assert token.hex().encode() not in content, path


def test_the_answers_of_the_protocol_are_read_by_a_client_of_its_document_alone(tmp_path: Path) -> None:
    """The same conversation in plain MessagePack: nothing of ours but the service."""
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:

        def say(*fields: object) -> list:
            socket.send(msgpack.packb([1, *fields]))
            assert socket.poll(1000 * PATIENCE_S)
            return msgpack.unpackb(socket.recv())

        version, kind, terms, low, high, next_trial, incarnation, age, run_round = say(1, VICTIM, TOKEN, None)
        assert (version, kind, low, high, next_trial, incarnation, run_round) == (1, 2, 0.0, 1.0, 1, 0, 0)
        assert terms[:3] == [bytes.fromhex(RUN), ARMS, TRIALS]
        assert age >= 0
        assert say(3, VICTIM, TOKEN, 1, 1, 0)[:4] == [1, 4, 1, 1]
        assert say(1, VICTIM, TOKEN, None)[6] == 1
        assert say(5, VICTIM, TOKEN, 1, 0, 0, [], 0, 0, 0, 1, [[0, 1, 3]], []) == [1, 6, 1, 1, [[VICTIM, 1]], 1]
        assert say(3, VICTIM, bytes(16), 2, 1, 1)[1:3] == [9, 9]
        assert say(1, VICTIM, TOKEN, 0)[1:3] == [9, 10]
        assert say(11, VICTIM, TOKEN)[1:3] == [9, 9]


def test_a_seat_is_on_the_disk_before_its_welcome_leaves(tmp_path: Path) -> None:
    with serving(*flags_for(tmp_path)) as served, dealers(served.address) as [socket]:
        before = (tmp_path / "seats.journal").stat().st_size
        socket.send(encode_environment(hello(VICTIM)))
        assert socket.poll(1000 * PATIENCE_S)
        served.end(signal.SIGKILL)
        assert (tmp_path / "seats.journal").stat().st_size == before + 48
        assert isinstance(decode_environment(socket.recv()), Welcome)
