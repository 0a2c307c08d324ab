"""Figures and sweeps on a Dask cluster: the same to the byte, whoever dies; nobody who sends nonsense is believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import errands_of_others
import numpy as np
import pytest
from click.testing import CliRunner, Result
from dask_processes import DaskProcesses, dask_on_loopback
from evidence import until

from agentd import plugins
from agentd.cli import cli
from agentd.cli.in_memory.experiment import draw_network
from agentd.cluster import dask_client
from agentd.cluster.dask_client import carry_out_on
from agentd.cluster.errand import DONE, FAILED, REFUSED, Errand, Sameness, perform, sameness
from agentd.cluster.scheduler_place import SchedulerPlace
from agentd.errors import AgentdError, ConfigurationError, SettingsError, ToolMissing
from agentd.experiment import parcels
from agentd.experiment.figures import Knobs, fig1a
from agentd.experiment.repeated_runs import Repetitions, Setup
from agentd.sweeps import rows_from_afar
from agentd.sweeps.combinations import grid

FIGURE = ("fig1a", "--agents", "16", "--edge-probability", "0.4", "--rounds", "60", "--repetitions", "16")
LOOPBACK = SchedulerPlace("tcp://127.0.0.1:8786")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets that Dask leaves to the collector


def agentd(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with dask_on_loopback(tmp_path_factory.mktemp("dask")) as started:
        started.worker()
        yield started


@pytest.mark.system
def test_a_figure_is_the_same_to_the_byte_when_a_worker_is_killed_in_the_middle(
    dask: DaskProcesses, tmp_path: Path
) -> None:
    doomed = dask.worker()
    away, here = tmp_path / "away", tmp_path / "here"
    command = [sys.executable, "-m", "agentd", "experiment", *FIGURE, "--out", str(away), "--cluster", dask.address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until(lambda: (away / "parts").is_dir() and any((away / "parts").iterdir()))
    doomed.send_signal(signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert f"on {dask.address}" in said
    assert agentd("experiment", *FIGURE, "--out", str(here), "--jobs", "1").exit_code == 0
    for name in ("fig1a.csv", "fig1a.svg", "fig1a.png"):
        assert (away / name).read_bytes() == (here / name).read_bytes(), name
    again = agentd("experiment", *FIGURE, "--out", str(away), "--cluster", "tcp://127.0.0.1:1", "--json")
    units = json.loads(again.stdout)["units"]
    assert units["resumed"] == units["total"]  # there was nothing left to ask anybody for


@pytest.mark.system
def test_results_that_are_pickles_are_not_loaded(dask: DaskProcesses, tmp_path: Path) -> None:
    place = SchedulerPlace(dask.address)
    trap = tmp_path / "sprung"
    with pytest.raises(AgentdError, match="sent what no measurement is"):
        list(carry_out_on(place, errands_of_others.TRAP, [trap]))
    assert not trap.exists()


@pytest.mark.system
def test_what_goes_wrong_in_a_worker_is_told_in_words_that_drive_no_terminal(dask: DaskProcesses) -> None:
    with pytest.raises(AgentdError, match=r"failed: RuntimeError: \?\[2J out of order$"):
        list(carry_out_on(SchedulerPlace(dask.address), errands_of_others.BROKEN, [1]))


@pytest.mark.system
def test_a_cluster_that_others_reach_is_refused(dask: DaskProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulerPlace, "stranger_among", lambda _self, addresses: addresses[-1])
    with pytest.raises(ConfigurationError, match="where others may reach it"):
        list(carry_out_on(SchedulerPlace(dask.address), errands_of_others.BROKEN, [1]))


def test_nobody_who_answers_is_told_with_69(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client, "CONNECT_S", 0.2)
    with pytest.raises(ToolMissing, match="no Dask scheduler answers at tcp://127"):
        list(carry_out_on(SchedulerPlace("tcp://127.0.0.1:1"), errands_of_others.BROKEN, [1]))
    assert ToolMissing.exit_code == 69


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--cluster", "tcp://10.0.0.7:8786"], "is not on loopback"),
        (["--cluster", "tcp://scheduler:8786"], "is not on loopback"),
        (["--cluster", "tcp://0.0.0.0:8786"], "is not on loopback"),
        (["--cluster", "tcp://127.0.0.1"], "is not an address"),
        (["--cluster", "inproc://127.0.0.1:1"], "is not an address"),
        (["--cluster", "ws://127.0.0.1:1"], "is not an address"),
        (["--cluster", "tcp://[::1"], "is not an address"),
        (["--cluster", "tls://scheduler:8786"], "without certificates nobody knows who answers"),
        (["--cluster", "tls://s:1", "--cluster-tls-ca", "a", "--cluster-tls-cert", "b"], "needs --cluster-tls-key"),
        (["--cluster", "tcp://127.0.0.1:1", "--cluster-tls-ca", "a"], "certificates are for tls://"),
        (["--cluster", "tcp://127.0.0.1:1", "--jobs", "2"], "--jobs is about processes of this machine"),
        (["--cluster-tls-ca", "a"], "name it with --cluster"),
    ],
)
@pytest.mark.parametrize("verb", [("experiment", "fig1a"), ("sweep",)], ids=lambda verb: verb[0])
def test_an_address_that_others_could_be_at_is_refused(
    verb: tuple[str, ...], words: list[str], complaint: str, tmp_path: Path
) -> None:
    done = agentd(*verb, *words, "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, SettingsError)
    assert (complaint in str(done.exception), done.exception.exit_code) == (True, 2)
    assert not (tmp_path / "out").exists()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ca.pem", "member.pem", "member.key")]
    for path in files:
        path.touch(mode=0o600)
    words = ["tls://127.0.0.1:1", *map(str, files)]
    assert SchedulerPlace(*words).encrypted
    files[2].chmod(0o640)
    with pytest.raises(ConfigurationError, match="others may read"):
        SchedulerPlace(*words)
    files[2].unlink()
    with pytest.raises(ConfigurationError, match="No such file"):
        SchedulerPlace(*words)
    os.mkfifo(files[2])
    with pytest.raises(ConfigurationError, match="it is not a file"):
        SchedulerPlace(*words)


def test_a_part_of_the_cluster_that_listens_elsewhere_is_found() -> None:
    assert LOOPBACK.stranger_among(["tcp://127.0.0.1:1", "tcp://[::1]:2"]) is None
    assert LOOPBACK.stranger_among(["tcp://127.0.0.1:1", "tcp://10.0.0.7:2"]) == "tcp://10.0.0.7:2"


def test_workers_with_other_versions_or_plugins_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    errand: Errand[Any, Any] = Errand(str, str.encode, errands_of_others.taken)
    mine = sameness()
    assert perform(errand, 7, mine) == DONE + b"7"
    other = Sameness(mine.parts | {"numpy": "0.1"}, mine.plugins)
    answer = perform(errand, 7, other)
    assert answer.startswith(REFUSED + b"it has numpy ")
    with pytest.raises(ConfigurationError, match="would not give the same numbers: it has numpy"):
        dask_client._taken(LOOPBACK, errand, 7, answer)
    monkeypatch.setenv(plugins.VARIABLE, "json")
    assert b"it lacks 1 of the command's plug-ins" in perform(errand, 7, Sameness(mine.parts, frozenset({"digest"})))
    assert sameness().plugins != mine.plugins


def test_an_answer_of_no_kind_is_a_failure() -> None:
    with pytest.raises(AgentdError, match=r"a worker of tcp://.*:8786 failed"):
        dask_client._taken(LOOPBACK, errands_of_others.BROKEN, 1, FAILED + b"\xff" * 5000)


def small_unit() -> parcels.Task:
    setup = Setup(agents=8, rounds=20, repetitions=2, seed=1, graphs="some", made_by="a test")
    repetitions = Repetitions(setup, lambda seed: draw_network(8, 0.6, seed))
    unit = repetitions.units(fig1a(Knobs()).series)[0]
    return unit, repetitions.specs(unit)


def test_a_figures_numbers_travel_unchanged_and_nonsense_is_refused() -> None:
    task = small_unit()
    done = parcels.MEASURE.work(task)
    content = parcels.pack(done)
    unit, result = parcels.unpack(task, content)
    assert unit == done[0]
    assert parcels.pack((unit, result)) == content
    assert np.array_equal(result.curve, done[1].curve)
    for wrong in (b"", content[:-8], content + bytes(8), b"\0" * (1 << 20)):
        with pytest.raises(ValueError, match="bytes instead of"):
            parcels.unpack(task, wrong)
    numbers = np.frombuffer(content, dtype="<f8")
    believed = []
    for place in range(len(numbers)):
        for wrong_number in (-1.0, np.inf, 1e300):
            changed = numbers.copy()
            changed[place] = wrong_number
            try:
                parcels.unpack(task, changed.tobytes())
            except ValueError:
                continue
            believed.append((place, wrong_number))
    # Time may be anything; an ε (of 2 repetitions, by two ways of counting) has no bound from above.
    epsilons = {1 + row * 2 + column for row in (2, 3) for column in (0, 1)}
    assert {place for place, _ in believed} <= {0} | epsilons
    assert all(number > 0 for _, number in believed)


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        *(("group_regret", value) for value in (-1, "1", None, True, 10**400, 161.0)),
        *(("messages", value) for value in (-1, 1.5, None, 2**63)),
        *(("composed_epsilon", value) for value in (-1.0, "1", [])),
        *(("best_arm_share", value) for value in (1.1, {})),
        *(("seed", value) for value in (3, "2", 2.0)),
        *(("agents", value) for value in (9, 8.0)),
        *(("algorithm", value) for value in ("=cmd()", None)),
    ],
)
def test_a_row_from_a_worker_that_no_run_can_have_is_refused(column: str, wrong: Any) -> None:
    task = (grid({"agents": 8, "edge_probability": 0.6, "rounds": 20}, {"algorithm": ["sealed"]}, 2)[0], 1)
    content = rows_from_afar.pack(rows_from_afar.work(task))
    (row,) = rows_from_afar.unpack(task, content)[1]
    with pytest.raises(ValueError, match=column):
        rows_from_afar.unpack(task, json.dumps([row | {column: wrong}]).encode())


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"[1]", b"[{}]", b"[" * 5000, b"\xff", b"[NaN]", b"[0" + b" " * 20_000 + b"]"]
)
def test_what_is_no_table_is_refused(content: bytes) -> None:
    task = (grid({"agents": 8, "edge_probability": 0.6, "rounds": 20}, {"algorithm": ["sealed"]}, 2)[0], 1)
    with pytest.raises(ValueError, match=r"."):
        rows_from_afar.unpack(task, content)


def test_without_dask_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = agentd("sweep", "--cluster", "tcp://127.0.0.1:1")
    assert isinstance(done.exception, SettingsError)
    assert "agentd-bandits[cluster]" in str(done.exception)
