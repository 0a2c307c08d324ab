"""A unit of work that travels: its result as plain numbers, and the checks before they are believed.

A parcel is so many doubles, in one order, little-endian: its length follows from the task, so it has no header that
could lie. A worker that computes wrong numbers within these bounds is believed; who may be a worker decides that.
"""

from __future__ import annotations

import math

import numpy as np

from agentd.cluster.errand import Errand
from agentd.experiment.repeated_runs import Unit, measure_unit
from agentd.experiment.result_cache import PER_REPETITION, Floats, UnitResult
from agentd.runs.spec import RunSpec

Task = tuple[Unit, list[RunSpec]]
Done = tuple[Unit, UnitResult]

_MOST = 2.0**53
"""Beyond, doubles are no counts."""
_CLOSE = 1e-9
"""Sums of the same prices in another order differ by so much at most, relatively."""


def pack(done: Done) -> bytes:
    """The numbers of a result."""
    result = done[1]
    columns = [getattr(result, name) for name in PER_REPETITION]
    parts = [np.array([result.seconds]), *columns, result.curve.ravel()]
    return np.concatenate(parts).astype("<f8").tobytes()


def unpack(task: Task, content: bytes) -> Done:
    """The result of this unit; ValueError where no run of it can have come to that."""
    unit, specs = task
    repetitions, rounds = len(specs), specs[0].rounds
    wanted = 8 * (1 + len(PER_REPETITION) * repetitions + repetitions * rounds)
    if len(content) != wanted:
        raise ValueError(f"{len(content)} bytes instead of {wanted}")
    numbers = np.frombuffer(content, dtype="<f8").astype(np.float64)
    columns = numbers[1 : 1 + len(PER_REPETITION) * repetitions].reshape(len(PER_REPETITION), repetitions)
    by_name = dict(zip(PER_REPETITION, columns, strict=True))
    curve = numbers[1 + columns.size :].reshape(repetitions, rounds)
    result = UnitResult(seconds=float(numbers[0]), curve=curve, **by_name)
    if fault := _fault_of(result, specs[0].network.agents, rounds, bytes_too=unit.series.bytes_too):
        raise ValueError(fault)
    return unit, result


def _fault_of(result: UnitResult, agents: int, rounds: int, *, bytes_too: bool) -> str | None:
    curve, most = result.curve, agents * rounds * (1.0 + _CLOSE)
    counted = {"messages": result.messages}
    if bytes_too:
        counted |= {"bytes": result.bytes, "message_bytes": result.message_bytes}
    elif not (np.isnan(result.bytes).all() and np.isnan(result.message_bytes).all()):
        return "bytes that nobody counted"
    sound = {
        "seconds": math.isfinite(result.seconds) and result.seconds >= 0,
        "curve": bool((curve[:, 0] >= 0).all() and (np.diff(curve) >= 0).all() and (curve[:, -1] <= most).all()),
        "final": bool(np.isclose(result.final, curve[:, -1], rtol=_CLOSE, atol=1e-6).all()),
        "honest": _within(result.honest, rounds * (1.0 + _CLOSE)),
        "epsilon": _within(result.epsilon, math.inf),
        "epsilon_at_delta": _within(result.epsilon_at_delta, math.inf),
        "fallbacks": _within(result.fallbacks, 1.0),
        **{name: bool(((of >= 0) & (of < _MOST) & (of == np.floor(of))).all()) for name, of in counted.items()},
    }
    return next((f"{name} out of range" for name, fine in sound.items() if not fine), None)


def _within(values: Floats, most: float) -> bool:
    """Whether each is between nothing and so much, or NaN: there is none."""
    return bool((np.isnan(values) | ((values >= 0) & (values <= most))).all())


MEASURE = Errand(measure_unit, pack, unpack)
"""What a worker does for `agentd experiment`."""
