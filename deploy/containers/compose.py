"""The runtime `compose`: either generation of it, on the document of `compose_document`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentd.runs.scenario import Scenario
from deploy.containers import containers
from deploy.containers.compose_document import ContainerOptions, compose_document
from deploy.containers.container_runtime import ContainerRuntime, environment_for_containers
from deploy.containers.containers import Inspected
from deploy.containers.docker import Compose, Docker, require_compose
from deploy.plan.plan import Plan

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
        return ended is not None and (ended.restarting or ended.running)

    def patience_s(self, names: int) -> float:
        """Generous: it only has to be shorter than for ever."""
        return _PATIENCE_S + _PATIENCE_PER_SERVICE_S * names

    def remove(self) -> None:
        """By label: so nothing of the document is needed, and nothing is left that it does not name."""
        containers.remove(self._docker, self._project)

    def _command(self) -> list[str]:
        return [*self._compose.command, "--project-name", self._project, "--file", str(self._file)]


class ComposeRuntime(ContainerRuntime[Compose]):
    """A project of compose."""

    name = "compose"
    file = FILE

    def require_tool(self, docker: Docker) -> Compose:  # noqa: ARG002
        """The newest compose there is."""
        return require_compose()

    def document(self, tool: Compose, plan: Plan, scenario: Scenario, options: ContainerOptions) -> dict[str, Any]:  # noqa: ARG002
        """One that either generation of compose takes."""
        environment = environment_for_containers(scenario, plan)
        return compose_document(plan, environment, scenario.settings.seed, options)

    def launcher(
        self, docker: Docker, tool: Compose, project: str, run_dir: Path, document: dict[str, Any]
    ) -> ComposeLauncher:
        """`compose up` on the document in the run directory."""
        return ComposeLauncher(docker, tool, project, run_dir, len(document["services"]))

    def remove(self, docker: Docker, project: str) -> None:
        containers.remove(docker, project)


COMPOSE = ComposeRuntime()
