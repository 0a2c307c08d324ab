"""The knobs of keys, for agents and environments: where the secrets are, and whose word on the others is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentd.core.policy.knobs import knob

NOTE = "roster.taken-up"
"""Of the note in a directory of state."""
SUFFIX = ".roster"
"""Of the note beside the keys."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def _fingerprint_fault(text: str) -> str | None:
    if _FINGERPRINT.fullmatch(text):
        return None
    return f"--operator-fingerprint must be 64 hexadecimal digits in lower case, as agentd keygen tells, got {text!r}"


@dataclass(frozen=True, kw_only=True)
class Keying:
    """How links are encrypted and who is let in by its key; all of it or nothing."""

    keys: str | None = knob(
        None, metavar="FILE", help="Own keys: links are encrypted, and only who is in the --roster is let in."
    )
    roster: str | None = knob(None, metavar="FILE", help="Who is who, signed by the operator; see agentd roster make.")
    operator_fingerprint: str | None = knob(
        None,
        metavar="FINGERPRINT",
        check=_fingerprint_fault,
        help="Of the operator's key, which must have signed the roster.",
    )
    roster_note: str | None = knob(
        None,
        metavar="FILE",
        help="Where to write down which roster was taken up last.  [default: in --state, and beside --keys where that "
        "can be]",
    )

    def notes(self, state: str | None) -> tuple[Path, ...]:
        """Where it is written down which roster was taken up last; `state`: the directory of what is kept, if any."""
        if self.roster_note is not None:
            return (Path(self.roster_note),)
        kept = [] if state is None else [Path(state) / NOTE]
        return (*kept, Path(f"{self.keys}{SUFFIX}"))

    def lives(self, state: str | None) -> tuple[Path, ...]:
        """Where it is written down in which lives something was signed: beside the notes on rosters."""
        return self._beside_notes(state, "lives")

    def proofs(self, state: str | None, origin: int) -> tuple[Path, ...]:
        """Where a proof against an origin may be kept, in the order in which to try: in the same places."""
        return self._beside_notes(state, f"proof-{origin}.json")

    def _beside_notes(self, state: str | None, name: str) -> tuple[Path, ...]:
        """In a directory of state by this name, elsewhere behind the name of the keys or of the note."""
        return tuple(
            note.with_name(name) if note.name == NOTE else Path(f"{str(note).removesuffix(SUFFIX)}.{name}")
            for note in self.notes(state)
        )

    @property
    def has_keys(self) -> bool:
        """Whether links are encrypted, and whoever speaks is known by its key."""
        return self.keys is not None


def keying_faults(s: Keying) -> Iterator[str]:
    """What is wrong with these knobs together."""
    named = {"--keys": s.keys, "--roster": s.roster, "--operator-fingerprint": s.operator_fingerprint}
    missing = [flag for flag, value in named.items() if value is None]
    if missing and len(missing) < len(named):
        yield f"keys need --keys, --roster and --operator-fingerprint together: {', '.join(missing)} is missing"
    if s.roster_note is not None and s.keys is None:
        yield "--roster-note is for agents with --keys; leave it out"
