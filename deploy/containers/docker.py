"""Docker as found on this machine: the client, the engine behind it, and whichever compose there is.

Everything that talks to Docker goes through here, so that a missing piece is always the same one line: what is
missing, and what to install (`ToolMissing`, exit 69).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentd.errors import AgentdError, ToolMissing

INSTALL = "apt install docker.io, dnf install docker, or https://docs.docker.com/engine/install"
INSTALL_COMPOSE = "apt install docker-compose, or docker-compose-plugin from Docker's own packages"
LABEL = "agentd"
"""The label key on everything of ours in Docker, so that cleaning up never touches a stranger's."""
ANSWER_S = 20.0
"""How long an engine may take to say that it is there."""
_MESSAGE_CHARS = 400


class DockerFailed(AgentdError):
    """A docker command failed; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Docker:
    """A client with an engine that answers."""

    client: str
    """The path of the docker command."""
    client_version: str
    engine_version: str

    def run(
        self,
        arguments: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`docker ARGUMENTS`, output captured as text; with `check`, a failure raises DockerFailed."""
        return run_command(
            [self.client, *arguments], check=check, timeout_s=timeout_s, stdin=stdin, environment=environment
        )

    def json(self, arguments: Sequence[str], *, timeout_s: float | None = None) -> Any:
        """What `docker ARGUMENTS` prints, read as JSON."""
        return json.loads(self.run(arguments, timeout_s=timeout_s).stdout)

    def image(self, name: str) -> dict[str, Any] | None:
        """What `docker image inspect` knows of an image; None: there is none of that name here."""
        found = self.run(["image", "inspect", name], check=False, timeout_s=ANSWER_S)
        return dict(json.loads(found.stdout)[0]) if found.returncode == 0 else None

    def info(self) -> dict[str, Any]:
        """What the engine says of itself."""
        return dict(self.json(["info", "--format", "{{json .}}"], timeout_s=ANSWER_S))


@dataclass(frozen=True, slots=True)
class Compose:
    """One way to call compose."""

    command: tuple[str, ...]
    """What to type before compose's own arguments: ("docker-compose",) or ("docker", "compose")."""
    version: str

    @property
    def major(self) -> int:
        """1 is the old Python program, which needs COMPOSE_PARALLEL_LIMIT above the number of services."""
        return int(self.version.partition(".")[0])

    def run(
        self,
        arguments: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`compose ARGUMENTS`, output captured as text; with `check`, a failure raises DockerFailed."""
        return run_command([*self.command, *arguments], check=check, timeout_s=timeout_s, environment=environment)


def require_docker() -> Docker:
    """Docker, or the one line that says what is missing."""
    client = find_client()
    if client is None:
        raise ToolMissing(f"Docker is needed and there is no docker command here; install it ({INSTALL})")
    asked = run_command([client, "version", "--format", "{{json .}}"], check=False, timeout_s=ANSWER_S)
    known = read_versions(asked.stdout)
    if known[1] is None:
        raise ToolMissing(
            f"Docker is needed and its engine does not answer ({last_words(asked.stderr) or 'no reason given'}); "
            "start it (systemctl start docker), or join its group (usermod -aG docker USER)"
        )
    return Docker(client=client, client_version=known[0] or "unknown", engine_version=known[1])


def find_docker() -> Docker | None:
    """Docker, if it is there and answers."""
    try:
        return require_docker()
    except (ToolMissing, DockerFailed):
        return None


def find_client() -> str | None:
    """The path of the docker command, whether or not an engine answers it."""
    return shutil.which("docker")


def require_compose() -> Compose:
    """The newest compose there is, or the one line that says what to install."""
    found = find_composes()
    if not found:
        raise ToolMissing(
            "Compose is needed and there is neither `docker compose` nor docker-compose; "
            f"install it ({INSTALL_COMPOSE})"
        )
    return found[0]


def find_composes() -> list[Compose]:
    """Every compose there is, the newest first."""
    candidates = [("docker", "compose"), ("docker-compose",)]
    found = [_probe_compose(command) for command in candidates if shutil.which(command[0])]
    return sorted((one for one in found if one is not None), key=lambda one: -one.major)


def read_versions(text: str) -> tuple[str | None, str | None]:
    """Client's and engine's version out of `docker version --format {{json .}}`."""
    try:
        content = json.loads(text)
    except ValueError:
        return None, None
    return tuple((content.get(part) or {}).get("Version") for part in ("Client", "Server"))  # type: ignore[return-value]


def read_compose_version(text: str) -> str | None:
    """The number in what any compose prints for `version --short`: 1.29.2, v2.26.1 or 2.26.1-4."""
    found = re.search(r"\d+\.\d+\.\d+", text)
    return found.group() if found else None


def last_words(text: str) -> str:
    """The last line that says anything: where programs put the reason they failed for."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_MESSAGE_CHARS] if lines else ""


def run_command(
    command: Sequence[str],
    *,
    check: bool = True,
    timeout_s: float | None = None,
    stdin: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program of the container world, output captured as text; `environment` None: as ours."""
    shown = " ".join(Path(word).name if number == 0 else word for number, word in enumerate(command[:3]))
    try:
        done = subprocess.run(
            list(command),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout_s,
            env=dict(environment) if environment is not None else None,
            cwd=directory,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DockerFailed(f"{shown} did not end within {timeout_s:g} s; is the engine busy or stuck?") from None
    except FileNotFoundError:
        raise ToolMissing(f"{command[0]} is needed and not here; install it ({INSTALL})") from None
    text = subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
    if check and text.returncode:
        raise DockerFailed(f"{shown} failed: {last_words(text.stderr) or last_words(text.stdout) or text.returncode}")
    return text


def _probe_compose(command: tuple[str, ...]) -> Compose | None:
    try:
        asked = run_command([*command, "version", "--short"], check=False, timeout_s=ANSWER_S)
    except (DockerFailed, ToolMissing):
        return None
    version = read_compose_version(asked.stdout) if asked.returncode == 0 else None
    return Compose(command, version) if version is not None else None
