"""Agents with arms of their own as processes: when their frames leave, and what a restart or an old copy costs."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from statistics import median

import pytest
from devices import BEST, Devices, Ear, copied
from evidence import until
from loopback import free_address

from agentd.core.saved_state import SavedState
from agentd.shell.state.reader import read_state

pytestmark = pytest.mark.system

INTERVAL_S = 0.25


def departures(place: Path, latency_s: float, frames: int = 14) -> list[float]:
    """How long after a tick of the run each of some frames of an agent came, whose arms take so long to pay."""
    place.mkdir()
    address = free_address()
    devices = Devices(place, [address, free_address()], interval_s=INTERVAL_S)
    ear = Ear(address, devices.terms)
    try:
        with devices.start(0, "--ready-timeout", "0.1", latency_s=latency_s, state=False):
            said = [ear.next() for _ in range(frames)]
    finally:
        ear.close()
    rounds = [round_ for round_, _ in said]
    assert rounds == list(range(rounds[0], rounds[0] + frames)), "a frame per trial"
    return [came_s % INTERVAL_S for _, came_s in said]


def test_when_frames_leave_does_not_follow_from_how_long_arms_take(tmp_path: Path) -> None:
    """Two inputs that differ in latencies only, by three fifths of an interval; frames differ by less than a tenth."""
    fast, slow = departures(tmp_path / "fast", 0.0), departures(tmp_path / "slow", 0.6 * INTERVAL_S)
    assert abs(median(fast) - median(slow)) < INTERVAL_S / 10, (fast, slow)
    assert max(median(fast), median(slow)) < INTERVAL_S / 4, "and both leave soon after a tick"


def test_arms_that_take_longer_than_an_interval_pay_with_several_under_way(tmp_path: Path) -> None:
    devices = Devices(tmp_path, [free_address(), free_address()], interval_s=INTERVAL_S)
    flags = ("--ready-timeout", "0.1", "--max-outstanding", "4")
    with devices.start(0, *flags, latency_s=1.6 * INTERVAL_S, state=False) as agent:
        until(lambda: len(devices.pulls(0)) >= 24)
        agent.terminate()
        assert agent.wait() == 0, agent.errors
    pulls = devices.pulls(0)
    assert max(Counter(trial for _, trial in pulls).values()) == 1
    counted = devices.log(0, "pulls that counted as the lower bound")
    assert sum(each.get("late", 0) + each.get("busy", 0) for each in counted) < len(pulls) / 2, counted


def lives(devices: Devices, own: int) -> list[int]:
    """The last trial before each life of an agent began."""
    return [entry["trial"] for entry in devices.log(own, "joined")]


def require_own_rewards(devices: Devices, own: int, states: list[SavedState]) -> None:
    """What was released in a life holds no more of an arm than was pulled in that life; no trial was pulled twice."""
    pulls = devices.pulls(own)
    assert max(Counter(trial for _, trial in pulls).values()) == 1, "no trial is ever asked for twice"
    began = lives(devices, own)
    for first, after in zip(began, [*began[1:], 1 << 30], strict=True):
        made = {charged for state in states for charged in state.releases if charged.value is not None}
        released = Counter[int]()
        for release, _ in (charged for charged in made if first < charged.release.trial <= after):
            released[release.arm] += release.pulls
        in_life = [(arm, trial) for arm, trial in pulls if first < trial <= after]
        pulled = Counter(arm for arm, _ in in_life)
        # On a slow machine trials count while the command is still busy with the one before: of which arm, nobody saw.
        unasked = max([trial for _, trial in in_life], default=first) - first - len(in_life)
        assert all(times <= pulled[arm] + unasked for arm, times in released.items()), (
            first,
            released,
            pulled,
            unasked,
        )


@pytest.mark.slow
def test_devices_are_killed_in_turn_and_an_old_copy_is_restored_and_nothing_is_noised_twice(tmp_path: Path) -> None:
    devices = Devices(tmp_path, [free_address() for _ in range(3)], interval_s=0.05)
    running = {own: devices.start(own) for own in range(3)}
    states: dict[int, list[SavedState]] = {own: [] for own in running}

    def releases(own: int) -> int:
        return sum(value is not None for _, value in read_state(devices.state(own)).releases)

    def down(own: int) -> None:
        running[own].kill()
        states[own].append(read_state(devices.state(own)))

    def up(own: int) -> None:
        seen = len(devices.pulls(own))
        running[own] = devices.start(own)
        until(lambda: len(devices.pulls(own)) > seen + 5)

    try:
        until(lambda: devices.pulls(2) and releases(2) >= 2)
        down(2)
        copied(devices.state(2), tmp_path / "old")
        up(2)
        before = releases(2)
        for own in (0, 1):
            down(own)
            up(own)
        until(lambda: releases(2) >= before + 2)
        down(2)
        shutil.rmtree(devices.state(2))
        copied(tmp_path / "old", devices.state(2))
        up(2)
        until(lambda: releases(2) > sum(value is not None for _, value in states[2][0].releases))
        heard = {own: len(devices.pulls(own)) for own in running}
        until(lambda: all(len(devices.pulls(own)) > heard[own] + 60 for own in running))
        for own, process in running.items():
            process.terminate()
            assert process.wait() == 0, process.errors
            states[own].append(read_state(devices.state(own)))
    finally:
        for process in running.values():
            process.__exit__()
    for own in running:
        require_own_rewards(devices, own, states[own])
        (done,) = devices.log(own, "done")
        assert done["favoured"] == BEST
        assert done["heard"] > 0, "and all merge again"
        assert not {"incarnation", "future"} & set(done["dropped"])
