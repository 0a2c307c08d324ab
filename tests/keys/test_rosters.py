"""A roster counts if the pinned operator signed it, it has not expired, and no newer one was taken up before."""

from __future__ import annotations

import json
import random
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evidence import wall_ms
from keyed_world import World, entry_of
from loopback import events
from structlog.typing import FilteringBoundLogger

from agentd.cli import cli
from agentd.errors import AgentdError, ConfigurationError
from agentd.keys.accepted import RosterFile, RosterRefused
from agentd.keys.key_files import new_keys, read_keys
from agentd.keys.roster import Roster, parse
from agentd.shell.doors.keyring import Keyring

Place = Any


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, range(3))


def file_of(world: World, now_s: float | None = None) -> RosterFile:
    return RosterFile(
        str(world.roster_file),
        operator_fingerprint=world.fingerprint,
        notes=world.keying(0).notes(None),
        wall_s=lambda: wall_ms() / 1000 if now_s is None else now_s,
    )


def test_a_newer_roster_is_taken_up_and_an_older_one_never_again(world: World) -> None:
    assert file_of(world).accept().version == 1
    world.publish(world.roster(7))
    assert file_of(world).accept().version == 7
    assert file_of(world).accept().version == 7, "the same once more"
    world.publish(world.roster(6))
    with pytest.raises(
        RosterRefused, match="version 6, and version 7 was taken up before; ask the operator for the new"
    ):
        file_of(world).accept()
    world.publish(world.roster(7, without=[1]))
    with pytest.raises(RosterRefused, match="another roster of version 7 was taken up before"):
        file_of(world).accept()


def test_an_expired_roster_is_refused(world: World) -> None:
    until = world.roster().valid_until
    with pytest.raises(RosterRefused, match=r"it was valid until 20\d\d-"):
        file_of(world, now_s=until + 60).accept()
    world.publish(replace(world.roster(), valid_until=1000))
    with pytest.raises(RosterRefused, match="it was valid until 1970-01-01 00:16:40 UTC"):
        file_of(world).accept()


def test_a_roster_of_another_operator_and_a_forged_one_are_refused(world: World) -> None:
    mallory = new_keys("operator")
    world.publish(world.roster(2), by=mallory)
    with pytest.raises(RosterRefused, match="it names operator"):
        file_of(world).accept()
    forged = json.loads(world.signed(world.roster(2), by=mallory).text())
    forged["operator"] = world.operator.sign_public.hex()
    world.roster_file.write_text(json.dumps(forged))
    with pytest.raises(RosterRefused, match="changed or forged"):
        file_of(world).accept()


def test_no_changed_value_keeps_its_signature(world: World) -> None:
    """Every change that is still a roster says something else, and nothing else was signed."""
    genuine = json.loads(world.signed(world.roster(2)).text())
    other = entry_of(new_keys("agent", 0))
    changes: list[dict[str, Any]] = [
        {"version": 3},
        {"valid_until": genuine["roster"]["valid_until"] + 1},
        {"signatures": True},
        {"terms": "ab" * 32},
        {"environment": None},
        {"agents": genuine["roster"]["agents"][:-1]},
        {"agents": [{**genuine["roster"]["agents"][0], "curve": other.curve.hex()}, *genuine["roster"]["agents"][1:]]},
        {"agents": [{**genuine["roster"]["agents"][0], "address": "tcp://x:1"}, *genuine["roster"]["agents"][1:]]},
    ]
    for change in changes:
        changed = {**genuine, "roster": {**genuine["roster"], **change}}
        assert not parse(json.dumps(changed).encode()).is_genuine(), change
    shuffled = {**genuine, "roster": dict(reversed(genuine["roster"].items()))}
    assert parse(json.dumps(shuffled, indent=7).encode()).is_genuine(), "how it is laid out means nothing"


