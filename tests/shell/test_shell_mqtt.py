"""What a broker is told, by whom, and that a broker which is down or hostile costs nobody else anything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from evidence import until
from loopback import events, free_address, rss_mb
from paho.mqtt.enums import CallbackAPIVersion
from structlog.typing import FilteringBoundLogger

from agentd.errors import ConfigurationError
from agentd.shell.watch import mqtt_teller
from agentd.shell.watch.mqtt_child import MOST_MEMORY
from agentd.shell.watch.mqtt_teller import MqttTeller, credentials_in, discovery
from agentd.watching import Watching

ABOUT = {"role": "agent", "id": 3, "algorithm": "sealed", "version": "0"}
BROKER = """
listeners:
  default: {{type: tcp, bind: 127.0.0.1:{port}}}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin: {{allow_anonymous: true}}
"""


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """The port of a real broker, of somebody else's making."""
    port = port_of(free_address())
    (tmp_path / "broker.yaml").write_text(BROKER.format(port=port))
    command = [str(Path(sys.executable).parent / "amqtt"), "-c", str(tmp_path / "broker.yaml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: reached(port))
            yield port
        finally:
            process.kill()


def reached(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


class Listener:
    """Hears all that a broker has."""

    def __init__(self, port: int) -> None:
        self.heard: dict[str, str] = {}
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="listener")
        self._client.on_message = lambda _c, _u, message: self.heard.update({message.topic: message.payload.decode()})
        self._client.connect("127.0.0.1", port)
        self._client.subscribe("#")
        self._client.loop_start()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.mark.system
def test_an_agent_and_its_environment_tell_a_broker_how_it_goes(broker: int, tmp_path: Path) -> None:
    listener = Listener(broker)
    url = f"mqtt://127.0.0.1:{broker}"
    with EnvironmentProcess("--arms", "0.9,0.1", "--mqtt", url) as environment:
        flags = {"algorithm": "sealed", "clock": "free", "interval": 0.01, "mqtt": url, "log_file": tmp_path / "log"}
        with Process(*agent_arguments(3, free_address(), environment.address, {}, **flags)) as agent:
            until(lambda: json.loads(listener.heard.get("agentd/agent-3/status", "{}")).get("trial", 0) > 5)
            assert listener.heard["agentd/agent-3/availability"] == "online"
            until(lambda: "pulls" in json.loads(listener.heard.get("agentd/environment/status", "{}")))
            for topic in [topic for topic in listener.heard if topic.startswith("homeassistant/")]:
                assert json.loads(listener.heard[topic])["unique_id"].startswith("agentd_")
            assert "homeassistant/binary_sensor/agentd_agent-3/ready/config" in listener.heard
            agent.terminate()
            assert agent.wait() == 0, agent.errors
        until(lambda: listener.heard["agentd/agent-3/availability"] == "offline")
    assert [line["what"] for line in events(tmp_path / "log", "mqtt")] == ["connected"]
    listener.close()


def test_every_entity_is_of_one_device_and_reads_what_there_is() -> None:
    for about in (ABOUT, {"role": "environment", "version": "0"}):
        found = {topic: json.loads(told) for topic, told in discovery("x", about, "t", "a").items()}
        assert len(found) > 3
        assert {told["state_topic"] for told in found.values()} == {"t"}
        assert len({told["unique_id"] for told in found.values()}) == len(found)
        assert not [told for told in found.values() if "command_topic" in told]  # nothing can be changed over it


@pytest.fixture
def hostile() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        yield listener


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt_teller, "EVERY_S", 0.0)


def teller(listener: socket.socket, log: FilteringBoundLogger, **more: Any) -> MqttTeller:
    return MqttTeller(Watching(mqtt=f"mqtt://127.0.0.1:{listener.getsockname()[1]}", **more), ABOUT, log)


def test_a_password_goes_to_the_broker_and_is_seen_nowhere_else(
    hostile: socket.socket, tmp_path: Path, log: FilteringBoundLogger, log_file: Path
) -> None:
    (tmp_path / "who").write_text("me\nhunter2\n")
    (tmp_path / "who").chmod(0o600)
    telling = teller(hostile, log, mqtt_credentials=str(tmp_path / "who"))
    telling.tell(b"{}")
    line, _ = hostile.accept()
    with line:
        said = b""
        while b"hunter2" not in said:
            said += line.recv(1000)
        assert telling._child is not None
        for name in ("cmdline", "environ"):
            assert b"hunter2" not in Path(f"/proc/{telling._child.pid}/{name}").read_bytes()
    telling.close()
    assert "hunter2" not in (log_file.read_text() if log_file.exists() else "")


@pytest.mark.usefixtures("quickly")
def test_a_broker_that_takes_nothing_holds_nobody_up(hostile: socket.socket, log: FilteringBoundLogger) -> None:
    """It lets the child in, and then reads no more: what is told stays where it is."""
    telling = teller(hostile, log)
    telling.tell(b"{}")
    line, _ = hostile.accept()
    with line:
        line.recv(1000)
        line.sendall(b"\x20\x02\x00\x00")  # welcome
        for _ in range(2000):
            telling.tell(b"x" * 10_000 + b"\n")
        assert telling._child is not None
        assert len(telling._unsent) <= 10_001
        assert rss_mb(telling._child.pid) < 100
    telling.close()


@pytest.mark.usefixtures("quickly")
def test_a_broker_that_says_too_much_fills_its_child_only_which_ends(
    hostile: socket.socket, log: FilteringBoundLogger, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    telling = teller(hostile, log)
    telling.tell(b"{}")
    line, _ = hostile.accept()
    with line:
        line.recv(1000)
        line.sendall(b"\x20\x02\x00\x00\x30\xff\xff\xff\x7f")  # welcome, and a message of 256 MB

        def fill() -> None:
            try:
                for _ in range(MOST_MEMORY >> 20):
                    line.sendall(bytes(1 << 20))
            except OSError:
                return

        filling = threading.Thread(target=fill)
        filling.start()
        assert telling._child is not None
        child = telling._child
        until(lambda: child.poll() is not None)
        until(lambda: telling.tell(b"{}\n") or telling._child is None)
    filling.join()
    assert [each["event"] for each in events(log_file)][-1] == "mqtt ended; it is started again in a while"
    telling.tell(b"{}\n")
    assert telling._child is None  # not before a while is over
    monkeypatch.setattr(telling, "_start_s", 0.0)
    telling.tell(b"{}\n")
    assert telling._child is not None
    telling.close()


@pytest.mark.usefixtures("quickly")
def test_a_broker_that_is_not_there_is_told_and_waited_for_by_nobody(log: FilteringBoundLogger, log_file: Path) -> None:
    telling = MqttTeller(Watching(mqtt=f"mqtt://127.0.0.1:{port_of(free_address())}"), ABOUT, log)
    until(lambda: telling.tell(b"{}\n") or events(log_file, "mqtt"))
    assert events(log_file, "mqtt")[0]["what"] == "not reached"
    telling.close()


def test_credentials_are_a_file_of_ones_own_with_two_lines(tmp_path: Path) -> None:
    place = tmp_path / "who"
    with pytest.raises(ConfigurationError, match="cannot read --mqtt-credentials"):
        credentials_in(str(place))
    place.write_text("me\nsecret\n")
    place.chmod(0o644)
    with pytest.raises(ConfigurationError, match="nobody else may read: chmod 600"):
        credentials_in(str(place))
    place.chmod(0o600)
    assert credentials_in(str(place)) == ("me", "secret")
    place.write_text("me:secret\n")
    with pytest.raises(ConfigurationError, match="must have two lines"):
        credentials_in(str(place))
    place.write_bytes(b"\xff\n\xff\n")
    with pytest.raises(ConfigurationError, match="it is not text"):
        credentials_in(str(place))
    place.unlink()
    os.mkfifo(place, 0o600)
    with pytest.raises(ConfigurationError, match="must be a file of yours"):
        credentials_in(str(place))
