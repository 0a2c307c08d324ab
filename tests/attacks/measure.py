"""Measure what attacks cost: `python tests/attacks/measure.py [--tree DIR] [--json FILE] …`.

For each algorithm and attack, the regret per honest agent over some seeds: the mean of the ring, and the worst agent.
The first line of each algorithm is the ring beside a neighbour that says nothing: its spread is what an attack is to
stay within.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from forgeries import ATTACKS  # noqa: E402 - found only now
from ring_under_attack import Outcome, Setting, Tree, play  # noqa: E402

ALGORITHMS = ("private-ucb", "sealed", "byzantine-ucb")
HOLDS_ROUNDS = "fat-frames"
"""Its frames are refused unread, so rounds wait for it as long as the ring has patience: see `measure_pressure.py`."""


def main() -> None:
    asked = _arguments()
    tree = Tree(asked.tree)
    for algorithm in asked.algorithms:
        for attack in asked.attacks:
            outcomes = [play(_setting(asked, algorithm, attack, seed), tree) for seed in range(1, asked.seeds + 1)]
            line = _line(asked, algorithm, attack, outcomes)
            print(_shown(line), flush=True)
            if asked.json:
                with asked.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, help="another checkout, with a .venv of its own  [default: this program]")
    parser.add_argument("--algorithms", type=lambda text: text.split(","), default=list(ALGORITHMS))
    parser.add_argument(
        "--attacks", type=lambda text: text.split(","), default=[name for name in ATTACKS if name != HOLDS_ROUNDS]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--reach", type=int, default=2, help="how many of the six hear the attacker  [default: 2]")
    parser.add_argument("--clock", choices=("lockstep", "free"), default="lockstep")
    parser.add_argument("--json", type=Path, help="append a line of JSON for each line of the table")
    asked = parser.parse_args()
    if unknown := sorted({*asked.attacks} - {*ATTACKS}):
        parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    return asked


def _setting(asked: argparse.Namespace, algorithm: str, attack: str, seed: int) -> Setting:
    return Setting(algorithm, attack, seed, asked.rounds, reach=asked.reach, clock=asked.clock)


def _line(asked: argparse.Namespace, algorithm: str, attack: str, outcomes: list[Outcome]) -> dict[str, Any]:
    dropped = sum((Counter(outcome.dropped) for outcome in outcomes), Counter())
    return {
        "algorithm": algorithm,
        "attack": attack,
        "clock": asked.clock,
        "reach": asked.reach,
        "rounds": asked.rounds,
        "means": [outcome.mean for outcome in outcomes],
        "worst": max(outcome.worst for outcome in outcomes),
        "dropped": dict(dropped),
        "runs": [asdict(outcome) for outcome in outcomes],
    }


def _shown(line: dict[str, Any]) -> str:
    means = line["means"]
    spread = f"{min(means):7.1f} – {max(means):7.1f}"
    dropped = ", ".join(f"{reason} {count}" for reason, count in sorted(line["dropped"].items()))
    where = f"{line['algorithm']:14} {line['clock']:8} {line['reach']} {line['attack']:20}"
    return f"{where} {spread}  worst {line['worst']:7.1f}  {dropped}"


if __name__ == "__main__":
    main()
