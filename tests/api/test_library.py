"""The library gives what the commands give, in the units of rewards, and refuses in sentences."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentd
from agentd import Agent, Noiseless, Run, SettingsError, Silent, load_run, register_policy, run, simulate, sweep
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS
from agentd.errors import ConfigurationError
from agentd.runs.regret import group_regret

SMALL: dict[str, Any] = {"agents": 5, "edge_probability": 0.8, "rounds": 40, "seed": 3}


class FirstArm(Silent, Noiseless):
    """Always the first arm."""

    def __init__(self, *_made_of: Any) -> None:
        pass

    def choose(self, trial: int) -> int:
        return 0

    def observe(self, *_seen: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def _forgets_what_a_test_registers() -> Any:
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


def test_every_name_is_there_and_a_daemon_loads_none_of_them() -> None:
    for name in agentd.__all__:
        assert getattr(agentd, name) is not None
    assert set(agentd.__all__) <= set(dir(agentd))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = agentd.nothing  # type: ignore[attr-defined]
    code = "import agentd, agentd.cli, sys; sys.exit(any(n.startswith('agentd.api') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_simulated_run_is_what_its_arrays_say() -> None:
    done = simulate(algorithm="sealed", arms=(0.9, 0.4), **SMALL)
    assert done.arm.shape == done.reward.shape == (done.agents, done.trials) == (5, 40)
    assert set(np.unique(done.reward)) <= {0.0, 1.0}
    assert done.means.tolist() == [0.9, 0.4]
    assert done.regret[-1] == pytest.approx(group_regret(done.arm.astype(np.uint16), (0.9, 0.4)))
    assert done.summary["regret_per_agent"] == pytest.approx(done.regret_per_agent)
    assert done.manifest["runtime"] == "simulate/vector"


def test_both_engines_give_the_same() -> None:
    one, other = (simulate(algorithm="coop-thompson", engine=engine, **SMALL) for engine in ("vector", "agents"))
    assert (one.arm == other.arm).all()
    with pytest.raises(SettingsError, match="engine"):
        simulate(engine="steam", **SMALL)


@pytest.mark.system
def test_real_processes_make_the_pulls_that_were_simulated(tmp_path: Path) -> None:
    real = run(algorithm="sealed", run_dir=tmp_path / "run", **SMALL)
    assert (real.arm == simulate(algorithm="sealed", **SMALL).arm).all()
    loaded = load_run(tmp_path / "run")
    assert (loaded.arm == real.arm).all()
    assert np.array_equal(loaded.reward, real.reward)
    with pytest.raises(agentd.AgentdError, match="not empty"):
        run(algorithm="sealed", run_dir=tmp_path / "run", **SMALL)


@pytest.mark.system
def test_a_class_runs_in_processes_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from agentd import Noiseless, Silent\n\n\nclass LastArm(Silent, Noiseless):\n"
        "    def __init__(self, settings, own, coins):\n        self.last = settings.arms - 1\n\n"
        "    def choose(self, trial):\n        return self.last\n\n"
        "    def observe(self, intent, reward, told):\n        pass\n"
    )
    real = run(algorithm=f"{tmp_path / 'mine.py'}:LastArm", **SMALL)
    assert (real.arm == len(real.means) - 1).all()
    assert real.path is None


def test_a_class_is_an_algorithm() -> None:
    done = simulate(algorithm=FirstArm, **SMALL)
    assert (done.arm == 0).all()
    assert done.summary["algorithm"] == "first-arm"
    assert register_policy(FirstArm).name == "first-arm", "again is no harm"
    with pytest.raises(ValueError, match="already"):
        register_policy(type("FirstArm", (FirstArm,), {"name": "first-arm"}))


def test_a_run_with_holes_has_nan(tmp_path: Path) -> None:
    arm = np.array([[0, 1, 65535]], dtype=np.uint16)
    np.savez(tmp_path / "pulls.npz", arm=arm, reward=np.array([[UNIT, 0, -1]], dtype=np.int32))
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "manifest.json").write_text(json.dumps({"arms": {"means": [0.5, 0.25]}}))
    loaded = load_run(tmp_path)
    assert loaded.arm.tolist() == [[0, 1, -1]]
    assert loaded.reward[0, :2].tolist() == [1.0, 0.0]
    assert math.isnan(loaded.reward[0, 2])
    assert loaded.regret.tolist() == [0.0, 0.25], "the last round was not made"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", b"[" * 100_000),
        ("manifest.json", b"{}"),
        ("pulls.npz", b"not an archive"),
        ("pulls.npz", b""),
    ],
)
def test_a_hostile_directory_is_refused_in_a_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    test_a_run_with_holes_has_nan(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"cannot read|holds no"):
        load_run(tmp_path)


def test_pickles_are_not_read(tmp_path: Path) -> None:
    test_a_run_with_holes_has_nan(tmp_path)
    np.savez(tmp_path / "pulls.npz", arm=np.array([{}], dtype=object), reward=np.array([{}], dtype=object))
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_run(tmp_path)
    with pytest.raises(ConfigurationError, match="holds no finished run"):
        load_run(tmp_path / "nowhere")


def test_neither_a_pipe_nor_a_bomb_holds_up_who_reads_a_run(tmp_path: Path) -> None:
    test_a_run_with_holes_has_nan(tmp_path)
    (tmp_path / "pulls.npz").unlink()
    os.mkfifo(tmp_path / "pulls.npz")
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_run(tmp_path)
    (tmp_path / "pulls.npz").unlink()
    with zipfile.ZipFile(tmp_path / "pulls.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("arm.npy", "reward.npy"):
            archive.writestr(name, bytes(600 << 20))
    with pytest.raises(ConfigurationError, match="unpacks to more"):
        load_run(tmp_path)


def test_a_sweep_is_a_table(tmp_path: Path) -> None:
    axes = {"algorithm": ["sealed", FirstArm], "epsilon": [0.5, 1.0]}
    table = sweep(axes, repetitions=2, jobs=1, out=tmp_path, agents=4, rounds=20)
    assert len(table) == len(list(table)) == 8
    assert table.varied == ("algorithm", "epsilon")
    assert table.column("regret_per_agent").shape == (8,)
    assert np.isnan(table.column("composed_epsilon")[-1]), "no noise, no ε"
    assert (tmp_path / "sweep.csv").is_file()
    with pytest.raises(SettingsError, match="no column"):
        table.column("colour")
    with pytest.raises(SettingsError, match="no setting colour"):
        sweep({"colour": ["red"]})


def test_frames_need_pandas_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for made in (simulate(**SMALL), sweep({"agents": [4]}, repetitions=1, jobs=1, rounds=10)):
        with pytest.raises(SettingsError, match="pip install pandas"):
            made.frame()  # type: ignore[attr-defined]


def group(**changes: Any) -> list[Agent]:
    usual: dict[str, Any] = {"arms": 2, "agents": 3, "algorithm": "coop-ucb", "gamma": 1}
    return [Agent(own, **(usual | changes)) for own in range(3)]


def play(agents: list[Agent], rounds: int) -> None:
    for _ in range(rounds):
        frames = [agent.reward([0.9, 0.1][agent.choose()]) for agent in agents]
        for own, agent in enumerate(agents):
            for other, frame in enumerate(frames):
                assert other == own or agent.hear(frame)


@pytest.mark.parametrize("algorithm", ["coop-ucb", "sealed", "private-ucb", "coop-thompson", "byzantine-ucb"])
def test_embedded_agents_learn_from_each_other_and_drop_nothing(algorithm: str) -> None:
    agents = group(algorithm=algorithm)
    play(agents, 60)
    assert [agent.dropped for agent in agents] == [{}, {}, {}]
    assert {agent.trial for agent in agents} == {60}
    assert (agents[0].epsilon is None) == (not ALGORITHMS[algorithm].noised)


def test_what_embedded_agents_hear_is_judged() -> None:
    agents = group()
    frame = agents[1].reward(1.0)
    assert not agents[0].hear(b"")
    assert not agents[0].hear(b"\xff" * 100)
    assert not agents[0].hear(frame[:-1])
    (stranger,) = [Agent(1, arms=2, agents=3, algorithm="coop-ucb", run=b"another!")]
    assert not agents[0].hear(stranger.reward(1.0))
    assert sum(agents[0].dropped.values()) == 4
    assert agents[0].hear(frame)


def test_an_embedded_agent_with_a_seed_is_reproducible() -> None:
    runs = []
    for _ in range(2):
        agents = group(algorithm="sealed", seed=5)
        play(agents, 30)
        runs.append([agent.reward(0.5) for agent in agents])
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"agents": 0}, "own must be"),
        ({"run": b"x"}, "run is 8 bytes"),
        ({"algorithm": "nobody"}, "no algorithm"),
        ({"colour": 1}, "colour"),
        ({"seed": -1}, "seed must be"),
        ({"gamma": -1}, "lifetime"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        Agent(0, **({"arms": 2, "agents": 3} | wrong))


@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.1, float("inf")])
def test_a_reward_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(SettingsError, match="a reward is a number"):
        group()[0].reward(value)


def test_settings_that_do_not_exist_are_named() -> None:
    with pytest.raises(SettingsError, match="no setting colour"):
        simulate(colour="red")
    assert isinstance(simulate(gamma=1, **SMALL), Run)


def test_a_run_shows_itself_in_memory_as_from_its_directory(tmp_path: Path) -> None:
    place = tmp_path / "run"
    words = ["simulate", "--agents", "5", "--edge-probability", "0.8", "--rounds", "40", "--seed", "3"]
    subprocess.run([sys.executable, "-m", "agentd", *words, "--run-dir", str(place)], check=True, capture_output=True)
    made, loaded = simulate(**SMALL), load_run(place)
    assert [chart.name for chart in made.charts()] == ["regret", "share"]
    kept = {chart.name: chart for chart in loaded.charts()}
    assert set(kept) - {"regret", "share"} == {"messages_over_time", "bytes_over_time"}, (
        "of the history in the directory"
    )
    for here in made.charts():
        there = kept[here.name]
        assert [line.label for line in here.series] == [line.label for line in there.series]
        assert [line.last for line in here.series] == pytest.approx([line.last for line in there.series], abs=1e-5)
    assert "<script" not in made.report()
    assert "2 runs compared" in agentd.report(made, place)
    assert loaded._repr_html_().count("<svg") == 2
    with pytest.raises(SettingsError, match="at least one run"):
        agentd.report()
