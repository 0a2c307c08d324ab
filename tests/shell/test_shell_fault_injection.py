"""Faults that are injected into links: what a file may ask for, and what frames go through."""

from __future__ import annotations

import asyncio
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import LONG_S, SOON_S, arrived, events, ready, said, until
from loopback_fixtures import MakeLink, MakePeer
from small_runs import sample, samples
from structlog.typing import FilteringBoundLogger

from agentd.core.message import MAX_AGENT_ID
from agentd.shell.fault_injection import FaultWatch
from agentd.shell.link import Link
from agentd.shell.link_faults import (
    MAX_FILE_BYTES,
    Disturbance,
    LinkFaults,
    agents_text,
    parse_agents,
    parse_sides,
    read_faults,
)
from agentd.wire.codec import decode_frame
from agentd.wire.topics import payload

CUT = {"cuts": ["0-1|2-3"], "delay_ms": {}, "loss": {}}
NOTHING: dict[str, object] = {"cuts": [], "delay_ms": {}, "loss": {}}


@given(st.frozensets(st.integers(0, MAX_AGENT_ID), min_size=1, max_size=40))
def test_agents_are_read_back_as_they_are_written(agents: frozenset[int]) -> None:
    assert parse_agents(agents_text(agents)) == agents


def test_a_cut_has_sides() -> None:
    assert parse_sides("0-3|4-7") == (frozenset(range(4)), frozenset(range(4, 8)))
    assert parse_sides("0,2 | 1|5-6") == (frozenset({0, 2}), frozenset({1}), frozenset({5, 6}))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0-3", "has 1 sides"),
        ("0-3|3-5", "agent 3 is on two sides"),
        ("0-3|", "does not name agents"),
        ("3-0|4", "low before high"),
        ("0|x", "does not name agents"),
        ("0|-1", "does not name agents"),
        ("0|1-", "does not name agents"),
        ("0|99999999999999999999", "does not name agents"),
        ("0|١", "does not name agents"),
        ("", "does not name agents"),
    ],
)
def test_what_is_no_cut_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_sides(text)


def test_a_cut_lies_between_its_sides_only() -> None:
    faults = LinkFaults(cuts=(parse_sides("0-1|2-3"),))
    assert faults.between(0, 2).cut
    assert faults.between(3, 1).cut
    assert not faults.between(0, 1)
    assert not faults.between(0, 9), "who is on no side hears both"


def test_delay_and_loss_befall_what_is_said_and_what_is_heard() -> None:
    faults = LinkFaults(delay_ms={3: 50.0, 4: 20.0}, loss={3: 0.1})
    assert faults.between(3, 1) == faults.between(1, 3) == Disturbance(delay_s=0.05, loss=0.1)
    assert faults.between(3, 4).delay_s == 0.05
    assert not faults.between(1, 2)


def test_faults_are_read_back_as_they_are_written(tmp_path: Path) -> None:
    faults = LinkFaults(cuts=(parse_sides("0-3|4"), parse_sides("0|1|2")), delay_ms={3: 50.0}, loss={1: 0.25})
    (tmp_path / "links.json").write_text(json.dumps(faults.to_json()), encoding="utf-8")
    assert read_faults(tmp_path / "links.json") == faults
    assert read_faults(tmp_path / "nothing") == LinkFaults()
    lying = LinkFaults(liars=frozenset({1, 2, 9}))
    (tmp_path / "links.json").write_text(json.dumps(lying.to_json()), encoding="utf-8")
    assert read_faults(tmp_path / "links.json") == lying


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"cuts": [], "delay_ms": {}}',
        '{"cuts": [], "delay_ms": {}, "loss": {}, "more": 1}',
        '{"cuts": [7], "delay_ms": {}, "loss": {}}',
        '{"cuts": ["0|0"], "delay_ms": {}, "loss": {}}',
        json.dumps({"cuts": ["0|1"] * 17, "delay_ms": {}, "loss": {}}),
        '{"cuts": [], "delay_ms": {"3": 1e9}, "loss": {}}',
        '{"cuts": [], "delay_ms": {"3": NaN}, "loss": {}}',
        '{"cuts": [], "delay_ms": {"x": 1}, "loss": {}}',
        '{"cuts": [], "delay_ms": {}, "loss": {"3": 1.5}}',
        '{"cuts": [], "delay_ms": {}, "loss": {"3": true}}',
        '{"cuts": [], "delay_ms": {}, "loss": {"3": "0.5"}}',
        '{"cuts": [], "delay_ms": {}, "loss": {}, "liars": [3]}',
        '{"cuts": [], "delay_ms": {}, "loss": {}, "liars": "x"}',
        "[" * 50_000,
        " " * (MAX_FILE_BYTES + 1),
    ],
)
def test_a_file_that_is_not_one_of_ours_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "links.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own reason
        read_faults(tmp_path / "links.json")


