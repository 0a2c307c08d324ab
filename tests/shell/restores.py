"""Start agents from copies of their state that are one round old, again and again; count what must never happen.

    python tests/shell/restores.py --times 1000 --algorithm sealed

Each life is a process with the real agent, loop, journal and files, as in `crash_points`. At one edge of every round it
copies its state directory; then it dies at another edge. The copy from that round or from the round before takes the
place of the state, and the next life starts from it. The world outside forgets nothing of what was pulled and sent.

Which rewards a release holds is followed beside the agent, in a file that is copied and restored with the state, and
held against the sums in the state at every start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from crash_points import ARMS, DeadlyJournal, Environment, Wire, World, welcome

from agentd.core.agent import Agent, Turn
from agentd.core.assembly import assemble
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings
from agentd.core.policy.base import Intent
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.drive import Reporter, drive_free
from agentd.shell.state.keeper import StateKeeper, require_up_to_date, state_identity
from agentd.shell.state.reader import read_state

BEFORE_THE_PULL = ("before the intent", "within the intent", "after the intent")
UNDER_WAY = ("after the pull", "within the commit")
COMMITTED = ("after the disk has it", "after the commit", "after the send")
EDGES = (*BEFORE_THE_PULL, *UNDER_WAY, *COMMITTED)
"""Of a round, in this order."""
FAULTS = ("makes the round again", "keeps the batch")
TAKEN = "taken"
"""Beside the state: which trials are in it, one line [trial, arm, 1 if the batch closes] each."""
LIVES_OF_ONE = {"sealed": 10}
"""Batches of sealed double; to see many close, agents begin anew now and then."""


def is_one_old(copy_edge: str, lag: int, death_edge: str) -> bool:
    """Whether a copy is at most one trial behind what the environment will have counted, and was made before."""
    if lag == 0:
        return EDGES.index(copy_edge) <= EDGES.index(death_edge)
    return copy_edge in COMMITTED or death_edge in BEFORE_THE_PULL


PLANS = [
    (copy_edge, lag, death_edge)
    for copy_edge in EDGES
    for lag in (0, 1)
    for death_edge in EDGES
    if is_one_old(copy_edge, lag, death_edge)
]


class Snapper:
    """Copies the state at one edge of each round, and ends the process at another edge of a round that releases."""

    def __init__(self, place: Path, plan: tuple[str, int, str], rounds: int, *, releasing: bool) -> None:
        self._place, (self._copy_edge, self._lag, self._death_edge) = place, plan
        self._rounds, self._releasing = rounds, releasing
        self.trial = 0
        self.releases = False
        self.armed = True

    def at(self, edge: str) -> None:
        if edge == "before the intent":
            self.trial += 1
            self._rounds -= 1
        if edge == self._copy_edge:
            copy = self._place / f"copy-{self.trial}"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self._place / "state", copy)
            shutil.rmtree(self._place / f"copy-{self.trial - 2}", ignore_errors=True)
        wanted = self._place / f"copy-{self.trial - self._lag}"
        if edge == self._death_edge and self._rounds < 0 and self.releases >= self._releasing and wanted.exists():
            wanted.rename(self._place / "copy")
            os.kill(os.getpid(), signal.SIGKILL)


class WatchedEnvironment(Environment):
    """Pulls that nobody may ask for twice."""

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:
        if trial in self.arm_of:
            self._world.note("asked again", trial)
        return await super().pull(agent, trial, arm, sent)


def reward_of(trial: int, arm: int) -> int:
    return (trial * 7919 + arm * 104_729) % (UNIT + 1)


class Followed:
    """Which trials are in the sums of an agent."""

    def __init__(self, world: World, algorithm: str) -> None:
        self._world, self._closes = world, algorithm == "sealed"
        self._path = world.place / "state" / TAKEN
        self._known = {tuple(line[:5]) for line in world.noted("released")}
        self.inside: dict[int, list[int]] = {arm: [] for arm in range(ARMS)}

    def begin(self, agent: Agent, saved: SavedState | None) -> None:
        """Find out what is in the sums that an agent begins with, and hold it against them."""
        lines = [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []
        kept = [line for line in lines if saved is not None and line[0] <= saved.trial]
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
        values = {} if saved is None else {(r.arm, r.trial): (r, value) for r, value in saved.releases}
        for trial, arm, closes in kept:
            if trial > 0:
                self.inside[arm].append(trial)
            release, value = values.get((arm, trial), (None, None))
            if release is not None and value is not None:
                self._released(release, value)
            if closes:
                self.inside[arm] = []
        state = agent.turn.state
        for arm, total in enumerate(state["open_sums" if self._closes else "sums"]):
            if self._closes and not state["open_pulls"][arm] and self.inside[arm]:
                self._note(-agent.trial, arm, True)  # thrown away
                self.inside[arm] = []
            if total != sum(reward_of(trial, arm) for trial in self.inside[arm]):
                self._world.note("not what is in the sums", agent.trial, arm)

    def take(self, turn: Turn, arm: int) -> None:
        """Before the commit."""
        self._note(turn.trial, arm, self._closes and bool(turn.releases))

    def committed(self, turn: Turn, arm: int) -> None:
        """After it: what was released may leave."""
        self.inside[arm].append(turn.trial)
        for release, value in turn.releases:
            self._released(release, value)
        if self._closes and turn.releases:
            self.inside[arm] = []

    def _released(self, release: Any, value: int) -> None:
        line = (release.arm, release.trial, release.pulls, release.scale, value)
        if line not in self._known:
            self._known.add(line)
            self._world.note("released", *line, *self.inside[release.arm])

    def _note(self, trial: int, arm: int, closes: bool) -> None:
        with self._path.open("a") as file:
            file.write(f"{json.dumps([trial, arm, int(closes)])}\n")


class WatchedKeeper(StateKeeper):
    """Tells the snapper which rounds release, and follows what is in the sums."""

    snapper: Snapper
    followed: Followed
    _arm = 0

    def choose(self, agent: Agent) -> Intent:
        intent = super().choose(agent)
        self._arm, self.snapper.releases = intent.arm, intent.release is not None
        return intent

    def commit(self, turn: Turn) -> None:
        self.followed.take(turn, self._arm)
        super().commit(turn)
        self.followed.committed(turn, self._arm)


def live(world: World, algorithm: str, snapper: Snapper, fault: str | None) -> None:
    """One life: take up the state, go on, die where the plan says."""
    settings = AgentSettings(
        id=1,
        listen="tcp://127.0.0.1:1",
        environment="tcp://127.0.0.1:2",
        algorithm=algorithm,
        state=str(world.place / "state"),
    )
    journal = DeadlyJournal.open(world.place / "state", state_identity(settings))
    environment: Any = WatchedEnvironment(world, snapper)  # type: ignore[arg-type]
    saved, counted, life = journal.saved, len(environment.arm_of), None
    if saved is not None:
        require_up_to_date(saved, counted, str(world.place))
        if fault == FAULTS[0]:
            counted = saved.trial
        if saved.in_doubt(counted):
            world.note("in doubt", counted, -1 if saved.intended_arm is None else saved.intended_arm)
            life = counted
    agent = assemble(
        *(1, algorithm, PolicySettings(arms=ARMS, epsilon=settings.epsilon), Terms(ARMS, 2)),
        noise=ExactLaplace(os.urandom),
        coins=KeyedCoins(5, 1),
        incarnation=life,
        trial=counted,
        saved=saved if fault != FAULTS[1] else without_doubt(saved, counted),
    )
    log = structlog.get_logger()
    keeper = WatchedKeeper(settings, journal, log)
    keeper.snapper, keeper.followed, snapper.trial = snapper, Followed(world, algorithm), agent.trial
    keeper.join(agent, welcome(counted, agent.incarnation))
    keeper.followed.begin(agent, journal.saved)
    journal.reaper = snapper  # type: ignore[assignment]
    drive = drive_free(
        agent,
        Wire(world, snapper),  # type: ignore[arg-type]
        environment,
        rounds=1 << 20,
        interval_s=1e-6,
        stop=asyncio.Event(),
        reporter=Reporter(lambda: None, log),
        keeper=keeper,
    )
    asyncio.run(drive)


def without_doubt(saved: SavedState | None, counted: int) -> SavedState | None:
    """A fault: the lost trial is skipped, and that is all."""
    return saved if saved is None else replace(saved, trial=counted, intent=None)


def run(times: int, algorithm: str, place: Path, *, seed: int = 1, fault: str | None = None) -> dict[str, Any]:
    """As many restores; how often something happened that must not."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    chance, found = random.Random(seed), Counter[str]()
    lives = LIVES_OF_ONE.get(algorithm, 100)
    for first in range(0, times, lives):
        world = World(place / str(first))
        world.place.mkdir()
        for _ in range(min(lives, times - first)):
            plan = chance.choice(PLANS)
            snapper = Snapper(world.place, plan, plan[1] + chance.randrange(3), releasing=chance.random() < 0.7)
            found["deaths that were not planned"] += _dies(world, algorithm, snapper, fault)
            found["ledger below what was released"] += _is_below(world)
            if (world.place / "copy").exists():
                shutil.rmtree(world.place / "state")
                (world.place / "copy").rename(world.place / "state")
            for stale in world.place.glob("copy-*"):
                shutil.rmtree(stale)
            found["restores"] += 1
            found["restores between rounds"] += plan[0] in ("before the intent", "after the send")
        found.update(_tallies(world, algorithm))
    return {"algorithm": algorithm, **found}


