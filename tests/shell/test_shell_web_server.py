"""Who looks on is answered at once; strangers, slow ones and crowds cost the server little and nobody else anything."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest
from asking import asked, connected, metrics_of
from evidence import cpu_s_of, until

from agentd.errors import ConfigurationError
from agentd.shell.watch import web_server
from agentd.shell.watch.snapshot import Board, Observed, Snapshot, counters, gauge, gauges, taken
from agentd.shell.watch.web_pages import Pages, answered
from agentd.shell.watch.web_server import MOST_CONNECTIONS, WebServer, listening, url_of

SEEN = Observed(
    (gauge("trial", "One.", 7), counters("dropped", "Two.", "reason", {"shape": 3, 'odd "one"\n': 1})), {"trial": 7}
)


def snapshot(unready: str = "", seen: Observed = SEEN) -> Snapshot:
    return taken({"role": "agent", "id": 3}, "running", seen._replace(unready=unready), 10.0)


class Served:
    def __init__(self) -> None:
        self.board = Board()
        self.pages = Pages(self.board, ["gate-1.example"])
        listener = listening("127.0.0.1:0")
        self.url = url_of(listener)
        self.server = WebServer(listener, self.pages)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    made.server.start()
    made.board.newest = snapshot()
    yield made
    made.server.close()


class TestPages:
    def test_metrics_are_what_the_parser_of_prometheus_reads(self, served: Served) -> None:
        assert metrics_of(served.url) == {
            "agentd_info{id=3,role=agent}": 1.0,
            "agentd_ready": 1.0,
            "agentd_trial": 7.0,
            "agentd_dropped_total{reason=shape}": 3.0,
            'agentd_dropped_total{reason=odd "one"\n}': 1.0,
        }

    def test_nothing_is_told_of_the_process_whose_time_would_tell_of_its_noise(self, served: Served) -> None:
        assert not [name for name in metrics_of(served.url) if not name.startswith("agentd_")]

    def test_status_is_json(self, served: Served) -> None:
        code, text = asked(served.url, "/status?pretty")
        assert (code, text) == (
            200,
            '{"role": "agent", "id": 3, "state": "running", "ready": true, "why": "", "trial": 7}\n',
        )

    def test_ready_is_another_thing_than_alive(self, served: Served) -> None:
        assert asked(served.url, "/readyz") == (200, "ready\n")
        served.board.newest = snapshot("neighbours down: 1")
        assert asked(served.url, "/readyz") == (503, "not ready: neighbours down: 1\n")
        assert asked(served.url, "/livez") == (200, "alive\n")

    def test_a_loop_that_turns_no_more_is_not_alive(self, served: Served) -> None:
        served.board.newest = replace(snapshot(), fresh_s=-1.0)
        assert asked(served.url, "/livez")[0] == asked(served.url, "/readyz")[0] == 503

    def test_before_there_is_anything_to_see_nothing_is_well(self, served: Served) -> None:
        served.board.newest = None
        assert {asked(served.url, path)[0] for path in ("/livez", "/readyz", "/metrics", "/status")} == {503}

    def test_a_head_has_no_body_and_other_paths_lead_nowhere(self, served: Served) -> None:
        assert asked(served.url, "/metrics", "HEAD") == (200, "")
        assert (
            asked(served.url, "/../etc/passwd")[0]
            == asked(served.url, "http://evil/status", host="127.0.0.1")[0]
            == 404
        )

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
    def test_nothing_can_be_changed(self, served: Served, method: str) -> None:
        assert asked(served.url, "/status", method)[0] == 501


class TestHost:
    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:9", "10.0.0.7", "Gate-1.example"]
    )
    def test_numbers_localhost_and_names_that_were_given_are_ours(self, served: Served, host: str) -> None:
        assert asked(served.url, "/livez", host=host)[0] == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "a b"]
    )
    def test_a_page_that_comes_by_another_name_is_refused(self, served: Served, host: str) -> None:
        code, text = asked(served.url, "/status", host=host)
        assert (code, "trial" in text) == (421, False)
        assert served.pages.refused["host"] == 1

    @pytest.mark.parametrize("lines", [b"", b"Host: 127.0.0.1\r\nHost: evil.example\r\n"])
    def test_a_request_without_a_host_or_with_two_is_refused(self, served: Served, lines: bytes) -> None:
        with connected(served.url) as line:
            line.sendall(b"GET /status HTTP/1.1\r\n" + lines + b"\r\n")
            assert line.recv(100).startswith(b"HTTP/1.0 421 ")


class TestStrangers:
    @pytest.mark.parametrize(
        "garbage", [b"\x16\x03\x01\r\n\r\n", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    )
    def test_what_is_no_request_ends_its_connection_only(self, served: Served, garbage: bytes) -> None:
        with connected(served.url) as line, suppress(ConnectionError):
            line.sendall(garbage)
            while line.recv(1000):
                pass
        assert asked(served.url, "/livez")[0] == 200

    def test_three_thousand_mutants_of_a_request_are_answered_or_refused(self, served: Served) -> None:
        chance = random.Random(3)
        whole = b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n\r\n"
        added = (b"\r\n", b"\n", b"Host: evil\r\n", b" ", b"HTTP/1.1", b"\xff", b"Expect: 100-continue\r\n", b"\0" * 99)
        shown = 0
        for _ in range(3000):
            mutant = bytearray(whole)
            for _ in range(chance.randrange(1, 5)):
                place = chance.randrange(len(mutant))
                mutant[place : place + chance.randrange(5)] = chance.choice((*added, chance.randbytes(3)))
            reply = answered(bytes(mutant) + b"\r\n\r\n", served.pages)
            shown += b"trial" in reply
            assert b"trial" not in reply or reply.startswith((b"HTTP/1.0 200 OK\r\n", b"{"))  # or as HTTP 0.9 has it
        assert 0 < shown < 3000

    def test_a_parser_that_fails_ends_one_connection_only(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> bytes:
            raise RecursionError

        with monkeypatch.context() as broken:
            broken.setattr(web_server, "answered", fail)
            with connected(served.url) as line:
                line.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert not line.recv(1)
        assert served.pages.refused["unreadable"] == 1
        assert asked(served.url, "/livez")[0] == 200

    def test_headers_without_end_are_read_no_further(self, served: Served) -> None:
        with connected(served.url) as line, suppress(ConnectionError):
            for _ in range(1000):
                line.sendall(b"X-Header: " + b"x" * 1000 + b"\r\n")
            assert not line.recv(1)
        until(lambda: served.pages.refused["too long"] == 1)

    def test_who_takes_too_long_to_ask_or_to_read_is_left(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(web_server, "ALLOWED_S", 0.2)
        served.board.newest = replace(snapshot(), status=b"x" * (32 << 20))  # more than the kernel takes for a reader
        with connected(served.url) as silent, connected(served.url) as reading:
            silent.sendall(b"GET /livez HT")
            reading.sendall(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert not silent.recv(1)
            until(lambda: served.pages.refused["too slow"] == 2)
        assert asked(served.url, "/livez")[0] == 200

    def test_a_thousand_connections_take_few_places_and_whoever_asks_is_answered(self, served: Served) -> None:
        threads = threading.active_count()
        with ExitStack() as stack:
            for _ in range(1000):
                line = stack.enter_context(socket.socket())
                line.setblocking(False)
                line.connect_ex(("127.0.0.1", int(served.url.rpartition(":")[2])))
            assert asked(served.url, "/livez")[0] == 200
            assert len(served.server._connections) <= MOST_CONNECTIONS
            assert served.pages.refused["crowded"] > 0
            assert threading.active_count() == threads

    def test_ending_it_ends_every_connection(self) -> None:
        served = Served()
        served.server.start()
        with connected(served.url) as line:
            until(lambda: served.server._connections)
            served.server.close()
            assert not line.recv(1)
        with pytest.raises(ConnectionError):
            connected(served.url)


def test_a_place_that_is_taken_is_told(served: Served) -> None:
    place = served.url.removeprefix("http://")
    with pytest.raises(ConfigurationError, match=f"cannot listen on {place}: Address already in use; choose another"):
        listening(place)


def test_a_look_and_a_scrape_take_less_than_a_hundredth_of_a_second(served: Served) -> None:
    """One a second is asked for: so they cost less than one per cent of a core, and who asks is counted in."""

    def scrape() -> None:
        neighbours = tuple(gauges(f"n{each}", "One.", "neighbour", ((n, n) for n in range(20))) for each in range(3))
        served.board.newest = snapshot(seen=SEEN._replace(figures=neighbours))
        assert asked(served.url, "/metrics")[0] == 200

    assert cpu_s_of(lambda: [scrape() for _ in range(100)]) < 1.0


def test_who_asks_often_is_shown_what_was_rendered_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []
    real = web_server.answered.__globals__["metrics_page"]
    monkeypatch.setitem(
        web_server.answered.__globals__, "metrics_page", lambda figures: (rendered.append(1), real(figures))[1]
    )
    for _ in range(20):
        asked(served.url, "/metrics")
    assert len(rendered) == 1
