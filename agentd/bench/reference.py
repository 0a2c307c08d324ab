"""Work that never changes: what a second of this machine's processor is worth, for figures of another machine.

Half of it interprets Python, half lets numpy look up and add small arrays, as agents and engines do. Changing it makes
every baseline worthless.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

_ENTRIES = 1_000
_LOOKUPS = 120


def reference_units_per_cpu_s(units: int = 200) -> float:
    """How many units a second of processor time does."""
    table = np.arange(_ENTRIES, dtype=np.int64)
    places = (table * 7919) % _ENTRIES
    started = time.process_time()
    for unit in range(units):
        _interpret(unit)
        _look_up(table, places)
    return units / (time.process_time() - started)


def _interpret(unit: int) -> int:
    held: dict[int, int] = {}
    for number in range(_ENTRIES):
        held[number % 97] = held.get(number % 89, unit) + number
    return len(held)


def _look_up(table: NDArray[np.int64], places: NDArray[np.int64]) -> int:
    total = np.zeros_like(table)
    for _ in range(_LOOKUPS):
        total += table.take(places)
    return int(total[0])
