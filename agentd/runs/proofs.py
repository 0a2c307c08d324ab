"""What policies of somebody else have passed.

What a plug-in claims of its privacy is called unproven until `agentd audit --coupling` finds it identical in enough
worlds. That is written down here, for the user who ran it, with a digest of the file that the policy comes from: a
policy that was changed since is unproven again. Files that it imports are not looked at, and whoever can write to
this user's home can write here: the word of a summary is worth what its user's is.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from pathlib import Path

from agentd import __version__
from agentd.core.policy import ALGORITHMS, Algorithm
from agentd.errors import ConfigurationError
from agentd.files import OwnDirectory, replace_text, user_state
from agentd.untrusted import LONGEST_JSON, decode_json

ENOUGH_WORLDS = 1_000
_FILE = "coupled.json"


def has_passed(algorithm: Algorithm) -> bool:
    """Whether the claim is proven here, or this user's audit has found it to hold in enough worlds."""
    return algorithm.proven or (algorithm.transcript_private and _mark(algorithm) in _read())


def record_pass(algorithm: Algorithm, worlds: int) -> bool:
    """Write down that a policy passed; False where that is not needed, or so many worlds are not enough."""
    mark = _mark(algorithm)
    if algorithm.proven or not algorithm.transcript_private or worlds < ENOUGH_WORLDS or mark is None:
        return False
    try:
        OwnDirectory.made(_place().parent).close()
        replace_text(_place(), json.dumps({**_read(), mark: {"name": algorithm.name, "worlds": worlds}}) + "\n")
    except OSError as fault:
        raise ConfigurationError(f"cannot write {_place()}: {fault.strerror}; set XDG_STATE_HOME") from None
    return True


def _place() -> Path:
    return user_state() / _FILE


def _read() -> dict[str, object]:
    """What has passed; nothing where the file is another's, damaged or not there."""
    try:
        own = OwnDirectory(_place().parent)
        try:
            found = decode_json(own.read(_FILE, LONGEST_JSON) or b"{}")
        finally:
            own.close()
    except (OSError, ValueError, ConfigurationError):
        return {}
    return found if isinstance(found, dict) else {}


def source_digest(name: str) -> str | None:
    """Names the file of a policy of somebody else as it is now, so that no result of an older one is taken for its."""
    make = ALGORITHMS[name].make
    if getattr(make, "__module__", "").partition(".")[0] == "agentd":
        return None
    return hashlib.sha256(_source(make) or b"").hexdigest()


def _source(make: object) -> bytes | None:
    """The file that a policy comes from; None where nobody can tell."""
    module = sys.modules.get(getattr(make, "__module__", ""))
    try:
        source = inspect.getsourcefile(module) if module is not None else None
        return Path(source).read_bytes() if source else None
    except (TypeError, OSError):
        return None


def _mark(algorithm: Algorithm) -> str | None:
    """Names the policy as it is now; None where nobody can tell where it comes from."""
    content = _source(algorithm.make)
    if content is None:
        return None
    about = f"{__version__}\0{algorithm.name}\0{getattr(algorithm.make, '__qualname__', '')}\0".encode()
    return hashlib.sha256(about + content).hexdigest()
