"""Passes snapshots on to an MQTT broker, with what Home Assistant needs to show them by itself.

The broker is spoken to by a process of its own (`mqtt_child`): whatever it does, the agent loses no more than a pipe.
Nothing waits for it: while the pipe is full, what is new takes the place of what was not sent.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentd.errors import ConfigurationError, install_with
from agentd.shell.json_log import Log
from agentd.untrusted import printable
from agentd.watching import Watching, broker_of

EVERY_S = 5.0
AGAIN_S = 60.0
"""How long a child that has died is missed."""
LONGEST_CREDENTIALS = 4_096
_ENDING_S = 2.0
_READ = 4_096

_AGENT = {
    "trial": ("Trial", "{{ value_json.trial }}"),
    "rounds_per_s": ("Rounds per second", "{{ value_json.rounds_per_s | default(none) }}"),
    "down": (
        "Neighbours down",
        "{{ value_json.neighbours | default([]) | rejectattr('up') | list | count }}",
    ),
    "epsilon": ("Privacy spent", "{{ value_json.epsilon.spent if value_json.epsilon else none }}"),
    "favoured": ("Favoured arm", "{{ value_json.favoured.arm if value_json.favoured else none }}"),
}
_ENVIRONMENT = {
    "pulls": ("Pulls", "{{ value_json.pulls }}"),
    "pulls_per_s": ("Pulls per second", "{{ value_json.pulls_per_s }}"),
    "agents_done": ("Agents done", "{{ value_json.agents | default([]) | selectattr('done') | list | count }}"),
}


def discovery(name: str, about: Mapping[str, Any], topic: str, availability: str) -> dict[str, str]:
    """What makes Home Assistant show a process as a device: topics, and what is published there once."""
    device = {
        "identifiers": [f"{name}"],
        "name": name.replace("_", " ").replace("-", " "),
        "manufacturer": "agentd",
        "model": str(about.get("algorithm", about["role"])),
        "sw_version": str(about["version"]),
    }
    shared = {"state_topic": topic, "availability_topic": availability, "device": device}

    def entity(kind: str, key: str, said: Mapping[str, Any]) -> tuple[str, str]:
        told = {**said, "unique_id": f"{name}_{key}", **shared}
        return f"homeassistant/{kind}/{name}/{key}/config", json.dumps(told)

    figures = _AGENT if about["role"] == "agent" else _ENVIRONMENT
    ready = {"name": "Ready", "value_template": "{{ 'ON' if value_json.ready else 'OFF' }}"}
    sensors = [entity("sensor", key, {"name": said, "value_template": form}) for key, (said, form) in figures.items()]
    return dict([entity("binary_sensor", "ready", ready), *sensors])


def credentials_in(path: str) -> tuple[str, str]:
    """The user and the password of a file that nobody else may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o077:
                raise ConfigurationError(f"{path} must be a file of yours that nobody else may read: chmod 600 {path}")
            lines = file.read(LONGEST_CREDENTIALS).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        why = getattr(fault, "strerror", None) or "it is not text"
        raise ConfigurationError(f"cannot read --mqtt-credentials {path}: {why}") from None
    if len(lines) != 2:
        raise ConfigurationError(f"{path} must have two lines, the user and the password, and has {len(lines)}")
    return lines[0], lines[1]


class MqttTeller:
    """Tells one broker."""

    def __init__(self, watching: Watching, about: Mapping[str, Any], log: Log) -> None:
        broker = broker_of(watching.mqtt or "")
        assert broker is not None  # noqa: S101 - the settings have seen to it
        _require_paho()
        name = f"agent-{about['id']}" if about["role"] == "agent" else "environment"
        topic, availability = f"{broker.prefix}/{name}/status", f"{broker.prefix}/{name}/availability"
        user, password = (
            (None, None) if watching.mqtt_credentials is None else credentials_in(watching.mqtt_credentials)
        )
        told = {
            "host": broker.host,
            "port": broker.port,
            "tls": broker.tls,
            "user": user,
            "password": password,
            "client": f"{broker.prefix}-{name}",
            "topic": topic,
            "availability": availability,
            "discovery": discovery(f"{broker.prefix}_{name}", about, topic, availability),
        }
        self._first = json.dumps(told).encode() + b"\n"
        self._broker = f"{broker.host}:{broker.port}"
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._unsent = b""
        self._due_s = self._start_s = time.monotonic()

    def tell(self, status: bytes) -> None:
        """Pass a status on, a few seconds after the one before; while the pipe is full, none."""
        now_s = time.monotonic()
        if self._child is None and now_s >= self._start_s:
            self._start(now_s)
        if self._child is None or (now_s < self._due_s and not self._unsent):
            return
        if not self._unsent:
            self._unsent, self._due_s = status, now_s + EVERY_S
        self._write()
        self._listen()

    def close(self) -> None:
        """Let the child say goodbye, and end it."""
        if (child := self._child) is None:
            return
        self._child = None
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            child.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _start(self, now_s: float) -> None:
        self._start_s = now_s + AGAIN_S
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "agentd.shell.watch.mqtt_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for us; it ends when we do
            )
        except OSError as fault:
            self._log.warning("no mqtt", why=str(fault))
            return
        for pipe in self._pipes():
            os.set_blocking(pipe, False)
        self._unsent = self._first

    def _pipes(self) -> Iterator[int]:
        assert self._child is not None and self._child.stdin and self._child.stdout  # noqa: S101, PT018
        yield self._child.stdin.fileno()
        yield self._child.stdout.fileno()

    def _write(self) -> None:
        into, _ = self._pipes()
        try:
            self._unsent = self._unsent[os.write(into, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._log.warning("mqtt ended; it is started again in a while", broker=self._broker)
            self._unsent = b""
            self.close()

    def _listen(self) -> None:
        """Take up how it goes, for the log."""
        if self._child is None:
            return
        *_, out = self._pipes()
        with contextlib.suppress(OSError):
            for line in os.read(out, _READ).decode("utf-8", "replace").splitlines():
                self._log.info("mqtt", broker=self._broker, what=printable(line))


def _require_paho() -> None:
    from importlib.util import find_spec

    if find_spec("paho") is None:
        raise ConfigurationError(f"--mqtt needs paho-mqtt: {install_with('mqtt')}")