def test_mutants_are_each_refused_or_not_genuine_or_say_the_same(world: World) -> None:
    signed = world.signed(world.roster(2))
    text, chance = signed.text().encode(), random.Random(19)
    for _ in range(2_000):
        mutant = bytearray(text)
        for _ in range(chance.randint(1, 3)):
            mutant[chance.randrange(len(mutant))] = chance.randrange(256)
        try:
            found = parse(bytes(mutant))
        except ValueError:
            continue
        assert found == signed or not found.is_genuine()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 0}, "version must be in 1"),
        ({"version": True}, "version must be a whole number"),
        ({"version": 1.0}, "not whole"),
        ({"valid_until": 10**15}, "valid_until"),
        ({"agents": []}, "1 to 16384 agents"),
        ({"agents": {}}, "agents must be a list"),
        ({"signatures": 1}, "true or false"),
        ({"terms": "0" * 63}, "terms must be 64"),
        ({"more": 1}, "and nothing else"),
        ({"format": 2}, "its format is not 1"),
    ],
)
def test_what_is_no_roster_is_refused_in_few_words(change: dict[str, Any], complaint: str, world: World) -> None:
    whole = json.loads(world.signed(world.roster()).text())
    whole["roster"] |= change
    with pytest.raises(ValueError, match=complaint):
        parse(json.dumps(whole).encode())


def test_nobody_shares_a_key_with_another(world: World) -> None:
    agents = world.roster().agents
    for twice in ({**agents, 9: agents[0]}, {**agents, 9: entry_of(world.environment)}):
        with pytest.raises(ValueError, match="the same curve key"):
            world.signed(Roster(1, 10**10, twice, environment=entry_of(world.environment)))


def test_a_note_that_somebody_spoiled_lets_nothing_old_back_in(world: World) -> None:
    file_of(world).accept()
    note = world.key_file(0).with_name("agent-0.key.roster")
    note.write_text("{}")
    with pytest.raises(RosterRefused, match="see who changed it"):
        file_of(world).accept()


def test_where_keys_cannot_be_written_beside_the_roster_is_noted_with_the_state(world: World, tmp_path: Path) -> None:
    """Keys may lie on a mount that is read-only; a note beside them from before still counts."""
    state, keys = tmp_path / "state", world.key_file(0)
    no_place = Path("/proc")  # nothing can be made there, whoever tries

    def file(*notes: Path) -> RosterFile:
        return RosterFile(str(world.roster_file), operator_fingerprint=world.fingerprint, notes=notes)

    with pytest.raises(RosterRefused, match=r"cannot write .*--roster-note"):
        file(no_place / "agent-0.key.roster").accept()
    world.publish(world.roster(5))
    kept, beside = replace(world.keying(0), keys=str(keys)).notes(str(state))
    assert (kept.parent, beside) == (state, keys.with_name("agent-0.key.roster"))
    assert file(kept, no_place / "agent-0.key.roster").accept().version == 5
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert file(beside).accept().version == 5
    world.publish(world.roster(6))
    assert file(beside).accept().version == 6
    world.publish(world.roster(5))
    for notes in ((kept, beside), (beside, kept)):
        with pytest.raises(RosterRefused, match="version 6 was taken up before"):
            file(*notes).accept()
    assert replace(world.keying(0), roster_note="/n").notes(str(state)) == (Path("/n"),)


def test_a_roster_that_expires_in_mid_run_leaves_nobody_known_until_a_newer_one(
    world: World, log: FilteringBoundLogger
) -> None:
    """Whichever clock says so: one that is set back prolongs nothing."""
    for clock in ("wall", "monotonic"):
        version = 2 if clock == "wall" else 4
        world.publish(world.roster(version, seconds=100))
        now = {"wall": wall_ms() / 1000, "monotonic": 50.0}
        file = RosterFile(
            str(world.roster_file),
            operator_fingerprint=world.fingerprint,
            notes=world.keying(0).notes(None),
            wall_s=lambda now=now: now["wall"],  # type: ignore[misc]
        )
        ring = Keyring(read_keys(world.key_file(0)), file, log, own=0, monotonic_s=lambda now=now: now["monotonic"])  # type: ignore[misc]
        told: list[int] = []
        ring.on_change.append(lambda told=told: told.append(1))  # type: ignore[misc]
        key = world.agents[1].curve_public
        assert ring.judge_expiry() > 90
        assert ring.admits(key)
        now[clock] += 101
        assert ring.judge_expiry() <= 0
        assert ring.admits(key) is None
        assert ring.key_of(1) not in {key, None}
        assert ring.key_of(None) != world.environment.curve_public
        ring.judge_expiry()
        assert told == [1], "once"
        world.publish(world.roster(version + 1, seconds=1000))
        assert ring.renew()
        assert ring.key_of(1) == key
        assert ring.judge_expiry() > 800
        assert told == [1, 1]


