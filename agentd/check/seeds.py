"""Many seeds, in several processes, and what their worlds contained."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agentd.check.drawing import draw
from agentd.check.oracle.violation import Violation
from agentd.check.planted_bugs import planted
from agentd.check.scene.stage import play
from agentd.check.world import World
from agentd.interrupts import start_deaf

BLOCK = 10
"""Seeds that a process plays at once."""


class Verdict(NamedTuple):
    """How the world of one seed went."""

    seed: int
    contents: tuple[str, ...]
    """What there was in it."""
    invariant: str = ""
    """Which one does not hold; empty: all do."""
    what: str = ""


def ram() -> str | None:
    """A directory whose files are in memory, where there is one: the journals of the environment are real files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def play_once(world: World) -> Violation | None:
    """Play a world in a place of its own."""
    with tempfile.TemporaryDirectory(prefix="agentd-check-", dir=ram()) as place:
        return play(world, Path(place))


def contents(world: World) -> tuple[str, ...]:
    """What there is in a world, each once."""
    found: Counter[str] = Counter(fault.kind for fault in world.faults)
    found.update(world.algorithms)
    for fault in world.faults:
        if fault.kind == "crash":
            edge, _, left = fault.how.partition("/")
            found.update([f"death {edge}", f"state {left} in a crash"])
    found.update(f"attack {attack}" for _, attack in world.hostile)
    found.update(f"lie {attack}" for _, attack, _ in world.liars)
    found.update({f"{world.clock} clock": 1, "nothing at all": world.is_calm, "liars": len(world.liars)})
    found.update({"clock skew": len(world.skews), "budget": world.budget is not None, "states": len(world.states)})
    found.update({"shared processes": any(len(host) > 1 for host in world.hosts)})
    found.update({"hostile neighbours": len(world.hostile), "short memory": world.window < world.rounds})
    return tuple(sorted(name for name, count in found.items() if count))


def judge(seeds: Sequence[int], bug: str | None = None) -> list[Verdict]:
    """Play the worlds of some seeds one after the other."""
    verdicts = []
    with planted(bug):
        for seed in seeds:
            world = draw(seed)
            violation = play_once(world)
            wrong = ("", "") if violation is None else (violation.invariant, str(violation))
            verdicts.append(Verdict(seed, contents(world), *wrong))
    return verdicts


def judge_all(first: int, number: int, jobs: int, bug: str | None = None) -> Iterator[Verdict]:
    """The verdicts on so many seeds, as they come."""
    blocks = [range(start, min(start + BLOCK, first + number)) for start in range(first, first + number, BLOCK)]
    if jobs == 1:
        for block in blocks:
            yield from judge(block, bug)
        return
    with _pool(jobs) as pool:
        for done in as_completed([pool.submit(judge, block, bug) for block in blocks]):
            yield from done.result()


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("forkserver"), initializer=_die_with_parent)
    try:
        start_deaf(pool)
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _die_with_parent() -> None:
    """In every worker, which would wait for work for ever."""
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
