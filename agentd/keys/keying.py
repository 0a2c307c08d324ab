"""The knobs of keys, for agents and environments: where the secrets are, and whose word on the others is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentd.core.policy.knobs import knob

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
