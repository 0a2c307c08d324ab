"""A configuration that travels: its rows as JSON, and the checks before they are believed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from agentd import plugins
from agentd.cluster.errand import Errand
from agentd.sweeps.combinations import Configuration
from agentd.sweeps.measuring import COLUMNS, SETTINGS, Row, measure
from agentd.untrusted import decode_json

Task = tuple[Configuration, int]
Done = tuple[Configuration, list[Row]]

_LONGEST_ROW = 8192
_MOST = 1 << 63


def work(task: Task) -> Done:
    """One configuration, in a worker."""
    plugins.load()  # another process knows none of them yet
    configuration, repetitions = task
    return configuration, measure(configuration, repetitions)


def pack(done: Done) -> bytes:
    """The rows as they are kept on disk, too."""
    return json.dumps(done[1]).encode()


def unpack(task: Task, content: bytes) -> Done:
    """The rows of this configuration; ValueError where no run of it can have come to that."""
    configuration, repetitions = task
    if len(content) > _LONGEST_ROW * (1 + repetitions):
        raise ValueError(f"{len(content)} bytes for {repetitions} rows")
    rows = decode_json(content)
    if not isinstance(rows, list) or len(rows) != repetitions:
        raise ValueError(f"not {repetitions} rows")
    told = configuration.settings.to_json()
    settings = json.loads(json.dumps({name: told[name] for name in SETTINGS}))
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(COLUMNS):
            raise ValueError("a row with other columns")
        seed = configuration.repetition(number).seed
        known = settings | {"repetition": number, "seed": seed}
        if wrong := next((name for name, value in known.items() if not _same(row[name], value)), None):
            raise ValueError(f"a row with another {wrong}")
        checks = _checks(configuration.settings.agents, configuration.settings.rounds)
        if wrong := next((name for name, sound in checks.items() if not sound(row[name])), None):
            raise ValueError(f"{wrong} out of range")
    return configuration, rows


def _same(told: object, known: object) -> bool:
    return type(told) is type(known) and told == known


def _checks(agents: int, rounds: int) -> Mapping[str, Callable[[Any], bool]]:
    """What each figure of a row can be."""
    some, count = _number(math.inf), _whole(_MOST)
    return {
        "gamma_hops": _whole(_MOST),
        "diameter": _whole(agents),
        "group_regret": _number(agents * rounds),
        "regret_per_agent": _number(rounds),
        "best_arm_share": _number(1.0),
        "messages": count,
        "bytes": _or_none(count),
        "composed_epsilon": _or_none(some),
        "alone_per_agent": _or_none(_number(rounds)),
        "lower_bound_per_agent": _or_none(some),
    }


def _number(most: float) -> Callable[[Any], bool]:
    least_over = min(most + 1e-6, 2.0**1000)  # also of what JSON can write and no double can hold
    return lambda value: type(value) in (int, float) and 0 <= value <= least_over


def _whole(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value < most


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


MEASURE = Errand(work, pack, unpack)
"""What a worker does for `agentd sweep`."""
