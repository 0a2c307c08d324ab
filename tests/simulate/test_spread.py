"""Two integers in a float, and sums over balls against the obvious loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import complete, line, network, ring, sparse, spec

from agentd.core.message import MAX_LIFETIME
from agentd.runs.spec import Network, RunSpec
from agentd.simulation.spread import EXACT, Packing, Spread


@given(st.integers(1, 1 << 40), st.integers(1, 1000), st.data())
@settings(deadline=None)
def test_both_integers_come_out_as_they_went_in(largest: int, most: int, data: st.DataObject) -> None:
    packing = Packing(largest, most)
    total, count = data.draw(st.integers(-largest, largest)), data.draw(st.integers(0, most))
    if packing.fits:
        packed = packing.pack(count, np.array([total]))
        got_count, got_total = packing.unpack(packed)
        assert (got_count.tolist(), got_total.tolist()) == ([count], [total])


@given(st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 3)), min_size=1, max_size=20))
@settings(deadline=None)
def test_sums_of_packed_values_are_packed_sums(pairs: list[tuple[int, int]]) -> None:
    packing = Packing(1000 * len(pairs), 3 * len(pairs))
    packed = sum((packing.pack(count, np.array([total])) for total, count in pairs), np.zeros(1))
    count, total = packing.unpack(packed)
    assert (count[0], total[0]) == (sum(c for _, c in pairs), sum(t for t, _ in pairs))


def test_it_says_when_two_integers_do_not_fit() -> None:
    assert Packing(1 << 40, 1 << 10).fits
    assert not Packing(1 << 40, 1 << 11).fits
    assert (((1 << 10) + 1) << 42) < EXACT <= (((1 << 11) + 1) << 42)
    assert Packing(0, 1).fits


class Told:
    """Random numbers said by everybody at every trial, and what must have arrived by the obvious loop."""

    def __init__(self, specs: list[RunSpec], rows: int, trials: int, seed: int = 1) -> None:
        self.specs = specs
        self.agents = specs[0].network.agents
        chance = np.random.Generator(np.random.Philox(seed))
        self.said = chance.integers(-50, 50, size=(trials, rows, len(specs), self.agents)).astype(np.float64)
        # Of every run and trial some rows are not in use; those say nothing.
        self.used = chance.random((trials, rows, len(specs))) < 0.7
        self.said *= self.used[:, :, :, np.newaxis]

    def active(self, trial: int) -> list[list[int]]:
        return [np.flatnonzero(self.used[trial - 1, :, run]).tolist() for run in range(len(self.specs))]

    def arrived(self, before: int, halves: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """What arrives everywhere before a trial, of shape (half, row, run, agent)."""
        _, rows, runs, agents = self.said.shape
        arrived = np.zeros((halves, rows, runs, agents))
        for run, one in enumerate(self.specs):
            for origin in range(agents):
                for receiver in range(agents):
                    distance = int(one.network.distances[origin, receiver])
                    trial = before - distance
                    if 1 <= distance <= one.gamma and trial >= 1:
                        half = (origin + trial) % halves
                        arrived[half, :, run, receiver] += self.said[trial - 1, :, run, origin]
        return arrived

    def check(self, halves: int, trials: int) -> None:
        rows = self.said.shape[1]
        spread = Spread(self.specs, rows, halves)
        for trial in range(1, trials + 1):
            spread.say(trial, self.said[trial - 1], self.active(trial))
            into = np.zeros((halves, rows, len(self.specs), self.agents))
            spread.arrive(trial + 1, into)
            assert np.array_equal(into, self.arrived(trial + 1, halves)), trial


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize(
    "graphs",
    [[line(5)], [ring(6), line(6)], [sparse(7, 0.2, 1), complete(7), line(7)], [network(1, [])]],
    ids=["odd line", "two of even size", "three of odd size", "alone"],
)
def test_what_arrives_is_the_sum_over_the_ball_each_distance_with_its_delay(
    graphs: list[Network], rows: int, halves: int
) -> None:
    specs = [spec(graph, gamma=gamma) for graph, gamma in zip(graphs, (2, 4, 0), strict=False)]
    Told(specs, rows, 12).check(halves, 12)


@pytest.mark.parametrize("halves", [1, 2])
def test_without_lifetime_nothing_arrives(halves: int) -> None:
    Told([spec(ring(4), gamma=0)], 2, 4).check(halves, 4)


def test_a_lifetime_beyond_the_diameter_costs_no_more_than_the_diameter() -> None:
    run = spec(line(4), gamma=MAX_LIFETIME)
    assert Spread([run], 2).lags == 3
    Told([run], 2, 8).check(2, 8)


def test_new_rows_begin_empty_and_old_ones_keep_what_was_said() -> None:
    run = spec(line(3), gamma=2)
    spread = Spread([run], 1)
    spread.say(1, np.array([[[5.0, 0.0, 0.0]]]), [[0]])
    spread.grow(3)
    spread.say(2, np.array([[[0.0] * 3], [[0.0] * 3], [[0.0, 0.0, 7.0]]]), [[2]])
    into = np.zeros((1, 3, 1, 3))
    spread.arrive(3, into)
    assert into[0, :, 0].tolist() == [[0, 0, 5], [0, 0, 0], [0, 7, 0]]
