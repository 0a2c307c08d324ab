"""Kill an agent at every edge between draw, commit and send, again and again; count what must never happen.

    python tests/shell/crash_points.py --times 100 --algorithm private-ucb

The agent, the loop that drives it and its journal are the real ones, each life in a process of its own that ends by
SIGKILL. The environment and the wire are files that survive it: what was pulled, what was drawn, what was sent.

What a death loses: between the pull and the end of the commit (four of the ten edges) the round, which is given up,
with what its batch held; its possible release is charged. At the other edges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import structlog

from agentd.core.agent import Turn
from agentd.core.assembly import assemble
from agentd.core.grid import UNIT
from agentd.core.message import Batch
from agentd.core.policy import PolicySettings
from agentd.core.policy.coins import KeyedCoins
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.settings import AgentSettings
from agentd.shell.drive import Reporter, drive_free
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import StateKeeper, require_up_to_date, state_identity
from agentd.shell.state.reader import read_state
from agentd.wire.environment_messages import Welcome

EDGES = (
    "before the intent",
    "within the intent",
    "after the intent",
    "after the pull",
    "before the draw",
    "after the draw",
    "within the commit",
    "after the disk has it",
    "after the commit",
    "after the send",
)
LOSING = ("after the pull", "before the draw", "after the draw", "within the commit")
"""Edges at which the environment has counted a pull that is not in the state."""
ARMS = 3


class World:
    """Files in which the environment and the wire remember, whoever dies."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def note(self, what: str, *numbers: int) -> None:
        file = os.open(self.place / what, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, (json.dumps(numbers) + "\n").encode())
        os.close(file)

    def noted(self, what: str) -> list[list[int]]:
        path = self.place / what
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Reaper:
    """Ends this process when an edge was passed often enough."""

    def __init__(self, edge: str, passes: int) -> None:
        self._edge, self._left = edge, passes
        self.armed = True

    def at(self, edge: str) -> None:
        if edge == self._edge and self.armed:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


