"""A base image made from Debian packages, for machines that reach no image registry.

debootstrap fetches and unpacks the packages, and copies a few things of the machine it runs on into the result: its
name, its resolver, its mirror. None of them may travel in an image, so the tree is scrubbed before it is imported. What
no container needs (documentation, translations, package lists, certificates of anybody) stays out of it.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from agentd.errors import AgentdError, ToolMissing
from deploy.containers.docker import LABEL, Docker, last_words, run_command

SUITE = "bookworm"
BASE_TAG = f"agentd-base:{SUITE}"
PACKAGES = ("python3",)
"""No pip, which runs from its own wheel, and no ca-certificates: nothing in the image speaks HTTPS."""
BUILD_S = 1800.0
INSTALL_DEBOOTSTRAP = "apt install debootstrap"

SCRUBBED = ("etc/apt/sources.list", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id")
"""What debootstrap took from this machine; Docker makes its own of those a container needs."""
LEFT_OUT = (
    "boot",
    "dev",
    "etc/apt/apt.conf.d",
    "etc/ssl/certs",
    "etc/ssl/private",
    "media",
    "mnt",
    "proc",
    "run",
    "srv",
    "sys",
    "tmp",
    "usr/lib/python3.11/idlelib",
    "usr/lib/python3.11/lib2to3",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/aarch64-linux-gnu/gconv",
    "usr/local/share/ca-certificates",
    "usr/share/bash-completion",
    "usr/share/i18n",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/zoneinfo",
    "var/cache",
    "var/lib/apt/lists",
    "var/lib/dpkg/info",
    "var/log",
    "var/tmp",
)
"""Directories that are made but stay empty."""
_DOC = PurePosixPath("usr/share/doc")


def is_kept(name: PurePosixPath) -> bool:
    """Whether a file of the tree goes into the image, by its path from the root."""
    text = str(name)
    if text in SCRUBBED or any(text.startswith(f"{place}/") for place in LEFT_OUT):
        return False
    # Licences ask to be shipped along; the rest of the documentation does not.
    return _DOC not in name.parents or name.name == "copyright" or len(name.parts) == len(_DOC.parts) + 1


def make_base(docker: Docker, tag: str = BASE_TAG) -> None:
    """Build the base image and import it under its tag; takes about a minute."""
    debootstrap = require_debootstrap()
    with tempfile.TemporaryDirectory(prefix="agentd-base-") as place:
        root, archive = Path(place) / "root", Path(place) / "root.tar"
        command = [debootstrap, "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
        done = run_command(command, check=False, timeout_s=BUILD_S)
        if done.returncode:
            raise AgentdError(
                f"debootstrap could not make a base image: {last_words(done.stdout) or last_words(done.stderr)}; "
                "it needs a Debian mirror, or name a local base image with --base"
            )
        pack(root, archive)
        docker.run(["import", *_changes(), str(archive), tag], timeout_s=BUILD_S)


def require_debootstrap() -> str:
    """The path of debootstrap, if it is there and may be used."""
    path = shutil.which("debootstrap", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise ToolMissing(
            "no base image is here and none can be pulled; to make one from Debian packages install debootstrap "
            f"({INSTALL_DEBOOTSTRAP}), or name a local base image with --base"
        )
    if os.geteuid() != 0:
        raise ToolMissing(
            "making a base image from Debian packages needs root, once: sudo agentd image build --offline "
            "(later builds find it), or name a local base image with --base"
        )
    return path


def pack(root: Path, archive: Path) -> None:
    """The tree as a tar file, without what is_kept leaves out; byte code stays: a read-only root makes none."""
    with tarfile.open(archive, "w") as tar:
        for path in _walk(root):
            tar.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=_anonymous)


def _walk(root: Path) -> Iterator[Path]:
    for place, directories, files in os.walk(root):
        directories.sort()
        for name in sorted([*directories, *files]):
            path = Path(place) / name
            if is_kept(PurePosixPath(path.relative_to(root))):
                yield path


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The entry with owners by number; device files and sockets stay out, as Docker brings its own."""
    entry.uname = entry.gname = ""
    return entry if entry.isfile() or entry.isdir() or entry.issym() or entry.islnk() else None


def _changes() -> list[str]:
    changes = (f"LABEL {LABEL}=base", "ENV PATH=/usr/local/bin:/usr/bin:/bin", 'CMD ["python3"]')
    return [word for change in changes for word in ("--change", change)]
