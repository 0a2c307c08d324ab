"""Measure what pressure costs: `python tests/attacks/measure_pressure.py [--tree DIR] [--json FILE] …`.

One line for each way to press: the mean regret of the honest agents, rounds per second before and during the attack,
how much their memory grew, how they ended, and who was named as what, in logs and in the status of the run.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from pressed_ring import HONEST, Felt, Pressed, press  # noqa: E402 - found only now
from pressures import PRESSURES  # noqa: E402
from ring_under_attack import Tree  # noqa: E402

HEAD = (
    "| algorithm | pressure | from | regret | rounds/s before | during | ratio | settled | grown MB | exits "
    "| named in logs | in status | worst |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)
VARIANTS = {
    "mid": {"begin": 300},
    "start": {"begin": 0},
    "back": {"begin": 300, "returns": True},
    "two": {"begin": 300, "attackers": 2},
    "two-back": {"begin": 300, "attackers": 2, "returns": True},
    "one": {"begin": 300, "reach": 1},
}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing that was started is left behind
    asked = _arguments()
    print(HEAD, flush=True)
    for algorithm in asked.algorithms:
        for row in asked.rows:
            name, _, variant = row.partition("@")
            pressed = Pressed(
                algorithm=algorithm,
                pressure=name,
                rounds=asked.rounds,
                attack_s=asked.attack_s,
                seed=asked.seed,
                stops=asked.stops,
                **VARIANTS[variant or "mid"],
            )
            keep = asked.keep / f"{algorithm}-{row}" if asked.keep else None
            felt = press(pressed, Tree(asked.tree), keep)
            print(_line(pressed, variant or "mid", felt), flush=True)
            if asked.json:
                with asked.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"row": row, "setting": asdict(pressed), "felt": asdict(felt)}) + "\n")


def _arguments() -> argparse.Namespace:
    words = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, help="another checkout, with a .venv of its own  [default: this program]")
    parser.add_argument("--algorithms", type=words, default=["sealed"])
    parser.add_argument("--rows", type=words, default=list(PRESSURES), help="name or name@" + "|".join(VARIANTS))
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--attack-s", type=float, default=12.0)
    parser.add_argument(
        "--stops", action="store_true", help="agents stop when the attack is over, whatever --rounds says"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where logs are left")
    parser.add_argument("--json", type=Path, help="append a line of JSON for each line of the table")
    return parser.parse_args()


def _line(pressed: Pressed, variant: str, felt: Felt) -> str:
    exits = "0" if not any(felt.ring.exits) else " ".join(map(str, felt.ring.exits))
    logs = "; ".join(
        f"{'**' if who < HONEST else ''}{who}{'**' if who < HONEST else ''}: "
        + ", ".join(f"{what} ×{by}" for what, by in whats.items())
        for who, whats in felt.named.items()
    )
    status = "; ".join(
        f"{who}: {', '.join(f'{w} (say {b})' for w, b in why.items())}" for who, why in felt.blamed.items()
    )
    cells = (
        pressed.algorithm,
        pressed.pressure,
        variant,
        f"{felt.ring.mean:.1f}",
        f"{felt.rate_before:.0f}",
        f"{felt.rate_during:.1f}",
        f"{felt.ratio:.3f}",
        f"{felt.settled_ratio:.3f}",
        f"{felt.grown_mb:.0f}",
        exits,
        logs or "–",
        status or "–",
        f"{felt.ring.worst:.0f}",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
