"""A figure's runs are paired, made once, found again, and put together the same in whatever order they come."""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentd.core.policy import PolicySettings
from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.experiment import figures, parallel, result_cache, theory
from agentd.experiment.catalogue import FIGURES
from agentd.experiment.figures import Axis, BoundLine, Figure, Knobs, fig1a, fig1b, fig1c
from agentd.experiment.parallel import carry_out
from agentd.experiment.repeated_runs import (
    SIDE_BY_SIDE,
    Lifetime,
    Repetitions,
    Series,
    Setup,
    Unit,
    measure,
    measure_unit,
)
from agentd.experiment.result_cache import ResultCache, UnitResult
from agentd.runs.spec import Network
from agentd.simulation.engine import run_vector
from topology.generate import complete, line, ring

SEED = 500
POLICY = PolicySettings(arms=3)
SWEEP = Series("sweep", "", "coop-ucb", POLICY, Lifetime.SWEEP)


def network_of(graph: Any) -> Network:
    return Network(tuple(graph.neighbours(node) for node in range(graph.nodes)))


def draw(seed: int) -> Network:
    """Graphs of the diameters 5, 1 and 3, in turn."""
    return network_of([line(6), complete(6), ring(6)][(seed - SEED) % 3])


def repetitions_of(count: int = 3, rounds: int = 30) -> Repetitions:
    return Repetitions(Setup(6, rounds, count, SEED, "a few", "test"), draw)


def measured(repetitions: Repetitions, units: list[Unit]) -> dict[Unit, UnitResult]:
    return {unit: measure(repetitions.specs(unit)) for unit in units}


def some_result(repetitions: int = 2, rounds: int = 5) -> UnitResult:
    curve = np.arange(float(repetitions * rounds)).reshape(repetitions, rounds)
    nothing = np.full(repetitions, math.nan)
    return UnitResult(
        curve[:, -1],
        curve,
        np.ones(repetitions),
        np.ones(repetitions) / 2,
        nothing,
        0.25,
        np.ones(repetitions),
        nothing,
        nothing,
        np.ones(repetitions) / 7,
    )


@pytest.mark.parametrize("make", FIGURES.values())
def test_all_series_of_a_figure_meet_the_same_graph_seed_and_arms_in_a_repetition(
    make: Callable[[Knobs], Figure],
) -> None:
    repetitions, figure = repetitions_of(), make(Knobs())
    for unit in repetitions.units(figure.series):
        low, high = unit.series.arm_range
        for repetition, spec in zip(unit.repetitions, repetitions.specs(unit), strict=True):
            wide = repetitions.arms(replace(SWEEP, policy=unit.series.policy), repetition).means
            assert spec.seed == SEED + repetition
            assert spec.network is repetitions.network(repetition)
            assert spec.arms.means == pytest.approx([low + (high - low) * mean for mean in wide])
            assert spec.rounds == 30


def test_repetitions_differ_in_their_arms() -> None:
    repetitions = repetitions_of()
    assert len({repetitions.arms(SWEEP, repetition).means for repetition in range(3)}) == 3


def test_rewards_of_a_repetition_are_the_same_in_every_series() -> None:
    """Two algorithms that both begin with round robin are dealt the same in it."""
    repetitions = repetitions_of()
    rewards = [
        run_vector(repetitions.specs(Unit(replace(SWEEP, algorithm=algorithm), 1, (2,))))[0].reward[:, :3].tolist()
        for algorithm in ("ucb1", "coop-ucb", "byzantine-ucb")
    ]
    assert rewards[0] == rewards[1] == rewards[2]


@pytest.mark.parametrize(
    ("lifetime", "expected"),
    [(Lifetime.NONE, [0, 0, 0]), (Lifetime.HALF, [3, 1, 2]), (Lifetime.FULL, [5, 1, 3])],
)
def test_gamma_follows_from_each_graphs_diameter(lifetime: Lifetime, expected: list[int]) -> None:
    repetitions, series = repetitions_of(), replace(SWEEP, lifetime=lifetime)
    assert list(repetitions.points(series)) == [0]
    assert [repetitions.gamma(series, repetition, 0) for repetition in range(3)] == expected


def test_a_sweep_runs_each_graph_up_to_its_own_diameter_and_not_beyond() -> None:
    units = repetitions_of().units([SWEEP])
    assert sorted((unit.gamma, unit.repetitions) for unit in units) == [
        (1, (0, 1, 2)),
        (2, (0, 2)),
        (3, (0, 2)),
        (4, (0,)),
        (5, (0,)),
    ]


