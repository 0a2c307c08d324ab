"""A bundle as bytes: a plain tar archive whose first file is the operator's signature of all that follows it.

`tar` opens it, on a device that has nothing else yet. Whoever opens it here has the signature looked at first, against
the fingerprint of the operator that they trust; only then is anything of it read, and what is no plain file with a
plain name is refused even so. Nothing is written but new files in a new directory.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from agentd.errors import ConfigurationError
from agentd.files import DIRECTORY, FILE
from agentd.keys import signing
from agentd.keys.key_files import Keys
from agentd.keys.strict_json import exactly, key_bytes, strict_json
from agentd.untrusted import read_named

LONGEST = 512 << 20
"""Bytes of a bundle; wheels for one platform take a tenth of it."""
MOST_FILES = 256
SIGNATURE = "signature.json"
_PURPOSE = b"agentd bundle 1"
_BLOCK = 512
_HEAD = 2 * _BLOCK
"""Bytes of the signature in the archive: what is known of it, and itself."""
_LONGEST_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*(/[A-Za-z0-9][A-Za-z0-9._@+-]*)?")
"""A file, or one in a directory: no dots in front, nothing that leads anywhere."""


class BundleRefused(ConfigurationError):
    """A bundle of which nothing is used."""


def packed(files: Mapping[str, bytes], operator: Keys) -> bytes:
    """The archive with these files, signed."""
    if len(files) > MOST_FILES or not all(map(_NAME.fullmatch, files)):
        raise ValueError("a bundle holds few files, with plain names")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            archive.addfile(_about(name, len(content)), io.BytesIO(content))
    rest = buffer.getvalue()
    return _head(operator.sign_public, signing.sign(operator.sign_secret, _signed(rest))) + rest


def verified(path: str | Path, operator_fingerprint: str) -> dict[str, bytes]:
    """The files in an archive that this operator signed; BundleRefused, in one line, for any other."""
    try:
        content = read_named(path, LONGEST)
        operator, signature = _signature_in(content[:_HEAD])
    except OSError as fault:
        raise _refused(path, fault.strerror or "it cannot be read") from None
    except ValueError as fault:
        raise _refused(path, str(fault)) from None
    if signing.fingerprint(operator) != operator_fingerprint:
        raise _refused(path, f"it is of operator {signing.fingerprint(operator):.16}…, not {operator_fingerprint:.16}…")
    if not signing.is_signed(operator, _signed(content[_HEAD:]), signature):
        raise _refused(path, "its signature is not that of its operator: it was changed or forged")
    try:
        return _files_in(content[_HEAD:])
    except (ValueError, tarfile.TarError) as fault:
        raise _refused(path, str(fault)) from None


def unpack(files: Mapping[str, bytes], into: Path) -> None:
    """Write the files into a directory that is not there yet, for its owner only."""
    into.mkdir(mode=DIRECTORY)
    for name, content in files.items():
        place = into / name
        if "/" in name:
            place.parent.mkdir(mode=DIRECTORY, exist_ok=True)
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(place, how, FILE), "wb") as file:
            file.write(content)


def _signed(rest: bytes) -> bytes:
    return _PURPOSE + hashlib.sha512(rest).digest()


def _about(name: str, size: int) -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, FILE
    return about


def _head(operator: bytes, signature: bytes) -> bytes:
    """There is only one way to write it."""
    text = json.dumps({"format": 1, "operator": operator.hex(), "signature": signature.hex()}).encode()
    return _about(SIGNATURE, len(text)).tobuf(tarfile.USTAR_FORMAT) + text.ljust(_BLOCK, b"\0")


def _signature_in(head: bytes) -> tuple[bytes, bytes]:
    said = exactly(strict_json(head[_BLOCK:].rstrip(b"\0")), ("format", "operator", "signature"), "its first file")
    operator = key_bytes(said["operator"], "operator")
    signature = key_bytes(said["signature"], "signature", signing.SIGNATURE_BYTES)
    if head != _head(operator, signature):
        raise ValueError("it does not begin with a signature as agentd bundle writes it")
    return operator, signature


def _files_in(rest: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(rest), mode="r:") as archive:
        for about in archive:
            plain = about.isreg() and len(about.name) <= _LONGEST_NAME and _NAME.fullmatch(about.name)
            if not plain or about.name in files or len(files) >= MOST_FILES:
                raise ValueError("it holds something else than a few plain files, each once")
            inside = archive.extractfile(about)
            assert inside is not None  # noqa: S101 - it is a plain file
            files[about.name] = inside.read()
            if len(files[about.name]) != about.size:
                raise ValueError("it ends too early")
    return files


def _refused(path: str | Path, why: str) -> BundleRefused:
    return BundleRefused(f"the bundle {path} is refused: {why}; ask the operator for the original")
