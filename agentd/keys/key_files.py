"""The keys of one agent, one environment or the operator, in one file that only its owner may read.

A CURVE pair encrypts links and tells who is at their other end; an Ed25519 pair signs. Beside the secret file lies a
public one (`.pub`), which a roster is made from. Secrets are in no text that is shown, logged or raised.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentd.core.message import MAX_AGENT_ID
from agentd.errors import ConfigurationError
from agentd.files import PUBLIC, make_directory, make_new, replace_text
from agentd.keys import signing
from agentd.keys.strict_json import exactly, key_bytes, strict_json
from agentd.untrusted import read_named

FORMAT = 1
KINDS = ("agent", "environment", "operator")
LONGEST_FILE = 4096

_PUBLIC = ("format", "kind", "id", "curve_public", "sign_public")
_ALL = (*_PUBLIC, "curve_secret", "sign_secret")
_OTHERS, _OTHERS_BUT_GROUP_READ = 0o077, 0o037
_SIGNS_OF_A_RUN = ("manifest.json", "testbed.json", "environment.json", "pulls.journal")
"""What lies in run directories, which are shown to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKeys:
    """What everybody may know of one that has keys."""

    kind: str
    id: int | None
    """Of an agent; None for others."""
    curve_public: bytes
    sign_public: bytes

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.kind if self.id is None else f"{self.kind}-{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys(PublicKeys):
    """The same with the secrets, which never show."""

    curve_secret: bytes = field(repr=False)
    sign_secret: bytes = field(repr=False)


def new_keys(kind: str, number: int | None = None) -> Keys:
    """Fresh pairs."""
    import zmq
    from zmq.utils import z85

    curve_public, curve_secret = map(z85.decode, zmq.curve_keypair())
    sign_public, sign_secret = signing.new_pair()
    return Keys(
        kind=kind,
        id=number,
        curve_public=curve_public,
        curve_secret=curve_secret,
        sign_public=sign_public,
        sign_secret=sign_secret,
    )


def write_keys(directory: Path, keys: Keys) -> Path:
    """Put the secret file and the public one into a directory; what is there is never overwritten."""
    _require_no_run(directory)
    path = directory / f"{keys.name}.key"
    try:
        make_directory(directory)
        make_new(path, _text(keys, _ALL))
        replace_text(path.with_suffix(".pub"), _text(keys, _PUBLIC), mode=PUBLIC)
    except FileExistsError:
        raise ConfigurationError(
            f"{path} is there already, and keys are never overwritten; name another --out, or move it away"
        ) from None
    except OSError as fault:
        raise ConfigurationError(f"cannot write {path}: {fault.strerror}; name another --out") from None
    return path


def read_keys(path: str | Path) -> Keys:
    """The keys in a file that nobody but its owner may read; ConfigurationError, in one line, where it is not so."""
    try:
        _require_private(path)
        data = exactly(strict_json(read_named(path, LONGEST_FILE)), _ALL, "the file")
        secret = {name: key_bytes(data[name], name) for name in ("curve_secret", "sign_secret")}
        keys = Keys(**(_public_part(data) | secret))
        _require_pairs(keys)
    except OSError as fault:
        raise _unusable(path, fault.strerror or "it cannot be read") from None
    except ValueError as fault:
        raise _unusable(path, str(fault)) from None
    return keys


def read_public(path: str | Path) -> PublicKeys:
    """The public keys in a file; a secret one is refused, so that nobody gets used to handing these around."""
    try:
        data = strict_json(read_named(path, LONGEST_FILE))
        if isinstance(data, dict) and "curve_secret" in data:
            raise ValueError("it holds secrets; name the .pub beside it")
        return PublicKeys(**_public_part(exactly(data, _PUBLIC, "the file")))
    except OSError as fault:
        raise _unusable(path, fault.strerror or "it cannot be read") from None
    except ValueError as fault:
        raise _unusable(path, str(fault)) from None


def _public_part(data: dict[str, Any]) -> dict[str, Any]:
    kind, number = data["kind"], data["id"]
    if type(data["format"]) is not int or data["format"] != FORMAT:
        raise ValueError(f"its format is not {FORMAT}, the one that this program knows")
    if type(kind) is not str or kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}")
    has_id = type(number) is int and 0 <= number <= MAX_AGENT_ID
    if (kind == "agent") != has_id or (kind != "agent" and number is not None):
        raise ValueError(f"id must be a number in 0…{MAX_AGENT_ID} for an agent, and null for others")
    publics = {name: key_bytes(data[name], name) for name in ("curve_public", "sign_public")}
    return {"kind": kind, "id": number, **publics}


def _require_pairs(keys: Keys) -> None:
    import zmq
    from zmq.utils import z85

    same = z85.decode(zmq.curve_public(z85.encode(keys.curve_secret))) == keys.curve_public
    if not same or signing.public_of(keys.sign_secret) != keys.sign_public:
        raise ValueError("its public keys are not those of its secret ones")


def _require_private(path: str | Path) -> None:
    about = Path(path).stat()
    if about.st_uid not in (0, os.geteuid()):
        raise ValueError("it belongs to another user")
    if stat.S_ISREG(about.st_mode) and not is_private(about.st_mode, about.st_uid, os.geteuid()):
        raise ValueError(f"others may read or write it; if that never did any harm, chmod 600 {path}")


def is_private(mode: int, owner: int, reader: int) -> bool:
    """Whether a file with this mode and owner is as good as the reader's alone.

    Root may let a group of another user's process read it, and nothing more: so Kubernetes hands secrets over.
    """
    return not mode & (_OTHERS_BUT_GROUP_READ if owner == 0 != reader else _OTHERS)


def _require_no_run(directory: Path) -> None:
    full = directory.absolute()
    for place in (full, *full.parents):
        if any((place / name).exists() for name in _SIGNS_OF_A_RUN):
            raise ConfigurationError(
                f"{place} is a run directory, which is shown to others: no place for keys; name another --out"
            )


def secret_text(keys: Keys) -> str:
    """What the file of these keys holds; for launchers that hand it over by another way."""
    return _text(keys, _ALL)


def _text(keys: Keys, names: tuple[str, ...]) -> str:
    values = {"format": FORMAT, "kind": keys.kind, "id": keys.id}
    plain = {name: values[name] if name in values else getattr(keys, name).hex() for name in names}
    return json.dumps(plain, indent=2) + "\n"


def _unusable(path: str | Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"cannot use the keys in {path}: {why}; make them with agentd keygen")
