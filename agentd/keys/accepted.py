"""Which roster is in force: one that the pinned operator signed, that has not expired, and never an older one.

The version that was taken up last is written down, where state is kept and beside the keys, before anything is done by
it: otherwise whoever can put an old file in place of the newest would bring a revoked key back with the next start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from agentd.errors import ConfigurationError
from agentd.files import make_directory, replace_text
from agentd.keys.roster import LONGEST_FILE, MAX_NUMBER, Roster, SignedRoster, parse
from agentd.keys.strict_json import exactly, key_bytes, strict_json
from agentd.untrusted import read_named

_LONGEST_NOTE = 1024


class RosterRefused(ConfigurationError):
    """A roster that is not taken up; the one before stays in force."""


class RosterFile:
    """A file that holds the newest roster, read at the start and whenever somebody says that it changed."""

    def __init__(
        self, path: str, *, operator_fingerprint: str, notes: tuple[Path, ...], wall_s: Callable[[], float] = time.time
    ) -> None:
        """Of several notes the one with the largest version counts, and one must be writable: keys may be mounted."""
        self._path = path
        self._pinned = operator_fingerprint
        self._notes = notes
        self._wall_s = wall_s
        self._signed: SignedRoster | None = None

    @property
    def signed(self) -> SignedRoster:
        """The roster that was taken up last, under the operator's signature."""
        if self._signed is None:
            raise RuntimeError("no roster was taken up yet")
        return self._signed

    def accept(self, judge: Callable[[Roster], None] = lambda _: None) -> Roster:
        """The roster in the file, if it is to be taken up; RosterRefused, in one line, if it is not.

        `judge` has the last word, by an exception, before it is remembered as taken up.
        """
        signed = verified_whole(self._path, self._pinned, self._wall_s())
        roster = signed.roster
        known = self._remembered()
        if known is not None:
            self._require_no_older(roster, *known)
        judge(roster)
        if known is None or roster.version > known[0]:
            self._remember(roster)
        self._signed = signed
        return roster

    def left_s(self, roster: Roster) -> float:
        """How many seconds a roster is still valid."""
        return roster.valid_until - self._wall_s()

    def _require_no_older(self, roster: Roster, version: int, digest: str) -> None:
        if roster.version < version:
            raise _refused(
                self._path,
                f"it has version {roster.version}, and version {version} was taken up before",
                "the newest one",
            )
        if roster.version == version and roster.digest() != digest:
            raise _refused(
                self._path, f"another roster of version {version} was taken up before", "one with a larger version"
            )

    def _remembered(self) -> tuple[int, str] | None:
        found = [each for each in map(_read_note, self._notes) if each is not None]
        return max(found, default=None)

    def _remember(self, roster: Roster) -> None:
        text = json.dumps({"version": roster.version, "digest": roster.digest()}) + "\n"
        faults = [fault for note in self._notes if (fault := _write_note(note, text)) is not None]
        if len(faults) == len(self._notes):
            raise RosterRefused(
                f"cannot write {self._notes[0]}, which says which roster was taken up last: {faults[0]}; keep it "
                "elsewhere (--roster-note), or the keys where their owner can write"
            )


def _read_note(note: Path) -> tuple[int, str] | None:
    try:
        said = exactly(strict_json(read_named(note, _LONGEST_NOTE)), ("version", "digest"), "it")
        key_bytes(said["digest"], "digest")
        if type(said["version"]) is not int or not 1 <= said["version"] <= MAX_NUMBER:
            raise ValueError("version is none")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise RosterRefused(
            f"{note} should say which roster was taken up last: {why}; see who changed it, and remove it "
            "only if nobody may have brought an old roster back"
        ) from None
    return said["version"], said["digest"]


def _write_note(note: Path, text: str) -> str | None:
    """Why it could not be written; None: it was."""
    try:
        make_directory(note.parent)
        replace_text(note, text)
    except OSError as fault:
        return fault.strerror or "it cannot be written"
    return None


def verified(path: str, fingerprint: str | None, now_s: float) -> Roster:
    """The roster in a file that its operator signed and that has not expired; None: whoever the operator is."""
    return verified_whole(path, fingerprint, now_s).roster


def verified_whole(path: str, fingerprint: str | None, now_s: float) -> SignedRoster:
    """The same with the signature under it."""
    try:
        found = parse(read_named(path, LONGEST_FILE))
    except OSError as fault:
        raise _refused(path, fault.strerror or "it cannot be read", "it") from None
    except ValueError as fault:
        raise _refused(path, str(fault), "one made by agentd roster make") from None
    if fingerprint is not None and found.fingerprint != fingerprint:
        raise _refused(
            path, f"it names operator {found.fingerprint:.16}…, not {fingerprint:.16}…", "one of this operator"
        )
    if not found.is_genuine():
        raise _refused(path, "its signature is not that of its operator: it was changed or forged", "the original")
    if found.roster.valid_until <= now_s:
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.roster.valid_until))
        raise _refused(path, f"it was valid until {until}", "a newer one")
    return found


def _refused(path: str, why: str, instead: str) -> RosterRefused:
    return RosterRefused(f"the roster {path} is refused: {why}; ask the operator for {instead}")
