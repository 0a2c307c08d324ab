"""Our own commands as real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, Self, cast

from loopback import LONG_S


class Process:
    """`agentd` with some arguments as a process of its own; it does not outlive the `with` block."""

    def __init__(self, *arguments: str) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "agentd", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.id = self._popen.pid
        self.output = self.errors = ""
        """What it wrote, once it has ended."""

    def terminate(self) -> None:
        self._popen.send_signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self._popen.kill()
        self.wait()

    def wait(self, within_s: float = LONG_S) -> int:
        """Its exit code."""
        self.output, self.errors = self._popen.communicate(timeout=within_s)
        return self._popen.returncode

    def said(self) -> dict[str, Any]:
        """The next line of standard output, which is JSON."""
        assert self._popen.stdout is not None
        return cast(dict[str, Any], json.loads(self._popen.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
        with suppress(ValueError):  # its pipes were read to the end already
            self._popen.communicate()


class EnvironmentProcess(Process):
    """The real environment as a process of its own."""

    def __init__(self, *arguments: str) -> None:
        super().__init__("env", "--listen", "tcp://127.0.0.1:0", "--json", *arguments)
        ready = self.said()
        self.address = str(ready["address"])
        self.run = bytes.fromhex(ready["run"])

    def end(self) -> dict[str, Any]:
        """Stop it; what it says of the run."""
        self.terminate()
        assert self.wait() == 0, self.errors
        return cast(dict[str, Any], json.loads(self.output))


def agent_arguments(own: int, listen: str, environment: str, peers: dict[int, str], **flags: object) -> list[str]:
    """The command line of an agent; `log_file=path` becomes `--log-file path`."""
    arguments = ["--id", str(own), "--listen", listen, "--environment", environment]
    arguments += ["--peers", ",".join(f"{peer}={address}" for peer, address in peers.items())]
    for name, value in flags.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    return arguments
