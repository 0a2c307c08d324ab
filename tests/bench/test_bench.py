"""The benchmarks measure what they say, on sizes that take seconds."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.bench import flat
from agentd.bench.coding_cost import bench_codec
from agentd.bench.engine_speed import bench_simulate
from agentd.bench.repetitions import spread
from agentd.cli import main
from agentd.cli.bench import draw_network
from agentd.core.bodies import KINDS


def test_a_spread_tells_median_and_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "least": 1.0, "most": 3.0, "repetitions": 3}


def test_the_codec_is_measured_for_every_kind() -> None:
    result = bench_codec(repetitions=1)
    assert set(result) == {kind.name.lower() for kind in KINDS.values()}
    assert all(kind["decode_us_per_message"]["median"] > 0 for kind in result.values())


def test_the_engine_is_measured_for_all_that_is_promised_of_it() -> None:
    result = bench_simulate(lambda seed: draw_network(12, seed), rounds=20, repetitions=1, long_rounds=100)
    assert set(result) == {"private-ucb", "byzantine-ucb", "sealed", "shielded"}
    for measured in result.values():
        assert measured["agent_trials_per_cpu_second"]["median"] > 0
        assert measured["one_run"]["agent_trials_per_cpu_second"]["median"] > 0
        assert measured["growth"]["late_over_early"] > 0


@pytest.mark.system
def test_lockstep_is_measured_against_the_bare_loop(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "lockstep", "--agents", "6", "--rounds", "30", "--repetitions", "1", "--json"])
    assert end.value.code == 0
    both = json.loads(capsys.readouterr().out)["lockstep"]
    assert list(both) == ["ipc", "tcp"]
    for transport, measured in both.items():
        assert (measured["agents"], measured["transport"]) == (6, transport)
        ours, bare = (measured[rate]["median"] for rate in ("rounds_per_s", "bare_rounds_per_s"))
        assert min(ours, bare) > 0
        # Of so few rounds how the two compare is chance: one that is kept from a processor for a moment is slow.
        assert measured["ratio"]["median"] == pytest.approx(ours / bare)
        assert measured["lost_rounds"] == 0


@pytest.mark.system
def test_late_rounds_are_measured_against_early_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "EARLY", (100, 200))
    monkeypatch.setattr(flat, "LATE", (200, 300))
    measured = flat.bench_flatness(1)
    agents, environment = (measured[f"late_over_early{of}"]["median"] for of in ("_cpu", "_environment_cpu"))
    assert measured["late_over_early"]["median"] == pytest.approx(agents / environment)
    assert measured["late_over_early_clock"]["median"] > 0


@pytest.mark.system
def test_the_environment_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "environment", "--repetitions", "1", "--json"])
    both = json.loads(capsys.readouterr().out)["environment"]
    assert {transport: measured["pulls_per_s"] > 100 for transport, measured in both.items()} == {
        "ipc": True,
        "tcp": True,
    }


@pytest.mark.system
def test_no_fork_server_is_left_running() -> None:
    """Not even for a moment: whoever looks right after the command must not see it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentd", "bench", "environment", "--repetitions", "1", "--transport", "ipc"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.wait(timeout=200) == 0
    assert not [line for line in _session(process.pid) if b"multiprocessing.forkserver" in line]


def _session(number: int) -> Iterator[bytes]:
    """The command lines of all processes that belong to a session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[3]) == number:
                yield (entry / "cmdline").read_bytes()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [(["nonsense"], "unknown part nonsense"), (["codec", "--agents", "1"], "at least 2 agents")],
)
def test_what_cannot_be_measured_is_refused(
    flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", *flags])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err