def test_beyond_the_diameter_a_sweep_repeats_what_a_run_there_would_give() -> None:
    repetitions = repetitions_of()
    figure = Figure("f", "", "", (SWEEP,), Axis.GAMMA)
    (result,) = figures.gather(figure, repetitions, measured(repetitions, repetitions.units([SWEEP])))
    assert result.final.shape == (5, 3)
    for point, gamma in enumerate(range(1, 6)):
        for repetition in range(3):
            (spec,) = repetitions.specs(Unit(SWEEP, gamma, (repetition,)))
            assert result.final[point, repetition] == measure([spec]).final[0]
    assert len(set(result.final[:, 0].tolist())) > 1


def test_a_graph_of_one_agent_is_swept_at_one_point() -> None:
    alone = network_of(complete(1))
    repetitions = Repetitions(Setup(1, 5, 2, SEED, "one", "test"), lambda _seed: alone)
    assert [(unit.gamma, unit.repetitions) for unit in repetitions.units([SWEEP])] == [(1, (0, 1))]


def test_every_run_is_in_exactly_one_unit_and_early_repetitions_come_first() -> None:
    repetitions, figure = repetitions_of(11), fig1a(Knobs())
    units = repetitions.units(figure.series)
    assert all(len(unit.repetitions) <= SIDE_BY_SIDE for unit in units)
    runs = [(unit.series.name, repetition) for unit in units for repetition in unit.repetitions]
    assert sorted(runs) == sorted((series.name, repetition) for series in figure.series for repetition in range(11))
    assert [max(unit.repetitions) for unit in units] == sorted(max(unit.repetitions) for unit in units)


def test_runs_side_by_side_give_what_each_gives_alone() -> None:
    repetitions = repetitions_of()
    for series in (*fig1a(Knobs()).series, *fig1b(Knobs()).series):
        together = measure(repetitions.specs(Unit(series, 2, (0, 1, 2))))
        for repetition in range(3):
            alone = measure(repetitions.specs(Unit(series, 2, (repetition,))))
            assert alone.curve[0].tolist() == together.curve[repetition].tolist()
            np.testing.assert_array_equal(alone.epsilon[0], together.epsilon[repetition])


def test_a_part_tells_the_spent_epsilon_of_noised_series_and_the_fallbacks_of_robust_ones() -> None:
    repetitions = repetitions_of()
    private, _, dp, coop = fig1a(Knobs()).series
    robust = fig1b(Knobs()).series[0]
    by_name = {s.name: measure(repetitions.specs(Unit(s, 1, (0, 1)))) for s in (private, dp, coop, robust)}
    assert (by_name["private-ucb"].epsilon > 1.0).all()
    assert (by_name["dp-ucb-int"].epsilon_at_delta > 0.0).all()
    assert np.isnan(by_name["coop-ucb"].epsilon).all()
    assert np.isnan(by_name["coop-ucb"].fallbacks).all()
    assert (by_name["byzantine-ucb"].fallbacks > 0.9).all()  # 6 agents, 30 rounds: hardly ever enough samples


def test_the_last_value_of_a_curve_is_the_final_regret() -> None:
    result = measure(repetitions_of().specs(Unit(SWEEP, 2, (0, 2))))
    assert result.curve[:, -1] == pytest.approx(result.final)
    assert (np.diff(result.curve, axis=1) >= 0).all()


def test_parts_in_any_order_give_the_same_series() -> None:
    repetitions, figure = repetitions_of(7), fig1c(Knobs())
    made = measured(repetitions, repetitions.units(figure.series))
    forth, back = (
        figures.gather(figure, repetitions, dict(items)) for items in (made.items(), reversed(list(made.items())))
    )
    for one, other in zip(forth, back, strict=True):
        assert one.final.tolist() == other.final.tolist()
        assert one.curve.tolist() == other.curve.tolist()
        assert one.seconds == pytest.approx(other.seconds)


def test_all_agents_lie_in_the_contaminated_series_and_nobody_in_the_others() -> None:
    repetitions = repetitions_of()
    contaminated, alone, honest = fig1b(Knobs(contamination=0.2)).series
    (spec,) = repetitions.specs(Unit(contaminated, 1, (0,)))
    assert spec.liars == frozenset(range(6))
    assert spec.policy.contamination == 0.2
    for series in (alone, honest):
        (spec,) = repetitions.specs(Unit(series, 1, (0,)))
        assert not spec.liars
        assert spec.policy.contamination == 0.0


@pytest.mark.parametrize("make", FIGURES.values())
def test_series_of_a_figure_have_names_of_their_own(make: Callable[[Knobs], Figure]) -> None:
    figure = make(Knobs())
    assert len({series.name for series in figure.series}) == len(figure.series)
    assert FIGURES[figure.name] is make


