"""Bundles: signed, opened only for who is trusted, without a way out of their directory; each with its own secrets."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.cli.keys import bundle as bundle_verb
from agentd.errors import AgentdError, SettingsError
from agentd.keys import signing
from agentd.keys.key_files import new_keys, read_keys
from agentd.keys.signing import fingerprint
from deploy.devices import archive, bundling
from deploy.devices.archive import BundleRefused, packed, unpack, verified
from deploy.devices.inventory import read_inventory

HOSTS = """
terms = "terms.json"

[run]
round-timeout = "5s"

[devices.gate-0]
id = 0
address = "tcp://10.0.0.10:7000"
keys = "keys/agent-0.key"

[devices.gate-1]
id = 1
address = "tcp://10.0.0.11:7000"
listen = "tcp://*:7000"
keys = "keys/agent-1.key"
peers = [0]
platform = "aarch64"

[devices.gate-2]
id = 2
address = "tcp://10.0.0.12:7000"
keys = "keys/agent-2.key"

[devices.hub]
environment = true
address = "tcp://10.0.0.1:7000"
keys = "keys/environment.key"
settings = { arms = "0.9,0.5" }
"""

OPERATOR = new_keys("operator")
PINNED = fingerprint(OPERATOR.sign_public)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An operator's directory: keys, a roster without agent 2, an inventory; wheels are not what is looked at here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundling, "_wheels", lambda _by, machine: {f"wheels/{machine}.whl": b"wheel"})
    for words in (
        ["keygen", "--operator", "--out", "operator"],
        ["keygen", "--ids", "0-2", "--environment", "--out", "keys"],
        ["terms", "make", "--agents", "3", "--arms", "2", "--out", "terms.json"],
    ):
        assert invoke(*words).exit_code == 0
    public = [f"keys/{name}.pub" for name in ("agent-0", "agent-1", "environment")]
    assert invoke("roster", "make", *public, "--operator", "operator/operator.key", "--out", "r.json").exit_code == 0
    (tmp_path / "hosts.toml").write_text(HOSTS)
    return tmp_path


def bundle(*more: str) -> Result:
    words = ["--inventory", "hosts.toml", "--roster", "r.json", "--operator", "operator/operator.key", "--out", "out"]
    return invoke("bundle", *words, *more)


def test_every_device_of_the_roster_gets_its_own_keys_and_nobody_elses(place: Path) -> None:
    done = bundle()
    assert done.exit_code == 0, done.output
    assert "gate-2: not in the roster of version 1" in done.output
    pinned = fingerprint(read_keys("operator/operator.key").sign_public)
    files = {path.stem: verified(path, pinned) for path in (place / "out").iterdir()}
    assert set(files) == {"gate-0", "gate-1", "hub"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (place / "out").iterdir()} == {0o600}
    keys = {"gate-0": "agent-0", "gate-1": "agent-1", "hub": "environment"}
    secrets = [read_keys(path) for path in [*(place / "keys").glob("*.key"), place / "operator/operator.key"]]
    for name, inside in files.items():
        whole = (place / "out" / f"{name}.bundle").read_bytes()
        found = {each.name for each in secrets if each.curve_secret.hex().encode() in whole}
        assert found == {keys[name]}
        assert inside["own.key"] == (place / "keys" / f"{keys[name]}.key").read_bytes()
        assert inside["roster.json"] == (place / "r.json").read_bytes()
        assert inside["terms.json"] == (place / "terms.json").read_bytes()
    about = {name: json.loads(inside["bundle.json"]) for name, inside in files.items()}
    assert about["gate-1"]["platform"] == "aarch64"
    assert "wheels/aarch64.whl" in files["gate-1"]
    assert 'peers = "0=tcp://10.0.0.10:7000"' in files["gate-1"]["config.toml"].decode()
    assert 'peers = "1=tcp://10.0.0.11:7000,2=tcp://10.0.0.12:7000"' in files["gate-0"]["config.toml"].decode()
    assert files["hub"]["service.env"] == b"VERB=env\n"
    assert all(b"insecure" not in inside["config.toml"] for inside in files.values())
    assert not [each for each in secrets if each.sign_secret.hex() in done.output]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('"keys/agent-0.key"', '"keys/agent-1.key"'), "holds other keys than the roster has for gate-0"),
        (('round-timeout = "5s"', 'round-timeout = "soon"'), "the settings of gate-0 are refused"),
        (('round-timeout = "5s"', 'environment = "exec:true"'), "follows from the inventory"),
        (('platform = "aarch64"', 'platform = "armv7l"'), "no wheels of pyzmq, numpy and PyNaCl for 'armv7l'"),
        (("peers = [0]", "peers = [7]"), r"gate-1 has the neighbours \[7\]"),
        (("id = 2", "id = 1"), "two devices have the same id"),
        (("[devices.gate-2]", '[devices."../gate"]'), "a device is named by"),
        (("id = 2", "id = 2\ncolour = 1"), "gate-2 has 'colour'"),
        (("tcp://10.0.0.12:7000", "nowhere"), "gate-2: "),
        (('terms = "terms.json"', "terms = 3"), "terms must be a text"),
    ],
)
def test_what_makes_no_bundle_is_refused_in_one_line(change: tuple[str, str], complaint: str, place: Path) -> None:
    (place / "hosts.toml").write_text(HOSTS.replace(*change))
    done = bundle()
    assert isinstance(done.exception, AgentdError)
    with pytest.raises(AgentdError, match=complaint):
        raise done.exception


def test_a_roster_of_another_operator_makes_no_bundle(place: Path) -> None:
    assert invoke("keygen", "--operator", "--out", "other").exit_code == 0
    done = bundle("--operator", "other/operator.key")
    assert "is refused: it names operator" in str(done.exception)
    assert not (place / "out").exists()


def test_a_bundle_is_opened_only_for_the_operator_that_is_trusted(place: Path) -> None:
    assert bundle().exit_code == 0
    pinned = fingerprint(read_keys("operator/operator.key").sign_public)
    for words in (["verify", "out/hub.bundle"], ["open", "out/hub.bundle", "--into", "new"]):
        refused = invoke("bundle", *words, "--operator-fingerprint", "ab" * 32)
        assert isinstance(refused.exception, BundleRefused)
        assert refused.exception.exit_code == 78
    assert not (place / "new").exists()
    assert invoke("bundle", "verify", "out/hub.bundle", "--operator-fingerprint", pinned).output.startswith("good: ")
    assert invoke("bundle", "open", "out/hub.bundle", "--operator-fingerprint", pinned, "--into", "new").exit_code == 0
    assert stat.S_IMODE((place / "new").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (place / "new").rglob("*") if path.is_file()} == {0o600}
    again = invoke("bundle", "open", "out/hub.bundle", "--operator-fingerprint", pinned, "--into", "new")
    assert "cannot unpack into new: File exists" in str(again.exception)


def test_no_changed_byte_keeps_the_signature(tmp_path: Path) -> None:
    whole = packed({"config.toml": b"id = 0\n", "wheels/a.whl": b"x" * 700}, OPERATOR)
    file = tmp_path / "bundle"
    file.write_bytes(whole)
    assert verified(file, PINNED) == {"config.toml": b"id = 0\n", "wheels/a.whl": b"x" * 700}
    for number in range(0, len(whole), 7):
        file.write_bytes(whole[:number] + bytes([whole[number] ^ 1]) + whole[number + 1 :])
        with pytest.raises(BundleRefused):
            verified(file, PINNED)
    for cut in (b"", whole[:100], whole[:1024], whole[:-1], whole + b"\0"):
        file.write_bytes(cut)
        with pytest.raises(BundleRefused):
            verified(file, PINNED)


def hostile(name: str, **about: Any) -> bytes:
    """An archive that somebody with the operator's key made for mischief: the signature is good."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        for field, value in about.items():
            setattr(member, field, value)
        tar.addfile(member, io.BytesIO(b"x" * member.size))
    rest = buffer.getvalue()
    signature = signing.sign(OPERATOR.sign_secret, archive._signed(rest))
    return archive._head(OPERATOR.sign_public, signature) + rest


