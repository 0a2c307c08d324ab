"""What a run directory tells, of a run that is over or under way: read without faith in what stands there.

The directory may come from somebody else. Whatever is in it, either facts come out or ConfigurationError; what is
damaged beside what can be read is left out, and `left_out` says so.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentd.charts.round_pace import Pace, pace_of, read_pace
from agentd.environment.pull_journal import NAME as JOURNAL
from agentd.environment.pull_journal import read_beside
from agentd.errors import ConfigurationError
from agentd.runs.arms import ARMS_LIMIT
from agentd.runs.directory import LARGEST_PULLS, PULLS, read_pulls
from agentd.runs.fault_log import read_events
from agentd.runs.history.history_file import read_history
from agentd.runs.history.look_back import LookBack
from agentd.runs.regret import NOT_PULLED, rounds_made
from agentd.runs.status import APART, Status, read_status
from agentd.runs.yardstick import NAMES
from agentd.untrusted import LONGEST_JSON, decode_json, printable, read_in, read_json_in

MOST_CELLS = 1 << 28
"""Agents × rounds of a journal that are laid out as a table."""
_LONGEST_CURVES = 64 << 20
_SHORT = 200
_DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, MemoryError, OverflowError, csv.Error)
"""What reading a file that somebody else wrote may come to."""

Read = TypeVar("Read")


@dataclass(frozen=True, eq=False)
class RunFacts:
    """What is known of one run."""

    name: str
    """For people: the last part of its path."""
    arm: NDArray[np.uint16]
    """Agents × rounds, up to the last that was made; NOT_PULLED where there was no pull."""
    means: tuple[float, ...] = ()
    """Empty where nobody knows them: the arms are real, or the manifest is lost."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Empty while the run is under way."""
    references: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """What the regret is held against, by the names of the yardstick."""
    status: Status | None = None
    dropped: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """By agent, and by reason."""
    budgets: Mapping[int, float] = field(default_factory=dict)
    """The ε that an agent may spend, where it has a bound."""
    events: tuple[tuple[int, str], ...] = ()
    pace: Pace | None = None
    history: tuple[LookBack, ...] = ()
    """How much was said, dropped and spent over time; empty where nobody wrote it down."""
    left_out: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        return bool(self.summary)

    @property
    def rounds(self) -> int:
        return int(self.arm.shape[1])

    @property
    def agents(self) -> int:
        """How many there are, also where some have made no pull yet."""
        told = mapping(self.manifest.get("topology")).get("nodes")
        return max(int(self.arm.shape[0]), told if type(told) is int and 0 < told <= ARMS_LIMIT else 0)

    @property
    def algorithm(self) -> str:
        return text(self.summary.get("algorithm") or mapping(self.manifest.get("settings")).get("algorithm") or "")


