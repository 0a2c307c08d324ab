"""How much the time of a draw tells: the same rounds with noise drawn after the reward, and while it is under way.

    python tests/shell/measure_draw_timing.py --runs 20000
    python tests/shell/measure_draw_timing.py --cpu        its processor time, where the machine is busy

Each run is the first pull of a private-ucb agent at ε = 1, whose sum of one reward is released at once. The client and
its socket are the daemon's; the environment is a process that pays at once. The clock is the process's own, which is
more than any observer has. What is told per interval: how many microseconds it is longer for each unit of |noise| (in
noise scales), their correlation, and the ε that value and time prove together (95 %, an event chosen on one half of the
runs and tested on the other), where the value alone may prove 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import structlog
import zmq
from numpy.typing import NDArray

from agentd.audit.bound import epsilon_bound
from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Terms
from agentd.shell.environment_client import EnvironmentClient
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Pull, Reward

Clock = Callable[[], int]
Rows = NDArray[np.float64]
INTERVALS = ("PULL to reward", "reward to frame", "PULL to frame")
TRIM = 0.98
"""Of the runs, the fastest: what the machine does besides is nobody's clue."""


class Known(ExactLaplace):
    """Exact noise of which the last draw is known here."""

    last = 0

    def draw(self, arm: int, scale: int) -> int:
        self.last = super().draw(arm, scale)
        return self.last


def pay(address: str) -> None:
    """An environment that answers every pull at once; what it pays is not used."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.bind(address)
        while True:
            who, data = router.recv_multipart()
            request = decode_environment(data)
            assert isinstance(request, Pull)
            router.send_multipart((who, encode_environment(Reward(request.trial, request.arm, 0))))


async def measured(
    client: Any, runs: int, *, late: bool, clock: Clock
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of runs with reward 0 and with reward 1, in turn: |noise| in scales, the released value, the times in µs."""
    rows: tuple[list[Any], list[Any]] = [], []
    noise, terms, knobs = Known(secrets.token_bytes), Terms(1, 1), PolicySettings(arms=1)
    nothing: Callable[[], None] = lambda: None  # noqa: E731
    for number in range(2 * runs):
        agent = Agent(1, make_policy("private-ucb", knobs, 1), terms=terms, noise=noise)
        intent = agent.decide()
        start = clock()
        await client.pull(1, 1, 0, nothing if late else agent.draw)
        paid = clock()
        if late:
            agent.draw()
        turn = agent.advance(number % 2 * UNIT)
        turn.committed()
        turn.outbox()
        end = clock()
        assert intent.release is not None
        value = turn.releases[0].value / UNIT
        times = ((paid - start) / 1e3, (end - paid) / 1e3, (end - start) / 1e3)
        rows[number % 2].append((abs(noise.last) / intent.release.scale, value, *times))
    return np.array(rows[0]), np.array(rows[1])


def slope(times: NDArray[np.float64], noise: NDArray[np.float64]) -> tuple[float, float]:
    """Microseconds per unit of noise, and the correlation, over all but the slowest runs."""
    usual = times <= np.quantile(times, TRIM)
    steep = float(np.polyfit(noise[usual], times[usual], 1)[0])
    return steep, float(np.corrcoef(noise[usual], times[usual])[0, 1])


def proven(none: NDArray[np.float64], full: NDArray[np.float64], column: int) -> float:
    """The ε that value and one interval prove: negative values in a time that is too short for the other reward."""
    half = len(none) // 2

    def events(rows: NDArray[np.float64], steep: float, base: float, below: float) -> int:
        fits = rows[:, column] - steep * np.floor(np.abs(rows[:, 1])) - base < below
        return int(((rows[:, 1] < 0) & fits).sum())

    learn = none[:half][none[:half, 1] < 0]
    learn = learn[learn[:, column] <= np.quantile(learn[:, column], TRIM)]
    steep, base = np.polyfit(np.floor(np.abs(learn[:, 1])), learn[:, column], 1)
    best, chosen = -np.inf, 0.0
    for below in np.linspace(-3, 3, 61):
        hits, false = (events(rows[:half], steep, base, below) for rows in (none, full))
        if (found := epsilon_bound((hits, half), (false, half), 0.05)) > best:
            best, chosen = found, below
    hits, false = (events(rows[half:], steep, base, chosen) for rows in (none, full))
    return epsilon_bound((hits, len(none) - half), (false, len(none) - half), 0.05)


async def run(address: str, runs: int, clock: Clock) -> None:
    context: Any = zmq.Context()
    log = structlog.wrap_logger(structlog.ReturnLogger())
    client = EnvironmentClient(context, address, log, asyncio.Event())
    await client._find(10.0)
    await measured(client, 500, late=True, clock=clock)
    for late in (True, False):
        none, full = await measured(client, runs, late=late, clock=clock)
        print("drawn after the reward" if late else "drawn while it is under way")
        for place, name in enumerate(INTERVALS, start=2):
            steep, together = slope(none[:, place], none[:, 0])
            shown = f"{name:16} {steep:+.3f} µs per unit of |noise|, correlation {together:+.3f}"
            print(f"  {shown}, proves ε ≥ {proven(none, full, place):.2f}; median {np.median(none[:, place]):.0f} µs")
    client.close()
    context.term()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        address = f"ipc://{Path(place) / 'environment'}"
        child = os.fork()
        if not child:
            pay(address)
        try:
            asyncio.run(run(address, given.runs, time.thread_time_ns if given.cpu else time.perf_counter_ns))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
