"""The verdict of a soak, from samples made by hand: what grows is found, what only begins anew is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agentd.errors import AgentdError
from deploy.soak.findings import Finding, judge
from deploy.soak.samples import Process, Sample

SECONDS = 1800.0


def samples(
    memory: Callable[[float], float] = lambda _s: 40.0,
    descriptors: Callable[[float], int] = lambda _s: 50,
    trial: Callable[[float], int] = lambda s: int(s * 10),
    pid: Callable[[float], int] = lambda _s: 1,
    held: Callable[[float], bool] = lambda _s: False,
) -> list[Sample]:
    """Two agents, looked at every two seconds; the first is as the functions say, the second as it should be."""
    made = []
    for at_s in np.arange(0.0, SECONDS, 2.0).tolist():
        first = Process(pid(at_s), memory(at_s), descriptors(at_s))
        agents = {"agent-0": first, "agent-1": Process(99, 40.0, 50)}
        trials = (trial(at_s), int(at_s * 10))
        made.append(
            Sample(at_s, agents, trials, min(trials), sum(trials), 0, 0.0, frozenset([0] if held(at_s) else []))
        )
    return made


def found(made: list[Sample]) -> dict[str, Finding]:
    return {finding.what: finding for finding in judge(made, 2, SECONDS)}


def test_what_stands_still_passes() -> None:
    assert all(finding.held for finding in found(samples()).values())


def test_a_leak_is_found() -> None:
    leaking = found(samples(memory=lambda s: 40.0 + 3.0 * s / 3600.0))
    assert leaking["memory of an agent grows"].value == pytest.approx(1.5)
    assert not leaking["memory of an agent grows"].held
    assert leaking["memory of the one that grows most"].note == "agent 0"


def test_a_leak_is_found_across_restarts_and_a_restart_is_no_leak() -> None:
    def pid(s: float) -> int:
        return int(s // 600)

    sawtooth = found(samples(memory=lambda s: 40.0 + 3.0 * (s % 600) / 3600.0, pid=pid))
    assert sawtooth["memory of an agent grows"].value == pytest.approx(1.5)
    larger_each_time = found(samples(memory=lambda s: 40.0 + 5.0 * pid(s), pid=pid))
    assert larger_each_time["memory of an agent grows"].value == pytest.approx(0.0, abs=1e-9)


def test_what_libraries_take_at_the_start_of_a_life_is_no_leak() -> None:
    assert found(samples(memory=lambda s: min(40.0, 20.0 + s)))["memory of an agent grows"].held


def test_descriptors_that_pile_up_are_found() -> None:
    piling = found(samples(descriptors=lambda s: 50 + int(s) // 60))
    assert piling["descriptors of the one that grows most"].value > 10


def test_who_makes_no_pull_is_found_unless_somebody_holds_it() -> None:
    def stopped(s: float) -> int:
        return int(min(s, 900.0) * 10)

    assert not found(samples(trial=stopped))["longest time without a pull"].held
    assert found(samples(trial=stopped, held=lambda s: s >= 900.0))["longest time without a pull"].held


def test_too_few_samples_are_no_verdict() -> None:
    with pytest.raises(AgentdError, match="too few"):
        judge(samples()[:3], 2, 6.0)
