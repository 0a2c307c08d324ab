"""Measure how long coming back takes: `python tests/system/measure_coming_back.py restart|partition|… [--tries 20] …`.

Prints every time that was measured, from when an agent was to start again (a cut to heal, a process to go on) until
everybody was in step for good.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE), str(HERE.parent)]  # in this order: tests/deploy is not deploy

import docker_shared  # noqa: E402 - found only now
from coming_back import Bed, busy_machine, let_pass, partitioned, paused, restarted  # noqa: E402 - found only now
from evidence import until  # noqa: E402


def main() -> None:
    asked = _arguments()
    flags = ["--agents", str(asked.agents), "--edge-probability", str(asked.edges), "--rounds", "1000000"]
    flags += ["--round-timeout", str(asked.round_timeout), "--algorithm", asked.algorithm, "--gamma", "3"]
    flags += ["--no-state"] if asked.what == "restart-stateless" else []
    flags += asked.flag
    runtime = ["--runtime", "compose", "--image", asked.image] if asked.image else []
    if asked.image:
        docker_shared.share()  # a test that left the swarm meanwhile would cut our containers off
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="back-")))
        os.environ["XDG_STATE_HOME"] = str(home / "state")
        bed = stack.enter_context(Bed(home / "run", *flags, *runtime, listens=not asked.image))
        until(lambda: bed.progress() > 50)
        if asked.busy:
            stack.enter_context(busy_machine(os.cpu_count() or 1, 60.0 * asked.tries))
        times = [_timed(bed, asked, turn) for turn in range(asked.tries)]
        if asked.keep:
            shutil.copytree(bed.place / "logs", asked.keep)
    good = sum(one is not None and one <= asked.limit for one in times)
    shown = [None if one is None else round(one, 2) for one in times]
    print(json.dumps({"what": asked.what, "within_s": asked.limit, "good": good, "of": asked.tries, "times_s": shown}))


def _timed(bed: Bed, asked: argparse.Namespace, turn: int) -> float | None:
    acts: dict[str, Callable[[], float]] = {
        "restart": lambda: restarted(bed, turn % len(bed.peers), asked.gone),
        "restart-stateless": lambda: restarted(bed, turn % len(bed.peers), asked.gone),
        "partition": lambda: partitioned(bed, asked.gone),
        "pause": lambda: paused(bed, f"agent-{turn % len(bed.peers)}", asked.gone),
        "environment": lambda: paused(bed, "environment", asked.gone),
    }
    began_s = time.time()
    try:
        took_s = acts[asked.what]()
    except AssertionError as never:
        print(f"{turn}: {never}", flush=True)
        print({a: w for a in bed.peers if (w := bed.goes_without(a))}, flush=True)
        return None
    let_pass(1.0)
    print(
        f"{turn}: {took_s:.2f} s  since {began_s:.1f}  given up meanwhile: {len(bed.given_up_since(began_s))}",
        flush=True,
    )
    return took_s


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("restart", "restart-stateless", "partition", "pause", "environment"))
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--edges", type=float, default=0.3)
    parser.add_argument("--algorithm", default="sealed")
    parser.add_argument("--round-timeout", type=float, default=5.0)
    parser.add_argument("--gone", type=float, default=3.0, help="seconds that a fault lasts  [default: 3]")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds that are good  [default: 2]")
    parser.add_argument("--busy", action="store_true", help="keep every core busy with something else")
    parser.add_argument("--keep", type=Path, help="where to leave the logs")
    parser.add_argument("--image", help="in containers of this image")
    parser.add_argument("--flag", action="append", default=[], help="one more word for agentd up")
    return parser.parse_args()


if __name__ == "__main__":
    main()
