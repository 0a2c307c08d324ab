"""A packet capture of a run with keys holds no reward, no body and no number of an origin; without keys it does."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from keyed_world import World
from loopback import free_address
from tapped_loopback import Tap

from agentd.wire.codec import encode_environment
from agentd.wire.environment_messages import Reward

pytestmark = pytest.mark.system

ROUNDS, GAMMA, PATIENCE_S = 40, 2, 240.0
NEIGHBOURS = {0: [1], 1: [0, 2], 2: [1]}


def port_of(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def tapped_run(place: Path, world: World | None) -> tuple[Tap, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Three agents in a row tell each other every sample; what was seen of it, and their arms and rewards."""
    places = {own: free_address() for own in NEIGHBOURS}
    served = ("--arms", "0.9,0.2", "--reward", "uniform", "--agents", "3", "--rounds", str(ROUNDS), "--until-done")
    with ExitStack() as stack:
        environment = stack.enter_context(
            EnvironmentProcess(*served, "--run-dir", str(place), *(world.flags(None) if world else []))
        )
        try:
            tap = stack.enter_context(Tap(map(port_of, (environment.address, *places.values()))))
        except PermissionError:
            pytest.skip("raw sockets are for root")
        agents = []
        for own, peers in NEIGHBOURS.items():
            words = agent_arguments(
                own,
                places[own],
                environment.address,
                {peer: places[peer] for peer in peers},
                gamma=GAMMA,
                algorithm="byzantine-ucb",
                round_timeout="60s",
            )
            agents.append(stack.enter_context(Process(*words, *(world.flags(own) if world else []))))
        for agent in agents:
            assert agent.wait(PATIENCE_S) == 0, agent.errors
        assert environment.wait(PATIENCE_S) == 0, environment.errors
    with np.load(place / "pulls.npz") as file:
        return tap, file["arm"], file["reward"]


def told(arm: np.ndarray, reward: np.ndarray) -> dict[str, list[bytes]]:  # type: ignore[type-arg]
    """All that the run's secrets look like on the wire, as PROTOCOL.md has it."""
    every = [
        (own, trial + 1, int(arm[own, trial]), int(reward[own, trial])) for own in NEIGHBOURS for trial in range(ROUNDS)
    ]
    return {
        "rewards": [encode_environment(Reward(trial, which, paid)) for _, trial, which, paid in every],
        "bodies": [struct.pack("<HI", which, paid) for *_, which, paid in every],
        "origins": [struct.pack("<HQIH", own, 0, trial, GAMMA) for own, trial, *_ in every],
        "topics": [b"frame/", *(f"sync/{own}/".encode() for own in NEIGHBOURS)],
    }


@pytest.mark.parametrize("keyed", [True, False], ids=["with keys", "without keys"])
def test_whoever_taps_the_line_reads_everything_without_keys_and_nothing_with_them(keyed: bool, tmp_path: Path) -> None:
    world = World(tmp_path / "operator", NEIGHBOURS) if keyed else None
    if world is not None:
        world.publish(replace(world.roster(), signatures=True))
    tap, arm, reward = tapped_run(tmp_path / "run", world)
    assert sum(map(len, tap.streams)) > ROUNDS * 3 * 100, "all of it was seen"
    seen = {name: sum(map(tap.holds, wanted)) for name, wanted in told(arm, reward).items()}
    there = {name: len(wanted) for name, wanted in told(arm, reward).items()}
    assert seen == (dict.fromkeys(there, 0) if keyed else there)
