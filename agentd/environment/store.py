"""What the environment keeps in a run directory, and how it takes it up again.

    environment.json  the terms of the run, written once; only its owner may read it, because of the seed
    pulls.journal     every pull, before its reply leaves
    reports.json      the newest report of each agent; an agent is told that it is done only after this says so
    status.json       how the run is doing, about once per second while something changes

and at the end pulls.npz, regret.csv and regret.svg.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from agentd.environment.live_status import report_from_json, report_to_json
from agentd.environment.pull_journal import PullJournal, replay
from agentd.environment.run_terms import RunTerms
from agentd.environment.shared_bandit import Counted, SharedBandit
from agentd.errors import AgentdError, ConfigurationError
from agentd.files import replacing
from agentd.run import fault_log
from agentd.run.directory import RunDirectory
from agentd.run.status import FILE as STATUS
from agentd.run.status import Status
from agentd.wire.environment_messages import Report

TERMS, REPORTS = "environment.json", "reports.json"


class Store:
    """One run directory in use by one service."""

    def __init__(self, path: Path, journal: PullJournal) -> None:
        self.path = path
        self._journal = journal

    @classmethod
    def open(cls, path: Path) -> Store:
        """Take a run directory; one that another service is using is refused."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            return cls(path, PullJournal.open(path))
        except OSError as fault:
            raise ConfigurationError(
                f"cannot use {path} as run directory: {fault.strerror}; name another with --run-dir"
            ) from None

    def close(self) -> None:
        self._journal.close()

    def begin(self, terms: RunTerms) -> None:
        """Write down the terms of a new run; the journal first, so that terms without one mean that it was lost."""
        self._journal.begin(terms.run)
        about = {"format": 1, "version": version("agentd"), "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        replace_file(self.path / TERMS, json.dumps(about | terms.to_json(), indent=2) + "\n", mode=0o600)

    def take_up(self, bandit: SharedBandit) -> int:
        """Give the bandit back what it knew; returns how many bytes of a torn record were cut off."""
        torn = replay(self._journal, bandit)
        try:
            bandit.restore_reports(_read_reports(self.path / REPORTS))
        except (OSError, ValueError) as fault:
            raise _unusable(self.path / REPORTS, fault) from None
        return torn

    def record(self, pulls: Sequence[Counted]) -> None:
        self._journal.append(pulls)

    def write_reports(self, reports: Iterable[Report]) -> None:
        """Write down the newest report of each agent."""
        listed = [report_to_json(report) for report in reports]
        replace_file(self.path / REPORTS, json.dumps({"reports": listed}) + "\n")

    def write_status(self, status: Status) -> None:
        """Write down how the run is doing, and when that was."""
        replace_file(self.path / STATUS, json.dumps({**status.to_json(), "written": time.time()}) + "\n")

    def write_results(self, bandit: SharedBandit) -> None:
        """Pulls, regret and its picture; ValueError if the pulls are too sparse for a table."""
        arm, reward = bandit.matrix()
        directory = RunDirectory(self.path)
        try:
            directory.write_pulls(arm, reward)
            events = fault_log.read_events(self.path / fault_log.FILE)
            directory.write_regret(arm, bandit.terms.arms.means, "Group regret", events)
        except OSError as fault:
            raise _unwritable(self.path, fault) from None


def read_terms(path: Path) -> RunTerms | None:
    """The terms that a run directory holds, if it holds any."""
    place = path / TERMS
    try:
        return RunTerms.from_json(json.loads(place.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise _unusable(place, fault) from None


def replace_file(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Put a text into a file, all of it or nothing."""
    try:
        with replacing(path, mode=mode) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise _unwritable(path, fault) from None


def _read_reports(path: Path) -> list[Report]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    if not isinstance(content, dict) or not isinstance(content.get("reports"), list):
        raise ValueError("it holds no list of reports")
    return [report_from_json(report) for report in content["reports"]]


def _unwritable(path: Path, fault: OSError) -> AgentdError:
    return AgentdError(f"cannot write {path}: {fault.strerror}; make room there and start again")


def _unusable(path: Path, fault: Exception) -> ConfigurationError:
    why = fault.strerror if isinstance(fault, OSError) else fault
    return ConfigurationError(f"cannot use {path}: {why}; restore it or name another --run-dir")
