"""The environment at its socket and in its run directory, over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
import zmq
from env_clients import ANY_PORT, PATIENCE_S, TOKEN, dealers, hello, pull, receive, report, send
from raw_zmtp import message, stranger
from structlog.testing import LogCapture

from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.regard import UNTOLD, Regard
from agentd.environment import request_server
from agentd.environment import router as router_module
from agentd.environment import service as service_module
from agentd.environment.live_status import Speed, report_from_json, report_to_json
from agentd.environment.lives_spent import NO_LIFE
from agentd.environment.log_throttle import LogThrottle
from agentd.environment.request_server import RequestServer
from agentd.environment.router import Router
from agentd.environment.service import EnvironmentSettings, open_bandit, settle
from agentd.environment.store import Store, read_terms, replace_file
from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.runs.arms import Arms
from agentd.watching import Watching
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    MAX_COUNT,
    EnvironmentMessage,
    Noted,
    Ping,
    Pong,
    Refusal,
    Refused,
    Request,
    Reward,
    Welcome,
)
from agentd.wire.parcel import Parcel, decode_parcel, encode_parcel

SETTINGS = EnvironmentSettings(listen=ANY_PORT, arms=Arms.fixed((0.9, 0.5)), seed=7, agents=3, rounds=4)
DONE = report(0, 4, 10, 500, (("stale", 2), ("late", 1)), 1_500_000, True)
KEPT = replace(DONE, token=bytes(16))
"""What is left of it: nobody needs the token again."""


class Bench:
    """A request server in this process, and clients at its socket."""

    def __init__(self, server: RequestServer, router: Router, clients: list[zmq.Socket[bytes]], log: list[Any]) -> None:
        self.server, self.router, self.clients, self.log = server, router, clients, log

    def pump(self, requests: int = 1) -> None:
        """Answer as many requests as were sent."""
        while requests > 0:
            assert self.router.socket.poll(1000 * PATIENCE_S), f"{requests} requests never arrived"
            requests -= self.server.answer_waiting()

    def ask(self, request: Request, client: int = 0) -> EnvironmentMessage:
        send(self.clients[client], request)
        self.pump()
        return receive(self.clients[client])

    def ask_raw(self, *parts: bytes) -> EnvironmentMessage:
        self.clients[0].send_multipart(parts)
        self.pump()
        return receive(self.clients[0])


@contextmanager
def bench(
    settings: EnvironmentSettings = SETTINGS, clients: int = 2, seated: tuple[int, ...] = (0, 1, 2)
) -> Iterator[Bench]:
    """With the first agents in their seats already."""
    capture = LogCapture()
    log = structlog.wrap_logger(None, processors=[capture])
    store = Store.open(Path(settings.run_dir)) if settings.run_dir is not None else None
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        with closing(Router(context, settings.listen)) as router, dealers(router.address, clients) as sockets:
            bandit = open_bandit(settings, store, log)
            for agent in seated:
                bandit.answer(hello(agent, 0), 0.0)
            yield Bench(RequestServer(bandit, router, store, log), router, sockets, capture.entries)
    finally:
        if store is not None:
            store.close()
        context.destroy(linger=0)


def in_directory(path: Path, **changes: Any) -> EnvironmentSettings:
    return replace(SETTINGS, run_dir=str(path), **changes)


def content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# --- at the socket


def test_every_kind_of_request_has_its_reply() -> None:
    with bench() as b:
        assert b.ask(Ping()) == Pong()
        welcome = b.ask(hello(1))
        assert isinstance(welcome, Welcome)
        assert (welcome.arms, welcome.horizon, welcome.next_trial) == (2, 4, 1)
        assert isinstance(b.ask(pull(1, 1, 0)), Reward)
        assert b.ask(replace(DONE, agent=1)) == Noted(4, 0, (), 1)
        refused = b.ask(hello(3))
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.UNKNOWN_AGENT
        assert b.server.tallies.refused == {"unknown_agent": 1}


def test_a_parcel_is_answered_in_its_places_each_request_as_if_it_had_come_alone() -> None:
    with bench() as b:
        requests = [pull(0, 1, 0), pull(1, 1, 1), pull(2, 3, 0), Ping()]
        items = [*map(encode_environment, requests), b"nonsense", encode_parcel(Parcel(1, []))]
        b.clients[0].send(encode_parcel(Parcel(9, items)))
        b.pump()
        answer = decode_parcel(b.clients[0].recv())
        first, second, third, fourth, fifth, sixth = map(decode_environment, answer.items)
        assert answer.number == 9
        assert isinstance(first, Reward)
        assert isinstance(second, Reward)
        assert second.arm == 1
        assert isinstance(third, Refused)
        assert third.code is Refusal.TRIAL_OUT_OF_ORDER
        assert fourth == Pong()
        assert isinstance(fifth, Refused)
        assert isinstance(sixth, Refused)
        assert fifth.code is sixth.code is Refusal.MALFORMED
        assert b.server.bandit.pulls == 2


def test_what_only_looks_like_a_parcel_is_refused() -> None:
    with bench() as b:
        refused = b.ask_raw(encode_parcel(Parcel(9, [b"x"])) + b"more")
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.MALFORMED


def test_replies_come_in_the_order_of_the_requests() -> None:
    with bench() as b:
        for trial in range(1, 5):
            send(b.clients[0], pull(0, trial, trial % 2))
        b.pump(4)
        replies = [receive(b.clients[0]) for _ in range(4)]
        assert [(r.trial, r.arm) for r in replies if isinstance(r, Reward)] == [(1, 1), (2, 0), (3, 1), (4, 0)]


@pytest.mark.parametrize(
    ("parts", "reason", "code"),
    [
        ([b""], "not-msgpack", Refusal.MALFORMED),
        ([b"\xc1"], "not-msgpack", Refusal.MALFORMED),
        ([b"\x92\x01\x07\x00"], "trailing", Refusal.MALFORMED),
        ([b"\x92\x02\x07"], "version", Refusal.VERSION),
        ([b"\x92\x01\x63"], "tag", Refusal.MALFORMED),
        ([encode_environment(Pong())], "tag", Refusal.MALFORMED),
        ([b"", encode_environment(Ping())], "shape", Refusal.MALFORMED),
        ([encode_environment(Ping())] * 3, "shape", Refusal.MALFORMED),
        ([bytes(9000)], "oversize", Refusal.MALFORMED),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_request_is_refused_and_counted(parts: list[bytes], reason: str, code: Refusal) -> None:
    with bench() as b:
        reply = b.ask_raw(*parts)
        assert isinstance(reply, Refused)
        assert reply.code is code
        assert reason in reply.text
        assert b.server.tallies.malformed == {reason: 1}
        assert b.ask(Ping()) == Pong()


def test_far_too_long_a_message_costs_the_sender_its_connection_and_nobody_else() -> None:
    with bench() as b:
        b.clients[0].send(bytes(100_000))
        assert b.ask(Ping(), client=1) == Pong()
        assert not b.server.tallies.malformed


def test_a_peer_that_does_not_read_loses_replies_and_these_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(router_module._OPTIONS, zmq.SNDHWM, 10)
    with bench() as b:
        send(b.clients[0], Ping())
        assert b.router.socket.poll(1000 * PATIENCE_S)
        [[connection, _]] = b.router.waiting()
        asked = 0
        while not b.server.tallies.unanswerable:  # until the buffers on the way are full
            while b.router.send(connection, bytes(1 << 14)):
                pass
            send(b.clients[0], Ping())
            b.pump()
            asked += 1
        assert b.server.tallies.unanswerable == 1
        assert asked < 10_000


def test_the_reply_to_a_peer_that_is_gone_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench() as b:
        waiting = b.router.waiting
        monkeypatch.setattr(b.router, "waiting", lambda: [[b"nobody", *parts[1:]] for parts in waiting()])
        send(b.clients[0], Ping())
        b.pump()
        assert b.server.tallies.unanswerable == 1


def test_requests_beyond_one_batch_wait_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "BATCH_LIMIT", 2)
    with bench() as b:
        for _ in range(5):
            send(b.clients[0], Ping())
        b.pump(5)
        assert [receive(b.clients[0]) for _ in range(5)] == [Pong()] * 5


async def test_readiness_comes_with_a_message_or_with_the_time() -> None:
    with bench() as b:
        await asyncio.wait_for(b.router.ready(0.01), PATIENCE_S)
        assert not b.router.waiting()
        waiting = asyncio.create_task(b.router.ready(None))
        await asyncio.sleep(0)
        send(b.clients[0], Ping())
        while not b.router.socket.poll(0):
            await asyncio.wait_for(waiting, PATIENCE_S)
            waiting = asyncio.create_task(b.router.ready(None))
        await asyncio.wait_for(waiting, PATIENCE_S)
        assert len(b.router.waiting()) == 1


def test_an_occupied_address_is_refused_with_what_to_do() -> None:
    with bench() as b, pytest.raises(ConfigurationError) as fault, bench(replace(SETTINGS, listen=b.router.address)):
        pass
    assert str(fault.value) == (
        f"cannot listen on {b.router.address}: address already in use; choose another address with --listen"
    )
    assert fault.value.exit_code == 78


@pytest.mark.parametrize(
    ("listen", "why"),
    [
        ("tcp://203.0.113.7:0", "address"),
        ("tcp://no-such-interface:0", "no such address"),
        ("tcp://127.0.0.1", "invalid argument"),
        ("nonsense", "invalid argument"),
        ("ipc:///proc/nowhere/socket", "no such file"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_refused(listen: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"cannot listen on .*{why}"), bench(replace(SETTINGS, listen=listen)):
        pass


def test_an_address_of_version_6_works() -> None:
    asked = []
    with contextlib.suppress(ConfigurationError), bench(replace(SETTINGS, listen="tcp://[::1]:0")) as b:
        asked.append(b.ask(Ping()))
    assert asked == ([Pong()] if Path("/proc/net/if_inet6").exists() else [])


FLOOD = """
import os, signal, sys, zmq
from agentd.environment.router import Router
router = Router(zmq.Context(), "tcp://127.0.0.1:0")
told, tell = os.pipe()
if (peer := os.fork()) == 0:
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 1000)
    dealer.setsockopt(zmq.SNDTIMEO, 300)
    dealer.connect(router.address)
    try:
        while True:
            dealer.send(bytes(8000))
    except zmq.Again:
        os.write(tell, b"x")
    signal.pause()
