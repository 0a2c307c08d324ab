"""Keys lie in files for one user only, are never overwritten, and show in no text."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentd.cli import cli
from agentd.errors import AgentdError, ConfigurationError
from agentd.keys.key_files import is_private, new_keys, read_keys, read_public, write_keys


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_secrets_are_for_their_owner_only_and_public_keys_for_all(tmp_path: Path) -> None:
    done = invoke("keygen", "--ids", "0-1,7", "--environment", "--operator", "--out", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    names = ("agent-0", "agent-1", "agent-7", "environment", "operator")
    assert modes == {f"{name}.key": 0o600 for name in names} | {f"{name}.pub": 0o644 for name in names}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    secrets = [read_keys(tmp_path / "new" / f"{name}.key") for name in names]
    public = "".join(path.read_text() for path in (tmp_path / "new").glob("*.pub")) + done.output
    assert not [each for keys in secrets for each in (keys.curve_secret, keys.sign_secret) if each.hex() in public]
    assert read_public(tmp_path / "new" / "agent-7.pub").id == 7


def test_keys_are_never_overwritten_and_never_made_in_a_run_directory(tmp_path: Path) -> None:
    first = write_keys(tmp_path, new_keys("agent", 3)).read_bytes()
    again = invoke("keygen", "--id", "3", "--out", str(tmp_path))
    assert "never overwritten" in str(again.exception)
    assert (tmp_path / "agent-3.key").read_bytes() == first
    (tmp_path / "manifest.json").write_text("{}")
    inside = invoke("keygen", "--id", "4", "--out", str(tmp_path / "keys"))
    assert "is a run directory" in str(inside.exception)
    assert not (tmp_path / "keys").exists()


def test_a_link_is_not_followed_when_keys_are_written(tmp_path: Path) -> None:
    (tmp_path / "agent-3.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is there already"):
        write_keys(tmp_path, new_keys("agent", 3))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_keys_that_others_may_read_or_write_are_refused(mode: int, tmp_path: Path) -> None:
    path = write_keys(tmp_path, new_keys("agent", 3))
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=r"others may read or write it.*chmod 600"):
        read_keys(path)


def test_only_root_may_lend_keys_to_a_group_and_only_for_reading() -> None:
    """As Kubernetes mounts secrets: root's, for the group of the pod."""
    assert is_private(0o440, 0, 65_532)
    assert not any(is_private(mode, 0, 65_532) for mode in (0o444, 0o460, 0o441))
    assert not is_private(0o440, 65_532, 65_532)
    assert not is_private(0o440, 0, 0)
    assert is_private(0o600, 65_532, 65_532)


def test_a_file_that_is_damaged_is_refused_without_a_word_of_its_secrets(tmp_path: Path) -> None:
    keys = new_keys("agent", 3)
    path = write_keys(tmp_path, keys)
    whole = json.loads(path.read_text())
    spoiled = [
        {**whole, "curve_secret": whole["sign_secret"]},
        {**whole, "sign_secret": whole["sign_secret"] + "00"},
        {**whole, "sign_secret": whole["sign_secret"].upper()},
        {**whole, "id": None},
        {**whole, "kind": "operator"},
        {**whole, "format": True},
        {**whole, "more": whole["sign_secret"]},
        {name: value for name, value in whole.items() if name != "kind"},
        [whole],
    ]
    texts = [*map(json.dumps, spoiled), path.read_text()[:-40], path.read_text().replace('"id"', '"id": 3, "id"'), ""]
    for text in texts:
        path.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            read_keys(path)
        said = str(caught.value).lower()
        assert keys.curve_secret.hex() not in said
        assert keys.sign_secret.hex() not in said


def test_secrets_show_in_no_representation(tmp_path: Path) -> None:
    keys = new_keys("agent", 3)
    assert not [form for form in (repr(keys), str(keys)) if "secret" in form or keys.sign_secret.hex() in form]


def test_a_secret_file_is_not_taken_for_a_public_one(tmp_path: Path) -> None:
    path = write_keys(tmp_path, new_keys("agent", 3))
    with pytest.raises(ConfigurationError, match=r"name the .pub beside it"):
        read_public(path)


def test_whoever_wants_no_keys_is_told_to_say_for_whom() -> None:
    done = invoke("keygen", "--out", "nowhere")
    assert isinstance(done.exception, AgentdError)
    assert "say for whom" in str(done.exception)
