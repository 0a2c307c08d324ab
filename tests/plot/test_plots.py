"""Pictures say what they show, come out the same every time, and need no library for the plain one."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from agentd.errors import SettingsError
from agentd.plot.curves import PALETTE, Curve, far_apart, number_text, ticks
from agentd.plot.plain_svg import plain_svg
from agentd.plot.with_matplotlib import plot_regret, plot_sweep

ROUNDS = np.arange(1.0, 2001.0)
SVG = "{http://www.w3.org/2000/svg}"


def curve(label: str = "private-ucb", scale: float = 100.0, *, errors: bool = True, dashed: bool = False) -> Curve:
    mean = scale * np.log(ROUNDS)
    return Curve(label, ROUNDS, mean, 0.05 * mean if errors else None, dashed)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own output


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in parsed(svg).iter(f"{SVG}text")]


def points(node: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in node.attrib["points"].split())]


class Recorder:
    """Collects what was drawn, by replacing the writing of the figure."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from matplotlib.figure import Figure

        monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: setattr(self, "axes", figure.axes[0]))

    def labels(self) -> list[str]:
        return [text.get_text().replace("\n", " ") for text in self.axes.get_legend().get_texts()]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


def test_a_figure_is_written_as_svg_and_png_and_twice_the_same(tmp_path: Path) -> None:
    for turn in ("first", "second"):
        svg, png = tmp_path / f"{turn}.svg", tmp_path / f"{turn}.png"
        plot_regret(
            [curve(), curve("ucb1", 400, errors=False)],
            svg,
            png,
            title="Regret",
            subtitle="M = 20",
            bounds=[curve("theorem", 300, errors=False)],
            events=[(700, "agent 3 left")],
        )
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")
    assert parsed((tmp_path / "first.svg").read_text()).tag == f"{SVG}svg"
    assert "dc:date" not in (tmp_path / "first.svg").read_text()


def test_the_png_is_optional(tmp_path: Path) -> None:
    plot_regret([curve()], tmp_path / "only.svg", title="Regret")
    plot_sweep([curve()], tmp_path / "sweep.svg", title="Sweep")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["only.svg", "sweep.svg"]


def test_a_figure_ignores_the_users_style(tmp_path: Path) -> None:
    import matplotlib as mpl

    plot_regret([curve()], tmp_path / "before.svg", title="Regret")
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        plot_regret([curve()], tmp_path / "after.svg", title="Regret")
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "before.svg").read_bytes() == (tmp_path / "after.svg").read_bytes()


def test_axes_are_labelled_and_the_legend_reads_from_the_top_line_down(drawn: Recorder, tmp_path: Path) -> None:
    plot_regret([curve("low", 10), curve("high", 90), curve("middle", 50)], tmp_path / "x", title="T", subtitle="S")
    assert drawn.labels() == ["high", "middle", "low"]
    assert drawn.axes.get_title(loc="left") == "T"
    assert "reward units" in drawn.axes.get_ylabel()
    assert "round" in drawn.axes.get_xlabel()
    notes = [text.get_text() for text in drawn.axes.texts]
    assert "S" in notes
    assert "shaded: ± 2 standard errors" in notes


def test_colours_follow_the_order_given_not_the_rank(drawn: Recorder, tmp_path: Path) -> None:
    plot_regret([curve("low", 10), curve("high", 90)], tmp_path / "x", title="T")
    assert {line.get_label(): line.get_color() for line in drawn.axes.lines} == {"high": PALETTE[1], "low": PALETTE[0]}


def test_measured_curves_set_the_scale_and_high_bounds_are_named_off_scale(drawn: Recorder, tmp_path: Path) -> None:
    far, never = curve("far", 1e6, errors=False), Curve("never", ROUNDS, np.full(2000, math.inf))
    bounds = [curve("near", 50, errors=False), far, never]
    plot_regret([curve()], tmp_path / "x", title="T", bounds=bounds)
    assert drawn.axes.get_ylim() == (0.0, pytest.approx(1.06 * 1.1 * 100 * math.log(2000)))
    assert drawn.labels() == ["private-ucb", "near", "far (off scale: 7,600,902)", "never (infinite)"]


def test_a_logarithmic_scale_shows_every_finite_bound(drawn: Recorder, tmp_path: Path) -> None:
    plot_regret([curve()], tmp_path / "x", title="T", bounds=[curve("far", 1e6)], log_y=True)
    assert drawn.axes.get_yscale() == "log"
    assert drawn.labels() == ["private-ucb", "far"]


def test_a_run_without_regret_can_be_drawn_on_any_scale(tmp_path: Path) -> None:
    nothing = Curve("lucky", ROUNDS, np.zeros(2000), np.zeros(2000))
    plot_regret([nothing], tmp_path / "line.svg", title="T")
    plot_regret([nothing], tmp_path / "log.svg", title="T", log_y=True)
    assert (tmp_path / "log.svg").read_bytes() == (tmp_path / "line.svg").read_bytes()


