"""The wheel that an image is built from where there is no checkout: the installed package, packed again."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from agentd.errors import ConfigurationError
from deploy.containers import image, installed_wheel

ROOT = Path(__file__).parents[3]
ABOUT = "agentd_bandits-0.1.0.dist-info"
IN_THE_WHEEL = {
    "agentd/__init__.py": b"version = 1\n",
    "deploy/containers/recipe/Dockerfile": b"FROM scratch\n",
    f"{ABOUT}/METADATA": b"Metadata-Version: 2.1\nName: agentd-bandits\nVersion: 0.1.0\n",
    f"{ABOUT}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{ABOUT}/entry_points.txt": b"[console_scripts]\nagentd = agentd.cli:main\n",
}
OF_THE_INSTALLATION = {
    "../../bin/agentd": b"#!/home/somebody/bin/python\n",
    "agentd/__pycache__/__init__.cpython-311.pyc": b"\0",
    f"{ABOUT}/direct_url.json": b'{"url": "file:///home/somebody/agentd"}',
    f"{ABOUT}/INSTALLER": b"pip\n",
    f"{ABOUT}/REQUESTED": b"",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of packages into which a wheel was installed, before all others."""
    site = tmp_path / "lib/site"
    for name, content in {**IN_THE_WHEEL, **OF_THE_INSTALLATION}.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    names = [*IN_THE_WHEEL, *OF_THE_INSTALLATION, f"{ABOUT}/RECORD"]
    (site / ABOUT / "RECORD").write_text("".join(f"{name},,\n" for name in names), encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    return site


def test_the_wheel_has_the_files_of_the_package_and_nothing_of_this_machine(site: Path, tmp_path: Path) -> None:
    wheel = installed_wheel.pack(tmp_path)
    assert wheel.name == "agentd_bandits-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")} == IN_THE_WHEEL
        record = archive.read(f"{ABOUT}/RECORD").decode().splitlines()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"version = 1\n").digest()).decode().rstrip("=")
    assert f"agentd/__init__.py,sha256={digest},12" in record
    assert len(record) == len(IN_THE_WHEEL) + 1


def test_the_same_package_makes_the_same_bytes(site: Path, tmp_path: Path) -> None:
    first = installed_wheel.pack(tmp_path).read_bytes()
    os.utime(site / "agentd/__init__.py", (1, 1))
    assert installed_wheel.pack(tmp_path).read_bytes() == first


def test_a_package_whose_files_are_not_known_is_refused_with_what_to_do(site: Path, tmp_path: Path) -> None:
    (site / ABOUT / "RECORD").write_text(f"{ABOUT}/METADATA,,\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"installed without its files.*--source DIR"):
        installed_wheel.pack(tmp_path)


def test_the_package_brings_along_what_the_image_is_made_by() -> None:
    for name in ("Dockerfile", "pyproject.toml"):
        assert (image.RECIPE / name).read_bytes() == (ROOT / name).read_bytes()


def checkout(place: Path) -> Path:
    for name in (*image.wheelhouse.SOURCES, "Dockerfile"):
        source = ROOT / name
        (place / name).mkdir() if source.is_dir() else shutil.copy(source, place / name)
    return place


def test_a_checkout_in_the_current_directory_is_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout(tmp_path))
    assert image.find_source(None) == tmp_path


def test_without_a_checkout_anywhere_the_installed_package_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert image.find_source(None) == ROOT
    monkeypatch.setattr(image, "__file__", str(tmp_path / "site/deploy/containers/image.py"))
    assert image.find_source(None) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_checkout_of_another_user_is_not_built_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building runs what its pyproject.toml names: a directory in /tmp must not be a trap."""
    monkeypatch.chdir(checkout(tmp_path))
    os.chown(tmp_path / "pyproject.toml", 12345, 12345)
    assert image.find_source(None) == ROOT
    assert image.find_source(str(tmp_path)) == tmp_path