@pytest.mark.parametrize(
    "content",
    [
        hostile("../escaped"),
        hostile("/etc/escaped"),
        hostile("wheels/../../escaped"),
        hostile("a/b/c"),
        hostile(".hidden"),
        hostile("link", type=tarfile.SYMTYPE, linkname="/etc"),
        hostile("link", type=tarfile.LNKTYPE, linkname="config.toml"),
        hostile("pipe", type=tarfile.FIFOTYPE),
        hostile("device", type=tarfile.CHRTYPE),
        hostile("directory", type=tarfile.DIRTYPE),
        hostile("n" * 300),
    ],
)
def test_nothing_leads_out_of_a_bundle_whoever_signed_it(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(content)
    with pytest.raises(BundleRefused, match="plain files"):
        verified(tmp_path / "bundle", PINNED)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_unpacking_overwrites_and_follows_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        unpack({"a": b"1"}, tmp_path / "there")
    assert not (tmp_path / "elsewhere").exists()


def test_an_inventory_that_is_none_is_refused() -> None:
    for text in ("", "devices = 3", "[devices.a]\nid = true\n", "[devices.a]\nid = 0\nenvironment = true\n", "x = ["):
        with pytest.raises(ValueError):  # noqa: PT011 - the words are looked at above
            read_inventory(text)
    assert bundle_verb._python("3.12") == (3, 12)
    with pytest.raises(SettingsError, match="or newer"):
        bundle_verb._python("3.9")