def test_events_are_numbered_in_time_and_named_in_the_legend(drawn: Recorder, tmp_path: Path) -> None:
    events = [(1500, "liars begin"), (700, "agent 3 left")]
    plot_regret([curve()], tmp_path / "x", title="T", events=events)
    assert drawn.labels()[1:] == ["1  round 700: agent 3 left", "2  round 1,500: liars begin"]


def test_a_sweep_has_error_bars_and_whole_numbers_where_x_is_whole(drawn: Recorder, tmp_path: Path) -> None:
    gammas, regret = np.array([1.0, 2.0, 3.0]), np.array([900.0, 400.0, 250.0])
    curves = [Curve("with", gammas, regret, regret / 20), Curve("without", gammas, regret / 2, dashed=True)]
    plot_sweep(curves, tmp_path / "x", title="T")
    assert "γ" in drawn.axes.get_xlabel()
    assert all(tick == round(tick) for tick in drawn.axes.get_xticks())
    assert [bars.has_yerr for bars in drawn.axes.containers] == [True, False]
    assert "bars: ± 2 standard errors" in [text.get_text() for text in drawn.axes.texts]


def test_a_sweep_over_fractions_keeps_them(drawn: Recorder, tmp_path: Path) -> None:
    share = np.array([0.0, 0.1, 0.2])
    plot_sweep([Curve("a", share, share + 1)], tmp_path / "x", title="T", x_label="liars", y_label="regret", log_y=True)
    assert any(tick != round(tick) for tick in drawn.axes.get_xticks())
    assert (drawn.axes.get_xlabel(), drawn.axes.get_ylabel()) == ("liars", "regret")


def test_without_matplotlib_a_figure_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    with pytest.raises(SettingsError, match=re.escape("pip install 'agentd-bandits[analysis]'")):
        plot_regret([curve()], tmp_path / "x.svg", title="T")


def test_importing_the_module_and_drawing_plainly_load_no_plotting_library() -> None:
    script = (
        "import sys, numpy as np\n"
        "from agentd.plot.plain_svg import plain_svg\n"
        "from agentd.plot.curves import Curve\n"
        "plain_svg([Curve('a', np.arange(3.0), np.arange(3.0))], 'T')\n"
        "sys.exit('matplotlib' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_plain_svg_is_well_formed_and_says_what_it_shows() -> None:
    svg = plain_svg([curve("a <b> & c"), curve("other", 50, errors=False)], "Regret & co", "20 agents")
    words = texts(svg)
    assert {"Regret & co", "20 agents", "a <b> & c", "other", "round (pulls per agent)"} <= set(words)
    assert "cumulative group regret (reward units)" in words
    assert "ends at 380" in [word.split(".")[0] for word in words]
    assert "ends at 760.1 ± 76" in words
    assert "shaded: ± 2 standard errors" in words
    assert svg == plain_svg([curve("a <b> & c"), curve("other", 50, errors=False)], "Regret & co", "20 agents")


def test_a_plain_line_runs_from_the_first_to_the_last_value_inside_the_axes() -> None:
    x = np.array([0.0, 5.0, 10.0])
    svg = plain_svg([Curve("a", x, np.array([0.0, 50.0, 100.0]))], "T")
    (line,) = parsed(svg).iter(f"{SVG}polyline")
    (x0, y0), (x1, y1), (x2, y2) = points(line)
    assert (x0, y0) == (80.0, 400.0)
    assert x2 == 620.0
    assert x1 == pytest.approx((x0 + x2) / 2)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert y2 == pytest.approx(400 - 324 / 1.06, abs=0.1)


def test_long_plain_lines_are_thinned_and_keep_their_ends() -> None:
    x = np.arange(1.0, 100_001.0)
    svg = plain_svg([Curve("a", x, x, x / 10)], "T")
    (line,), (band,) = parsed(svg).iter(f"{SVG}polyline"), parsed(svg).iter(f"{SVG}polygon")
    assert len(points(line)) == 600
    assert len(points(band)) == 1200
    assert (points(line)[0][0], points(line)[-1][0]) == (80.0, 620.0)


def test_a_plain_bound_is_dashed_and_does_not_flatten_the_curve() -> None:
    svg = plain_svg([curve(scale=1, errors=False), curve("theorem", 1e9, errors=False, dashed=True)], "T")
    bound, measured = parsed(svg).iter(f"{SVG}polyline")
    assert "stroke-dasharray" in bound.attrib
    assert "stroke-dasharray" not in measured.attrib
    assert min(y for _, y in points(measured)) < 100.0


def test_infinite_plain_bounds_are_named_but_not_drawn() -> None:
    svg = plain_svg([curve(), Curve("theorem", ROUNDS, np.full(2000, math.inf), dashed=True)], "T")
    assert "ends at ∞" in texts(svg)
    assert "inf" not in svg
    assert "nan" not in svg


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_one_round_is_a_dot(value: float) -> None:
    svg = plain_svg([Curve("a", np.array([1.0]), np.array([value]))], "T")
    (dot,) = parsed(svg).iter(f"{SVG}circle")
    assert 80 < float(dot.attrib["cx"]) < 620
    assert not list(parsed(svg).iter(f"{SVG}polyline"))


def test_bounds_alone_set_the_plain_scale() -> None:
    svg = plain_svg([curve("theorem", 1e9, errors=False, dashed=True)], "T")
    (line,) = parsed(svg).iter(f"{SVG}polyline")
    assert 76.0 < min(y for _, y in points(line)) < 100.0


def test_long_and_empty_plain_labels_stay_in_their_column() -> None:
    words = texts(plain_svg([curve("a very long label that would run out of the picture"), curve("")], "T"))
    assert "a very long label that" in words
    assert all(len(word) <= 40 for word in words)


def test_a_plain_picture_grows_with_its_legend() -> None:
    svg = plain_svg([curve(f"agent {number}") for number in range(15)], "T")
    lowest = max(float(node.attrib["y"]) for node in parsed(svg).iter(f"{SVG}text"))
    assert 460 < lowest < float(parsed(svg).attrib["height"])


def test_labels_break_between_words_but_not_within_an_equation(drawn: Recorder, tmp_path: Path) -> None:
    plot_regret([curve("dp-ucb-int, every agent alone, ε = 1")], tmp_path / "x", title="T")
    (legend,) = drawn.axes.get_legend().get_texts()
    assert legend.get_text().split("\n") == ["dp-ucb-int, every agent alone,", "ε\xa0=\xa01"]


@pytest.mark.parametrize("draw", [plain_svg, lambda curves, title: plot_regret(curves, Path("x"), title=title)])
def test_a_picture_of_nothing_is_refused(draw) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="at least one curve"):
        draw([], "T")


