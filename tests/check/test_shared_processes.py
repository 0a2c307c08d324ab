"""Worlds in which agents share processes: the host as it is shipped, on a loop, lines and a clock of memory."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from agentd.check.drawing import draw
from agentd.check.planted_bugs import planted
from agentd.check.scene.shared_process import HostedNode
from agentd.check.scene.stage import Stage
from agentd.check.seeds import play_once, ram
from agentd.check.world import Fault, World

CALM = World(
    seed=5,
    agents=4,
    edges=((0, 1), (1, 2), (2, 3), (0, 3)),
    algorithms=("sealed",) * 4,
    gamma=2,
    rounds=20,
    means=(0.1, 0.9),
    states=(0, 1, 2, 3),
    hosts=((0, 1), (2, 3)),
)


def played(world: World) -> Stage:
    """The stage of a world in which nothing is wrong."""
    with tempfile.TemporaryDirectory(prefix="agentd-check-", dir=ram()) as place:
        stage = Stage(world, Path(place))
        stage.play()
    return stage


def lives(stage: Stage) -> list[int]:
    return [node.lives for node in stage.nodes.values()]


def test_agents_of_shared_processes_come_to_the_end_in_one_life() -> None:
    stage = played(CALM)
    assert all(isinstance(node, HostedNode) and node.is_done for node in stage.nodes.values())
    assert lives(stage) == [1, 1, 1, 1]
    assert stage.wires.ends.keys() == {0, 1}, "lines lead from host to host"


def test_a_process_that_is_killed_takes_all_its_agents_and_they_come_back_with_their_states() -> None:
    stage = played(replace(CALM, faults=(Fault("crash", 0.1, 0.5, (0,), how="anywhere/kept"),)))
    assert lives(stage) == [2, 2, 1, 1]
    assert [node.lineage for node in stage.nodes.values()] == [1, 1, 1, 1]
    assert all(node.is_done for node in stage.nodes.values())


def test_a_process_that_dies_within_the_work_of_one_agent_takes_all_its_agents() -> None:
    stage = played(replace(CALM, faults=(Fault("crash", 0.1, 0.5, (2,), how="before sync/machine"),)))
    assert lives(stage) == [1, 1, 2, 2]


def test_an_agent_that_ends_takes_no_other_of_its_process_down() -> None:
    stage = played(replace(CALM, faults=(Fault("stop", 0.1, 0.5, (0,)),)))
    assert lives(stage) == [2, 1, 1, 1]
    assert not stage.processes[0].is_up, "it ends with the last of them"


def test_a_process_whose_agents_all_stop_ends_and_begins_anew() -> None:
    stage = played(replace(CALM, faults=(Fault("stop", 0.1, 0.5, (0, 1)),)))
    assert lives(stage) == [2, 2, 1, 1]
    assert "hosts" in CALM.to_json()


def test_the_same_world_is_played_the_same_again() -> None:
    world = replace(CALM, faults=(Fault("crash", 0.1, 0.5, (0,), how="anywhere/kept"), Fault("loss", 0, 1, amount=0.3)))
    assert played(world).story.lines == played(world).story.lines


def test_what_is_wrong_in_a_shared_process_ends_the_world_at_once() -> None:
    """A loop keeps to itself what its tasks raise, unless somebody sees to it."""
    with planted("answers-mixed-up"):
        violation = play_once(draw(7))
    assert violation is not None
    assert violation.invariant == "rewards are one's own"


def test_who_shares_a_process_is_drawn_beside_all_else() -> None:
    shared = [world for world in map(draw, range(100)) if world.hosts]
    assert 15 < len(shared) < 45
    for world in shared:
        world.require()
        assert World.from_json(world.to_json()) == world
        assert any(len(host) > 1 for host in world.hosts)


def test_a_world_with_one_agent_less_has_one_less_in_its_process() -> None:
    assert CALM.without(1).hosts == ((0,), (1, 2))
    assert CALM.without(0).without(0).hosts == ((0, 1),)


@pytest.mark.parametrize(
    ("hosts", "why"), [(((0, 1), (2,)), "each of them has one"), (((0, 1), (1, 2, 3)), "each of them has one")]
)
def test_worlds_where_somebody_has_no_process_or_two_are_refused(hosts: tuple[tuple[int, ...], ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace(CALM, hosts=hosts).require()


def test_an_attacker_shares_its_process_with_nobody() -> None:
    with pytest.raises(ValueError, match="with nobody"):
        replace(CALM, hostile=((1, "silent"),)).require()