def test_the_knobs_reach_the_algorithms_and_the_labels() -> None:
    private = fig1a(Knobs(epsilon=0.25)).series[0]
    assert private.policy.epsilon == 0.25
    assert "ε = 0.25" in private.label


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": 2},
        {"repetitions": (0, 2)},
        {"series": replace(SWEEP, algorithm="ucb1")},
        {"series": replace(SWEEP, policy=PolicySettings(arms=3, v=1.2))},
        {"series": replace(SWEEP, arm_range=(0.1, 1.0))},
        {"series": replace(SWEEP, liars=0.5)},
        {"series": replace(SWEEP, bytes_too=True)},
        {"series": replace(SWEEP, liars=0.5, attack="uniform")},
    ],
)
def test_whatever_changes_the_numbers_of_a_unit_changes_its_description(change: dict[str, Any]) -> None:
    repetitions, unit = repetitions_of(), Unit(SWEEP, 1, (0, 1))
    assert repetitions.describe(replace(unit, **change)) != repetitions.describe(unit)


@pytest.mark.parametrize("change", [{"agents": 7}, {"rounds": 31}, {"seed": 1}, {"graphs": "b"}, {"made_by": "x"}])
def test_whatever_changes_the_setup_changes_the_description_of_its_units(change: dict[str, Any]) -> None:
    setup, graph = Setup(6, 30, 3, SEED, "a few", "test"), network_of(ring(6))
    unit = Unit(SWEEP, 1, (0, 1))
    one, other = (Repetitions(it, lambda _seed: graph).describe(unit) for it in (setup, replace(setup, **change)))
    assert one != other


def test_names_and_more_repetitions_leave_finished_units_what_they_are() -> None:
    few, more, unit = repetitions_of(4), repetitions_of(9), Unit(SWEEP, 1, (0, 1, 2, 3))
    renamed = replace(unit, series=replace(SWEEP, name="other", label="other", attack="uniform"))
    assert few.describe(unit) == more.describe(unit) == few.describe(renamed)
    assert set(few.units([SWEEP])[:1]) <= set(more.units([SWEEP]))


def test_mean_and_standard_error_over_repetitions() -> None:
    mean, error = figures.over_repetitions(np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]]))
    assert mean.tolist() == [4.0, 5.0]
    assert error.tolist() == pytest.approx([math.sqrt(13.0) / math.sqrt(3.0), 0.0])


def test_one_repetition_has_a_mean_but_no_error() -> None:
    repetitions, figure = repetitions_of(1), fig1c(Knobs())
    result = figures.gather(figure, repetitions, measured(repetitions, repetitions.units(figure.series)))[0]
    assert np.isnan(figures.over_repetitions(result.curve)[1]).all()
    for axis, points in ((Axis.ROUND, 30), (Axis.GAMMA, 5)):
        curve = figures.curve_of(result, axis)
        assert curve.stderr is None
        assert curve.x.tolist() == list(range(1, points + 1))


def test_bounds_are_averages_over_the_repetitions_graphs_and_arms() -> None:
    repetitions, series = repetitions_of(), replace(SWEEP, lifetime=Lifetime.HALF)
    covers = {3: 2, 1: 1, 2: 4}

    def theorem(repetition: figures.Instance) -> theory.Bound:
        assert repetition.agents == 6
        return theory.Bound(float(repetition.clique_cover), sum(repetition.means) + 10 * repetition.gamma)

    figure = Figure("f", "", "", (series,), bounds=(BoundLine("a", series, theorem),))
    bounds = figures.average_bounds(figure, repetitions, lambda _network, gamma: covers[gamma])
    means = sum(sum(repetitions.arms(series, repetition).means) for repetition in range(3))
    assert bounds["a"].slope == pytest.approx((2 + 1 + 4) / 3)
    assert bounds["a"].constant == pytest.approx((means + 10 * (3 + 1 + 2)) / 3)


def test_the_bounds_of_the_first_figure_are_the_papers() -> None:
    repetitions, figure = repetitions_of(1), fig1a(Knobs(epsilon=0.5))
    upper, lower = figures.average_bounds(figure, repetitions, lambda _network, _gamma: 2).values()
    means = repetitions.arms(figure.series[0], 0).means
    assert upper == theory.private(means, agents=6, gamma=3, clique_cover=2, epsilon=0.5)
    assert lower == theory.lower(means)


def test_a_saved_part_comes_back_bit_for_bit(tmp_path: Path) -> None:
    store, result = ResultCache(tmp_path / "new" / "parts"), some_result()
    store.save({"unit": 1}, result)
    again = ResultCache(tmp_path / "new" / "parts").load({"unit": 1}, 2, 5)
    assert again is not None
    for name in (field.name for field in fields(UnitResult)):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name))
    assert len(list((tmp_path / "new" / "parts").iterdir())) == 1


def test_a_part_that_was_never_made_is_missing_and_not_damaged(tmp_path: Path) -> None:
    store = ResultCache(tmp_path)
    store.save({"unit": 1}, some_result())
    assert store.load({"unit": 2}, 2, 5) is None
    assert store.damaged == 0


