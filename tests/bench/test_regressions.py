"""A bench held against an earlier one: ratios within each run, what varies anyway, and files that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentd.bench.reference import reference_units_per_cpu_s
from agentd.bench.regressions import FORMAT, compare, read_baseline, table
from agentd.bench.repetitions import spread
from agentd.cli import cli
from agentd.errors import ConfigurationError

ROOT = Path(__file__).parents[2]


def bench_of(*, speed: float = 100.0, ratio: float = 0.5, trials: float = 2e6, agents: int = 20) -> dict[str, Any]:
    around = (0.99, 1.0, 1.01)
    return {
        "format": FORMAT,
        "reference": {"units_per_cpu_s": spread([speed * by for by in around])},
        "lockstep": {"ipc": {"agents": agents, "ratio": spread([ratio * by for by in around])}},
        "simulate": {"sealed": {"agent_trials_per_cpu_second": spread([trials * by for by in around])}},
    }


def words_of(now: dict[str, Any], then: dict[str, Any]) -> dict[str, str]:
    return {change.name.partition(".")[0]: change.word(1.25) for change in compare(now, then)}


def test_a_machine_of_half_the_speed_is_no_regression() -> None:
    assert words_of(bench_of(speed=50, trials=1e6), bench_of()) == {"lockstep": "as before", "simulate": "as before"}


def test_what_became_slower_on_the_same_machine_is_told_with_its_ratio() -> None:
    changes = compare(bench_of(trials=1e6, ratio=0.8), bench_of())
    assert [(one.word(1.25), one.regressed(1.25)) for one in changes] == [("better", False), ("WORSE", True)]
    assert changes[1].times_worse == pytest.approx(2)
    assert "× 2.00  WORSE" in table(changes, 1.25)


def test_a_change_within_its_own_spread_is_noisy() -> None:
    now = bench_of(ratio=0.3)
    now["lockstep"]["ipc"]["ratio"]["most"] = 0.6
    change = compare(now, bench_of())[0]
    assert (change.word(1.25), change.regressed(1.25)) == ("noisy", False)


def test_figures_of_other_sizes_are_not_compared() -> None:
    assert set(words_of(bench_of(agents=20), bench_of(agents=200))) == {"simulate"}
    other = bench_of(agents=200)
    del other["simulate"]
    with pytest.raises(ConfigurationError, match="nothing that this bench measured alike"):
        compare(bench_of(), other)


def test_the_reference_does_something() -> None:
    assert reference_units_per_cpu_s(units=2) > 0


def agentd_bench(baseline: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["bench", "codec", "--compare", str(baseline), *words])


DEEP = b'{"format": 1, "codec": ' + b"[" * 60 + b"]" * 60 + b"}"
REFERENCE = b'"reference": {"units_per_cpu_s": 5}'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "cannot be used"),
        (b"\xff\xfe", "UTF-8"),
        (b"[]", "is not what `agentd bench --json` writes"),
        (b'{"format": 99}', "is not what `agentd bench --json` writes"),
        (b'{"format": 1}', "it holds no figure"),
        (DEEP, "nested too deeply"),
        (b'{"format": 1, "codec": {"a": {"bytes_per_message": 5}}}', "reference.units_per_cpu_s is no positive number"),
        (b'{"format": 1, "flat": {"late_over_early": "1"}, %s}' % REFERENCE, "is no positive number"),
        (b'{"format": 1, "flat": {"late_over_early": NaN}, %s}' % REFERENCE, "is no positive number"),
        (b'{"format": 1, "flat": {"late_over_early": -1}, %s}' % REFERENCE, "is no positive number"),
        (b'{"format": 1, "flat": {"late_over_early": 1%s}, %s}' % (b"0" * 400, REFERENCE), "is no positive number"),
        (b'{"format": 1, "flat": {"late_over_early": {"median": 1}}, %s}' % REFERENCE, "is no positive number"),
        (b'{"format": 1, "codec": {"\\u001b[2J": {"bytes_per_message": []}}, %s}' % REFERENCE, r"codec.?[2J"),
        (b" " * (1 << 20) + b"{}", "longer than"),
    ],
)
def test_a_broken_or_hostile_baseline_is_refused_in_a_sentence(tmp_path: Path, content: bytes, complaint: str) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_bytes(content)
    done = agentd_bench(baseline)
    assert isinstance(done.exception, ConfigurationError), done.output
    assert complaint in str(done.exception)
    assert "\x1b" not in str(done.exception)
    assert done.exception.exit_code == 78


def test_a_baseline_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        assert isinstance(agentd_bench(place).exception, ConfigurationError)


def test_the_command_ends_with_1_when_a_figure_is_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = {"report": {"bytes_per_message": 30.0}}
    monkeypatch.setattr("agentd.bench.coding_cost.bench_codec", lambda: fake)
    written = CliRunner().invoke(cli, ["bench", "codec", "--json"])
    baseline = tmp_path / "baseline.json"
    baseline.write_text(written.stdout, encoding="utf-8")
    assert agentd_bench(baseline).exit_code == 0
    fake["report"]["bytes_per_message"] = 60.0
    worse = agentd_bench(baseline, "--json")
    assert worse.exit_code == 1
    (told,) = json.loads(worse.stdout)["comparison"]
    assert (told["times_worse"], told["word"]) == (2.0, "WORSE")
    assert agentd_bench(baseline, "--worse-than", "3").exit_code == 0


def test_the_committed_baseline_can_be_compared_with() -> None:
    baseline = read_baseline(str(ROOT / "docs" / "baseline.json"))
    changes = compare(baseline, baseline)
    assert {change.name.partition(".")[0] for change in changes} == {"codec", "simulate", "environment", "lockstep"}
    assert {change.word(1.25) for change in changes} == {"as before"}
