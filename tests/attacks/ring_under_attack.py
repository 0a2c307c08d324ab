"""Six honest agents in a ring, processes of their own, and one attacker beside them, over TCP."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from attacker import Attacker
from forgeries import ATTACKS, CLAIMS_ROUND, LISTENS, Scene, batches
from loopback import free_address

HONEST = 6
ATTACKER = HONEST
PATIENCE_S = 300.0
HERE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Setting:
    """A ring, and who attacks it how."""

    algorithm: str
    attack: str = "none"
    seed: int = 1
    rounds: int = 1500
    means: tuple[float, ...] = (0.9, 0.8, 0.7, 0.5, 0.3)
    gamma: int = 3
    epsilon: float = 1.0
    reach: int = 2
    """How many of the ring, beginning with agent 0, the attacker is a neighbour of."""
    clock: str = "lockstep"
    interval_s: float = 0.002
    attackers: int = 1
    round_timeout_s: float = PATIENCE_S
    """Where nobody is late on purpose: the machine may be busy."""
    ready_timeout_s: float = PATIENCE_S

    @property
    def scene(self) -> Scene:
        praised = int(np.argmin(self.means))
        return Scene(
            self.algorithm,
            len(self.means),
            praised,
            self.gamma,
            tuple(range(HONEST)),
            ATTACKER,
            self.means,
            self.epsilon,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of the honest agents."""

    regret: tuple[float, ...]
    """Of each."""
    dropped: dict[str, int]
    """What all of them refused or lost, by reason."""
    trials: tuple[int, ...]
    exits: tuple[int, ...]
    pulls: str
    """A digest of all that they pulled: in lockstep, with a seed, attacks that are refused change nothing in it."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.regret))

    @property
    def worst(self) -> float:
        return max(self.regret)


class Tree:
    """The program under attack: this one, or another with its own virtual environment."""

    def __init__(self, place: Path | None = None) -> None:
        self._place = place or HERE
        self._python = sys.executable if place is None else str(place / ".venv" / "bin" / "python")

    @cached_property
    def has_terms(self) -> bool:
        """Whether its runs can be closed; 49aef1d knows no terms."""
        return (self._place / "agentd" / "terms_file.py").exists()

    def start(self, *arguments: str, **pipes: Any) -> subprocess.Popen[str]:
        quiet = {"OPENBLAS_NUM_THREADS": "1"}
        return subprocess.Popen(
            [self._python, "-m", "agentd", *arguments],
            cwd=self._place,
            env=os.environ | quiet,
            text=True,
            **({"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | pipes),
        )


def play(setting: Setting, tree: Tree | None = None) -> Outcome:
    """Run the ring to its end under attack."""
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        return _play(setting, tree or Tree(), Path(directory))


def _play(setting: Setting, tree: Tree, directory: Path) -> Outcome:
    addresses = [free_address() for _ in range(HONEST + 1)]
    with ExitStack() as stack:
        environment = stack.enter_context(environment_of(setting, tree, directory))["address"]
        agents = [
            stack.enter_context(process_of(tree, *agent_words(setting, number, addresses, environment, directory)))
            for number in range(HONEST)
        ]
        scene, attack = setting.scene, ATTACKS[setting.attack]
        says = lambda round_: batches(attack(scene, round_), scene.arms)  # noqa: E731
        neighbours = {number: addresses[number] for number in range(setting.reach)}
        claims = CLAIMS_ROUND.get(setting.attack)
        hears = partial(LISTENS[setting.attack], scene) if setting.attack in LISTENS else None
        with Attacker(ATTACKER, addresses[ATTACKER], neighbours, says, hears=hears, claims_round=claims):
            exits = tuple(exit_of(agent) for agent in agents)
    return outcome_of(setting, directory, exits)


def exit_of(agent: subprocess.Popen[str]) -> int:
    _, errors = agent.communicate(timeout=PATIENCE_S)
    if agent.returncode:
        print(errors[-2000:], file=sys.stderr)
    return agent.returncode


@contextmanager
def process_of(tree: Tree, *arguments: str, **pipes: Any) -> Iterator[subprocess.Popen[str]]:
    process = tree.start(*arguments, **pipes)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def environment_of(setting: Setting, tree: Tree, directory: Path) -> Iterator[dict[str, Any]]:
    """What the environment says of itself; at the end it is told to stop and has written its run down."""
    arguments = ["env", "--listen", "tcp://127.0.0.1:0", "--json", "--run-dir", str(directory / "run")]
    arguments += ["--arms", ",".join(map(str, setting.means)), "--seed", str(setting.seed)]
    arguments += ["--agents", str(HONEST + setting.attackers), "--rounds", str(setting.rounds)]
    if tree.has_terms:
        arguments += ["--terms", str(_terms(setting, tree, directory))]
    with process_of(tree, *arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline()) | {"pid": process.pid}
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def _terms(setting: Setting, tree: Tree, directory: Path) -> Path:
    """Terms by which seven agents take part; one of them will not keep to them."""
    place = directory / "terms.json"
    flags = {
        "--agents": HONEST + setting.attackers,
        "--arms": len(setting.means),
        "--algorithm": setting.algorithm,
        "--gamma": setting.gamma,
        "--rounds": setting.rounds,
        "--epsilon": setting.epsilon,
        "--clock": setting.clock,
        **({"--interval": setting.interval_s} if setting.clock == "free" else {}),
        "--out": place,
    }
    with process_of(tree, "terms", "make", *_words(flags)) as process:
        assert exit_of(process) == 0
    return place


def _words(flags: dict[str, object]) -> list[str]:
    return [str(word) for pair in flags.items() for word in pair]


def agent_words(setting: Setting, number: int, addresses: list[str], environment: str, directory: Path) -> list[str]:
    """The command line of an honest agent; every attacker is a neighbour of the first few."""
    attackers = range(HONEST, HONEST + setting.attackers) if number < setting.reach else ()
    neighbours = [(number - 1) % HONEST, (number + 1) % HONEST, *attackers]
    flags = {
        "--id": number,
        "--listen": addresses[number],
        "--environment": environment,
        "--peers": ",".join(f"{peer}={addresses[peer]}" for peer in neighbours),
        "--algorithm": setting.algorithm,
        "--gamma": setting.gamma,
        "--epsilon": setting.epsilon,
        "--seed": setting.seed,
        "--clock": setting.clock,
        "--interval": setting.interval_s,
        "--round-timeout": setting.round_timeout_s,
        "--ready-timeout": setting.ready_timeout_s,
        "--log-file": directory / f"agent-{number}.jsonl",
    }
    return ["agent", *_words(flags)]


def outcome_of(setting: Setting, directory: Path, exits: tuple[int, ...]) -> Outcome:
    """What became of the honest agents, from what the environment and they wrote down."""
    with np.load(directory / "run" / "pulls.npz") as pulls:
        arm = pulls["arm"][:HONEST]
    pulled = arm < len(setting.means)
    gaps = max(setting.means) - np.array([*setting.means, max(setting.means)])
    regret = gaps[np.where(pulled, arm, len(setting.means))].sum(axis=1)
    dropped: Counter[str] = Counter()
    for number in range(HONEST):
        dropped += Counter(_dropped(directory / f"agent-{number}.jsonl"))
    digest = hashlib.sha256(arm.tobytes()).hexdigest()[:16]
    return Outcome(tuple(regret.round(2).tolist()), dict(dropped), tuple(pulled.sum(axis=1).tolist()), exits, digest)


def _dropped(log_file: Path) -> dict[str, int]:
    for line in log_file.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        if said["event"] == "done":
            return dict(said["dropped"])
    return {}
