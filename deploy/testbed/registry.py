"""Which testbeds there are: a file in each run directory, and a pointer to it in the user's state directory.

RUN/testbed.json says who supervises, which processes belong to the testbed and in which state it is. Processes are
written down by marks of their runtime (`runtime.Mark`), so that cleaning up never hits a stranger that got an old
number.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentd.errors import ConfigurationError
from agentd.files import replacing
from deploy.testbed.process_marks import ProcessMark, boot_id
from deploy.testbed.processes import Mark
from deploy.testbed.runtime import DEFAULT_RUNTIME, find_runtime

FILE = "testbed.json"
_KEPT = 50
"""Ended testbeds whose pointers are kept, so that their logs and status can still be asked for."""


class State(StrEnum):
    """Where a testbed is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """One testbed as it is written down."""

    __test__ = False  # not a test class, whatever pytest makes of the name

    run: str
    run_dir: Path
    supervisor: ProcessMark
    created: float
    """Seconds since the epoch."""
    agents: int
    state: State = State.STARTING
    boot: str = field(default_factory=boot_id)
    children: Mapping[str, Mark] = field(default_factory=dict)
    """By name: environment, agent-0, agent-1, …"""
    runtime: str = DEFAULT_RUNTIME
    project: str = ""
    """The label `agentd.project` of its containers and networks; empty: it has none."""

    def is_supervised(self) -> bool:
        """Whether its supervisor runs."""
        return self.boot == boot_id() and self.supervisor.is_running()

    def running(self) -> Mapping[str, Mark]:
        """Its processes that run."""
        return find_runtime(self.runtime).running(self)

    def is_running(self) -> bool:
        """Whether anything of it runs, or is left to remove."""
        if self.state is State.ENDED:
            return False
        return self.is_supervised() or find_runtime(self.runtime).has_left_over(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "run_dir": str(self.run_dir),
            "created": self.created,
            "agents": self.agents,
            "state": str(self.state),
            "boot": self.boot,
            "supervisor": self.supervisor.to_json(),
            "runtime": self.runtime,
            "project": self.project,
            "children": {name: mark.to_json() for name, mark in self.children.items()},
        }


def new_testbed(
    run: bytes, run_dir: Path, agents: int, *, runtime: str = DEFAULT_RUNTIME, project: str = ""
) -> Testbed:
    """A testbed that this process supervises."""
    return Testbed(
        run=run.hex(),
        run_dir=run_dir,
        supervisor=ProcessMark.own(),
        created=time.time(),
        agents=agents,
        runtime=runtime,
        project=project,
    )


def record(testbed: Testbed) -> None:
    """Write the testbed down in its run directory, complete or not at all."""
    with replacing(testbed.run_dir / FILE) as beside:
        beside.write_text(json.dumps(testbed.to_json(), indent=1) + "\n", encoding="utf-8")


def announce(testbed: Testbed) -> None:
    """Leave a pointer in the user's state directory and forget those that lead nowhere."""
    place = pointers()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{time.time_ns():020d}-{testbed.run}.json"
        (place / name).write_text(json.dumps({"run_dir": str(testbed.run_dir)}) + "\n", encoding="utf-8")
    except OSError as fault:
        raise ConfigurationError(
            f"cannot write to {place}: {fault.strerror or fault}; set XDG_STATE_HOME to a place you may write to"
        ) from None
    _prune(place)


def pointers() -> Path:
    """Where this user's pointers are."""
    home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return base / "agentd" / "testbeds"


def read(run_dir: Path) -> Testbed:
    """The testbed of a run directory."""
    path = run_dir / FILE
    try:
        return _testbed(json.loads(path.read_text(encoding="utf-8")), run_dir.resolve())
    except FileNotFoundError:
        raise ConfigurationError(f"{run_dir} holds no testbed: there is no {FILE} in it; see agentd ps") from None
    except OSError as fault:
        raise ConfigurationError(f"cannot read {path}: {fault.strerror or fault}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise ConfigurationError(f"{path} is damaged: {fault}") from None


def known() -> list[Testbed]:
    """Every testbed of this user that can still be read, the newest first."""
    found: dict[Path, Testbed] = {}
    for _, run_dir in _entries(pointers()):
        with contextlib.suppress(ConfigurationError):
            testbed = read(run_dir)
            found[testbed.run_dir] = testbed
    return sorted(found.values(), key=lambda testbed: testbed.created, reverse=True)


def choose(run_dir: str | None) -> Testbed:
    """The testbed an operator means: the one named, else the newest that runs, else the newest."""
    if run_dir is not None:
        return read(Path(run_dir))
    testbeds = known()
    if not testbeds:
        raise ConfigurationError("there is no testbed; start one with agentd up")
    return next((testbed for testbed in testbeds if testbed.is_running()), testbeds[0])


def mark_ended(testbed: Testbed) -> Testbed:
    """Write down that it is over."""
    ended = replace(testbed, state=State.ENDED)
    record(ended)
    return ended


def _testbed(data: Any, run_dir: Path) -> Testbed:
    if not isinstance(data, dict) or not isinstance(data["children"], dict):
        raise ValueError("not the description of a testbed")
    runtime = find_runtime(str(data.get("runtime", DEFAULT_RUNTIME)))
    return Testbed(
        run=str(data["run"]),
        run_dir=run_dir,
        supervisor=ProcessMark.from_json(data["supervisor"]),
        created=float(data["created"]),
        agents=int(data["agents"]),
        state=State(data["state"]),
        boot=str(data["boot"]),
        children={str(name): runtime.read_mark(mark) for name, mark in data["children"].items()},
        runtime=runtime.name,
        project=str(data.get("project", "")),
    )


def _entries(place: Path) -> Iterator[tuple[Path, Path]]:
    """Pointers and where they lead, the newest first; what is no pointer is passed over."""
    for pointer in sorted(place.glob("*.json"), reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            yield pointer, Path(str(json.loads(pointer.read_text(encoding="utf-8"))["run_dir"]))


def _prune(place: Path) -> None:
    """Drop pointers to directories that are gone, and the oldest of ended testbeds."""
    ended = 0
    for pointer, run_dir in _entries(place):
        if not (run_dir / FILE).is_file():
            pointer.unlink(missing_ok=True)
            continue
        with contextlib.suppress(ConfigurationError):
            ended += not read(run_dir).is_running()
            if ended > _KEPT:
                pointer.unlink(missing_ok=True)
