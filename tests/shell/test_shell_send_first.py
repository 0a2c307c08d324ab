"""Planted mistakes: loops that send a turn before it is on disk fail at once, or do not type-check."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from loopback import RUN
from structlog.typing import FilteringBoundLogger

from agentd.core.agent import Agent, Turn
from agentd.core.assembly import assemble
from agentd.core.grid import UNIT
from agentd.core.message import Batch
from agentd.core.policy import PolicySettings
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.errors import LedgerInDoubt
from agentd.settings import AgentSettings
from agentd.shell.drive import Reporter, drive_free, drive_lockstep
from agentd.shell.state.keeper import StateKeeper
from agentd.shell.state.reader import DATABASE, read_state
from agentd.wire.environment_messages import Welcome

ROOT = Path(__file__).parent.parent.parent
ARMS = 3


class Wire:
    """What a link is to the loops; whatever is published is seen."""

    latest_round = 1 << 20
    runs_away = False

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[Batch]]] = []

    def told(self, run_round: int) -> None:
        """Nobody tells."""

    def next_round(self) -> int:
        return len(self.seen) + 1

    def publish(self, round_: int, batches: Iterable[Batch], *, last: bool = False) -> None:
        self.seen.append((round_, list(batches)))

    def drain(self, _interval_s: float = 0.0) -> list[Batch]:
        return []

    def now_s(self) -> float:
        return 0.0

    async def pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Nobody waits here."""

    async def gather(self, round_timeout_s: float, stop: asyncio.Event) -> list[Batch]:
        return []


class Arms:
    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:
        sent()
        return UNIT


class Forgets(StateKeeper):
    """Keeps nothing, and does not say so."""

    def commit(self, turn: Turn) -> None:
        pass


class SendsFirst(StateKeeper):
    """Sends what it is about to write down."""

    wire: Wire

    def commit(self, turn: Turn) -> None:
        self.wire.publish(turn.trial, turn.outbox())
        super().commit(turn)


def settings(place: Path | None) -> AgentSettings:
    return AgentSettings(
        id=1,
        listen="tcp://127.0.0.1:1",
        environment="tcp://127.0.0.1:2",
        algorithm="private-ucb",
        state=str(place) if place is not None else None,
    )


def new_agent() -> Agent:
    noise = ExactLaplace(secrets.token_bytes)
    return assemble(1, "private-ucb", PolicySettings(arms=ARMS), Terms(ARMS, 2), noise=noise)


def joined(kind: type[StateKeeper], agent: Agent, place: Path | None, log: FilteringBoundLogger) -> Any:
    keeper = kind.open(settings(place), log)
    keeper.join(agent, Welcome(Terms(ARMS, None, run=RUN), 0.0, 1.0, 1, 0, 0))
    return keeper


def drive(clock: str, agent: Agent, wire: Wire, keeper: StateKeeper | None, log: FilteringBoundLogger) -> Any:
    around: Any = {"rounds": 5, "stop": asyncio.Event(), "reporter": Reporter(lambda: None, log), "keeper": keeper}
    link: Any = wire
    if clock == "lockstep":
        return drive_lockstep(agent, link, Arms(), round_timeout_s=1.0, **around)
    return drive_free(agent, link, Arms(), interval_s=1e-6, **around)


@pytest.mark.parametrize("clock", ["lockstep", "free"])
class TestLoops:
    @pytest.mark.parametrize("saved", [True, False])
    async def test_a_loop_that_commits_sends_one_frame_per_trial(
        self, clock: str, saved: bool, tmp_path: Path, log: FilteringBoundLogger
    ) -> None:
        agent, wire = new_agent(), Wire()
        keeper = joined(StateKeeper, agent, tmp_path if saved else None, log)
        await drive(clock, agent, wire, keeper, log)
        keeper.close()
        assert [(round_, len(batches)) for round_, batches in wire.seen] == [(trial, 1) for trial in range(1, 6)]
        assert not saved or read_state(tmp_path).trial == 5

    async def test_without_anybody_who_keeps_state_the_loop_itself_says_that_it_may_be_sent(
        self, clock: str, log: FilteringBoundLogger
    ) -> None:
        wire = Wire()
        await drive(clock, new_agent(), wire, None, log)
        assert len(wire.seen) == 5

    @pytest.mark.parametrize("fault", [Forgets, SendsFirst])
    async def test_a_loop_that_sends_first_fails_before_anything_is_sent(
        self, clock: str, fault: type[StateKeeper], tmp_path: Path, log: FilteringBoundLogger
    ) -> None:
        agent, wire = new_agent(), Wire()
        keeper = joined(fault, agent, tmp_path, log)
        keeper.wire = wire
        with pytest.raises(RuntimeError, match="nothing may be sent after trial 1 before it is committed"):
            await drive(clock, agent, wire, keeper, log)
        keeper.close()
        assert wire.seen == []

    async def test_where_the_disk_refuses_the_commit_the_outbox_stays_closed(
        self, clock: str, tmp_path: Path, log: FilteringBoundLogger
    ) -> None:
        agent, wire = new_agent(), Wire()
        keeper = joined(StateKeeper, agent, tmp_path, log)
        agent.choose()
        turn = agent.advance(UNIT)
        with (tmp_path / DATABASE).open("rb") as file:  # from now on it may only be read
            os.dup2(file.fileno(), keeper._journal._storage._file)
        with pytest.raises(LedgerInDoubt, match="nothing of trial 1 was sent"):
            keeper.commit(turn)
        with pytest.raises(RuntimeError, match="before it is committed"):
            await drive(clock, agent, wire, keeper, log)
        keeper.close()
        assert wire.seen == []


SENDING = """
from agentd.core.agent import Agent, Turn
from agentd.shell.link import Link

def send(agent: Agent, turn: Turn, link: Link) -> None:
    link.publish(turn.trial, {what})
"""


@pytest.mark.system
def test_what_is_known_of_a_turn_before_its_commit_does_not_type_check_as_something_to_send(tmp_path: Path) -> None:
    kinds = ("turn.state", "turn.releases", "turn.message", "turn", "agent.turn", "agent.outbox()", "turn.outbox()")
    files = [tmp_path / f"sends_{number}.py" for number in range(len(kinds))]
    for file, what in zip(files, kinds, strict=True):
        file.write_text(SENDING.format(what=what))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    refused = {what for file, what in zip(files, kinds, strict=True) if f"{file.name}:6: error" in done.stdout}
    assert refused == set(kinds[:-1]), done.stdout + done.stderr
