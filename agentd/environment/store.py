"""What the environment keeps in a run directory, and how it takes it up again.

    environment.json  the terms of the run, written once; only its owner may read it, because of the seed
    pulls.journal     every pull, before its reply leaves
    seats.journal     who took which seat and who came back without state, before the welcome leaves
    operator.json     while it runs: where, and the secret with which its operator may release a seat
    reports.json      the newest report of each agent; an agent is told that it is done only after this says so
    status.json       how the run is doing, about once per second while something changes
    history.jsonl     how it was doing until then, on a bounded number of lines

and at the end pulls.npz, regret.csv and regret.svg.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agentd import __version__
from agentd.environment.live_status import report_from_json, report_to_json
from agentd.environment.lives_spent import LivesSpent, from_json
from agentd.environment.pull_journal import PullJournal, replay
from agentd.environment.run_terms import CREATED, FORMAT, RunTerms
from agentd.environment.seat_journal import SeatJournal
from agentd.environment.seating import SeatEvent
from agentd.environment.shared_bandit import Counted, Seat, SharedBandit
from agentd.errors import AgentdError, ConfigurationError
from agentd.files import OwnDirectory, replace_text
from agentd.runs import fault_log
from agentd.runs.directory import RunDirectory
from agentd.runs.history.history_file import HistoryFile
from agentd.runs.history.look_back import look_back
from agentd.runs.status import FILE as STATUS
from agentd.runs.status import Status
from agentd.untrusted import read_json_in
from agentd.wire.environment_messages import Report

TERMS, REPORTS, OPERATOR = "environment.json", "reports.json", "operator.json"


class Store:
    """One run directory in use by one service."""

    def __init__(self, path: Path, journal: PullJournal, seats: SeatJournal) -> None:
        self.path = path
        self._journal = journal
        self._seats = seats
        self._history = HistoryFile(path)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Take a run directory; one that another service is using is refused."""
        try:
            OwnDirectory.made(path).close()
            return cls(path, PullJournal.open(path), SeatJournal.open(path))
        except OSError as fault:
            raise ConfigurationError(
                f"cannot use {path} as run directory: {fault.strerror}; name another with --run-dir"
            ) from None

    def close(self) -> None:
        (self.path / OPERATOR).unlink(missing_ok=True)
        self._seats.close()
        self._journal.close()

    def begin(self, terms: RunTerms) -> None:
        """Write down the terms of a new run; the journal first, so that terms without one mean that it was lost."""
        self._journal.begin(terms.run)
        self._seats.begin(terms.run)
        about = {"format": FORMAT, "version": __version__, "created": time.strftime(CREATED)}
        replace_file(self.path / TERMS, json.dumps(about | terms.to_json(), indent=2) + "\n")

    def take_up(self, bandit: SharedBandit) -> int:
        """Give the bandit back what it knew; returns how many bytes of torn records were cut off."""
        torn = replay(self._journal, bandit)
        older = _is_older_than_seats(self.path)
        if older and not self._seats.size:
            self._seats.begin(bandit.terms.run)
        events, torn_seats = self._seats.read(bandit.terms.run)
        try:
            for event in events:
                bandit.restore_seat(event)
            if older:
                bandit.commit_all()
            else:
                bandit.require_holders()
        except ValueError as fault:
            raise self._seats.damaged(str(fault)) from None
        try:
            bandit.restore_reports(_read_reports(self.path))
        except (OSError, ValueError) as fault:
            raise _unusable(self.path / REPORTS, fault) from None
        self._history.take_up()
        return torn + torn_seats

    def record(self, pulls: Sequence[Counted]) -> None:
        self._journal.append(pulls)

    def record_seats(self, events: Sequence[SeatEvent]) -> None:
        """Write changes of seats down; the pulls before them first, because these say after how many they happened."""
        self._journal.flush()
        self._seats.append(events)

    def write_operator(self, address: str, secret: bytes, *, keyed: bool = False) -> None:
        """Let the operator of this service, and nobody else, find it and prove who they are."""
        text = json.dumps({"address": address, "secret": secret.hex()} | ({"keyed": True} if keyed else {}))
        replace_file(self.path / OPERATOR, text + "\n")

    def write_reports(self, seats: Iterable[Seat]) -> None:
        """Write down the newest report of each agent, and what its lives before have spent."""
        told = ((seat.report, seat) for seat in seats)
        listed = [
            report_to_json(report) | seat.before.to_json(seat.life) for report, seat in told if report is not None
        ]
        replace_file(self.path / REPORTS, json.dumps({"reports": listed}) + "\n")

    def write_status(self, status: Status) -> None:
        """Write down how the run is doing, and when that was."""
        replace_file(self.path / STATUS, json.dumps({**status.to_json(), "written": time.time()}) + "\n")

    def write_history(self, status: Status, dropped: Mapping[str, int], *, last: bool) -> None:
        """Remember how the run is doing, if it is time to."""
        try:
            self._history.keep(look_back(status, dropped, time.time()), last=last)
        except OSError as fault:
            raise _unwritable(self.path, fault) from None

    def write_results(self, bandit: SharedBandit) -> None:
        """Pulls, regret and its picture; ValueError if the pulls are too sparse for a table."""
        arm, reward = bandit.matrix()
        directory = RunDirectory(self.path)
        try:
            directory.write_pulls(arm, reward)
            if bandit.real is not None:  # nobody knows the regret
                return
            events = fault_log.read_events(self.path)
            directory.write_regret(arm, bandit.terms.arms.means, "Group regret", events)
        except OSError as fault:
            raise _unwritable(self.path, fault) from None


def read_terms(path: Path) -> RunTerms | None:
    """The terms that a run directory holds, if it holds any."""
    try:
        return RunTerms.from_json(read_json_in(path, TERMS))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise _unusable(path / TERMS, fault) from None


def _is_older_than_seats(path: Path) -> bool:
    """Whether a program that knew no seats began the run; else a journal of seats that is not there was lost."""
    return bool(read_json_in(path, TERMS).get("format") == 1)


def replace_file(path: Path, text: str) -> None:
    """Put a text into a file, all of it or nothing."""
    try:
        replace_text(path, text)
    except OSError as fault:
        raise _unwritable(path, fault) from None


def _read_reports(path: Path) -> list[tuple[Report, int | None, LivesSpent]]:
    try:
        content = read_json_in(path, REPORTS)
    except FileNotFoundError:
        return []
    if not isinstance(content, dict) or not isinstance(content.get("reports"), list):
        raise ValueError("it holds no list of reports")
    return [(report_from_json(report), *from_json(report)) for report in content["reports"]]


def _unwritable(path: Path, fault: OSError) -> AgentdError:
    return AgentdError(f"cannot write {path}: {fault.strerror}; make room there and start again")


def _unusable(path: Path, fault: Exception) -> ConfigurationError:
    why = fault.strerror if isinstance(fault, OSError) else fault
    return ConfigurationError(f"cannot use {path}: {why}; restore it or name another --run-dir")