@pytest.mark.parametrize(
    ("x", "mean", "stderr"),
    [
        (np.arange(3.0), np.arange(2.0), None),
        (np.arange(0.0), np.arange(0.0), None),
        (np.ones((2, 2)), np.ones((2, 2)), None),
        (np.arange(3.0), np.arange(3.0), np.arange(2.0)),
        (np.arange(2.0), np.array([1.0, math.nan]), None),
    ],
)
def test_curves_that_do_not_fit_together_are_refused(
    x: np.ndarray, mean: np.ndarray, stderr: np.ndarray | None
) -> None:
    with pytest.raises(ValueError, match="curve 'a'"):
        Curve("a", x, mean, stderr)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 100.0, [0, 20, 40, 60, 80, 100]),
        (1.0, 1000.0, [200, 400, 600, 800, 1000]),
        (0.0, 0.3, [0, 0.1, 0.2, 0.3]),
        (0.5, 1.5, [0.6, 0.8, 1.0, 1.2, 1.4]),
        (0.0, 12.0, [0, 2.5, 5, 7.5, 10]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (12.0, "12"), (1234567.8, "1,234,568"), (0.30000000000000004, "0.3"), (math.inf, "∞")],
)
def test_numbers_are_written_for_people(value: float, expected: str) -> None:
    assert number_text(value) == expected


def test_a_plain_svg_marks_events_and_names_them_in_time() -> None:
    events = [(900, "agent-3 <back>"), (120, "agent-3 killed")]
    svg = plain_svg([curve()], "T", events=events)
    assert svg.count("stroke-dasharray") == 2
    words = texts(svg)
    assert words.index("120: agent-3 killed") < words.index("900: agent-3 <back>")
    assert {"1", "2"} <= set(words)


def test_a_plain_svg_of_hundreds_of_events_stays_a_picture() -> None:
    svg = plain_svg([curve()], "T", events=[(round_, f"event {round_}") for round_ in range(1, 1000)])
    assert svg.count("stroke-dasharray") == 200
    assert "and 983 more, see faults.jsonl" in texts(svg)
    assert "event 17" not in svg


def test_curves_that_are_far_apart_have_a_logarithmic_scale_on_which_all_can_be_read() -> None:
    high, low = curve("alone", 1000.0, errors=False), curve("together", 10.0, errors=False)
    bound = curve("bound", 1e-3, errors=False, dashed=True)
    assert far_apart([high, low])
    assert not far_apart([high, curve("half", 500.0)])
    assert not far_apart([low, bound])  # what was measured decides
    assert not far_apart([curve("nothing", 0.0)])
    lines = [points(line) for line in parsed(plain_svg([high, low, bound], "t", log_y=True)).iter(f"{SVG}polyline")]
    ends = [line[-1][1] for line in lines]
    assert ends == sorted(ends)
    assert ends[1] - ends[0] > 50  # a linear scale would have pressed the second one flat, 3 pixels above the axis
    assert all(math.isfinite(y) for line in lines for _, y in line)
    assert {"10", "100", "1,000"} <= set(texts(plain_svg([high, low], "t", log_y=True)))
    assert "0" not in texts(plain_svg([high, low], "t", log_y=True))


def test_a_subtitle_that_is_too_long_ends_where_the_picture_does() -> None:
    long, short = "many words " * 30, "γ = 2, seed 7"
    said = texts(plain_svg([curve()], "t", long))
    assert any(text.startswith("many words") and text.endswith(" …") and len(text) <= 116 for text in said)
    assert short in texts(plain_svg([curve()], "t", short))
