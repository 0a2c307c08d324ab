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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentd.core.message import MAX_AGENT_ID
from agentd.errors import ConfigurationError
from agentd.files import OwnDirectory, replace_text, require_own, user_state
from agentd.untrusted import LONGEST_JSON, decode_json, printable, read_json_in
from deploy.plan.names import SUPERVISOR_LOG, is_name
from deploy.testbed.process_marks import ProcessMark, boot_id
from deploy.testbed.processes import Mark
from deploy.testbed.runtime import DEFAULT_RUNTIME, find_runtime

FILE = "testbed.json"
_KEPT = 50
"""Ended testbeds whose pointers are kept, so that their logs and status can still be asked for."""
_LONGEST_POINTER = 16 << 10
_LONGEST_TEXT = 200
_LATEST = 1e11
"""Seconds since the epoch, in the year 5138."""


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
    sockets: str = ""
    """The directory of its sockets; empty: it has none."""

    def is_supervised(self) -> bool:
        """Whether its supervisor runs."""
        works_for_it = self.boot == boot_id() and self.supervisor.is_running()
        return works_for_it and self.supervisor.writes_to(self.run_dir / SUPERVISOR_LOG)

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
            "sockets": self.sockets,
            "children": {name: mark.to_json() for name, mark in self.children.items()},
        }


def new_testbed(
    run: bytes, run_dir: Path, agents: int, *, runtime: str = DEFAULT_RUNTIME, project: str = "", sockets: str = ""
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
        sockets=sockets,
    )


def record(testbed: Testbed) -> None:
    """Write the testbed down in its run directory, complete or not at all."""
    replace_text(testbed.run_dir / FILE, json.dumps(testbed.to_json(), indent=1) + "\n")


def announce(testbed: Testbed) -> None:
    """Leave a pointer in the user's state directory and forget those that lead nowhere."""
    place = pointers()
    try:
        OwnDirectory.made(place).close()
        name = f"{time.time_ns():020d}-{testbed.run}.json"
        replace_text(place / name, json.dumps({"run_dir": str(testbed.run_dir)}) + "\n")
    except ConfigurationError as fault:
        raise ConfigurationError(f"{fault}; or set XDG_STATE_HOME") from None
    except OSError as fault:
        raise ConfigurationError(
            f"cannot write to {place}: {fault.strerror or fault}; set XDG_STATE_HOME to a place you may write to"
        ) from None
    _prune(place)


def pointers() -> Path:
    """Where this user's pointers are."""
    return user_state() / "testbeds"


def read(run_dir: Path) -> Testbed:
    """The testbed of a run directory of ours; what others may have written is not believed."""
    text = None
    if os.path.lexists(run_dir):
        own = OwnDirectory(run_dir)
        try:
            text = own.read(FILE, LONGEST_JSON)
        finally:
            own.close()
    if text is None:
        raise ConfigurationError(f"{run_dir} holds no testbed: there is no {FILE} in it; see agentd ps")
    return parse(text, run_dir.resolve())


def parse(text: bytes, run_dir: Path) -> Testbed:
    """The testbed that the file of a run directory describes."""
    try:
        return _testbed(decode_json(text), run_dir)
    except (ValueError, KeyError, TypeError) as fault:
        raise ConfigurationError(f"{run_dir / FILE} is damaged: {fault!s:.200}") from None


def known() -> list[Testbed]:
    """Every testbed of this user that can still be read, the newest first."""
    found: dict[Path, Testbed] = {}
    for _, run_dir in _entries(pointers()):
        with contextlib.suppress(ConfigurationError):
            testbed = read(run_dir)
            found[testbed.run_dir] = testbed
    return sorted(found.values(), key=lambda testbed: testbed.created, reverse=True)


def choose(run_dir: str | None) -> Testbed:
    """The testbed an operator means: the one named, else the nearest; of several the newest that runs, or the newest.

    Near is where one stands: in a run directory, or in one that holds some.
    """
    if run_dir is not None:
        return read(Path(run_dir))
    testbeds = nearest_first(known(), Path.cwd())
    if not testbeds:
        raise ConfigurationError("there is no testbed; start one with agentd up")
    return testbeds[0]


def nearest_first(testbeds: Sequence[Testbed], here: Path) -> list[Testbed]:
    """Testbeds, the newest first, in the order in which somebody who stands here means them."""

    def distance(testbed: Testbed) -> int:
        if here.is_relative_to(testbed.run_dir):
            return 0
        near, runs = testbed.run_dir.is_relative_to(here), testbed.is_running()
        return 1 + (not runs) + 2 * (not near)

    return sorted(testbeds, key=distance)


def tidy(testbed: Testbed) -> None:
    """Remove the sockets of a testbed of which nothing runs: its supervisor was killed, and could not."""
    if testbed.sockets and not testbed.is_running():
        find_runtime(testbed.runtime).tidy(testbed)


def mark_ended(testbed: Testbed) -> Testbed:
    """Write down that it is over."""
    ended = replace(testbed, state=State.ENDED)
    record(ended)
    return ended


def _testbed(data: Any, run_dir: Path) -> Testbed:
    if not isinstance(data, dict) or not isinstance(data["children"], dict):
        raise ValueError("not the description of a testbed")
    runtime, agents, created = (
        find_runtime(_text(data.get("runtime", DEFAULT_RUNTIME))),
        data["agents"],
        data["created"],
    )
    if type(agents) is not int or not 0 <= agents <= MAX_AGENT_ID + 1:
        raise ValueError(f"no testbed has so many agents: {agents!r:.20}")
    if type(created) not in (int, float) or not 0 <= created < _LATEST:
        raise ValueError(f"no testbed began then: {created!r:.20}")
    if strangers := [name for name in data["children"] if not is_name(name, agents)]:
        raise ValueError(f"no process of it is called {strangers[0]!r:.40}")
    return Testbed(
        run=_text(data["run"]),
        run_dir=run_dir,
        supervisor=ProcessMark.from_json(data["supervisor"]),
        created=float(created),
        agents=agents,
        state=State(data["state"]),
        boot=_text(data["boot"]),
        children={name: runtime.read_mark(mark) for name, mark in data["children"].items()},
        runtime=runtime.name,
        project=_text(data.get("project", "")),
        sockets=_text(data.get("sockets", "")),
    )


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > _LONGEST_TEXT or printable(value) != value:
        raise ValueError(f"not a short text: {value!r:.40}")
    return value


def _entries(place: Path) -> Iterator[tuple[Path, Path]]:
    """Pointers and where they lead, the newest first; what is no pointer is passed over."""
    if not os.path.lexists(place):
        return
    require_own(place)
    for pointer in sorted(place.glob("*.json"), reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            yield pointer, Path(str(read_json_in(place, pointer.name, _LONGEST_POINTER)["run_dir"]))


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
