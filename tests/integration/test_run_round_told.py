"""A real environment tells in which round the run is, to those who come back, and after it was killed."""

from __future__ import annotations

import signal
from pathlib import Path

from env_clients import ask, dealers, hello, pull, report, serving
from evidence import until

from agentd.runs.status import read_status
from agentd.wire.environment_messages import Noted, Reward, Welcome

FLAGS = ("--arms", "0.9,0.5", "--agents", "5", "--rounds", "400", "--seed", "7")


def go_on(socket: object, agent: int, first: int, last: int) -> None:
    for trial in range(first, last + 1):
        assert isinstance(ask(socket, pull(agent, trial, 0)), Reward)  # type: ignore[arg-type]


def noted_round(socket: object, agent: int, trial: int, round_: int) -> int:
    noted = ask(socket, report(agent, trial, 0, 0, (), 0, False, round_=round_))  # type: ignore[arg-type]
    assert isinstance(noted, Noted)
    return noted.round


def test_who_comes_back_learns_where_the_others_are_and_a_liar_moves_nothing(tmp_path: Path) -> None:
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address) as [socket]:
        for agent in range(5):
            welcome = ask(socket, hello(agent))
            assert isinstance(welcome, Welcome)
            assert welcome.round == 0
        go_on(socket, 4, 1, 400)
        for agent in (0, 1, 2):
            go_on(socket, agent, 1, 30)
        assert until(lambda: noted_round(socket, 4, 400, 2**30 - 1) == 30), "the liar itself is told the truth"
        for agent in (0, 1, 2):
            noted_round(socket, agent, 30, 130)
        assert until(lambda: noted_round(socket, 0, 30, 130) == 130), "they missed a hundred rounds"
        welcome = ask(socket, hello(3))
        assert isinstance(welcome, Welcome)
        assert (welcome.round, welcome.next_trial) == (130, 1)
        status = until(lambda: (read := read_status(tmp_path)) and read.agents[2].round == 130 and read)
        assert [agent.trial for agent in status.agents] == [30, 30, 30, 0, 400]
        until(lambda: '"round": 130' in (tmp_path / "reports.json").read_text())
        served.end(signal.SIGKILL)
    with serving(*FLAGS, "--run-dir", str(tmp_path)) as served, dealers(served.address) as [socket]:
        for agent in (0, 1, 2):
            go_on(socket, agent, 31, 31)
        assert until(lambda: noted_round(socket, 0, 31, 131) == 131), "what was reported is known after a crash, too"
