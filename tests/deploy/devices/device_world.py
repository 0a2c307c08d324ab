"""Devices in network namespaces of their own, each with a root that its bundle was installed into."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from loopback import events

AGENTD = [sys.executable, "-m", "agentd"]
HUB = "hub"
PORT = 7000
PATIENCE_S = 120


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def address(device: str) -> str:
    last = 9 if device == HUB else 10 + int(device.removeprefix("gate-"))
    return f"10.78.1.{last}"


class DeviceWorld:
    """Namespaces on one bridge, roots, and what runs in them; nothing of it outlives the `with` block."""

    def __init__(self, place: Path, devices: list[str]) -> None:
        self.place = place
        self.devices = devices
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._asked: set[str] = set()
        self._stack = ExitStack()
        self._bridge = f"agentd-lan-{os.getpid()}"

    def __enter__(self) -> Self:
        try:
            self._namespace(self._bridge)
            ip("-n", self._bridge, "link", "add", "name", "lan", "type", "bridge")
            ip("-n", self._bridge, "link", "set", "lan", "up")
            for number, device in enumerate(self.devices):
                within = self._name(device)
                self._namespace(within)
                ends = ["peer", "name", "eth0", "netns", within]
                ip("-n", self._bridge, "link", "add", f"port{number}", "type", "veth", *ends)
                ip("-n", self._bridge, "link", "set", f"port{number}", "master", "lan", "up")
                ip("-n", within, "address", "add", f"{address(device)}/24", "dev", "eth0")
                ip("-n", within, "link", "set", "eth0", "up")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for device in list(self.running):
            self.end(device, signal.SIGKILL)
        self._stack.close()

    def agentd(self, *words: str) -> str:
        """A command of the operator's."""
        done = subprocess.run([*AGENTD, *words], cwd=self.place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, device: str, bundle: Path, fingerprint: str) -> None:
        """Open the bundle of a device, and install it into the device's root."""
        opened = self.place / f"{device}.opened"
        self.agentd("bundle", "open", str(bundle), "--operator-fingerprint", fingerprint, "--into", str(opened))
        words = [sys.executable, str(opened / "install.py"), "--no-compile", "--root", str(self.root(device))]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def root(self, device: str) -> Path:
        return self.place / "roots" / device

    def log(self, device: str, event: str | None = None) -> list[dict[str, Any]]:
        return events(self.place / f"{device}.jsonl", event)

    def start(self, device: str) -> None:
        """What the unit of systemd would start, in the namespace of the device."""
        root = self.root(device)
        verb = "env" if device == HUB else "agent"
        words = [str(root / "opt/agentd/bin/agentd"), verb, "--config", str(root / f"etc/agentd/{device}.toml")]
        log = ["--log-file", str(self.place / f"{device}.jsonl")]
        with (self.place / f"{device}.out").open("ab") as output:
            self.running[device] = subprocess.Popen(
                ["ip", "netns", "exec", self._name(device), *words, *log],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def end(self, device: str, number: signal.Signals = signal.SIGTERM) -> int:
        process = self.running.pop(device)
        if number is not signal.SIGTERM or device not in self._asked:
            process.send_signal(number)  # a second SIGTERM ends at once
        self._asked.discard(device)
        return process.wait(PATIENCE_S)

    def ask_to_end(self, *devices: str) -> None:
        for device in devices:
            self.running[device].send_signal(signal.SIGTERM)
            self._asked.add(device)

    def renew(self, device: str, roster: Path) -> None:
        """Put a newer roster in place on a device, and tell its process."""
        kept = self.root(device) / "etc/agentd" / device / "roster.json"
        beside = kept.with_suffix(".new")
        beside.write_bytes(roster.read_bytes())
        beside.replace(kept)
        self.running[device].send_signal(signal.SIGHUP)

    def trials(self, device: str) -> int:
        """How many pulls of an agent the environment has counted, as it told last."""
        status = self.root(HUB) / "var/lib/agentd/hub/run/status.json"
        try:
            each = json.loads(status.read_text(encoding="utf-8"))["agents"]
        except (OSError, ValueError):
            return 0
        number = int(device.removeprefix("gate-"))
        return next((int(agent["trial"]) for agent in each if agent["id"] == number), 0)

    def _namespace(self, name: str) -> None:
        ip("netns", "add", name)
        self._stack.callback(ip, "netns", "del", name)
        ip("-n", name, "link", "set", "lo", "up")

    @staticmethod
    def _name(device: str) -> str:
        return f"agentd-{device}-{os.getpid()}"