def _dies(world: World, algorithm: str, snapper: Snapper, fault: str | None) -> bool:
    """One life; whether it ended otherwise than planned."""
    child = os.fork()
    if not child:
        try:
            live(world, algorithm, snapper, fault)
        except BaseException as failure:
            print(repr(failure), file=sys.stderr)
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL


def _is_below(world: World) -> bool:
    """Whether the state that was there at the death lacks a release that anybody may have heard of."""
    charged = Counter((r.arm, r.trial, r.pulls, r.scale) for r, _ in read_state(world.place / "state").releases)
    released = Counter(tuple(line[:4]) for line in world.noted("released"))
    return any(charged[release] < count for release, count in released.items())


def _tallies(world: World, algorithm: str) -> dict[str, int]:
    bodies: dict[int, set[tuple[int, ...]]] = {}
    for incarnation, trial, *body in world.noted("sent"):
        bodies.setdefault(trial, set()).add((incarnation, *body))
    released = [(arm, frozenset(inside)) for arm, _, _, _, _, *inside in world.noted("released")]
    if algorithm == "sealed":  # a reward is in one release
        noised = Counter((arm, trial) for arm, inside in released for trial in inside)
    else:  # sums run on, and each is released once
        noised = Counter(released)
    return {
        "trials": len(dict(world.noted("pulled"))),
        "releases": len(released),
        "in doubt": len(world.noted("in doubt")),
        "in doubt about all arms": sum(arm < 0 for _, arm in world.noted("in doubt")),
        "noised twice": sum(count > 1 for count in noised.values()),
        "trial numbers reused": sum(len(each) > 1 for each in bodies.values()),
        "pulls asked for again": len(world.noted("asked again")),
        "not what is in the sums": len(world.noted("not what is in the sums")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1000, help="restores")
    parser.add_argument("--algorithm", default="private-ucb")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=FAULTS, help="make the agent wrong, to see it caught")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(run(given.times, given.algorithm, Path(place), seed=given.seed, fault=given.fault)))


if __name__ == "__main__":
    main()
