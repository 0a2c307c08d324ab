"""Faults: what a link does to a frame."""

from __future__ import annotations

import pytest

from agentd.core.chance import Purpose, stream
from agentd.simulation.memory_transport import MemoryTransport
from agentd.simulation.network_faults import NO_FAULTS, Faults, Partition
from agentd.wire.frame import Frame


def copies(faults: Faults, times: int = 1, sender: int = 0, receiver: int = 1, round_: int = 1) -> list[list[int]]:
    chance = stream(3, Purpose.FAULT)
    return [list(faults.copies(sender, receiver, round_, chance)) for _ in range(times)]


@pytest.mark.parametrize("name", ["loss", "duplication", "overtaken"])
@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(name: str, chance: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be a probability in \[0, 1\]"):
        Faults(**{name: chance})  # type: ignore[arg-type]


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="max_delay must not be negative"):
        Faults(max_delay=-1)


def test_without_faults_one_copy_arrives_at_once_and_no_chance_is_used() -> None:
    chance = stream(3, Purpose.FAULT)
    assert list(NO_FAULTS.copies(0, 1, 1, chance)) == [0]
    assert chance.random() == stream(3, Purpose.FAULT).random()


def test_certain_loss_and_certain_duplication_are_certain() -> None:
    assert copies(Faults(loss=1.0, duplication=1.0), 50) == [[]] * 50
    assert copies(Faults(duplication=1.0), 50) == [[0, 0]] * 50


def test_frames_are_lost_and_repeated_as_often_as_said() -> None:
    """4000 frames at 0.25 and, of the rest, 0.5: five standard deviations are 137 and 137."""
    numbers = [len(delays) for delays in copies(Faults(loss=0.25, duplication=0.5), 4000)]
    assert abs(numbers.count(0) - 1000) < 137
    assert abs(numbers.count(2) - 1500) < 153


def test_delays_take_every_value_up_to_the_largest() -> None:
    assert {delay for (delay,) in copies(Faults(max_delay=3), 200)} == {0, 1, 2, 3}


def test_the_copies_of_one_frame_are_delayed_apart() -> None:
    assert any(one != other for one, other in copies(Faults(max_delay=3, duplication=1.0), 50))


def test_who_is_overtaken_takes_a_round_more_and_comes_after_the_next_frame() -> None:
    """4000 frames at 0.25: five standard deviations are 137."""
    assert abs(copies(Faults(overtaken=0.25), 4000).count([1]) - 1000) < 137
    line = MemoryTransport(Faults(overtaken=0.5), stream(3, Purpose.FAULT))
    for number in range(1, 100):
        line.send(Frame(b"", 0, 0, number, number, 0, (), 2), 30, 1, number)
    arrived = [[flight.frame.round for flight in line.arrivals(number)] for number in range(1, 101)]
    assert {tuple(number - round_ for round_ in of) for number, of in enumerate(arrived, start=1)} >= {(0, 1), (0,)}
    assert all(of == sorted(of, reverse=True) for of in arrived)


def test_a_partition_cuts_both_ways_between_the_sides_while_it_lasts() -> None:
    faults = Faults(partitions=(Partition(frozenset({0, 2}), at=3, heals=5),))
    crossing = [copies(faults, sender=s, receiver=r, round_=4) for s, r in ((0, 1), (1, 0), (2, 3))]
    assert crossing == [[[]]] * 3
    within = [copies(faults, sender=s, receiver=r, round_=4) for s, r in ((0, 2), (1, 3))]
    assert within == [[[0]]] * 2
    assert [copies(faults, round_=round_) for round_ in (2, 3, 4, 5)] == [[[0]], [[]], [[]], [[0]]]
