"""The parts that worlds are made of: time, lines and disks of memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentd.check.scene.fibers import Fiber, Killed, Timeline
from agentd.check.scene.simulated_disk import SimulatedDisk
from agentd.check.seeds import play_once
from agentd.check.world import Fault, World


def ran(*bodies: Callable[[Timeline, list[Fiber], list[str]], None]) -> tuple[list[str], Timeline]:
    """What processes say, each of which finds the fibers of all in a list."""
    timeline, said, fibers = Timeline(), list[str](), list[Fiber]()
    for body in bodies:
        fibers.append(timeline.begin(lambda body=body: body(timeline, fibers, said)))  # type: ignore[misc]
    timeline.run()
    return said, timeline


def test_processes_take_turns_by_the_clock_of_the_world() -> None:
    def slow(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        for _ in range(2):
            fibers[0].wait(timeline.now_s + 3.0)
            said.append(f"slow {timeline.now_s:g}")

    def fast(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        for _ in range(4):
            fibers[1].wait(timeline.now_s + 2.0)
            said.append(f"fast {timeline.now_s:g}")

    said, timeline = ran(slow, fast)
    assert said == ["fast 2", "slow 3", "fast 4", "slow 6", "fast 6", "fast 8"]
    assert timeline.now_s == 8.0


def test_who_is_poked_looks_again_and_goes_on_before_its_time() -> None:
    came: list[int] = []

    def waits(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        fibers[0].wait(100.0, lambda: bool(came))
        said.append(f"{timeline.now_s:g}")

    def pokes(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        fibers[1].wait(1.0)
        fibers[0].poke()
        fibers[1].wait(2.0)
        came.append(1)
        fibers[0].poke()

    assert ran(waits, pokes)[0] == ["2"]


def test_who_is_paused_goes_on_late_and_who_is_killed_never() -> None:
    def paused(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        fibers[0].wait(1.0)
        said.append(f"paused {timeline.now_s:g}")

    def killed(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        try:
            fibers[1].wait(5.0)
            said.append("never")
        except Killed:
            said.append(f"killed {timeline.now_s:g}")
            raise

    def does_it(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        fibers[0].paused_until_s = 4.0
        fibers[2].wait(3.0)
        fibers[1].kill()

    assert ran(paused, killed, does_it)[0] == ["killed 3", "paused 4"]


def test_what_fails_in_one_process_ends_the_world() -> None:
    def fails(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        fibers[0].wait(1.0)
        raise ZeroDivisionError

    def waits(timeline: Timeline, fibers: list[Fiber], said: list[str]) -> None:
        fibers[1].wait(9.0)
        said.append("never")

    with pytest.raises(ZeroDivisionError):
        ran(fails, waits)


def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(1))


def test_what_is_synced_survives_the_machine_and_the_rest_perhaps() -> None:
    kept = disk()
    kept.write(0, b"synced")
    kept.sync()
    kept.write(0, b"lost??")
    assert kept.read() == b"lost??", "the process itself sees what it wrote"
    contents = set()
    for seed in range(40):
        kept._chance, kept._written, kept._pending = random.Random(seed), bytearray(b"lost??"), [(0, b"lost??")]
        kept.lose_power()
        contents.add(kept.read())
    assert b"synced" in contents
    assert len(contents) > 3, "any part may be there"
    assert all(len(each) == 6 for each in contents)


def test_an_older_copy_takes_the_place_of_all() -> None:
    kept = disk()
    for content in (b"1", b"2", b"3"):
        kept.write(0, content)
        kept.sync()
    kept.restore(1)
    assert kept.read() == kept.synced == b"2"


def test_a_full_disk_refuses() -> None:
    kept = disk()
    kept.is_full = True
    with pytest.raises(OSError, match="no space"):
        kept.write(0, b"1")


RING = World(
    seed=5,
    agents=4,
    edges=((0, 1), (1, 2), (2, 3), (0, 3)),
    algorithms=("sealed",) * 4,
    gamma=2,
    rounds=30,
    means=(0.3, 0.7),
    states=(0, 1, 2, 3),
)


@pytest.mark.parametrize(
    "kind", ["full-disk", "environment-disk", "environment-pause", "pause", "cut", "stop", "stall"]
)
def test_everybody_comes_to_the_end_after_a_fault_of_each_kind(kind: str) -> None:
    side = () if kind.startswith("environment") else (1,)
    assert play_once(replace(RING, faults=(Fault(kind, 0.1, 1.0, side),))) is None


def test_who_does_not_come_to_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is gone, and that nobody starts again."""
    monkeypatch.setattr("agentd.check.scene.stage.Stage.come_back", lambda *_: None)
    violation = play_once(replace(RING, faults=(Fault("crash", 0.1, 0.1, (2,), how="anywhere/kept"),)))
    assert violation is not None
    assert violation.invariant == "progress after healing"
    assert violation.what.startswith("agent 2: is at trial")
    assert any("is gone, its state: kept" in line for line in violation.story)
