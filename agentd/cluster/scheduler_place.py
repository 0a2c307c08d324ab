"""Where a Dask scheduler may be, and who may then be it: TLS with certificates, or this machine only.

Dask runs what it is sent, at every end: whoever reaches the scheduler runs code as the user of its workers, and whoever
is the scheduler runs code as the user of this command. So a scheduler is reached over TLS, where both ends show a
certificate of one authority, or on loopback; everything else is refused before anything is connected.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agentd.addresses import is_loopback
from agentd.errors import ConfigurationError, SettingsError

_OTHERS = 0o077
_LIKE = "tcp://127.0.0.1:8786 or tls://scheduler:8786"


@dataclass(frozen=True, slots=True)
class SchedulerPlace:
    """The address of a scheduler, and the files that open it; checked."""

    address: str
    authority: str | None = None
    """The certificate of who signs those of this cluster, and of nothing else."""
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        _require_address(self.address)
        files = {
            "--cluster-tls-ca": self.authority,
            "--cluster-tls-cert": self.certificate,
            "--cluster-tls-key": self.key,
        }
        if self.encrypted:
            _require_files(self.address, files)
        elif any(files.values()):
            raise SettingsError(f"certificates are for tls://; {self.address} has no use for them")
        elif not is_loopback(self.address):
            raise SettingsError(
                f"{self.address} is not on loopback, and Dask runs whatever anybody on the way sends: use tls:// with "
                "--cluster-tls-ca, --cluster-tls-cert and --cluster-tls-key"
            )

    @property
    def encrypted(self) -> bool:
        """Whether both ends show certificates."""
        return self.address.startswith("tls://")

    def stranger_among(self, addresses: list[str]) -> str | None:
        """One of a cluster's own addresses that others could reach without a certificate; None where there is none."""
        safe = (lambda one: one.startswith("tls://")) if self.encrypted else is_loopback
        return next((one for one in addresses if not safe(one)), None)


def _require_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        whole = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port and not parts.path.strip("/")
    except ValueError:
        whole = None
    if not whole:
        raise SettingsError(f"--cluster {address!r} is not an address like {_LIKE}")


def _require_files(address: str, files: dict[str, str | None]) -> None:
    if missing := [flag for flag, path in files.items() if not path]:
        raise SettingsError(f"{address} needs {', '.join(missing)}: without certificates nobody knows who answers")
    for flag, path in files.items():
        try:
            about = Path(str(path)).stat()
        except OSError as fault:
            raise ConfigurationError(f"{flag} {path}: {fault.strerror}") from None
        if not stat.S_ISREG(about.st_mode):
            raise ConfigurationError(f"{flag} {path}: it is not a file")
        if flag.endswith("-key") and (about.st_mode & _OTHERS or about.st_uid not in (os.geteuid(), 0)):
            raise ConfigurationError(f"{flag} {path}: others may read or own it; chmod 600, and make a new key")
