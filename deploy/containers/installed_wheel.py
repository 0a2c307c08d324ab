"""The wheel of agentd, packed again from the files that it was installed as: an image needs no checkout."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib import metadata
from pathlib import Path

from agentd.errors import DISTRIBUTION, ConfigurationError

_OF_THIS_INSTALLATION = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
"""What pip wrote when it installed: who did, and from where on this machine."""
_EPOCH = (2001, 9, 9, 1, 46, 40)
"""Time stamp of every file, so that the same package makes the same bytes and Docker finds its layers again."""


def pack(place: Path) -> Path:
    """Put the wheel of the installed package into a directory."""
    try:
        installed = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise _not_possible("is not installed here as a package") from None
    files = _files_of(installed)
    about = next((name.partition("/")[0] for name in files if name.endswith(".dist-info/METADATA")), None)
    if about is None or "agentd/__init__.py" not in files:
        raise _not_possible("is installed without its files")
    wheel = place / f"{about.removesuffix('.dist-info')}-py3-none-any.whl"
    record = f"{about}/RECORD"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        lines = []
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
            lines.append(f"{name},sha256={_digest(content)},{len(content)}\n")
        archive.writestr(zipfile.ZipInfo(record, _EPOCH), "".join([*lines, f"{record},,\n"]))
    return wheel


def _files_of(installed: metadata.Distribution) -> dict[str, Path]:
    """By their names in a wheel: no script, which the next installation makes anew, and no byte code."""
    found = {str(file): Path(str(file.locate())) for file in installed.files or ()}
    return {
        name: path
        for name, path in found.items()
        if ".." not in Path(name).parts and not Path(name).is_absolute()
        if "__pycache__" not in Path(name).parts and path.name not in _OF_THIS_INSTALLATION
        if path.is_file()
    }


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _not_possible(why: str) -> ConfigurationError:
    return ConfigurationError(f"{DISTRIBUTION} {why}, and there is no checkout here: name one with --source DIR")