class DeadlyJournal(StateJournal):
    """The journal, with a death at its edges, also in the middle of what it writes."""

    reaper = Reaper("nowhere", 1)  # joining is no edge of a round
    releases_only = False
    """Whether only rounds that release have edges at and after their commit: most rounds of sealed do not."""

    def intend(self, trial: int, arm: int) -> None:
        self.reaper.armed = True
        self.reaper.at("before the intent")
        self._storage.write(self._found.layout.intent, bytes(5))
        self.reaper.at("within the intent")
        super().intend(trial, arm)
        self.reaper.at("after the intent")

    def commit(self, turn: Turn) -> None:
        self.reaper.armed = bool(turn.releases) or not self.releases_only
        super().commit(turn)
        self.reaper.at("after the commit")

    def _write_slot(self, number: int, packed: bytes) -> None:
        super()._write_slot(number, packed[: len(packed) // 2])
        self.reaper.at("within the commit" if number == self._slot.sequence else "after the disk has it")
        super()._write_slot(number, packed)


class DeadlyNoise(ExactLaplace):
    """Exact noise that tells the world of each draw."""

    def __init__(self, world: World, reaper: Reaper) -> None:
        super().__init__(secrets.token_bytes)
        self._world, self._reaper, self.live = world, reaper, False

    def draw(self, arm: int, scale: int) -> int:
        if not self.live:  # catching up with releases of the past, which only a seeded source needs
            return 0
        self._reaper.at("before the draw")
        drawn = super().draw(arm, scale)
        self._world.note("drawn", arm, scale, drawn)
        self._reaper.at("after the draw")
        return drawn


class Environment:
    """Idempotent pulls: the same (trial, arm) pays the same; another arm for a trial is an error."""

    def __init__(self, world: World, reaper: Reaper) -> None:
        self._world, self._reaper = world, reaper
        self.arm_of = dict[int, int](world.noted("pulled"))

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:
        if self.arm_of.setdefault(trial, arm) != arm or trial > len(self.arm_of):
            self._world.note("refused", trial, arm)
        self._world.note("pulled", trial, arm)
        self._reaper.at("after the pull")
        sent()
        return (trial * 7919 + arm * 104_729) % (UNIT + 1)


class Wire:
    """Publishes into a file."""

    def __init__(self, world: World, reaper: Reaper) -> None:
        self._world, self._reaper = world, reaper

    def drain(self, _interval_s: float = 0.0) -> list[Batch]:
        return []

    def now_s(self) -> float:
        return 0.0

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Nobody waits here."""

    def publish(self, round_: int, batches: Iterable[Batch], *, last: bool = False) -> None:
        for batch in batches:
            for message in batch.messages():
                self._world.note("sent", message.incarnation, message.trial, *message.body)
        self._reaper.at("after the send")


def welcome(counted: int, incarnation: int) -> Welcome:
    """What the environment would say."""
    return Welcome(Terms(ARMS, None, run=b"12345678"), 0.0, 1.0, counted + 1, incarnation, 0)


class SendsFirst(StateKeeper):
    """What must not be: the message leaves before it is on disk.

    With it, and where a round that may be lost is simply made again, the faults counted here do happen.
    """

    wire: Wire

    def commit(self, turn: Turn) -> None:
        turn.committed()  # the lie without which nothing could be sent yet
        self.wire.publish(turn.trial, turn.outbox())
        super().commit(turn)


def live(place: Path, algorithm: str, edge: str, passes: int, *, sends_first: bool) -> None:
    """One life: take up the state, go on, die at the edge."""
    world, reaper = World(place), Reaper(edge, passes)
    settings = AgentSettings(
        id=1,
        listen="tcp://127.0.0.1:1",
        environment="tcp://127.0.0.1:2",
        algorithm=algorithm,
        state=str(place / "state"),
    )
    journal = DeadlyJournal.open(place / "state", state_identity(settings))
    environment, noise = Environment(world, reaper), DeadlyNoise(world, reaper)
    counted = len(environment.arm_of)
    saved, life = journal.saved, None
    if saved is not None:
        require_up_to_date(saved, counted, str(place))
        if sends_first:
            counted = saved.trial  # the second fault: a round that was lost would not be made again
        if saved.in_doubt(counted):
            world.note("lost", counted)
            life = counted
    agent = assemble(
        1,
        algorithm,
        PolicySettings(arms=ARMS, epsilon=settings.epsilon),
        Terms(ARMS, 2),
        noise=noise,
        coins=KeyedCoins(5, 1),
        incarnation=life,
        trial=counted,
        saved=saved,
    )
    noise.live = True
    log = structlog.get_logger()
    keeper = (SendsFirst if sends_first else StateKeeper)(settings, journal, log)
    if isinstance(keeper, SendsFirst):
        keeper.wire = Wire(world, reaper)
    keeper.join(agent, welcome(counted, agent.incarnation))
    journal.reaper, journal.releases_only = reaper, algorithm == "sealed"
    drive = drive_free(
        agent,
        Wire(world, reaper),  # type: ignore[arg-type]
        environment,
        rounds=1 << 20,
        interval_s=1e-6,
        stop=asyncio.Event(),
        reporter=Reporter(lambda: None, log),
        keeper=keeper,
    )
    asyncio.run(drive)


def run(times: int, algorithm: str, place: Path, *, sends_first: bool = False) -> dict[str, Any]:
    """As many deaths at every edge; how often something happened that must not.

    The pulls between two releases of sealed double, so there every turn over the edges begins with a new agent.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    found: Counter[str] = Counter()
    turns_of_one = 1 if algorithm == "sealed" else times
    for first in range(0, times, turns_of_one):
        world = World(place / str(first))
        world.place.mkdir()
        for turn in range(first, first + turns_of_one):
            for edge in EDGES:
                passes = 1 if algorithm == "sealed" else 1 + turn % 3
                code = _child(world.place, algorithm, edge, passes, sends_first=sends_first)
                found["deaths"] += 1
                found["other deaths"] += code != -signal.SIGKILL
                found["ledger below what was sent"] += _is_below(world, algorithm)
        found.update(_tallies(world, algorithm))
    return {"algorithm": algorithm, **found}


def _child(place: Path, algorithm: str, edge: str, passes: int, *, sends_first: bool) -> int:
    child = os.fork()
    if not child:
        try:
            live(place, algorithm, edge, passes, sends_first=sends_first)
        except BaseException as fault:
            print(f"{edge}: {fault!r}", file=sys.stderr)
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def releases_in(body: list[int], algorithm: str) -> dict[tuple[int, int], int]:
    """What a message says was released: by arm and pulls (or batches), the noised value."""
    if algorithm == "sealed":
        arm, pulls, batches, _, total = body
        return {(arm, batches): total} if pulls else {}
    return {(arm, at): noised for arm, (_, at, noised) in enumerate(zip(*[iter(body)] * 3, strict=True)) if at}


def _is_below(world: World, algorithm: str) -> bool:
    sent = world.noted("sent")
    if not sent:
        return False
    saved = read_state(world.place / "state")
    if algorithm == "sealed":
        batches = {arm: sum(r.arm == arm and v is not None for r, v in saved.releases) for arm in range(ARMS)}
        newest = [releases_in(body, algorithm) for _, _, *body in sent]
        return any(batches[arm] < number for each in newest for arm, number in each)
    charged = {(r.arm, r.pulls, value) for r, value in saved.releases}
    return any((*key, value) not in charged for key, value in releases_in(sent[-1][2:], algorithm).items())


def _tallies(world: World, algorithm: str) -> dict[str, int]:
    values: dict[tuple[int, int], set[int]] = {}
    bodies: dict[int, set[tuple[int, ...]]] = {}
    for incarnation, trial, *body in world.noted("sent"):
        bodies.setdefault(trial, set()).add((incarnation, *body))
        for key, value in releases_in(body, algorithm).items():
            values.setdefault(key, set()).add(value)
    saved = read_state(world.place / "state")
    return {
        "trials": saved.trial,
        "draws": len(world.noted("drawn")),
        "releases": len(saved.releases),
        "possible releases": sum(value is None for _, value in saved.releases),
        "releases sent": len(values),
        "releases noised twice": sum(len(each) > 1 for each in values.values()),
        "trial numbers reused": sum(len(each) > 1 for each in bodies.values()),
        "trials pulled with two arms": len(world.noted("refused")),
        "rounds lost": len(world.noted("lost")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="deaths at each edge")
    parser.add_argument("--algorithm", default="private-ucb")
    parser.add_argument("--sends-first", action="store_true", help="make the agent wrong, to see it caught")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(run(given.times, given.algorithm, Path(place), sends_first=given.sends_first)))


if __name__ == "__main__":
    main()
