"""Install the bundle that this file lies in: python3 install.py [--root DIR] [--user NAME] [--rollback].

    /opt/agentd/versions/…      programs, each complete; `current` and `previous` lead to two of them, `bin` into one
    /etc/agentd/NAME.toml       settings; NAME/ holds the keys, the roster and the terms
    /var/lib/agentd/NAME        state: made where it is missing, and never touched again, whatever program runs

A program takes the place of another at once (`current`), when everything else is there. --rollback lets the one before
run again: the program only. Settings, keys and state stay as they are; a state that a newer program wrote is refused by
the older one with a clear line, and never rolled back. An older roster than the one in place is not installed.

It stands alone, on Python's standard library; pip comes in the bundle. It starts no program but, where it installs
to /, systemd-sysusers and systemctl daemon-reload.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import pwd
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

MANIFEST, CONFIG, KEYS, ROSTER, TERMS = "bundle.json", "config.toml", "own.key", "roster.json", "terms.json"
UNIT, USERS, ENVIRONMENT_FILE, INSTALLER = "agentd@.service", "agentd.sysusers.conf", "service.env", "install.py"
WHEELS = "wheels"
ROOT = "@ROOT@"
"""In settings, where the installation begins; nothing for /."""
USER = "agentd"
_LAUNCHER = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python3" -I -m agentd "$@"
"""


def main(words: Sequence[str] | None = None) -> int:
    """Install, upgrade or go back; the exit code."""
    parser = argparse.ArgumentParser(description="Install the agentd bundle that this file lies in.")
    parser.add_argument("--root", default="/", help="install below this directory")
    parser.add_argument("--user", help=f"whom keys and state belong to, or UID:GID  [default: {USER}, for / only]")
    parser.add_argument("--rollback", action="store_true", help="let the program before run again; nothing else")
    parser.add_argument("--no-compile", action="store_true", help="install sooner, start later")
    asked = parser.parse_args(words)
    root = Path(asked.root).absolute()
    if asked.rollback:
        return _roll_back(root)
    place = Path(__file__).resolve().parent
    about = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    _require_fitting(about)
    user = asked.user or (USER if root == Path("/") else None)
    if root == Path("/") and shutil.which("systemd-sysusers"):
        _write(root / "etc/sysusers.d/agentd.conf", (place / USERS).read_bytes(), mode=0o644)
        subprocess.run(["systemd-sysusers"], check=True)
    owner = _owner(user)
    _put_settings(place, root, about["name"], owner)
    version = _put_program(place / WHEELS, root, about, ["--no-compile"] if asked.no_compile else [])
    _write(root / "etc/systemd/system" / UNIT, (place / UNIT).read_bytes(), mode=0o644)
    _switch(root, version)
    if root == Path("/") and shutil.which("systemctl"):
        subprocess.run(["systemctl", "daemon-reload"], check=False)
    print(f"installed {about['name']}: {version}")  # noqa: T201
    print(f"start it: systemctl enable --now agentd@{about['name']}, or restart it there")  # noqa: T201
    return 0


def _require_fitting(about: dict[str, Any]) -> None:
    here = (f"{sys.version_info[0]}.{sys.version_info[1]}", platform.machine())
    if here != (about["python"], about["platform"]):
        _fail(f"this bundle is for Python {about['python']} on {about['platform']}, and here is {' on '.join(here)}")


def _owner(user: str | None) -> tuple[int, int]:
    if user is None:
        return os.geteuid(), os.getegid()
    uid, _, gid = user.partition(":")
    if uid.isdecimal() and gid.isdecimal():
        return int(uid), int(gid)
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        _fail(f"there is no user {user}; make it (systemd-sysusers {USERS}), or name another with --user")
    return found.pw_uid, found.pw_gid


def _put_settings(place: Path, root: Path, name: str, owner: tuple[int, int]) -> None:
    """Settings, keys, roster and terms; the directory of state only where there is none."""
    etc, own = root / "etc/agentd", root / "etc/agentd" / name
    _require_no_older(place / ROSTER, own / ROSTER)
    _directory(own, 0o700, owner)
    for file, mode in ((KEYS, 0o600), (ROSTER, 0o644), (TERMS, 0o644)):
        if (place / file).exists():
            _write(own / file, (place / file).read_bytes(), mode=mode, owner=owner)
    prefix = "" if root == Path("/") else str(root)
    text = (place / CONFIG).read_text(encoding="utf-8").replace(ROOT, prefix)
    _write(etc / f"{name}.toml", text.encode(), mode=0o644)
    if (place / ENVIRONMENT_FILE).exists():
        _write(etc / f"{name}.env", (place / ENVIRONMENT_FILE).read_bytes(), mode=0o644)
    for kept in (root / "var/lib/agentd", root / "var/lib/agentd" / name):
        if not kept.exists():
            _directory(kept, 0o700, owner)


