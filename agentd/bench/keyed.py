"""What keys cost: the same lockstep of real processes with and without them, taken in turns in one run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentd.bench.measured_testbed import WARM_UP, Run, run_testbed
from agentd.bench.repetitions import spread


def bench_keyed(
    agents: int,
    graph_file: Path,
    transport: str,
    *,
    algorithm: str,
    verify_every: int,
    rounds: int,
    repetitions: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Rounds per second with throw-away keys and signatures, as a share of those without, and start-up times.

    Every run with keys lies between two without and is compared with the mean of both: a machine's speed drifts.
    """
    flags = ["--topology", str(graph_file), "--rounds", str(WARM_UP + rounds), "--transport", transport]
    flags += ["--verify-every", str(verify_every)]
    say(f"{agents} agents, {rounds} rounds of {algorithm} over {transport}, without keys and with")
    plain = [_run(flags, algorithm)]
    keyed: list[Run] = []
    for repetition in range(1, repetitions + 1):
        say(f"  {plain[-1].rounds_per_s:.2f} rounds/s; now with keys, {repetition} of {repetitions}")
        keyed.append(_run([*flags, "--keys"], algorithm))
        say(f"  {keyed[-1].rounds_per_s:.2f} rounds/s; now without again")
        plain.append(_run(flags, algorithm))
    beside = list(zip(pairwise(plain), keyed, strict=True))
    return {
        "agents": agents,
        "transport": transport,
        "rounds": rounds,
        "algorithm": algorithm,
        "verify_every": verify_every,
        "rounds_per_s": spread([run.rounds_per_s for run in plain]),
        "keyed_rounds_per_s": spread([run.rounds_per_s for run in keyed]),
        "ratio": spread([2 * run.rounds_per_s / (a.rounds_per_s + b.rounds_per_s) for (a, b), run in beside]),
        "first_round_after_s": spread([run.ready_s for run in plain]),
        "keyed_first_round_after_s": spread([run.ready_s for run in keyed]),
        "start_ratio": spread([2 * run.ready_s / (a.ready_s + b.ready_s) for (a, b), run in beside]),
        "lost_rounds": sum(run.lost for run in (*plain, *keyed)),
    }


def _run(flags: list[str], algorithm: str) -> Run:
    return run_testbed(flags, lambda _: None, algorithm=algorithm)