def test_a_process_begins_with_its_own_keys_only(world: World, log: FilteringBoundLogger) -> None:
    world.publish(world.roster(2, without=[1]))
    with pytest.raises(ConfigurationError, match="does not have the keys of agent-1"):
        world.keyring(1, log)
    with pytest.raises(ConfigurationError, match="holds the keys of agent-0; name the file of this process"):
        Keyring.open(world.keying(0), log, own=2)
    with pytest.raises(ConfigurationError, match="holds the keys of agent-0"):
        Keyring.open(world.keying(0), log, own=None)


def test_a_newer_roster_changes_nothing_about_whether_signatures_are_required(
    world: World, log: FilteringBoundLogger, log_file: Path
) -> None:
    for before, after in ((True, False), (False, True)):
        number = 1 + 2 * after
        world.publish(replace(world.roster(number), signatures=before))
        keyring = world.keyring(0, log)
        world.publish(replace(world.roster(number + 1), signatures=after))
        assert keyring.renew()
        assert keyring.roster.signatures is before
        assert "begin another run" in events(log_file, "roster refused")[-1]["why"]


def test_the_command_line_makes_shows_and_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def done(*words: str) -> str:
        result = CliRunner().invoke(cli, list(words))
        assert result.exit_code == 0, result.output
        return result.output

    done("keygen", "--operator", "--out", "operator")
    done("keygen", "--ids", "0-1", "--environment", "--out", "keys")
    done("terms", "make", "--agents", "2", "--arms", "2", "--out", "terms.json")
    files = [f"keys/{name}.pub" for name in ("agent-0", "agent-1", "environment")]
    told = ("--terms", "terms.json", "--addresses", "1=tcp://gate-1:7001", "--environment-address", "tcp://hub:7000")
    done("roster", "make", *files, "--operator", "operator/operator.key", "--version", "4", *told, "--out", "r.json")
    shown = json.loads(done("roster", "show", "r.json", "--json"))
    assert (shown["version"], shown["genuine"], shown["agents"][1]["address"]) == (4, True, "tcp://gate-1:7001")
    assert shown["terms"] == json.loads(done("terms", "show", "terms.json", "--json"))["digest"]
    good = done("roster", "verify", "r.json", "--operator-fingerprint", shown["operator_fingerprint"])
    assert good.startswith("good: version 4, 2 agents, valid until 20")
    lines = done("roster", "show", "r.json").splitlines()
    assert "signature    genuine" in lines
    bad = CliRunner().invoke(cli, ["roster", "verify", "r.json", "--operator-fingerprint", "00" * 32])
    assert isinstance(bad.exception, RosterRefused)
    assert bad.exception.exit_code == 78


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--operator", "keys/agent-0.key"], "holds the keys of agent-0"),
        (["--operator", "keys/agent-0.pub"], "must have"),
        (["--operator", "o/operator.key", "--valid-days", "0"], "--valid-days must be"),
        (["--operator", "o/operator.key", "--version", "0"], "version must be"),
        (["--operator", "o/operator.key", "--addresses", "5=tcp://x:1"], "names agent 5"),
        (["--operator", "o/operator.key", "--addresses", "0=nowhere"], "address of an agent is none"),
        (["--operator", "o/operator.key", "keys/agent-0.pub"], "agent-0 is named twice"),
        (["--operator", "o/operator.key", "o/operator.pub"], "no part of a roster"),
    ],
)
def test_what_makes_no_roster_is_refused(
    words: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for made in (["--id", "0", "--out", "keys"], ["--operator", "--out", "o"]):
        assert CliRunner().invoke(cli, ["keygen", *made]).exit_code == 0
    (tmp_path / "keys/agent-0.pub").chmod(0o600)
    result = CliRunner().invoke(cli, ["roster", "make", "keys/agent-0.pub", *words, "--out", "r.json"])
    assert isinstance(result.exception, AgentdError)
    assert complaint in str(result.exception)
    assert not (tmp_path / "r.json").exists()
