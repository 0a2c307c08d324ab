"""Compose as the launcher of a testbed: either generation of it, on the document that `compose` made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.containers import containers
from deploy.containers.containers import Inspected
from deploy.containers.docker import Compose, Docker

FILE = "docker-compose.yml"
BATCH = 20
_PATIENCE_S = 90.0
_PATIENCE_PER_SERVICE_S = 3.0


class ComposeLauncher:
    """Starts services of a document, some at a time."""

    batch = BATCH

    def __init__(self, docker: Docker, compose: Compose, project: str, run_dir: Path, services: int) -> None:
        self._docker = docker
        self._compose = compose
        self._project = project
        self._file = run_dir / FILE
        # The old compose waits for ever when it may not do everything at once.
        self.environment: Mapping[str, str] = {"COMPOSE_PARALLEL_LIMIT": str(max(64, 2 * services))}

    def start(self, names: Sequence[str]) -> list[str]:
        """`up` of these services; who depends on whom is the supervisor's to know."""
        return [*self._command(), "up", "--detach", "--no-deps", "--no-recreate", *names]

    def start_again(self, name: str, container: str) -> list[str]:  # noqa: ARG002
        """The same container once more, at its old address."""
        return [self._docker.client, "start", container]

    def returns(self, ended: Inspected | None, code: int, crashes: int) -> bool:  # noqa: ARG002
        """As Docker says."""
        return ended is not None and (ended.restarting or ended.running)

    def patience_s(self, names: int) -> float:
        """Generous: it only has to be shorter than for ever."""
        return _PATIENCE_S + _PATIENCE_PER_SERVICE_S * names

    def remove(self) -> None:
        """By label: so nothing of the document is needed, and nothing is left that it does not name."""
        containers.remove(self._docker, self._project)

    def _command(self) -> list[str]:
        return [*self._compose.command, "--project-name", self._project, "--file", str(self._file)]