def _require_no_older(new: Path, old: Path) -> None:
    """Who is in force is said by the signature; here only: nobody goes back by mistake."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        before = json.loads(old.read_bytes())["roster"]["version"]
        now = json.loads(new.read_bytes())["roster"]["version"]
        if now < before:
            _fail(f"this bundle has the roster of version {now}, and version {before} is in place; ask for a newer one")


def _put_program(wheels: Path, root: Path, about: dict[str, Any], flags: Sequence[str]) -> str:
    """Make the program complete beside the others, unless it is there; its name."""
    files = sorted(wheels.glob("*.whl"))
    digest = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()
    version = f"{about['version']}-{digest[:12]}"
    versions = root / "opt/agentd/versions"
    _directory(versions, 0o755)
    if (versions / version).exists():
        return version
    with tempfile.TemporaryDirectory(prefix=".new-", dir=versions) as scratch:
        made = Path(scratch) / "program"
        venv.EnvBuilder(with_pip=False, symlinks=True).create(made)
        site = made / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        _install_wheels(files, site, flags)
        (made / "bin/agentd").write_text(_LAUNCHER, encoding="ascii")
        (made / "bin/agentd").chmod(0o755)
        made.chmod(0o755)
        made.replace(versions / version)
    return version


def _install_wheels(files: Sequence[Path], site: Path, more: Sequence[str]) -> None:
    """By pip, from the bundle if it has one, in this process: nothing is looked for elsewhere, nothing is built."""
    sys.path[:0] = [str(file) for file in files if file.name.startswith("pip-")]
    os.environ["PIP_CONFIG_FILE"] = os.devnull
    os.environ.setdefault("HOME", "/")  # pip wants one, and a small system may not say which
    from pip._internal.cli.main import main as pip

    flags = ["--isolated", "--no-input", "--disable-pip-version-check", "--quiet", "--no-cache-dir"]
    what = ["--no-index", "--no-deps", "--only-binary=:all:", "--root-user-action=ignore", "--target", str(site)]
    wheels = [str(file) for file in files if not file.name.startswith("pip-")]
    if pip(["install", *flags, *what, *more, *wheels]):
        _fail("pip could not install the wheels of the bundle; see above")


def _switch(root: Path, version: str) -> None:
    """Let `current` lead to this program, and `previous` to the one before."""
    base = root / "opt/agentd"
    target = f"versions/{version}"
    before = _target(base / "current")
    if before is not None and before != target:
        _link(base / "previous", before)
    _link(base / "current", target)
    if not (base / "bin").is_symlink():
        _link(base / "bin", "current/bin")


def _roll_back(root: Path) -> int:
    base = root / "opt/agentd"
    now, before = _target(base / "current"), _target(base / "previous")
    if now is None or before is None or not (base / before).is_dir():
        _fail(f"there is no program before this one in {base}")
    _link(base / "current", before)
    _link(base / "previous", now)
    print(f"{before} runs from the next start on; settings, keys and state are as they were")  # noqa: T201
    return 0


def _target(link: Path) -> str | None:
    return str(link.readlink()) if link.is_symlink() else None


def _link(place: Path, target: str) -> None:
    beside = place.with_name(f".{place.name}.new")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(place)


def _directory(place: Path, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Make it and what is above it; one of ours is narrowed and given to its owner, never through a link."""
    place.mkdir(mode=mode, parents=True, exist_ok=True)
    inside = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(inside, mode)
        if owner is not None and os.geteuid() == 0:
            os.fchown(inside, *owner)
    finally:
        os.close(inside)


def _write(place: Path, content: bytes, *, mode: int, owner: tuple[int, int] | None = None) -> None:
    """All of it or nothing; a link in its place is replaced, never followed."""
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        if owner is not None and os.geteuid() == 0:
            os.fchown(file.fileno(), *owner)
        os.fchmod(file.fileno(), mode)
    beside.replace(place)


def _fail(why: str) -> NoReturn:
    sys.exit(f"error: {why}")


if __name__ == "__main__":
    sys.exit(main())
