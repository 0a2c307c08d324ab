"""Real agents with keys, and among them one hostile process with one valid key: nobody believes it, nobody ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from attentive_agent import BELIEVED, CAME, COUNTS, COUNTS_NO_MORE, LOOKED_AT, OUT, PROVED, SIGNED, Note
from evidence import until, wall_ms
from hostile_company import EVERY, GAMMA, KINDS_TOLD, OTHER_RUN, _lie
from hostile_process import EQUIVOCATES_IN, HARMLESS, SURE
from keyed_world import World
from loopback import events, free_address

from agentd.core.bodies import SEALED, TOTALS, Kind
from agentd.core.message import Message, batch_of
from agentd.keys import signing
from agentd.wire.statements import statements

pytestmark = [pytest.mark.system, pytest.mark.slow]

HERE = Path(__file__).parent
PATIENCE_S = 900.0
ROUND_TIMEOUT_S = 5
SILENT_ROUNDS = 100
"""For so many rounds, at least, an agent is away before it comes back in another life."""


class Attentive(Process):
    """An agent that notes down what it signs, believes and counts."""

    def __init__(self, notes: Path, hostile: int, *arguments: str) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, str(HERE / "attentive_agent.py"), str(notes), str(hostile), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.id = self._popen.pid
        self.output = self.errors = ""

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None


@dataclass
class Figures:
    """What came of one run."""

    came: int = 0
    looked_at: int = 0
    genuine: int = 0
    longest: int = 0
    """Trials for which something counted that its origin has not signed."""
    lies: int = 0
    """How often that happened."""
    proved_after: int = 0
    """Rounds from the lie to the last proof of it."""
    rounds: int = 0
    seconds: float = 0.0


def test_no_agent_believes_a_hostile_process_and_its_lie_is_proved(tmp_path: Path) -> None:
    found = Attack(tmp_path, "coop-ucb", agents=5, around=2, number=500, share=2000, within=60).made()
    assert found.came > 4 * 2000


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", ["sealed", "coop-ucb", "byzantine-ucb"])
def test_of_a_million_messages_of_a_hostile_process_twenty_agents_believe_none(tmp_path: Path, algorithm: str) -> None:
    found = Attack(tmp_path, algorithm, agents=19, around=2, number=2500, share=260_000, within=2000).made()
    assert found.came >= 1_000_000
    assert found.looked_at >= 340_000


class Attack:
    """So many agents in a circle with a hostile process, each with so many neighbours on either side."""

    def __init__(
        self, place: Path, algorithm: str, *, agents: int, around: int, number: int, share: int, within: int
    ) -> None:
        """The process says `number` messages at once and, to each neighbour, `share` in all, once it has said for
        `within` rounds what is looked at one by one."""
        self.place, self.algorithm, self.agents = place, algorithm, agents
        self.hostile, self.returns = agents, min(3, agents // 2)
        self.misled, self.stolen = (agents - 5, agents - 2) if agents < 10 else (agents - 8, agents - 4)
        self.ids = list(range(agents + 1))
        self.world = World(place / "operator", self.ids)
        self.world.publish(replace(self.world.roster(), signatures=True))
        self.places = {own: free_address() for own in self.ids}
        steps = range(-around, around + 1)
        self.near = {own: {(own + step) % len(self.ids) for step in steps} - {own} for own in self.ids}
        self.faces = {peer: free_address() for peer in self.near[self.hostile]}
        self.false_place, self.environment = free_address(), free_address()
        self.told = {"number": number, "share": share, "within": within}

    def made(self) -> Figures:
        """Let it happen; what must hold does."""
        begun_ms = wall_ms()
        with ExitStack() as stack:
            attacker = self._begin(stack)
            honest = {own: stack.enter_context(self._agent(own)) for own in range(self.agents)}
            false = json.loads(attacker.stdout.readline())
            assert false["connections"] >= 2 * self.agents
            assert false["requests"] == 0, "nobody speaks to a false environment"
            environment = stack.enter_context(self._true_environment())
            self._say(attacker, environment.run.hex())
            honest[self.returns] = stack.enter_context(self._brought_back(honest))
            self._say(attacker, "go on")
            assert attacker.wait(PATIENCE_S) == 0, (self.place / "hostile.err").read_text()
            assert [own for own, agent in honest.items() if not agent.is_alive] == [], "nobody ends"
            for agent in honest.values():
                agent.terminate()
            assert [agent.wait(60.0) for agent in honest.values()] == [0] * self.agents
            told = json.loads(attacker.stdout.readlines()[-1])
        return self._figures(told, (wall_ms() - begun_ms) / 1000)

    def _begin(self, stack: ExitStack) -> Any:
        (self.place / "hostile.json").write_text(json.dumps(self._all_it_is_told()))
        attacker = subprocess.Popen(
            [sys.executable, str(HERE / "hostile_process.py"), str(self.place / "hostile.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context((self.place / "hostile.err").open("w")),
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            text=True,
        )
        stack.enter_context(attacker)
        stack.callback(attacker.kill)
        return attacker

    def _all_it_is_told(self) -> dict[str, Any]:
        world, near = self.world, self.near[self.hostile]
        return {
            **self.told,
            "own": self.hostile,
            "environment": self.environment,
            "faces": self.faces,
            "peers": {peer: self.places[peer] for peer in near},
            "keys": str(world.key_file(self.hostile)),
            "roster": str(world.roster_file),
            "operator": world.fingerprint,
            "ids": self.ids,
            "algorithm": self.algorithm,
            "log": str(self.place / "hostile.jsonl"),
            "stolen": self.stolen,
            "stolen_curve": world.agents[self.stolen].curve_secret.hex(),
            "misled": self.misled,
            "spared": self.returns,
            "misled_place": self.places[self.misled],
            "false_place": self.false_place,
            "recorded": recorded(world, KINDS_TOLD[self.algorithm]),
        }

    def _say(self, attacker: Any, line: str) -> None:
        attacker.stdin.write(line + "\n")
        attacker.stdin.flush()

    def _agent(self, own: int) -> Attentive:
        peers = {peer: self.places[peer] for peer in self.near[own]}
        if self.hostile in peers:
            peers[self.hostile] = self.faces[own]
        if own == self.misled:
            peers[self.stolen] = self.false_place
        words = agent_arguments(
            own,
            self.places[own],
            self.environment,
            peers,
            gamma=GAMMA,
            algorithm=self.algorithm,
            verify_every=EVERY,
            round_timeout=f"{ROUND_TIMEOUT_S}s",
            ready_timeout="120s",
            log_file=self.place / f"{own}.jsonl",
        )
        speaks_as = f"{self.hostile},{self.stolen}" if own == self.misled else str(self.hostile)
        return Attentive(self.place / f"{own}.notes", speaks_as, *words, *self.world.flags(own))

    def _true_environment(self) -> EnvironmentProcess:
        terms = str(self.place / "terms.json")
        agreed = ("--agents", str(len(self.ids)), "--arms", "2", "--gamma", str(GAMMA), "--algorithm", self.algorithm)
        with Process("terms", "make", *agreed, "--out", terms) as make:
            assert make.wait() == 0, make.errors
        served = ("--listen", self.environment, "--arms", "0.9,0.2", "--terms", terms, *self.world.flags(None))
        return EnvironmentProcess(*served)

    def _brought_back(self, honest: dict[int, Attentive]) -> Attentive:
        """One that loses its state, and is away for a while before it comes back."""
        other = (self.returns + 1) % self.agents

        def trial() -> int:
            return max((each["trial"] for each in events(self.place / f"{other}.jsonl", "progress")), default=0)

        until(lambda: trial() >= 100)
        honest[self.returns].kill()
        gone = trial()
        until(lambda: trial() >= gone + SILENT_ROUNDS)
        again = self._agent(self.returns)
        until(lambda: len(events(self.place / f"{self.returns}.jsonl", "ready")) == 2)
        return again

    def _figures(self, told: dict[str, Any], seconds: float) -> Figures:
        notes = {own: list(notes_of(self.place / f"{own}.notes")) for own in range(self.agents)}
        signed = {note.numbers for own in notes for note in notes[own] if note.what == SIGNED}
        believed = {note.numbers for own in notes for note in notes[own] if note.what == BELIEVED}
        found = Figures(seconds=seconds, genuine=len(believed & signed))
        assert {each for each in believed if each[0] != self.hostile} <= signed, "nobody else's name was used"
        assert len(believed & signed) > self.agents
        assert told["let in"] == 0, "no door opens to another id, to an unknown key or to none"
        assert told["knocks"] > 1
        self._require_all_was_tried(told["said"])
        for own in range(self.agents):
            (done,) = events(self.place / f"{own}.jsonl", "done")
            found.rounds = max(found.rounds, done["trial"])
            if own in (*self.near[self.hostile], self.misled):
                assert done["dropped"].get("forged", 0) + done["dropped"].get("unsigned", 0) > 0, "it was attacked"
            if own in self.near[self.hostile]:
                assert done["dropped"].get("key", 0) > 0 or own == min(self.near[self.hostile])
            found.came += sum(note.numbers[0] for note in notes[own] if note.what == CAME)
            found.looked_at += sum(note.numbers[0] for note in notes[own] if note.what == LOOKED_AT)
            wrong = list(counted_for(notes[own], signed, KINDS_TOLD[self.algorithm], self.hostile))
            found.longest, found.lies = max([found.longest, *wrong]), found.lies + len(wrong)
            assert lives_only_grow(notes[own])
        assert found.longest <= (0 if self.algorithm == "sealed" else EVERY)
        assert self.algorithm == "sealed" or found.lies > 0, "otherwise nothing was tried"
        found.proved_after = self._require_proofs(notes)
        print(f"{self.algorithm}: {found}; told somebody who listened: {told['said']}")
        return found

    def _require_all_was_tried(self, said: dict[str, int]) -> None:
        tried = {*SURE, *HARMLESS[:3], "two words", "said in a life before", "a stolen key"}
        assert [name for name in sorted(tried) if not said.get(name)] == []

    def _require_proofs(self, notes: dict[int, list[Note]]) -> int:
        proofs = [note.numbers for own in notes for note in notes[own] if note.what == PROVED]
        assert {origin for _, origin, _ in proofs} == {self.hostile}
        assert {trial for _, _, trial in proofs} == {EQUIVOCATES_IN}
        after = max(round_ for round_, _, _ in proofs) - EQUIVOCATES_IN
        assert 0 <= after <= GAMMA + 1
        (file, *_) = (self.place / "operator/keys").glob(f"*.proof-{self.hostile}.json")
        with Process("roster", "judge", str(file), "--operator-fingerprint", self.world.fingerprint) as judge:
            assert judge.wait(120) == 0, judge.errors
            assert judge.output.startswith(f"proved: agent {self.hostile} has signed two different messages")
        return after


def recorded(world: World, kind: Kind) -> list[tuple[str, str]]:
    """What a run before has left with who listened: what everybody said first, under their signatures."""
    heads = [Message(origin, 1, 1, _lie(kind, 1), GAMMA) for origin in world.agents]
    batch = batch_of(kind, heads).signed(np.zeros((len(heads), kind.signature_bytes), np.uint8))
    said = zip(batch.origin.tolist(), statements(batch, OTHER_RUN), strict=True)
    return [(each.hex(), signing.sign(world.agents[origin].sign_secret, each).hex()) for origin, each in said]


def notes_of(path: Path) -> Iterator[Note]:
    """The notes of an agent; what it was writing when it was killed is none."""
    with path.open(encoding="ascii") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield Note.read(line)


def counted_for(notes: list[Note], signed: set[tuple[int, ...]], kind: Kind, hostile: int) -> Iterator[int]:
    """For how many trials each thing counted that the origin it names has not signed."""
    since: dict[tuple[int, ...], int] = {}
    now = 0
    for what, numbers in notes:
        if what not in (COUNTS, COUNTS_NO_MORE, OUT):
            continue
        now, origin = numbers[:2]
        ended = [key for key in since if key[0] == origin]
        if what == COUNTS_NO_MORE:
            ended = [key for key in ended if key[1] == numbers[3]]
        elif what == COUNTS and kind is not TOTALS:  # samples and records count beside those before
            ended = []
        for key in ended:
            yield now - since.pop(key)
        if what == COUNTS and origin != hostile and (origin, numbers[3]) not in signed:
            since[origin, numbers[3]] = now
    yield from (now - begun for begun in since.values())


def lives_only_grow(notes: list[Note]) -> bool:
    """Whether nothing of an earlier life of an origin counted after something of a later one."""
    newest: Counter[int] = Counter()
    for what, numbers in notes:
        if what == COUNTS:
            _, origin, life, _ = numbers
            if life < newest[origin]:
                return False
            newest[origin] = life
    return True


def test_what_counted_too_long_would_be_noticed() -> None:
    signed = {(1, 10), (1, 11)}
    told = [Note(COUNTS, (3, 1, 0, 10)), Note(COUNTS, (4, 1, 0, 99)), Note(COUNTS, (13, 1, 0, 11))]
    assert list(counted_for(told, signed, TOTALS, hostile=5)) == [9]
    assert list(counted_for(told, signed, SEALED, hostile=5)) == [9]
    assert list(counted_for([*told, Note(COUNTS_NO_MORE, (14, 1, 0, 99))], signed, SEALED, hostile=5)) == [10]
    assert list(counted_for([*told[:2], Note(OUT, (6, 1))], signed, TOTALS, hostile=5)) == [2]
    assert list(counted_for(told, signed, TOTALS, hostile=1)) == []
    assert lives_only_grow(told)
    assert not lives_only_grow([Note(COUNTS, (3, 1, 7, 10)), Note(COUNTS, (4, 1, 0, 11))])
