"""The pure parts of building the image: what goes into the base, which wheels fit, what people are told."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path, PurePosixPath

import click.testing
import pytest

from agentd.cli import main
from agentd.cli.testbed import image as verbs
from agentd.errors import ConfigurationError, ToolMissing
from deploy.containers import base_image, docker, image, wheelhouse
from deploy.containers.base_image import is_kept, pack
from deploy.containers.wheelhouse import Target, read_target

ROOT = Path(__file__).parents[3]
BOOKWORM = Target(python=(3, 11), machine="x86_64", glibc_minor=36)


@pytest.mark.parametrize(
    "name",
    [
        "etc/apt/sources.list",
        "etc/resolv.conf",
        "etc/hostname",
        "etc/apt/apt.conf.d/99proxy",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/local/share/ca-certificates/house.crt",
        "var/log/bootstrap.log",
        "var/cache/apt/pkgcache.bin",
        "var/lib/apt/lists/mirror_dists",
        "usr/share/doc/bash/README",
        "usr/share/man/man1/ls.1",
    ],
)
def test_what_belongs_to_the_building_machine_or_to_nobody_stays_out_of_the_base(name: str) -> None:
    assert not is_kept(PurePosixPath(name))


@pytest.mark.parametrize(
    "name",
    [
        "usr/bin/python3.11",
        "usr/lib/python3.11/__pycache__/os.cpython-311.pyc",
        "usr/share/doc/bash",
        "usr/share/doc/bash/copyright",
        "var/log",
        "tmp",
        "etc/ssl/certs",
        "var/lib/dpkg/status",
    ],
)
def test_programs_licences_and_empty_places_go_into_the_base(name: str) -> None:
    assert is_kept(PurePosixPath(name))


def test_a_packed_tree_has_its_links_and_modes_and_nobodys_name(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("usr/bin/tool", "etc/resolv.conf", "tmp/leftover"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("nameserver 192.0.2.1", encoding="utf-8")
    (root / "usr/bin/tool").chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    os.mkfifo(root / "usr/fifo")
    pack(root, tmp_path / "root.tar")
    with tarfile.open(tmp_path / "root.tar") as tar:
        entries = {entry.name: entry for entry in tar}
    assert set(entries) == {"bin", "etc", "tmp", "usr", "usr/bin", "usr/bin/tool"}
    assert (entries["bin"].linkname, entries["usr/bin/tool"].mode & 0o777) == ("usr/bin", 0o755)
    assert {entry.uname for entry in entries.values()} == {""}


def test_wheels_are_asked_for_by_the_tags_of_the_image() -> None:
    flags = BOOKWORM.pip_flags()
    assert flags[:5] == ["--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11"]
    assert {"cp311", "abi3", "none"} <= set(flags)
    assert {"manylinux_2_36_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= set(flags)
    assert "manylinux_2_37_x86_64" not in flags  # needs a newer glibc than the image has


def test_an_image_tells_which_wheels_it_takes() -> None:
    assert read_target('[3, 11, "x86_64", "glibc", "2.36"]', "x") == BOOKWORM
    assert BOOKWORM.label == "cp311-x86_64"


@pytest.mark.parametrize(
    ("answer", "words"),
    [('[3, 9, "x86_64", "glibc", "2.31"]', "has Python 3.9"), ('[3, 12, "x86_64", "", ""]', "has no glibc")],
)
def test_a_base_that_no_wheels_fit_is_refused(answer: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_target(answer, "x")


def test_a_place_that_is_no_checkout_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a checkout of agentd \(no agentd, .*Dockerfile\)"):
        image.find_source(str(tmp_path))
    assert image.find_source(None) == ROOT


def test_without_debootstrap_or_root_people_are_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ToolMissing, match=r"install debootstrap \(apt install debootstrap\)"):
        base_image.require_debootstrap()
    monkeypatch.setattr(base_image.shutil, "which", lambda *_, **__: "/usr/sbin/debootstrap")
    monkeypatch.setattr(base_image.os, "geteuid", lambda: 1000)
    with pytest.raises(ToolMissing, match="needs root, once: sudo agentd image build --offline"):
        base_image.require_debootstrap()


@pytest.mark.parametrize("command", [["image", "build"], ["image", "list"]])
def test_without_docker_the_verbs_end_with_69_and_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 69
    said = capsys.readouterr().err
    assert said.startswith("error: Docker is needed and there is no docker command here; install it")
    assert said.count("\n") == 1


def test_the_dockerfile_and_the_command_agree_on_the_base_and_the_probe() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG BASE_IMAGE={image.DEFAULT_BASE}\n" in text
    assert "agentd/shell/health_probe.py" in text
    assert (ROOT / "agentd/shell/health_probe.py").is_file()


def test_the_dockerfile_uses_nothing_that_only_buildkit_has() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    instructions = [line for line in lines if not line.startswith("#")]
    assert not [line for line in instructions if "--mount" in line or "<<" in line or "--start-interval" in line]
    assert not [line for line in lines if line.replace(" ", "").startswith("#syntax=")]


def test_the_build_context_lets_in_only_what_the_image_is_made_of() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules[0] == "*"
    assert {line[1:] for line in rules if line.startswith("!")} == {*wheelhouse.SOURCES, "wheelhouse"}


def test_building_says_in_its_help_what_it_needs() -> None:
    said = click.testing.CliRunner().invoke(verbs.image, ["build", "--help"]).output
    assert "--offline" in said
    assert "debootstrap" in said


@pytest.mark.parametrize("named", [True, False])
def test_a_base_that_cannot_be_had_is_refused_when_named_and_replaced_when_not(
    named: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Docker is a stand-in here: the container tests build with the real one."""
    made: list[str] = []
    monkeypatch.setattr(image, "_pull", lambda *_: "no such host")
    monkeypatch.setattr(base_image, "make_base", lambda _docker, tag: made.append(tag))
    monkeypatch.setattr(docker.Docker, "image", lambda *_: None)
    built = image.Built(tag="t", base="some:base")
    client = docker.Docker("docker", "1", "1")
    if named:
        with pytest.raises(ConfigurationError, match="some:base is not here and cannot be pulled: no such host"):
            image._settle_base(client, built, named=True, offline=False, fresh=False, quiet=False)
    else:
        image._settle_base(client, built, named=False, offline=False, fresh=False, quiet=False)
        assert (built.base, built.base_from, made) == (base_image.BASE_TAG, "debian", [base_image.BASE_TAG])
        assert "cannot pull some:base (no such host); making a base from Debian packages" in capsys.readouterr().err


def test_an_older_wheel_of_ours_is_gone_before_pip_looks_at_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip took it for the new one, which has the same name, and missed a dependency that was new."""
    (tmp_path / "agentd_bandits-0.1.0-py3-none-any.whl").touch()
    (tmp_path / "click-8.1.0-py3-none-any.whl").touch()
    seen: list[list[str]] = []
    monkeypatch.setattr(wheelhouse, "_pip", lambda _: seen.append(sorted(p.name for p in tmp_path.iterdir())) or "")
    wheelhouse._keep(["agentd_bandits-0.1.0-py3-none-any.whl", "pip"], tmp_path, BOOKWORM, fresh=False)
    assert seen == [["click-8.1.0-py3-none-any.whl"]]
