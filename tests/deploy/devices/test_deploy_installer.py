"""The installer of a bundle: a program takes the place of another at once and back; the state is touched by neither."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.devices import install

HERE = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}", "platform": platform.machine()}


def wheel(place: Path, says: str) -> None:
    """A program that is as small as one can be, in the place of agentd's."""
    files = {
        "agentd/__init__.py": b"",
        "agentd/__main__.py": f"print({says!r})\n".encode(),
        "agentd_bandits-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: agentd-bandits\nVersion: 1\n",
        "agentd_bandits-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip('=')},{len(content)}"
        for name, content in files.items()
    ]
    record = "agentd_bandits-1.dist-info/RECORD"
    with zipfile.ZipFile(place / "agentd_bandits-1-py3-none-any.whl", "w") as made:
        for name, content in (*files.items(), (record, "\n".join([*lines, f"{record},,\n"]).encode())):
            made.writestr(name, content)


def opened(place: Path, says: str, *, roster: int = 1, version: str = "1", **about: str) -> Path:
    """A bundle as it was opened; its pip is the one of this interpreter."""
    (place / "wheels").mkdir(parents=True)
    wheel(place / "wheels", says)
    manifest = {"format": 1, "name": "gate-0", "id": 0, "version": version, "roster": roster, **HERE, **about}
    recipe = Path(install.__file__).parent
    for name, content in {
        "bundle.json": json.dumps(manifest),
        "config.toml": f'keys = "{install.ROOT}/etc/agentd/gate-0/own.key"\n',
        "own.key": f"secret of {says}",
        "roster.json": json.dumps({"roster": {"version": roster}}),
        "agentd@.service": (recipe / "recipe/agentd@.service").read_text(encoding="utf-8"),
        "agentd.sysusers.conf": "",
        "install.py": (recipe / "install.py").read_text(encoding="utf-8"),
    }.items():
        (place / name).write_text(content, encoding="utf-8")
    return place


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(place / "install.py"), *words], capture_output=True, text=True, check=False, timeout=120
    )


def says(root: Path) -> str:
    return subprocess.run([root / "opt/agentd/bin/agentd"], capture_output=True, text=True, check=True).stdout.strip()


def test_a_program_is_upgraded_and_rolled_back_and_the_state_never_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    first, second = opened(tmp_path / "1", "first"), opened(tmp_path / "2", "second", roster=2, version="2")
    done = run(first, "--root", str(root))
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert says(root) == "first"
    own = root / "etc/agentd/gate-0"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (own, own / "own.key", root / "var/lib/agentd/gate-0")}
    assert list(modes.values()) == [0o700, 0o600, 0o700]
    assert (root / "etc/agentd/gate-0.toml").read_text() == f'keys = "{root}/etc/agentd/gate-0/own.key"\n'
    state = root / "var/lib/agentd/gate-0/state"
    state.write_text("of the first")
    assert run(second, "--root", str(root)).returncode == 0
    assert says(root) == "second"
    assert (own / "own.key").read_text() == "secret of second"
    state.write_text("of the second")
    back = run(second, "--root", str(root), "--rollback")
    assert back.returncode == 0, back.stderr
    assert says(root) == "first"
    assert state.read_text() == "of the second"
    assert (own / "own.key").read_text() == "secret of second", "keys and roster are not of the program"
    older = run(first, "--root", str(root))
    assert older.returncode == 1
    assert "roster of version 1, and version 2 is in place" in older.stderr
    assert run(second, "--root", str(root)).returncode == 0, "what is complete is not made anew"
    assert says(root) == "second"
    assert sorted(path.name.partition("-")[0] for path in (root / "opt/agentd/versions").iterdir()) == ["1", "2"]


@pytest.mark.parametrize("about", [{"python": "3.99"}, {"platform": "pdp11"}])
def test_a_bundle_for_another_machine_is_refused_before_anything_is_written(
    about: dict[str, str], tmp_path: Path
) -> None:
    refused = run(opened(tmp_path / "bundle", "x", **about), "--root", str(tmp_path / "root"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: this bundle is for ")
    assert not (tmp_path / "root").exists()


def test_there_is_nothing_to_go_back_to_at_first(tmp_path: Path) -> None:
    refused = run(opened(tmp_path / "bundle", "x"), "--root", str(tmp_path / "root"), "--rollback")
    assert "no program before this one" in refused.stderr


def test_links_in_the_place_of_keys_are_replaced_and_not_followed(tmp_path: Path) -> None:
    root, precious = tmp_path / "root", tmp_path / "precious"
    precious.write_text("precious")
    (root / "etc/agentd/gate-0").mkdir(parents=True)
    (root / "etc/agentd/gate-0/own.key").symlink_to(precious)
    assert run(opened(tmp_path / "bundle", "x"), "--root", str(root)).returncode == 0
    assert precious.read_text() == "precious"
    assert not (root / "etc/agentd/gate-0/own.key").is_symlink()
