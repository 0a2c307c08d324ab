"""Pulls under way: taken when their time is over, whatever came, and never waited for."""

from __future__ import annotations

import math
import threading
from collections import Counter

import pytest
from evidence import PATIENCE_S, in_s, until

from agentd.core.grid import UNIT
from agentd.errors import ConfigurationError
from agentd.real_arms.function import Function, made_by
from agentd.real_arms.kinds import fault_of, is_real, runs_code
from agentd.real_arms.pulling import LEAST, Pulling


def pulling(pays: object, bounds: tuple[float, float] = (0.0, 1.0), workers: int = 1) -> Pulling:
    return Pulling([Function(pays) for _ in range(workers)], bounds)  # type: ignore[arg-type]


def asked(arms: Pulling, trial: int = 1) -> int:
    arms.ask(trial, 0, trial, in_s(PATIENCE_S))
    until(lambda: arms.has(trial))
    return arms.take(trial)


def test_rewards_are_shares_of_their_bounds() -> None:
    assert asked(pulling(lambda _arm, _trial: -1.0, (-2.0, 2.0))) == UNIT // 4
    assert asked(pulling(lambda _arm, _trial: 2, (-2.0, 2.0))) == UNIT


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1.0000001, -1e-300, 10**400])
def test_what_is_outside_counts_as_the_least(reward: float) -> None:
    arms = pulling(lambda _arm, _trial: reward)
    assert asked(arms) == LEAST
    assert arms.faults == Counter(range=1)


@pytest.mark.parametrize("reward", ["0.5", None, True, [0.5]])
def test_what_is_no_number_counts_as_the_least(reward: object) -> None:
    arms = pulling(lambda _arm, _trial: reward)
    assert asked(arms) == LEAST
    assert arms.faults == Counter(unreadable=1)


@pytest.mark.parametrize("fault", [ValueError("no mirror"), SystemExit(3)])
def test_a_function_that_fails_or_wants_to_end_everything_is_a_fault_and_asked_again(fault: BaseException) -> None:
    def pays(_arm: int, trial: int) -> float:
        if trial == 1:
            raise fault
        return 1.0

    arms = pulling(pays)
    assert (asked(arms, 1), asked(arms, 2)) == (LEAST, UNIT)
    assert arms.faults == Counter(ended=1)


def test_one_that_hangs_makes_pulls_late_and_then_busy_and_nothing_grows() -> None:
    over = threading.Event()
    arms = pulling(lambda _arm, _trial: over.wait() and 1.0)
    for trial in range(1, 51):
        arms.ask(trial, 0, trial, in_s(0.0))
        assert arms.take(trial) == LEAST
    assert arms.faults["busy"] >= 47
    assert sum(arms.faults.values()) == 50
    assert arms._jobs.qsize() <= 2
    over.set()


def test_what_comes_too_late_counts_for_no_other_pull() -> None:
    gates = {1: threading.Event(), 2: threading.Event()}
    begun: list[int] = []
    answered: list[int] = []

    def pays(_arm: int, trial: int) -> float:
        begun.append(trial)
        gates[trial].wait()
        answered.append(trial)
        return 1.0 if trial == 1 else 0.25

    arms = pulling(pays)
    arms.ask(1, 0, 1, in_s(0.0))
    until(lambda: begun == [1])
    assert arms.take(1) == LEAST
    arms.ask(2, 0, 2, in_s(PATIENCE_S))
    gates[1].set()
    until(lambda: answered == [1])
    assert not arms.has(2)
    gates[2].set()
    until(lambda: arms.has(2))
    assert arms.take(2) == UNIT // 4
    assert not arms._came


def test_a_factory_makes_the_function(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("arms")
    (place / "my_mirrors.py").write_text("def make():\n    return lambda arm, trial: arm / 4\nnothing = 3\n", "utf-8")
    monkeypatch.syspath_prepend(str(place))
    assert made_by("my_mirrors:make")(1, 1) == 0.25
    for wrong in ("my_mirrors:nothing", "my_mirrors:absent", "no_such_module_at_all:make"):
        with pytest.raises(ConfigurationError, match="python:"):
            made_by(wrong)


@pytest.mark.parametrize(
    "name",
    ["exec:./mirror.sh 'eth 0'", "http://127.0.0.1:8080/pull", "http://hub", "python:mirrors:make", "http://[::1]:80/"],
)
def test_names_of_real_arms(name: str) -> None:
    assert is_real(name)
    assert fault_of(name) is None
    assert runs_code(name) == (not name.startswith("http"))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "exec:",
            "exec:'unclosed",
            "exec:  ",
            "python:mirrors",
            "python:os:system; x",
            "python:../x:make",
            "https://hub/",
        ),
        *(
            "http://",
            "http://hub:0/",
            "http://hub:99999/",
            "http://a b/",
            "http://me:secret@hub/",
            "http://hub/\r\nX: y",
        ),
    ],
)
def test_what_names_none_is_told_so(name: str) -> None:
    assert is_real(name)
    assert fault_of(name) is not None


def test_an_address_of_an_environment_is_none() -> None:
    assert not is_real("tcp://hub:7000")
    assert not is_real("ipc:///run/agentd/env")