def test_neither_a_pipe_nor_a_link_nor_a_directory_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", "."):
        with pytest.raises(ValueError):  # noqa: PT011
            read_faults(tmp_path / name)


class Injected:
    """A link whose faults a test sets; looking at the file is due at every chance."""

    def __init__(self, link: Link, file: Path, log: FilteringBoundLogger, own: int, seed: int = 5) -> None:
        self.file = file
        self.watch = FaultWatch(str(file), own, seed, log)
        self.watch.over(link._transport.lines.values(), link.dropped)  # type: ignore[arg-type]
        link.inject_faults(self.watch)

    def set(self, content: object) -> None:
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(content), encoding="utf-8")
        beside.replace(self.file)
        self.watch._due_s = 0.0
        self.watch.look()


async def test_nothing_crosses_a_cut_and_what_was_said_meanwhile_is_gone(
    make_link: MakeLink,
    make_peer: MakePeer,
    stop: asyncio.Event,
    log: FilteringBoundLogger,
    log_file: Path,
) -> None:
    link, far, near = make_link(1, (2, 0)), make_peer(2, 1), make_peer(0, 1)
    injected = Injected(link, log_file.with_name("links.json"), log, 1)
    await ready(link, far, near)
    injected.set(CUT)
    far.publish(1, samples(sample(2, 1)))
    near.publish(1, samples(sample(0, 1)))
    arrived(link, far, near)
    link.publish(1, ())
    assert said(await link.gather(SOON_S, stop)) == [(0, 1)]
    assert link.down == [2]
    far.publish(2, samples(sample(2, 2)))
    near.publish(2)
    link.publish(2, ())
    await link.gather(LONG_S, stop)
    injected.set(NOTHING)
    heard: list[tuple[int, int]] = []
    round_ = 2
    while link.down:  # who is down is not waited for, so its frame may come in a later round
        round_ += 1
        far.publish(round_, samples(sample(2, round_)))
        near.publish(round_)
        link.publish(round_, ())
        heard += said(await link.gather(LONG_S, stop))
    assert heard
    assert (2, 1) not in heard
    assert link.dropped["injected-cut"] >= 1
    assert [event["neighbour"] for event in events(log_file, "heard again")] == [2]


async def test_delayed_frames_come_late_and_in_order(
    make_link: MakeLink, make_peer: MakePeer, log: FilteringBoundLogger, tmp_path: Path
) -> None:
    link, peer = make_link(1, (2,)), make_peer(2, 1)
    injected = Injected(link, tmp_path / "links.json", log, 1)
    await ready(link, peer)
    injected.set({**NOTHING, "delay_ms": {"2": 250}})
    now_s, line = [100.0], link._lines[2]
    injected.watch.now_s = lambda: now_s[0]
    for round_ in (1, 2):
        peer.publish(round_)
        arrived(link, peer)
        assert line.receive(False) is None
        now_s[0] += 0.125
    came: list[tuple[float, int]] = []
    for eighth in range(1, 6):
        while (part := line.receive(False)) is not None:
            came.append((eighth, decode_frame(payload(part, b"sync/1/")).round))
        now_s[0] += 0.125
    assert came == [(1, 1), (2, 2)]
    assert not link.dropped


