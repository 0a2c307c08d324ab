"""The exact test: green for sealed and shielded, red for every planted fault of logic, and honest about its power."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from agentd_processes import Process

from agentd.audit.coupling.compare import compared
from agentd.audit.coupling.many_worlds import Equality, couple
from agentd.audit.coupling.observed import Observed, SeenStorage, secret_places
from agentd.audit.coupling.one_life import live_through
from agentd.audit.coupling.paired_noise import PairedNoise
from agentd.audit.coupling.walk import Walk
from agentd.audit.coupling.worlds import SEAMS, World, other, world_of
from agentd.audit.planted_faults import COUPLED
from agentd.audit.workers import Workers
from agentd.core.grid import UNIT
from agentd.core.privacy.sealing import Weighting
from agentd.shell.state.state_file import Layout, Slot
from agentd.wire.codec import decode_environment, decode_frame
from agentd.wire.environment_messages import Hello, Report
from agentd.wire.frame import Frame
from agentd.wire.topics import FRAME_TOPIC

SEED = 5
PLUGINS = Path(__file__).parent.parent / "plugins"


def coupled(algorithm: str, worlds: int, *, fault: str | None = None) -> Equality:
    return couple(algorithm, worlds, Workers(None), seed=SEED, fault=fault, one_is_enough=fault is not None)


@pytest.mark.parametrize(("algorithm", "power"), [("sealed", 0.4), ("shielded", 0.3)])
def test_sealed_is_identical_and_most_worlds_could_have_shown_a_mistake(algorithm: str, power: float) -> None:
    found = coupled(algorithm, 60)
    assert (found.verdict, found.differing, found.unrepeatable) == ("identical", 0, 0)
    assert found.power > power  # 0.55 and 0.48 over ten thousand worlds
    assert found.lives > found.worlds  # agents died and came back


@pytest.mark.long
def test_sealed_is_identical_in_two_thousand_worlds() -> None:
    found = couple("sealed", 2000, Workers(None), seed=SEED + 1)
    assert (found.verdict, found.unrepeatable) == ("identical", 0)
    assert found.power > 0.5


@pytest.mark.parametrize("fault", [*COUPLED, "half-noise-agreed"])
def test_every_planted_fault_of_logic_is_flagged_within_two_hundred_worlds(fault: str) -> None:
    found = coupled("sealed", 200, fault=fault)
    assert found.verdict == "differs"
    assert found.example is not None
    world = world_of(SEED, found.example.number, "sealed", fault=fault)
    if fault != "float-noise":  # which draws chance of its own: it is not even equal to itself
        assert compared(world) == found.example  # and again when just this world is looked at
    assert (found.unrepeatable > 0) == (fault == "float-noise")


def test_a_scale_that_the_ledger_agrees_with_is_held_against_epsilon() -> None:
    found = coupled("sealed", 40, fault="half-noise-agreed").example
    assert found is not None
    assert found.differs is not None
    assert found.differs.startswith("noise of scale ")


def test_private_ucb_differs_whatever_is_shifted_and_dp_ucb_int_only_where_one_release_is() -> None:
    """The sums of both run on. The choices of one follow raw rewards; those of the other what it has released."""
    published, alone = coupled("private-ucb", 30), coupled("dp-ucb-int", 30)
    assert min(published.differing, published.differing_composed, alone.differing) > 5
    assert alone.differing_composed == 0


def worlds(number: int) -> list[World]:
    return [world_of(SEED, each, "sealed") for each in range(number)]


def test_worlds_have_everything_that_an_agent_meets() -> None:
    """Of 300 worlds: every number of arms, both rules and clocks, budgets that refuse, all edges of death."""
    drawn = worlds(300)
    assert {world.arms for world in drawn} == {2, 3, 4, 5}
    assert {world.rule for world in drawn} == {"thompson", "ucb"}
    assert {(world.lockstep, world.closed) for world in drawn} == {(a, b) for a in (True, False) for b in (True, False)}
    assert {world.gamma for world in drawn} == {1, 2, 3, 4}
    assert {world.keeps_state for world in drawn} == {True, False}
    assert any(world.budget is not None and world.budget < world.epsilon for world in drawn)
    edges = {edge for world in drawn for place, edge in world.deaths if place > 0}
    assert edges >= {*SEAMS, "after the send", *(f"write {number}" for number in range(5))}
    assert any(place < 0 for world in drawn for place, _ in world.deaths)


def test_runs_show_relays_greetings_goodbyes_refusals_and_lives() -> None:
    """What is compared is worth something only where these things are in it."""
    seen = [live_through(Walk(world)).observed.entries for world in worlds(40)]
    parts = [content for entries in seen for what, content in entries if what == "published"]
    frames = [decode_frame(part.partition(b"/")[2]) for part in parts if part.startswith(FRAME_TOPIC)]
    assert any(part.startswith(b"sync/") for part in parts)
    assert any(frame.goodbye for frame in frames)
    assert any(relays(frame) for frame in frames)
    assert any(message.incarnation for frame in frames for batch in frame.batches for message in batch.messages())
    heard = [decode_environment(content) for entries in seen for what, content in entries if what == "environment"]
    assert any(isinstance(each, Hello) and each.incarnation for each in heard)
    reasons = {reason for each in heard if isinstance(each, Report) for reason, _ in each.dropped}
    assert reasons >= {"budget", "body", "origin", "future"}
    assert {"log", "disk", "ledger", "counters"} <= {what for entries in seen for what, _ in entries}
    assert {content for entries in seen for what, content in entries if what == "end"} >= {"died", "through"}


def relays(frame: Frame) -> bool:
    return any(message.origin for batch in frame.batches for message in batch.messages())


def test_the_first_difference_is_named_with_both_of_its_faces() -> None:
    one, two = Observed([("log", "a"), ("counters", 3)]), Observed([("log", "a"), ("counters", 4), ("end", "x")])
    assert one.difference(one) is None
    assert two.difference(one) == "counters (observable 2): 3 became 4"
    assert Observed([("log", "a")]).difference(one) == "counters (observable 2): 3 became nothing"


def test_noise_follows_from_life_arm_and_number_and_not_from_the_order_of_the_arms() -> None:
    world = world_of(SEED, 1, "sealed")
    one, two = PairedNoise(world, 1, {}), PairedNoise(world, 1, {})
    assert [one.draw(0, UNIT), one.draw(1, UNIT), one.draw(0, UNIT)] == [
        two.draw(0, UNIT),
        *(two.draw(1, UNIT), two.draw(0, UNIT)),
    ]
    again, other_life = PairedNoise(world, 1, {}), PairedNoise(world, 2, {})
    first, second = again.draw(1, UNIT), again.draw(0, UNIT)
    assert (second, first) == (PairedNoise(world, 1, {}).draw(0, UNIT), PairedNoise(world, 1, {}).draw(1, UNIT))
    assert other_life.draw(1, UNIT) != first
    latest = again.latest(0)
    assert latest is not None
    assert PairedNoise(world, 1, {latest[0]: 7}).draw(0, UNIT) == second + 7


def test_the_other_reward_is_as_far_away_as_it_can_be() -> None:
    assert [other(reward) for reward in (0, UNIT // 2 - 1, UNIT // 2, UNIT)] == [UNIT, UNIT, 0, 0]


def test_of_what_is_written_only_raw_sums_and_their_digests_are_not_compared() -> None:
    layout = Layout((("own", 8), ("open_pulls", 2), ("open_sums", 2)), 5)
    size = layout.size
    (first, last), (digest, end), *_ = secret_places(layout)
    assert (first, last) == (4096 + 8 * (len(Slot._fields) + 10), 4096 + 8 * (len(Slot._fields) + 12))
    assert (digest, end) == (4096 + size - 32, 4096 + size)
    seen = Observed()
    storage = SeenStorage(seen.note, lambda: False, lambda: None)
    storage._secret = [(first, last)]
    storage.write(first - 1, b"abc")
    assert seen.entries == [("disk", ("the header", first - 1, b"a\0\0"))]
    assert storage.read()[first - 1 : first + 2] == b"abc"


def test_a_release_of_sealed_costs_no_more_than_epsilon_in_any_world() -> None:
    for world in worlds(20):
        assert UNIT / Weighting.of(world.epsilon).scale <= world.epsilon


@pytest.mark.system
@pytest.mark.parametrize(("name", "code"), [("steady", 0), ("hasty", 1)])
def test_a_policy_of_somebody_else_is_audited_by_its_name(
    name: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTD_PLUGINS", "two_claims")
    monkeypatch.setenv("PYTHONPATH", f"{PLUGINS}:{os.environ.get('PYTHONPATH', '')}")
    flags = ("--algorithm", name, "--coupling", "--worlds", "40", "--seed", "5", "--processes", "2")
    with Process("audit", *flags, "--json") as process:
        assert process.wait() == code, process.errors
    found = json.loads(process.output)
    assert found["verdict"] == ("identical" if code == 0 else "differs")
    assert found["shown"] > 5
