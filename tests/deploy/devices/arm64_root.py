"""A root of Debian for arm64, and programs that run in it by qemu, seen by nobody outside of a namespace."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

QEMU = "/usr/bin/qemu-aarch64-static"
NO_QEMU = "there is no qemu-aarch64-static, debootstrap or binfmt_misc of one's own here (and it needs root)"
KEPT = Path(tempfile.gettempdir()) / "agentd-test-arm64-root"
"""Made once, from Debian's packages: it takes minutes."""
_MAGIC = (
    r":agentd-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:" + QEMU + ":F"
)
_ENTER = f"""set -e
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf '%s' '{_MAGIC}' > /proc/sys/fs/binfmt_misc/register
root=$1
shift
if [ "$root" = / ]; then exit 0; fi
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


def entering(root: Path, *words: str) -> list[str]:
    """The command that runs these words inside the root; programs of arm64 are qemu's there and nowhere else."""
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ENTER, "enter", str(root)]
    return [*own, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *words]


def no_arm64() -> bool:
    """Whether nothing of arm64 can be run here."""
    if not Path(QEMU).exists() or shutil.which("debootstrap", path="/usr/sbin:/usr/bin") is None:
        return True
    return subprocess.run(entering(Path("/")), capture_output=True, check=False).returncode != 0


def fresh_root(place: Path) -> Path:
    """A root of one's own with Python in it, or a skip whose reason says what is missing."""
    if no_arm64():
        pytest.skip(NO_QEMU)
    with KEPT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not KEPT.exists():
            _make(KEPT.with_suffix(".new"))
            KEPT.with_suffix(".new").rename(KEPT)
    subprocess.run(["cp", "-a", str(KEPT), str(place)], check=True)
    return place


def _make(place: Path) -> None:
    """The packages, unpacked: none of their scripts is run, and nothing here needs what they would do."""
    shutil.rmtree(place, ignore_errors=True)
    flags = ["--foreign", "--arch=arm64", "--variant=minbase", "--include=python3,python3-venv"]
    subprocess.run(["/usr/sbin/debootstrap", *flags, "bookworm", str(place)], check=True, capture_output=True)
    for package in sorted(place.glob("var/cache/apt/archives/*.deb")):
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", str(place)], input=tar, check=True)
        package.unlink()