async def test_the_end_of_a_delay_releases_what_is_held(
    make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, log: FilteringBoundLogger, tmp_path: Path
) -> None:
    link, peer = make_link(1, (2,)), make_peer(2, 1)
    injected = Injected(link, tmp_path / "links.json", log, 1)
    await ready(link, peer)
    injected.set({**NOTHING, "delay_ms": {"1": 60_000}})
    peer.publish(1, samples(sample(2, 1)))
    arrived(link, peer)
    link.publish(1, ())
    assert await link.gather(SOON_S, stop) == []
    injected.set(NOTHING)
    peer.publish(2, samples(sample(2, 2)))
    link.publish(2, ())
    assert said(await link.gather(LONG_S, stop))[0] == (2, 1)


async def test_the_given_share_of_frames_is_lost_at_random(
    make_link: MakeLink, make_peer: MakePeer, log: FilteringBoundLogger, tmp_path: Path
) -> None:
    """Of 400 frames at a rate of 0.3, seed 5: within 4 deviations (37) of 120."""
    link, peer = make_link(1, (2,)), make_peer(2, 1)
    injected = Injected(link, tmp_path / "links.json", log, 1)
    await ready(link, peer)
    injected.set({**NOTHING, "loss": {"2": 0.3}})
    heard: list[tuple[int, int]] = []

    def all_came(until_trial: int) -> bool:
        heard.extend(said(link.drain()))
        return len(heard) + link.dropped["injected-loss"] == until_trial

    for trial in range(1, 401):
        peer.publish(trial, samples(sample(2, trial)))
        if trial % 10 == 0:
            until(lambda trial=trial: all_came(trial))
    assert 83 <= link.dropped["injected-loss"] <= 157
    assert heard == sorted(set(heard))


async def test_an_agent_is_told_when_it_is_to_lie_and_when_not(
    make_link: MakeLink, log: FilteringBoundLogger, log_file: Path
) -> None:
    injected, lies = Injected(make_link(1, (2,)), log_file.with_name("links.json"), log, 1), list[bool]()
    injected.watch.let_lie(lies.append)
    for liars in ("2", "0-1", "1", "2"):
        injected.set(NOTHING | {"liars": liars})
    assert lies == [True, False]
    injected.set(NOTHING | {"liars": "1"})
    injected.watch.let_lie(lies.append)
    assert lies == [True, False, True, True], "who begins to listen late is told what holds"
    assert len(events(log_file, "made to lie")) == 2


async def test_a_damaged_file_changes_nothing(
    make_link: MakeLink,
    make_peer: MakePeer,
    stop: asyncio.Event,
    log: FilteringBoundLogger,
    log_file: Path,
) -> None:
    link, peer = make_link(1, (2,)), make_peer(2, 1)
    injected = Injected(link, log_file.with_name("links.json"), log, 1)
    await ready(link, peer)
    injected.set(CUT)
    injected.set({"cuts": "all"})
    peer.publish(1, samples(sample(2, 1)))
    arrived(link, peer)
    link.publish(1, ())
    assert await link.gather(SOON_S, stop) == []
    assert len(events(log_file, "the faults to inject cannot be read")) == 1


async def test_without_faults_the_file_is_looked_at_once_a_second_at_most(
    make_link: MakeLink, make_peer: MakePeer, stop: asyncio.Event, log: FilteringBoundLogger, tmp_path: Path
) -> None:
    link, peer = make_link(1, (2,)), make_peer(2, 1)
    injected = Injected(link, tmp_path / "links.json", log, 1)
    await ready(link, peer)
    (tmp_path / "links.json").write_text(json.dumps(CUT), encoding="utf-8")
    injected.watch._due_s = math.inf  # it was looked at just now
    for round_ in range(1, 50):
        peer.publish(round_, samples(sample(2, round_)))
        link.publish(round_, ())
        assert said(await link.gather(LONG_S, stop)) == [(2, round_)]
    assert injected.watch.longest_round_s > 0.0
