"""What people mistype, over all verbs: one line that says what is wrong, the right exit code, no traceback, no hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentd.cli import VERBS, main

AGENT = "--id 0 --listen tcp://127.0.0.1:47113 --environment tcp://127.0.0.1:2"

WRONG_WORDS = """
--id x
--id -1 --listen tcp://127.0.0.1:47113 --environment tcp://127.0.0.1:2
--id 70000 --listen tcp://127.0.0.1:47113 --environment tcp://127.0.0.1:2
--id 0
--id 0 --listen nowhere --environment tcp://127.0.0.1:2
--id 0 --listen tcp://1.2.3.4:99999 --environment tcp://127.0.0.1:2
--id 0 --listen tcp://*:7000 --environment tcp://127.0.0.1:2
--id 0 --listen ipc://relative --environment tcp://127.0.0.1:2
--id 0 --listen tcp://127.0.0.1:47113 --environment tcp://*:2
--id 0 --listen tcp://::1:1 --environment tcp://127.0.0.1:2
AGENT --peers 1
AGENT --peers 1=
AGENT --peers 1=tcp://a:1,1=tcp://b:1
AGENT --peers 0=tcp://a:1
AGENT --peers 1=tcp://a:1,2=tcp://a:1
AGENT --peers 99999999999999999999=tcp://a:1
AGENT --peers ५=tcp://a:1
AGENT --algorithm best
AGENT --epsilon 0
AGENT --epsilon nan
AGENT --epsilon -inf
AGENT --v 2
AGENT --gamma half
AGENT --gamma -1
AGENT --gamma 999999999999
AGENT --rounds 0
AGENT --rounds 1e3
AGENT --interval 0
AGENT --interval 5parsecs
AGENT --interval -5s
AGENT --round-timeout nan
AGENT --ready-timeout -1
AGENT --clock sundial
AGENT --admit 10.0.0.1/8
AGENT --admit x
AGENT --epsilon-budget 1
AGENT --state s --algorithm ucb1
AGENT --attack sweetly
AGENT --noise white
AGENT --seed -1
AGENT --seed 99999999999999999999999
AGENT --algorithm private-ucb --rewards-per-person 2
AGENT --no-such-flag
AGENT surplus
env --arms high
env --arms 0.5,2
env --arms 0.5 --random-arms 3
env --random-arms 0
env --random-arms 99999
env --bounds 1,0
env --bounds 1
env --bounds nan,1
env --agents 0
env --rounds 0
env --seed -1
env --listen x
env --listen tcp://*:7000
env --run zz
env --max-outstanding 0
env --reward gold
env --arm-range 0.9,0.1
env release
env release x --run-dir empty
up --agents 0
up --agents many
up --agents 3 --edge-probability 2
up --agents 3 --edge-probability 0
up --topology ring
up --runtime moon
up --resume empty --agents 3
up --base-port 99999 --agents 2 --edge-probability 1
up --base-port -5 --agents 2 --edge-probability 1
up --transport ipc --base-port 17000 --agents 2 --edge-probability 1
up --image x --agents 2 --edge-probability 1
up --policy 9=ucb1 --agents 3
up --policy x
up --policy 1=none --agents 3
up --byzantine 9 --agents 3
up --epsilon-budget 1 --algorithm ucb1 --agents 2 --edge-probability 1
up --epsilon-budget 0.001 --agents 2 --edge-probability 1 --algorithm sealed
up --interval never --agents 2
up --agents 3 --gamma third
up --arms , --agents 3
down --all somewhere
status a b
status missing --run-dir missing
logs --lines -1
chaos kill x --run-dir missing
chaos pause 0 --for never --run-dir missing
chaos partition 0-3 --run-dir missing
chaos delay 0 --run-dir missing
chaos nothing
chaos loss 0 2 --run-dir missing
soak --for 0
soak --churn -1
soak --faults rain
soak --stuck-after x
demo --agents 0
demo --rounds 1
compose --agents 0
compose --subnet x --agents 3
manifests kubernetes --run-dir x
manifests kubernetes --namespace UPPER --agents 2
manifests kubernetes --admit x --agents 2
manifests nomad
image build --tag BAD
image build --extras a+b
image remove
simulate --agents -3
simulate --engine steam
simulate --noise opendp
simulate --arms 0.5,nan
simulate --reward none
simulate --attack lie
simulate --estimator none
simulate --engine vector --policy 1=ucb1 --agents 3
simulate surplus
sweep --agents 3,x
sweep --plot colour
sweep --repetitions 0
sweep --jobs 0
sweep --seed 18446744073709551615 --agents 3
sweep --algorithm best
experiment
experiment fig9
experiment fig1a --jobs 0
experiment fig1a --trials 0
experiment fig1a --agents 0
audit --algorithm ucb1
audit --fault none
audit --runs 0
audit --epsilon 0
audit --worlds 0 --coupling
check --seeds 0
check --jobs 0
check --bug none
bench --rounds 0
bench nothing
ledger
ledger empty --delta 2
report --out
report empty --no-such-flag
terms make
terms make --agents 0 --arms 2
terms make --agents 2 --arms 0
terms make --agents 2 --arms 3 --epsilon -1
terms make --agents 2 --arms 3 --interval soon --clock free
keygen
keygen --out keys
keygen --id x --out keys
roster make
roster make missing.pub
roster show
roster verify missing.json
bundle
bundle --inventory missing.toml --out x
bundle --platform armv7l --inventory missing.toml --roster missing.json --operator missing.key
bundle verify
bundle verify garbage
bundle open garbage --operator-fingerprint 00
AGENT --keys k
AGENT --roster r
AGENT --operator-fingerprint short
env --arms 0.5 --keys k
health
topology generate spiral
topology generate --agents 3 --edge-probability 2
topology measure garbage.json --gamma x
host
host garbage --no-such-flag
config
config show doctor
config check natural.toml nothing
config example doctor
config example up down
nothing
--nothing
version --json surplus
doctor surplus
"""
"""Exit code 2: what was typed makes no sense."""

WRONG_PLACES = """
roster make missing.pub --operator missing.key --out r.json
bundle --inventory missing.toml --roster missing.json --operator missing.key --out x
bundle --inventory garbage --roster missing.json --operator missing.key --out x
bundle verify missing.bundle --operator-fingerprint 00
bundle verify garbage --operator-fingerprint 00
bundle open directory --operator-fingerprint 00 --into new
host missing.json
host garbage
host garbage.json
host directory
roster show missing.json
roster show garbage
roster verify missing.json --operator-fingerprint 00
AGENT --keys missing --roster missing --operator-fingerprint FINGERPRINT
AGENT --terms missing.json
AGENT --terms garbage
AGENT --seat directory --ready-timeout 1s
AGENT --state garbage --ready-timeout 1s
AGENT --log-file directory
AGENT --config missing.toml
AGENT --config garbage
AGENT --config directory
--id 0 --listen ipc:///no/such/directory/0 --environment tcp://127.0.0.1:2 --ready-timeout 200ms
env --listen tcp://198.51.100.7:7000 --insecure
env --terms missing.json
env --terms {}
env --run-dir garbage
env --seats missing
env release 0 --run-dir empty
env release 0 --run-dir missing
up --topology missing.json
up --topology garbage.json
up --resume missing
up --resume empty
up --run-dir full
up --algorithm missing.py:Policy
down missing
down empty
ps missing
status missing
status empty
logs --run-dir missing
chaos kill 0 --run-dir missing
demo --out full
image build --source empty
simulate --run-dir full
simulate --run-dir garbage/below
simulate --config garbage
check --replay missing.json
check --replay garbage
ledger missing
ledger empty
ledger garbage
dashboard missing
dashboard empty --listen nonsense
dashboard empty --allow-chaos --listen 0.0.0.0:1
report
report missing
report empty
report garbage
report empty full --out page.html
terms make --agents 2 --arms 3 --out no/such/place.json
terms show missing.json
state show missing
terms show garbage
topology generate ring --agents 5 --out x.pdf
topology generate ring --agents 5 --out no/such/place.json
topology measure missing.json
topology measure garbage.json
config show --gamma x
config check missing.toml
config check garbage
"""
"""Exit code 78: a file or a place that was named cannot be used."""

NOBODY_THERE = """
AGENT --ready-timeout 200ms
--id 0 --listen tcp://127.0.0.9:47114 --environment tcp://no.such.host.invalid:2 --ready-timeout 200ms
"""
"""Exit code 69: nobody answers."""

UNWELL = """
health missing
health garbage
"""
"""Exit code 1: as `agentd health` says of whatever is not well, on standard output."""


def cases() -> list[tuple[int, str]]:
    table = {2: WRONG_WORDS, 78: WRONG_PLACES, 69: NOBODY_THERE, 1: UNWELL}
    return [
        (code, line.replace("AGENT", AGENT).replace("FINGERPRINT", 64 * "0"))
        for code, lines in table.items()
        for line in lines.strip().splitlines()
    ]


@pytest.fixture(autouse=True)
def a_place_with_strange_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    for name in ("directory", "empty", "full"):
        Path(name).mkdir(mode=0o700)
    Path("full/thesis.tex").write_text("do not lose me", encoding="utf-8")
    Path("garbage").write_bytes(b"\x00\xff{[")
    Path("garbage.json").write_text('{"nodes": 3', encoding="utf-8")
    Path("natural.toml").write_text("id = 3\n", encoding="utf-8")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("code", "words"), cases(), ids=lambda value: str(value)[-60:])
def test_a_mistake_is_told_in_words_with_its_exit_code(
    code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    out, err = capsys.readouterr()
    assert left.value.code == code, err
    assert "Traceback" not in out + err
    complaint = out if code == 1 else err
    assert code == 1 or complaint.rstrip().splitlines()[-1].startswith("error: ") or "Usage: " in complaint
    assert len(complaint.strip()) > 20, "it says what is wrong"


def test_every_verb_is_among_them() -> None:
    begun = {words.split()[0] for _, words in cases()}
    assert {verb for verb in VERBS if verb not in begun} <= {"agent"}, "the agent is meant where no verb is named"
    assert len(cases()) >= 200
