"""Algorithms that join a figure: under its conditions, once, and only where they can be compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentd.core.policy import ALGORITHMS
from agentd.errors import SettingsError
from agentd.experiment.catalogue import FIGURES
from agentd.experiment.figures import Knobs, fig1a, fig1b, fig1c, fig2
from agentd.experiment.joining import joined_by
from agentd.experiment.repeated_runs import Lifetime


@pytest.mark.parametrize("make", [fig1a, fig1b, fig1c])
def test_it_plays_what_the_first_line_plays(make) -> None:  # type: ignore[no-untyped-def]
    figure = make(Knobs(epsilon=0.5, contamination=0.01))
    joined = joined_by(figure, ["coop-thompson"])
    *before, line = joined.series
    assert tuple(before) == figure.series
    first = figure.series[0]
    assert line == replace(first, name="coop-thompson", label=line.label, algorithm="coop-thompson")
    assert line.label.startswith("coop-thompson, ")


def test_who_tells_nothing_has_no_lifetime_where_that_is_not_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "mute", replace(ALGORITHMS["ucb1"], name="mute"))
    assert joined_by(fig1a(Knobs()), ["mute"]).series[-1].lifetime is Lifetime.NONE
    assert joined_by(fig1c(Knobs()), ["mute"]).series[-1].lifetime is Lifetime.SWEEP
    assert joined_by(fig2(Knobs()), ["mute"]).series[-1].lifetime is Lifetime.NONE


def test_at_equal_promises_one_with_disjoint_releases_has_a_point_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "mine", replace(ALGORITHMS["sealed"], name="mine"))
    figure = fig2(Knobs())
    promises = [series.promise for series in figure.series if series.algorithm == "sealed"]
    lines = joined_by(figure, ["mine"]).series[-len(promises) :]
    assert [(line.promise, line.policy.epsilon) for line in lines] == [(each, each) for each in promises]
    assert {line.algorithm for line in lines} == {"mine"}


def test_at_equal_promises_one_whose_epsilon_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "mine", replace(ALGORITHMS["private-ucb"], name="mine"))
    with pytest.raises(SettingsError, match="same composed ε, and mine does not say"):
        joined_by(fig2(Knobs()), ["mine"])


@pytest.mark.parametrize("names", [["ucb1"], ["byzantine-ucb", "byzantine-ucb"]])
def test_nobody_joins_twice(names: list[str]) -> None:
    with pytest.raises(SettingsError, match="fig1a shows it already"):
        joined_by(FIGURES["fig1a"](Knobs()), names)