def spoil(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        middle = content.index(np.float64(7.0).tobytes())
        path.write_bytes(content[:middle] + b"\xff" + content[middle + 1 :])
    elif how == "text":
        path.write_text("not a zip file")
    else:
        with path.open("wb") as file:
            np.savez(file, something=np.zeros(3))


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "text", "fields"])
def test_a_damaged_part_is_counted_and_not_used(tmp_path: Path, how: str) -> None:
    store = ResultCache(tmp_path)
    store.save({"unit": 1}, some_result())
    (path,) = tmp_path.iterdir()
    spoil(path, how)
    assert store.load({"unit": 1}, 2, 5) is None
    assert store.damaged == 1
    store.save({"unit": 1}, some_result())
    assert store.load({"unit": 1}, 2, 5) is not None


def test_a_part_under_the_name_of_another_is_not_used(tmp_path: Path) -> None:
    store = ResultCache(tmp_path)
    store.save({"unit": 1}, some_result())
    (mine,) = tmp_path.iterdir()
    store.save({"unit": 2}, some_result())
    (other,) = set(tmp_path.iterdir()) - {mine}
    shutil.copy(mine, other)
    assert store.load({"unit": 2}, 2, 5) is None
    assert store.damaged == 1


@pytest.mark.parametrize(("repetitions", "rounds"), [(3, 5), (2, 6)])
def test_a_part_of_another_size_is_not_used(tmp_path: Path, repetitions: int, rounds: int) -> None:
    store = ResultCache(tmp_path)
    store.save({"unit": 1}, some_result())
    assert store.load({"unit": 1}, repetitions, rounds) is None
    assert store.damaged == 1


def test_parts_of_another_format_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultCache(tmp_path)
    store.save({"unit": 1}, some_result())
    monkeypatch.setattr(result_cache, "FORMAT", result_cache.FORMAT + 1)
    assert store.load({"unit": 1}, 2, 5) is None


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(OSError(28, "No space left on device"), ConfigurationError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_part_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, expected: type[BaseException]
) -> None:
    store = ResultCache(tmp_path)

    def fail(file: Any, **_arrays: Any) -> None:
        file.write(b"half of it")
        raise fault

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(expected):
        store.save({"unit": 1}, some_result())
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_hold_parts_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="--out"):
        ResultCache(tmp_path / "file" / "parts")


def test_a_place_without_the_right_to_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigurationError, match="not writable"):
        ResultCache(tmp_path)


@pytest.mark.system
def test_processes_measure_what_one_does_and_closing_ends_them() -> None:
    repetitions = repetitions_of(6)
    units = repetitions.units([SWEEP])
    tasks = [(unit, repetitions.specs(unit)) for unit in units]
    alone = dict(carry_out(measure_unit, tasks, 1))
    together = dict(carry_out(measure_unit, tasks, 2))
    assert set(alone) == set(together) == set(units)
    for unit in units:
        assert alone[unit].curve.tolist() == together[unit].curve.tolist()
    assert not children()
    early = carry_out(measure_unit, tasks * 20, 2)
    next(early)
    assert children()
    early.close()
    assert not children()


def children() -> list[str]:
    """Living workers among this process's children."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in found if b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes()]


class Deadly:
    """A spec that ends the process that reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


@pytest.mark.system
def test_a_worker_that_dies_is_reported_with_the_cure() -> None:
    tasks: Any = [(Unit(SWEEP, 1, (repetition,)), [Deadly()]) for repetition in range(2)]
    with pytest.raises(AgentdError, match="fewer --jobs"):
        list(carry_out(measure_unit, tasks, 2))
    assert not children()


@pytest.mark.system
def test_an_interrupt_after_a_task_was_handed_over_ends_the_pool_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's thread, busy with a result, has not yet passed the task on; should it stumble, pytest tells."""
    begun, last_task = threading.Event(), threading.Event()
    pool = import_module("joblib.externals.loky").ProcessPoolExecutor
    really_submit = pool.submit

    def submit(*given: Any) -> Any:
        future = really_submit(*given)
        if given[1] is int:  # what the end waits for
            last_task.set()
        return future

    def read() -> None:
        begun.set()
        last_task.wait(0.3)

    monkeypatch.setattr(pool, "submit", submit)
    monkeypatch.setattr(parallel, "read_long", read, raising=False)

    class LongResult:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, ("import agentd.experiment.parallel as here; here.read_long()",)

    def tasks() -> Iterator[Any]:
        yield None, []
        assert begun.wait(60)
        yield None, []
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(carry_out(lambda _task: LongResult(), tasks(), 2))
    assert not children()


def test_without_joblib_parallel_work_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(SettingsError, match=r"pip install 'agentd-bandits\[analysis\]'"):
        list(carry_out(measure_unit, [], 2))
