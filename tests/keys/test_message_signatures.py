"""Ed25519 under messages: what is signed, that nothing is signed twice, proofs that are judged from the file alone."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agentd_processes import Process
from click.testing import CliRunner
from keyed_world import World
from loopback import RUN, events
from structlog.typing import FilteringBoundLogger

from agentd.cli import cli
from agentd.core.bodies import SEALED, TOTALS
from agentd.core.message import Batch, Message, batch_of
from agentd.core.signed.notary import Equivocation, Said
from agentd.errors import ConfigurationError
from agentd.keys import signing
from agentd.keys.equivocation import parse_proof
from agentd.keys.signed_lives import MOST_RUNS, SignedLives
from agentd.shell.signing.key_notary import KeyNotary, Signing
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import Frame
from agentd.wire.statements import statements

OTHER_RUN = bytes(range(8))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, range(3))
    made.publish(replace(made.roster(), signatures=True))
    return made


def totals(origin: int, trial: int, pulls: int = 1, incarnation: int = 0) -> Batch:
    return batch_of(TOTALS, [Message(origin, trial, 2, (pulls, pulls, 0, 0), 2, incarnation)])


def notary_of(world: World, own: int, log: FilteringBoundLogger, run: bytes = RUN, incarnation: int = 0) -> KeyNotary:
    return KeyNotary(world.keyring(own, log), SignedLives(world.keying(own).lives(None)), run, incarnation)


def test_what_is_signed_is_what_the_protocol_says() -> None:
    head = struct.pack("<16s8sQHIHH", b"agentd message 1", RUN, 5, 7, 300, 4, SEALED.tag)
    body = struct.pack("<HIIqq", 3, 20, 2, 9 << 20, -5)
    batch = batch_of(SEALED, [Message(7, 300, 1, (3, 20, 2, 9 << 20, -5), 4, 5)])
    assert statements(batch, RUN) == [head + body]
    longer = batch.rows_with(batch.head + np.array([0, 0, 0, 0, 2]), np.arange(1))
    assert statements(longer, RUN) == [head + body], "the remaining life is not in it"


def test_a_signature_survives_the_wire_and_every_change_but_of_life_breaks_it(
    world: World, log: FilteringBoundLogger
) -> None:
    sent = notary_of(world, 1, log, incarnation=2).sign(totals(1, 3, incarnation=2))
    frame = decode_frame(encode_frame(Frame(RUN, 1, 2, 1, 3, 0, (sent,), 2)))
    (heard,) = frame.batches
    judge = notary_of(world, 0, log)
    (signature,) = (heard.signature.tobytes(),)
    (statement,) = judge.statements(heard)
    assert judge.is_genuine(1, statement, signature)
    assert judge.statements(heard.aged()) == [statement]
    assert not judge.is_genuine(2, statement, signature), "another origin"
    assert not judge.is_genuine(9, statement, signature), "one that is not in the roster"
    assert not notary_of(world, 0, log, run=OTHER_RUN).is_genuine(1, *statements(heard, OTHER_RUN), signature)
    for place in range(len(statement)):
        changed = bytearray(statement)
        changed[place] ^= 1
        assert not judge.is_genuine(1, bytes(changed), signature)


def test_nothing_is_signed_twice_in_one_life(world: World, log: FilteringBoundLogger) -> None:
    notary = notary_of(world, 0, log)
    first = notary.sign(totals(0, 1))
    assert notary.sign(totals(0, 1)).signature.tobytes() == first.signature.tobytes(), "the same again is the same"
    with pytest.raises(RuntimeError, match="perhaps another way"):
        notary.sign(totals(0, 1, pulls=0))
    notary.sign(totals(0, 2))
    with pytest.raises(RuntimeError, match="perhaps another way"):
        notary.sign(totals(0, 1))
    with pytest.raises(RuntimeError, match="which this process lives"):
        notary.sign(totals(0, 3, incarnation=1))


def test_a_return_without_state_cannot_sign_in_a_life_that_was_signed_in(
    world: World, log: FilteringBoundLogger
) -> None:
    """As an environment that forgot pulls, or a clock that went back, would have it."""
    signing_of = Signing(world.keyring(0, log), 0, log, every=8, keying=world.keying(0), state=None)
    signing_of.begin(RUN, 3, continued=False)
    signing_of.begin(RUN, 3, continued=False)  # nothing was signed in it
    notary_of(world, 0, log, incarnation=3).sign(totals(0, 5, incarnation=3))
    for incarnation in (0, 3):
        with pytest.raises(ConfigurationError, match="signed in life 3 already"):
            signing_of.begin(RUN, incarnation, continued=False)
    signing_of.begin(RUN, 3, continued=True)  # from its own state
    signing_of.begin(RUN, 4, continued=False)
    signing_of.begin(OTHER_RUN, 0, continued=False)


def test_lives_of_many_runs_are_remembered_and_a_changed_note_is_not_believed(tmp_path: Path) -> None:
    lives = SignedLives((tmp_path / "agent-0.key.lives",))
    runs = [number.to_bytes(8, "big") for number in range(MOST_RUNS + 2)]
    for run in runs:
        lives.signs(run, 7)
    assert (tmp_path / "agent-0.key.lives").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigurationError, match="in life 7 already"):
        lives.require_unsigned(runs[-MOST_RUNS], 7)
    for text in ("", "{}", '{"lives": [["00", -1]]}', '{"lives": [["00"]]}', '{"lives": 3}'):
        (tmp_path / "agent-0.key.lives").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match="should say in which life"):
            lives.require_unsigned(runs[0], 9)


def test_where_keys_are_mounted_lives_are_written_down_with_the_state(tmp_path: Path) -> None:
    mounted, kept = Path("/proc/nowhere/agent-0.key.lives"), tmp_path / "state/lives"
    lives = SignedLives((kept, mounted))
    lives.signs(RUN, 3)
    with pytest.raises(ConfigurationError, match="in life 3 already"):
        lives.require_unsigned(RUN, 3)
    with pytest.raises(ConfigurationError, match="cannot write"):
        SignedLives((mounted,)).signs(RUN, 3)


def equivocation(world: World, log: FilteringBoundLogger) -> Equivocation:
    secret = world.agents[1].sign_secret
    said = [
        Said(statement, signing.sign(secret, statement))
        for batch in (totals(1, 4, 1), totals(1, 4, 2))
        for statement in statements(batch, RUN)
    ]
    return Equivocation(1, 4, said[0], said[1])


@pytest.fixture
def proof_file(world: World, log: FilteringBoundLogger) -> Path:
    found = equivocation(world, log)
    kept = Signing(world.keyring(0, log), 0, log, every=8, keying=world.keying(0), state=None)
    kept.keep([found])
    kept.keep([found])
    return Path(f"{world.key_file(0)}.proof-1.json")


def test_a_proof_is_judged_by_a_process_that_has_nothing_but_the_file(
    world: World, proof_file: Path, tmp_path: Path, log_file: Path
) -> None:
    alone = tmp_path / "elsewhere/proof.json"
    alone.parent.mkdir()
    proof_file.rename(alone)
    for path in world.place.rglob("*.*"):
        if path.is_file() and path not in {alone, log_file}:
            path.unlink()
    with Process("roster", "judge", str(alone), "--operator-fingerprint", world.fingerprint) as judge:
        assert judge.wait(60) == 0, judge.errors
        assert judge.output.startswith("proved: agent 1 has signed two different messages for trial 4 of its life 0")
        assert world.fingerprint in judge.output
    first, again = events(log_file, "an origin has signed two things")
    assert (first["origin"], first["proof"], again["kept"]) == (1, str(proof_file), "an earlier one")


def changed(proof_file: Path, **other: Any) -> Path:
    whole = json.loads(proof_file.read_text())
    proof_file.write_text(json.dumps({**whole, **other}))
    return proof_file


def refused(proof_file: Path, *more: str) -> str:
    result = CliRunner().invoke(cli, ["roster", "judge", str(proof_file), "--operator-fingerprint", "00" * 32, *more])
    assert isinstance(result.exception, ConfigurationError)
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_what_proves_nothing_is_held_against_nobody(world: World, proof_file: Path) -> None:
    whole = json.loads(proof_file.read_text())
    one, two = whole["statements"]
    other = statements(totals(1, 5), RUN)[0].hex()
    by_another = signing.sign(world.agents[2].sign_secret, bytes.fromhex(two)).hex()
    assert "say the same" in refused(changed(proof_file, statements=[one, one]))
    assert "different runs, origins, lives or trials" in refused(changed(proof_file, statements=[one, other]))
    assert "none of a message" in refused(changed(proof_file, statements=[one, two[:40]]))
    changed(proof_file, statements=[one, two], signatures=[whole["signatures"][0], by_another])
    assert "has not signed both" in refused(proof_file)
    roster = json.loads(json.dumps(whole["roster"]))
    roster["roster"]["agents"][1]["sign"] = world.agents[2].sign_public.hex()
    roster["roster"]["agents"][2]["sign"] = world.agents[1].sign_public.hex()
    assert "not signed by the operator" in refused(changed(proof_file, roster=roster))


def test_a_proof_by_keys_of_a_made_up_operator_is_held_against_nobody(world: World, proof_file: Path) -> None:
    assert parse_proof(proof_file.read_bytes()).fault() is None, "whoever its operator is"
    assert "of operator" in refused(proof_file)
    unpinned = CliRunner().invoke(cli, ["roster", "judge", str(proof_file)])
    assert (unpinned.exit_code, "proved" in unpinned.output) == (2, False)
    pinned = CliRunner().invoke(cli, ["roster", "judge", str(proof_file), "--operator-fingerprint", world.fingerprint])
    assert (pinned.exit_code, pinned.output.startswith("proved: ")) == (0, True)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 100_000, b"\xff", b'{"format": 1}', b'{"format": 1.5, "format": 1}']
)
def test_what_is_no_proof_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_bytes(content)
    assert "cannot judge" in refused(tmp_path / "proof.json")


def test_proofs_with_wrong_parts_are_refused(proof_file: Path) -> None:
    for wrong in ({"proof": "lie"}, {"statements": ["00"]}, {"statements": ["0", "zz"]}, {"signatures": ["00", "00"]}):
        whole = json.loads(proof_file.read_text())
        with pytest.raises(ValueError, match=r"\w"):
            parse_proof(json.dumps({**whole, **wrong}).encode())