os.read(told, 1)
os.kill(peer, signal.SIGKILL)
os.waitpid(peer, 0)
# Long enough for two heartbeats of the recommended second, had anybody switched them on.
signal.sigtimedwait([], 2.2)
print(len(router.waiting()))
"""


def test_a_peer_that_floods_the_socket_and_dies_does_not_take_the_service_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= router_module._OPTIONS[zmq.RCVHWM]


def test_what_follows_the_first_part_of_a_request_is_passed_over_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router_module, "PARTS_AT_ONCE", 10)
    with bench() as b:
        b.clients[0].send_multipart([b"first", *[b""] * 35])
        send(b.clients[0], Ping())
        assert b.router.socket.poll(1000 * PATIENCE_S)
        seen = [b.router.waiting() for _ in range(4)]
        assert [len(messages) for messages in seen] == [1, 0, 0, 1], "after ten parts something else gets a turn"
        assert seen[0][0][1:] == [b"first", b""]
        assert seen[3][0][1:] == [encode_environment(Ping())]


def test_many_messages_of_many_parts_are_passed_over_some_parts_at_a_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "PARTS_AT_ONCE", 10)
    with bench() as b:
        for _ in range(5):
            b.clients[0].send_multipart([b"first", *[b""] * 6])
        send(b.clients[0], Ping())
        assert b.router.socket.poll(1000 * PATIENCE_S)
        seen: list[int] = []
        while sum(seen) < 6:
            seen.append(len(b.router.waiting()))
        assert max(seen) == 2, "after ten parts something else gets a turn"


@pytest.mark.parametrize("rudely", [False, True])
def test_who_leaves_in_the_middle_of_its_message_takes_nobody_along(
    rudely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_module, "PARTS_AT_ONCE", 10)
    with bench() as b:
        port = int(b.router.address.rpartition(":")[2])
        leaving = stranger("127.0.0.1", port, "DEALER")
        leaving.sendall(message(b"first", *[b""] * 1000))
        assert b.router.socket.poll(1000 * PATIENCE_S)
        assert len(b.router.waiting()) == 1
        if rudely:
            leaving.sendall(b"\xff" * 100)
        leaving.close()
        send(b.clients[0], Ping())
        while not (messages := b.router.waiting()):
            pass
        assert [parts[1] for parts in messages] == [encode_environment(Ping())]


def test_a_request_of_several_parts_is_refused_and_counted_once() -> None:
    with bench() as b:
        refused = b.ask_raw(encode_environment(Ping()), *[b""] * 1000)
        assert isinstance(refused, Refused)
        assert b.server.tallies.malformed == {"shape": 1}
        assert b.ask(Ping()) == Pong()


# --- what is logged


def test_refusals_are_logged_once_per_second_and_reason() -> None:
    with bench() as b:
        for _ in range(20):
            b.ask_raw(b"\xc1")
            b.ask(pull(0, 3, 0))
        refusals = [entry for entry in b.log if entry["event"] == "refused"]
        assert {entry["reason"] for entry in refusals} == {"malformed not-msgpack", "trial_out_of_order"}
        assert len(refusals) < 20
        assert b.server.tallies.refused == {"trial_out_of_order": 20}


def test_what_was_left_unsaid_is_counted() -> None:
    throttle = LogThrottle()
    assert throttle.due("x", 10.0) == 1
    assert throttle.due("x", 10.5) is None
    assert throttle.due("y", 10.5) == 1
    assert throttle.due("x", 10.9) is None
    assert throttle.due("x", 11.0) == 3


def test_a_hello_is_logged_with_what_comes_next() -> None:
    with bench() as b:
        b.ask(pull(1, 1, 0))
        b.ask(hello(1))
        hellos = [entry for entry in b.log if entry["event"] == "hello"]
        assert [(e["agent"], e["incarnation"], e["next_trial"]) for e in hellos] == [(1, 1, 2)]


# --- settings and terms


def test_settings_that_make_no_sense_are_refused_together() -> None:
    with pytest.raises(SettingsError, match=r"--rounds.*--seed.*--until-done needs --agents"):
        replace(SETTINGS, rounds=0, seed=-1, agents=None, until_done=True)


def test_a_new_run_gets_an_id_of_its_own() -> None:
    assert len(settle(SETTINGS, None).run) == 8
    assert settle(SETTINGS, None).run != settle(SETTINGS, None).run
    assert settle(replace(SETTINGS, run=b"abcdefgh"), None).run == b"abcdefgh"


def test_what_the_settings_leave_open_is_taken_from_the_stored_terms() -> None:
    stored = settle(SETTINGS, None)
    assert settle(replace(SETTINGS, agents=None, rounds=None), stored) == stored


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"agents": 4}, "its agents are 3, not 4"),
        ({"rounds": 5}, "its rounds are 4, not 5"),
        ({"max_outstanding": 2}, "its trials outstanding are at most 1, not 2"),
        ({"seed": 8}, "its seed is another"),
        ({"arms": Arms.fixed((0.9, 0.4))}, "its 2 bernoulli arms are others"),
        ({"run": b"abcdefgh"}, "its run is 00112233445566ff, not 6162636465666768"),
    ],
    ids=str,
)
def test_settings_that_contradict_the_stored_terms_are_refused(change: dict[str, Any], told: str) -> None:
    stored = settle(replace(SETTINGS, run=bytes.fromhex("00112233445566ff")), None)
    with pytest.raises(ConfigurationError, match=told) as fault:
        settle(replace(SETTINGS, **change), stored)
    assert fault.value.exit_code == 78


def test_a_number_where_the_stored_terms_have_none_is_a_contradiction() -> None:
    stored = settle(replace(SETTINGS, agents=None, rounds=None), None)
    with pytest.raises(ConfigurationError, match=r"agents are not numbered, not 3; its rounds are without end, not 4"):
        settle(SETTINGS, stored)


@pytest.mark.parametrize(
    ("limits", "raised", "warned"),
    [((1024, 4096), (2064, 4096), False), ((1024, 1500), (1500, 1500), True), ((9000, 9000), None, False)],
)
def test_the_limit_of_open_files_is_raised_to_one_per_agent(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: tuple[int, int] | None, warned: bool
) -> None:
    calls = []
    monkeypatch.setattr(service_module.resource, "getrlimit", lambda _what: limits)
    monkeypatch.setattr(service_module.resource, "setrlimit", lambda _what, new: calls.append(new))
    capture = LogCapture()
    service_module._allow_files(2000, structlog.wrap_logger(None, processors=[capture]))
    assert calls == ([raised] if raised is not None else [])
    assert bool(capture.entries) is warned


# --- in the run directory


def test_a_pull_is_on_disk_before_its_reply_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(in_directory(tmp_path)) as b:
        sizes = []
        really_send = b.router.send

        def watched(connection: bytes, data: bytes) -> bool:
            sizes.append((tmp_path / "pulls.journal").stat().st_size)
            return really_send(connection, data)

        monkeypatch.setattr(b.router, "send", watched)
        b.ask(pull(0, 1, 0))
        b.ask(pull(0, 2, 0))
        b.ask(pull(0, 2, 0))
        assert sizes == [32 + 16, 32 + 32, 32 + 32]


def test_a_run_in_which_somebody_was_welcome_is_not_young_again_after_a_restart(tmp_path: Path) -> None:
    """Else who joins then, on free clocks, would take all that the others say for the future."""
    settings = in_directory(tmp_path)
    with bench(settings, seated=()) as before:
        before.ask(hello(0))
    with bench(settings, seated=()) as after:
        assert not after.server.bandit.pulls
        assert after.server.bandit.began_s is not None


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        run = b.server.bandit.terms.run
        b.ask(pull(0, 1, 1))
        second = b.ask(pull(0, 2, 1))
        b.ask(replace(DONE, trial=1, round=3))
    with bench(in_directory(tmp_path, agents=None, rounds=None)) as b:
        welcome = b.ask(hello(0, 0))
        assert isinstance(welcome, Welcome)
        assert (welcome.run, welcome.horizon, welcome.next_trial) == (run, 4, 3)
        assert b.ask(pull(0, 2, 1)) == second
        assert b.server.bandit.seats[0].report == replace(KEPT, trial=1, round=3)
        assert b.server.bandit.seats[0].reached == 4, "two trials, and two rounds that it said to have missed"
        assert b.server.bandit.pulls == 2
        resumed = next(entry for entry in b.log if entry["event"] == "resumed")
        assert (resumed["pulls"], resumed["torn_bytes"]) == (2, 0)


def test_what_a_report_said_to_be_committed_is_not_answered_again_after_a_restart(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        b.ask(pull(0, 1, 1))
        b.ask(DONE)
    with bench(in_directory(tmp_path)) as b:
        refused = b.ask(pull(0, 1, 1))
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.TRIAL_OUT_OF_ORDER


def test_pulls_of_an_agent_whose_seat_nobody_took_are_damage(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        b.ask(pull(0, 1, 1))
    seats = tmp_path / "seats.journal"
    os.truncate(seats, 32)
    with (
        pytest.raises(ConfigurationError, match="agent 0 has pulled, and who took its seat is missing"),
        bench(in_directory(tmp_path)),
    ):
        pass


def test_a_run_from_before_there_were_seats_answers_nothing_again(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        b.ask(pull(0, 1, 1))
        run = b.server.bandit.terms.run
    (tmp_path / "seats.journal").unlink()
    place = tmp_path / "environment.json"
    stored = content(place)
    old = {name: stored[name] for name in ("run", "seed", "arms")} | {"format": 1, "agents": 2, "rounds": 4}
    place.write_text(json.dumps(old))
    with bench(in_directory(tmp_path, agents=None, rounds=None)) as b:
        welcome = b.ask(hello(0, 0))
        assert isinstance(welcome, Welcome)
        assert (welcome.run, welcome.next_trial) == (run, 2)
        refused = b.ask(pull(0, 1, 1))
        assert isinstance(refused, Refused)
        assert refused.code is Refusal.TRIAL_OUT_OF_ORDER


def test_an_agent_hears_that_its_last_report_was_noted_only_when_it_is_on_disk(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        b.ask(replace(DONE, done=False))
        assert not (tmp_path / "reports.json").exists()
        assert b.ask(DONE) == Noted(4, 0)
        assert content(tmp_path / "reports.json") == {"reports": [report_to_json(DONE) | NO_LIFE.to_json(0)]}
        (tmp_path / "reports.json").unlink()
        b.ask(DONE)
        b.ask(replace(DONE, messages=11))
        assert not (tmp_path / "reports.json").exists(), "that it is done is written once; the rest can wait"


def test_the_terms_are_written_once_and_only_for_their_owner(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)):
        pass
    path = tmp_path / "environment.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with bench(in_directory(tmp_path)) as b:
        assert read_terms(tmp_path) == b.server.bandit.terms
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert content(path)["seed"] == 7


def test_two_services_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        bench(in_directory(tmp_path)),
        pytest.raises(ConfigurationError, match="another environment service is using"),
        bench(in_directory(tmp_path)),
    ):
        pass


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot use .* as run directory: Not a directory"):
        Store.open(tmp_path / "file" / "run")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "zz"}', '{"run": "00"}'])
def test_damaged_terms_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "environment.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"cannot use .*environment\.json"):
        read_terms(tmp_path)


def test_terms_without_their_journal_are_refused(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)):
        pass
    (tmp_path / "pulls.journal").unlink()
    with pytest.raises(ConfigurationError, match="not the journal of this run"), bench(in_directory(tmp_path)):
        pass


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"reports": [1]}', '{"reports": [{"agent": 0}]}', '{"reports": 5}'], ids=str
)
def test_damaged_reports_are_refused(tmp_path: Path, text: str) -> None:
    with bench(in_directory(tmp_path)):
        pass
    (tmp_path / "reports.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"cannot use .*reports\.json"), bench(in_directory(tmp_path)):
        pass


def test_a_report_survives_the_way_through_json_and_one_that_breaks_the_protocol_does_not() -> None:
    assert report_from_json(report_to_json(DONE)) == KEPT
    assert TOKEN.hex() not in json.dumps(report_to_json(DONE))
    with pytest.raises(ValueError, match="breaks the protocol"):
        report_from_json(report_to_json(DONE) | {"trial": -1})


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(AgentdError, match=r"cannot write .*x\.json: No such file"):
        replace_file(tmp_path / "nowhere" / "x.json", "{}")


def test_status_tells_how_every_agent_is_doing(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path), seated=(0, 1)) as b:
        b.ask(pull(0, 1, 1))
        b.ask(DONE)
        blames = (Blame(0, Why.SLOW, 7), Blame(2, Why.WRONG, 1), Blame(9, Why.FLOOD, 1), Blame(1, Why.FLOOD, 1))
        regards = (Regard(0, 2, 5, 499), Regard(2, 0, 5, 500), Regard(1, 0, 5, UNTOLD))
        b.ask(
            replace(DONE, agent=1, epsilon_micro=MAX_COUNT, done=False, round=7, blames=blames, regards=regards),
            client=1,
        )
        b.ask_raw(b"\xc1")
        b.server.finish()
    status = content(tmp_path / "status.json")
    first, second, third = status["agents"]
    assert first.pop("last_seen_s_ago") >= 0.0
    assert first == {
        "id": 0, "trial": 1, "regret": pytest.approx(0.4), "messages": 10, "bytes": 500, "dropped": 3,
        "epsilon": 1.5, "done": True, "round": 1, "blamed": {"slow": [1]}, "doubted": [1],
    }  # fmt: skip
    assert (second["epsilon"], second["done"]) == (None, False)
    assert (third["trial"], third["last_seen_s_ago"]) == (0, None)
    assert (second["trial"], second["round"], second["blamed"]) == (0, 3, {}), "it is three rounds ahead of its trials"
    assert third["blamed"] == {"wrong": [1]}
    assert (second["doubted"], third["doubted"]) == ([], []), "half of the trust is enough"
    assert status["group_regret"] == pytest.approx(0.4)
    assert (status["pulls"], status["rounds"], status["done"]) == (1, 4, False)
    assert status["malformed"] == {"not-msgpack": 1}
    assert status["run"] == content(tmp_path / "environment.json")["run"]
    assert status["written"] > 0


def test_status_is_written_again_when_something_changed_and_a_second_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(request_server.time, "monotonic", lambda: now[0])
    with bench(in_directory(tmp_path)) as b:
        b.server.announce()
        path = tmp_path / "status.json"
        path.unlink()
        now[0] += 5.0
        b.server._write_status_if_due()
        assert not path.exists(), "nothing changed"
        b.ask(pull(0, 1, 1))
        b.server._write_status_if_due()
        assert content(path)["pulls_per_s"] == 0.2
        path.unlink()
        b.ask(pull(0, 2, 1))
        now[0] += 0.9
        b.server._write_status_if_due()
        assert not path.exists(), "too soon"
        now[0] += 0.2
        b.server._write_status_if_due()
        assert path.exists()


def test_speed_is_measured_between_two_looks() -> None:
    speed = Speed(10, 1.0)
    assert speed.look(30, 3.0) == 10.0
    assert speed.look(30, 3.0) == 0.0
    assert speed.look(31, 3.5) == 2.0


def test_at_the_end_everything_is_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "faults.jsonl").write_text('{"round": 2, "what": "agent 1 killed"}\nnonsense\n')
    with bench(in_directory(tmp_path)) as b:
        rewards = [b.ask(pull(2, trial, trial % 2)) for trial in (1, 2)]
        b.ask(DONE)
        ending = b.server.finish()
    with np.load(tmp_path / "pulls.npz") as pulls:
        assert pulls["arm"].tolist() == [[65535] * 4, [65535] * 4, [1, 0, 65535, 65535]]
        assert pulls["reward"].tolist()[2] == [*(r.reward for r in rewards if isinstance(r, Reward)), -1, -1]
    lines = (tmp_path / "regret.csv").read_text().split()
    assert lines == ["round,group_regret", "1,0.400000", "2,0.400000"], "nobody pulled later"
    assert "2: agent 1 killed" in (tmp_path / "regret.svg").read_text()
    assert content(tmp_path / "reports.json")["reports"][0]["dropped"] == {"stale": 2, "late": 1}
    assert content(tmp_path / "status.json")["pulls"] == 2
    assert ending.status.group_regret == pytest.approx(0.4)
    assert not list(tmp_path.glob("*.new"))


def test_requests_that_arrived_before_the_end_are_still_answered(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        send(b.clients[0], pull(0, 1, 0))
        assert b.router.socket.poll(1000 * PATIENCE_S)
        b.server.finish()
        assert isinstance(receive(b.clients[0]), Reward)
        assert content(tmp_path / "status.json")["pulls"] == 1


def test_a_run_that_nobody_joined_ends_as_well(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path, agents=None, rounds=None), seated=()) as b:
        assert b.server.finish().status.agents == ()
    assert (tmp_path / "regret.svg").exists()


def test_pulls_too_sparse_for_a_table_are_left_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(in_directory(tmp_path)) as b:
        monkeypatch.setattr("agentd.environment.shared_bandit.LEDGER_LIMIT_PULLS", 0)
        b.server.finish()
        assert any("no pulls.npz" in entry["event"] for entry in b.log)
    assert not (tmp_path / "pulls.npz").exists()


def test_results_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    with bench(in_directory(tmp_path)) as b:
        (tmp_path / "pulls.npz").mkdir()
        with pytest.raises(AgentdError, match="cannot write"):
            b.server.finish()


@pytest.mark.parametrize("watching", [Watching(http="127.0.0.1:9100"), Watching(mqtt="mqtt://127.0.0.1")])
def test_who_pulls_real_arms_for_all_lets_nobody_look_on(watching: Watching) -> None:
    with pytest.raises(SettingsError, match="would tell everybody when a pull was answered"):
        replace(SETTINGS, real="exec:true", watching=watching)
