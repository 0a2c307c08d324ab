"""Agents and environments as they are watched: over HTTP, and by systemd."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from asking import asked, connected, metrics_of, status_of
from click.testing import CliRunner
from evidence import until
from loopback import LONG_S, events, free_address

from agentd.cli import cli
from agentd.shell.resolve import has_ipv6
from agentd.shell.watch.systemd import Notifier
from agentd.watching import Watching, broker_of, host_and_port, watching_faults

AGENT = ["--id", "3", "--listen", "tcp://127.0.0.1:7003", "--environment", "tcp://127.0.0.1:7000"]


def url_in(log: Path) -> str:
    (watched,) = until(lambda: events(log, "watched"))
    return str(watched["url"])


class TestSettings:
    @pytest.mark.parametrize("place", ["127.0.0.1:9100", "localhost:0", "[::1]:9100", "gate-1:9100", "0.0.0.0:1"])
    def test_a_place_has_a_host_and_a_port(self, place: str) -> None:
        assert host_and_port(place) is not None

    @pytest.mark.parametrize(
        "place",
        ["", "9100", ":9100", "127.0.0.1", "::1:9100", "a:b", "a:99999", "u@a:1", "a:1/x", "http://a:1", "[::1"],
    )
    def test_what_has_not_is_refused(self, place: str) -> None:
        assert host_and_port(place) is None
        done = CliRunner().invoke(cli, [*AGENT, "--http", place])
        assert "--http must be of the form HOST:PORT" in str(done.exception)

    @pytest.mark.parametrize("place", ["0.0.0.0:9100", "[::]:9100", "10.0.0.7:9100", "gate-1:9100"])
    @pytest.mark.parametrize("verb", [[*AGENT], ["env"]])
    def test_beyond_this_machine_needs_to_be_said(self, place: str, verb: list[str]) -> None:
        done = CliRunner().invoke(cli, [*verb, "--http", place])
        assert "add --http-insecure if that is what you want" in str(done.exception)
        assert getattr(done.exception, "exit_code", None) == 2
        assert not list(watching_faults(Watching(http=place, http_insecure=True)))

    def test_names_and_credentials_are_for_something(self) -> None:
        assert len(list(watching_faults(Watching(http_names=("a",), mqtt_credentials="file")))) == 2

    def test_a_password_in_an_address_is_refused_and_not_repeated(self) -> None:
        done = CliRunner().invoke(cli, [*AGENT, "--mqtt", "mqtt://me:secret@broker"])
        assert "takes no user and password" in str(done.exception)
        assert "secret" not in str(done.exception) + done.output

    def test_a_broker_has_a_usual_port(self) -> None:
        assert broker_of("mqtt://broker") == ("broker", 1883, False, "agentd")
        assert broker_of("mqtts://[::1]:99/roof") == ("::1", 99, True, "roof")
        for wrong in (
            "http://broker",
            "mqtt://",
            "mqtt://a/b/c",
            "mqtt://a/+",
            "mqtt://a/#",
            "mqtt://a:b",
            "mqtt://a?b",
        ):
            assert broker_of(wrong) is None

    def test_without_the_extra_it_says_what_to_install(self, tmp_path: Path) -> None:
        """As on a machine where nobody has installed it."""
        code = "import sys; sys.modules['prometheus_client'] = None; from agentd.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *AGENT, "--http", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 78
        assert done.stderr.splitlines()[-1].endswith(
            "--http needs prometheus_client: pip install 'agentd-bandits[metrics]'"
        )


class TestSystemd:
    @pytest.fixture
    def heard(self, tmp_path: Path) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(tmp_path / "notify"))
            listener.settimeout(60)
            yield listener

    def notifier(self, heard: socket.socket, **more: str) -> tuple[Notifier, dict[str, str]]:
        variables = {"NOTIFY_SOCKET": heard.getsockname(), "PATH": "/bin", **more}
        return Notifier.of(variables), variables

    def test_it_says_when_it_is_ready_that_it_lives_and_that_it_ends(self, heard: socket.socket) -> None:
        notifier, variables = self.notifier(heard, WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid()))
        assert notifier.watchdog_s == 30.0
        assert variables == {"PATH": "/bin"}  # nobody whom we start speaks in our name
        notifier.state("starting", "starting")
        notifier.state("ready", "a\nb")
        notifier.alive("running")
        notifier.state("done", "done")
        assert [heard.recv(1000) for _ in range(4)] == [
            b"STATUS=starting",
            b"READY=1\nSTATUS=a b",
            b"WATCHDOG=1\nSTATUS=running",
            b"STOPPING=1\nSTATUS=done",
        ]
        notifier.close()

    def test_a_watchdog_of_another_process_is_not_ours(self, heard: socket.socket) -> None:
        for more in ({"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "0"}, {}):
            notifier, _ = self.notifier(heard, **more)
            assert notifier.watchdog_s is None
            notifier.close()

    @pytest.mark.parametrize("named", ["", "relative", "/" + "x" * 200, "vsock:2:1"])
    def test_a_socket_that_cannot_be_is_none(self, named: str) -> None:
        assert not Notifier.of({"NOTIFY_SOCKET": named}).wanted

    def test_one_that_nobody_reads_holds_nobody_up(self, heard: socket.socket) -> None:
        notifier, _ = self.notifier(heard)
        for _ in range(10_000):
            notifier.alive("running")
        heard.close()
        notifier.alive("running")
        notifier.close()

    @pytest.mark.system
    def test_an_agent_speaks_to_it(self, heard: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        with EnvironmentProcess("--arms", "0.9,0.1") as environment:
            monkeypatch.setenv("NOTIFY_SOCKET", heard.getsockname())
            monkeypatch.setenv("WATCHDOG_USEC", "3000000")
            with Process(*agent_arguments(3, free_address(), environment.address, {}, clock="free")) as agent:
                said = [heard.recv(1000).decode() for _ in range(6)]
                assert any(each.startswith("READY=1") for each in said)
                assert any(each.startswith("WATCHDOG=1") for each in said)
                agent.terminate()
                until(lambda: heard.recv(1000).startswith(b"STOPPING=1"))
                assert agent.wait() == 0, agent.errors


@pytest.mark.system
def test_a_neighbour_that_is_down_leaves_an_agent_alive_but_not_ready(tmp_path: Path) -> None:
    """And scraping it, being slow and coming in crowds holds nobody up."""
    places = [free_address(), free_address()]
    logs = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]

    def agent(own: int, **more: Any) -> Process:
        flags = {"algorithm": "sealed", "round_timeout": 0.5, "ready_timeout": LONG_S, "log_file": logs[own], **more}
        flags["http"] = "127.0.0.1:0"
        return Process(*agent_arguments(own, places[own], environment.address, {1 - own: places[1 - own]}, **flags))

    with EnvironmentProcess("--arms", "0.9,0.1", "--agents", "2", "--http", "127.0.0.1:0") as environment, agent(0):
        url = url_in(logs[0])
        assert asked(url, "/readyz")[0] == 503
        with agent(1, state=tmp_path / "state"):
            until(lambda: asked(url, "/readyz")[0] == 200)
            assert metrics_of(url)["agentd_neighbour_up{neighbour=1}"] == 1.0
            assert "agentd_journal_seconds" in until(
                lambda: (m := metrics_of(url_in(logs[1])))["agentd_trial"] > 9 and m
            )
        until(lambda: asked(url, "/readyz")[0] == 503)
        assert asked(url, "/livez")[0] == 200
        assert metrics_of(url)["agentd_neighbour_up{neighbour=1}"] == 0.0
        logs[1].unlink()
        with agent(1, state=tmp_path / "state"):
            until(lambda: asked(url, "/readyz")[0] == 200)
            before = status_of(url)["trial"]
            with connected(url) as slow:
                slow.sendall(b"GET /met")
                until(lambda: status_of(url)["trial"] > before + 10)


@pytest.mark.system
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_it_may_listen_on_ipv6(tmp_path: Path) -> None:
    flags = {"http": "[::1]:0", "log_file": tmp_path / "log"}
    with Process(*agent_arguments(0, free_address(), free_address(), {}, **flags)):
        assert url_in(tmp_path / "log").startswith("http://[::1]:")
        assert asked(url_in(tmp_path / "log"), "/readyz") == (503, "not ready: it has not begun\n")


@pytest.mark.system
def test_an_environment_tells_who_lags_and_nothing_of_arms(tmp_path: Path) -> None:
    log = tmp_path / "env.jsonl"
    with EnvironmentProcess(
        "--arms", "0.9,0.1", "--agents", "2", "--http", "127.0.0.1:0", "--log-file", str(log)
    ) as env:
        url = url_in(log)
        until(lambda: asked(url, "/readyz")[0] == 200)
        with Process(*agent_arguments(0, free_address(), env.address, {}, rounds=20)) as agent:
            assert agent.wait() == 0, agent.errors
        found = until(lambda: (seen := metrics_of(url))["agentd_agent_done{agent=0}"] and seen)
        assert found["agentd_pulls_total"] == found["agentd_agent_trial{agent=0}"] == 20.0
        assert found["agentd_agent_lag_rounds{agent=1}"] == 20.0
        assert not [name for name in found if "regret" in name or "arm" in name or "epsilon" in name]
        assert not {"regret", "epsilon", "dropped"} & set(status_of(url)["agents"][0])
        assert not {"group_regret", "arms", "address"} & set(status_of(url))
