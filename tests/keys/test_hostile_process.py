"""Real agents with keys, and among them one hostile process with one valid key: nobody believes it, nobody ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from attentive_agent import BELIEVED, SIGNED
from hostile_company import GAMMA
from keyed_world import World
from loopback import events, free_address

pytestmark = [pytest.mark.system, pytest.mark.slow]

HERE = Path(__file__).parent
PATIENCE_S = 1200.0
EQUIVOCATES_IN = 2
"""Before its first forgery, after which nobody listens for ten seconds."""


class Attentive(Process):
    """An agent that notes down what it signs and believes."""

    def __init__(self, notes: Path, *arguments: str) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, str(HERE / "attentive_agent.py"), str(notes), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.id = self._popen.pid
        self.output = self.errors = ""


def noted(place: Path, what: str) -> set[str]:
    lines = [line.split() for path in place.glob("*.notes") for line in path.read_text().splitlines()]
    return {statement for name, statement in lines if name == what}


def test_no_agent_believes_a_hostile_process_and_its_lie_is_proved(tmp_path: Path) -> None:
    attacked(tmp_path, "coop-ucb", agents=5, around=3, number=50, rounds=60)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", ["sealed", "coop-ucb", "byzantine-ucb"])
def test_of_a_million_messages_of_a_hostile_process_twenty_agents_believe_none(tmp_path: Path, algorithm: str) -> None:
    assert attacked(tmp_path, algorithm, agents=19, around=2, number=20_000, rounds=1000) >= 1_000_000


def attacked(tmp_path: Path, algorithm: str, *, agents: int, around: int, number: int, rounds: int) -> int:
    """Let so many agents play beside a hostile process, each with so many neighbours on either side; what it sent."""
    hostile = agents
    world = World(tmp_path / "operator", range(agents + 1))
    world.publish(replace(world.roster(), signatures=True))
    places = {own: free_address() for own in range(agents + 1)}
    near = {own: {(own + step) % len(places) for step in range(-around, around + 1)} - {own} for own in places}
    served = ("--arms", "0.9,0.2", "--agents", str(agents + 1), "--rounds", str(rounds))
    with ExitStack() as stack:
        environment = stack.enter_context(EnvironmentProcess(*served, *world.flags(None)))
        told = {
            "own": hostile,
            "environment": environment.address,
            "places": {own: places[own] for own in {hostile, *near[hostile]}},
            "keys": str(world.key_file(hostile)),
            "roster": str(world.roster_file),
            "operator": world.fingerprint,
            "run": environment.run.hex(),
            "ids": list(range(agents + 1)),
            "algorithm": algorithm,
            "number": number,
            "rounds": 20 * rounds,
            "equivocates_in": EQUIVOCATES_IN,
            "log": str(tmp_path / "hostile.jsonl"),
        }
        (tmp_path / "hostile.json").write_text(json.dumps(told))
        honest = []
        for own in range(agents):
            words = agent_arguments(
                own,
                places[own],
                environment.address,
                {peer: places[peer] for peer in near[own]},
                gamma=GAMMA,
                algorithm=algorithm,
                round_timeout="20s",
                ready_timeout="120s",
                log_file=tmp_path / f"{own}.jsonl",
            )
            honest.append(stack.enter_context(Attentive(tmp_path / f"{own}.notes", *words, *world.flags(own))))
        attacker = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(HERE / "hostile_process.py"), str(tmp_path / "hostile.json")],
                stdout=stack.enter_context((tmp_path / "hostile.out").open("w")),
                stderr=stack.enter_context((tmp_path / "hostile.err").open("w")),
                env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            )
        )
        stack.callback(attacker.kill)
        for agent in honest:
            assert agent.wait(PATIENCE_S) == 0, agent.errors
    for own in range(agents):
        (done,) = events(tmp_path / f"{own}.jsonl", "done")
        assert done["trial"] == rounds
        if own in near[hostile]:
            assert done["dropped"].get("forged", 0) + done["dropped"].get("unsigned", 0) > 0, "it was attacked"
    told_by_it = [json.loads(line) for line in (tmp_path / "hostile.out").read_text().splitlines()]
    assert told_by_it, (tmp_path / "hostile.err").read_text()
    assert told_by_it[-1]["let in"] == 0, "no door opens to another id, to an unknown key or to none"
    sent = [line["sent"] for line in told_by_it]
    believed, signed = noted(tmp_path, BELIEVED), noted(tmp_path, SIGNED)
    by_itself = {each for each in believed if int.from_bytes(bytes.fromhex(each)[32:34], "little") == hostile}
    assert believed - by_itself <= signed, "nobody else's name was used"
    assert believed & signed
    proofs = list((tmp_path / "operator/keys").glob(f"*.proof-{hostile}.json"))
    assert proofs, sent
    with Process("roster", "judge", str(proofs[0]), "--operator-fingerprint", world.fingerprint) as judge:
        assert judge.wait(120) == 0, judge.errors
        assert judge.output.startswith(f"proved: agent {hostile} has signed two different messages")
    print(f"{algorithm}: {sent[-1]} messages sent in {len(sent)} rounds, {len(believed)} genuine ones verified")
    return sent[-1]