def read_facts(place: str | Path) -> RunFacts:
    """What the directory tells; ConfigurationError where there is no run in it."""
    directory = Path(place)
    left_out: list[str] = []

    def attempt(name: str, read: Callable[[], Read], otherwise: Read) -> Read:
        try:
            return read()
        except FileNotFoundError:
            return otherwise
        except _DAMAGED as fault:
            why = fault.strerror if isinstance(fault, OSError) and fault.strerror else fault
            left_out.append(printable(f"{name}: {why!s:.200}"))
            return otherwise

    if not directory.is_dir():
        raise ConfigurationError(f"there is no directory {directory}; name the run directory of a run")
    manifest: Mapping[str, Any] = attempt("manifest.json", lambda: _object(directory, "manifest.json"), {})
    summary: Mapping[str, Any] = attempt("summary.json", lambda: _object(directory, "summary.json"), {})
    if "arms" not in manifest:  # an environment without a launcher writes its manifest at the end
        manifest = {**manifest, **attempt("environment.json", lambda: _arms_of_environment(directory), {})}
    unknown: tuple[float, ...] = ()
    means = attempt("manifest.json", lambda: _means(manifest), unknown)
    arms = len(means) or ARMS_LIMIT
    arm = attempt(PULLS, lambda: _from_table(directory, arms), None)
    if arm is None:
        arm = attempt(JOURNAL, lambda: _from_journal(directory, arms), None)
    status = read_status(directory)
    if arm is None and status is None:
        why = f": {'; '.join(left_out)}" if left_out else f": there is no {PULLS}, no {JOURNAL} and no status.json"
        raise ConfigurationError(f"{directory} holds no run that can be shown{why}")
    if arm is None:
        arm = np.empty((0, 0), dtype=np.uint16)
    history = read_history(directory)
    none_yet: dict[str, NDArray[np.float64]] = {}
    references = attempt("regret.csv", lambda: _references(directory, arm.shape[1]), none_yet)
    if not references and not summary and arm.size:
        references = attempt("what it is held against", lambda: _under_way(directory, manifest, arm.shape[1]), none_yet)
    return RunFacts(
        name=text(directory.resolve().name or str(directory)),
        arm=arm,
        means=means,
        manifest=manifest,
        summary=summary,
        references=references,
        status=status,
        dropped=attempt("reports.json", lambda: _dropped(directory), {}),
        budgets=attempt("plan.json", lambda: _budgets(directory), {}),
        events=tuple((round_, text(what)) for round_, what in read_events(directory)),
        pace=read_pace(directory) or pace_of(history),
        history=history,
        left_out=tuple(left_out),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """The object that stands there, or an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    """Anything as a short text on one line."""
    return printable(f"{value}")[:_SHORT]


def number(value: Any) -> float:
    """A finite number, or NaN."""
    return float(value) if type(value) in (int, float) and abs(value) < 2.0**63 else math.nan


def _object(directory: Path, name: str) -> dict[str, Any]:
    content = read_json_in(directory, name)
    if not isinstance(content, dict):
        raise ValueError("it holds no object")
    return content


def _either(directory: Path, name: str, limit: int) -> bytes:
    """A file of the environment, also while it runs in a container and writes elsewhere."""
    try:
        return read_in(directory, name, limit)
    except FileNotFoundError:
        return read_in(directory, f"{APART}/{name}", limit)


def _means(manifest: Mapping[str, Any]) -> tuple[float, ...]:
    means = tuple(number(mean) for mean in mapping(manifest.get("arms")).get("means") or ())
    if len(means) > ARMS_LIMIT or not all(0.0 <= mean <= 1.0 for mean in means):
        raise ValueError("the arms' means are no numbers from 0 to 1")
    return means


def _arms_of_environment(directory: Path) -> dict[str, Any]:
    """The arms alone: whoever knows the seed beside them knows every reward."""
    return {"arms": mapping(decode_json(_either(directory, "environment.json", LONGEST_JSON)).get("arms"))}


def _from_table(directory: Path, arms: int) -> NDArray[np.uint16]:
    arm = read_pulls(directory, arms)[0]
    return arm[:, : rounds_made(arm)]


def _from_journal(directory: Path, arms: int) -> NDArray[np.uint16]:
    """The pulls of a run under way, up to the round that half of the agents have reached: later ones are not whole."""
    records = read_beside(_either(directory, JOURNAL, LARGEST_PULLS))
    agents, row = np.unique(records["agent"], return_inverse=True)
    if not len(agents):
        return np.empty((0, 0), dtype=np.uint16)
    trials = records["trial"].astype(np.int64)
    furthest = np.zeros(len(agents), dtype=np.int64)
    np.maximum.at(furthest, row, trials)
    rounds = int(np.median(furthest))
    if rounds * len(agents) > MOST_CELLS or (records["arm"] >= arms).any():
        raise ValueError(f"it tells of more pulls than {MOST_CELLS:,}, or of other arms")
    table = np.full((len(agents), rounds), NOT_PULLED, dtype=np.uint16)
    within = trials <= rounds
    table[row[within], trials[within] - 1] = records["arm"][within]
    return table


def _references(directory: Path, rounds: int) -> dict[str, NDArray[np.float64]]:
    """The columns of regret.csv that are held beside the regret, where they are as long as it."""
    content = _either(directory, "regret.csv", _LONGEST_CURVES).decode()
    lines = csv.reader(io.StringIO(content))
    names = next(lines, [])
    there = [name for name in NAMES if name in names]
    if not there:
        return {}
    places = [names.index(name) for name in there]
    values = np.fromiter((float(row[place]) for row in lines if row for place in places), dtype=np.float64)
    if len(values) != rounds * len(there):
        raise ValueError("its curves are not as long as the run")
    return {name: values[column :: len(there)] for column, name in enumerate(there)}


def _under_way(directory: Path, manifest: Mapping[str, Any], rounds: int) -> dict[str, NDArray[np.float64]]:
    from agentd.charts.live_references import live_references  # nobody else waits for the engines

    graph = read_in(directory, "topology.json")
    try:
        environment = _either(directory, "environment.json", LONGEST_JSON)
    except FileNotFoundError:
        environment = None
    return live_references(manifest, graph, environment, rounds)


def _dropped(directory: Path) -> dict[int, dict[str, int]]:
    return {agent: {text(why): _count(count) for why, count in said.items()} for agent, said in _reports(directory)}


def _reports(directory: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for report in decode_json(_either(directory, "reports.json", LONGEST_JSON))["reports"]:
        yield _count(report["agent"]), mapping(report["dropped"])


def _budgets(directory: Path) -> dict[int, float]:
    content = read_json_in(directory, "plan.json")
    told = {_count(agent["id"]): number(agent.get("epsilon_budget")) for agent in content["agents"]}
    return {agent: budget for agent, budget in told.items() if math.isfinite(budget)}


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a number of things")
    return value
