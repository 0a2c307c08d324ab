"""Options and fixtures of the whole test suite."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker_shared
import pytest
from container_image import PATIENCE_S, image_or_skip
from hypothesis import is_hypothesis_test, settings
from skips import pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]

pytest.register_assert_rewrite("small_runs")

HERE = Path(__file__).parent

# A loaded machine is no fault of the code: no example of a property has to be done within a time.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-scenarios",
        action="store_true",
        help="write the output of tests/scenarios/*.txt anew instead of comparing with it; then read the diff",
    )
    parser.addoption("--examples", type=int, help="try no property on more examples than this; for a quick look")


@pytest.fixture
def record_scenarios(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--record-scenarios"))


def pytest_configure() -> None:
    """Hear Ctrl-C, and let the processes of the tests hear it; a shell makes what it runs in the background deaf."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


COVERING = {"core", "properties", "scenarios", "topology", "wire"}
"""The folders of tests that the floor of coverage stands on. Elsewhere whole runs of agents go through the core, which
tracing every line of makes two to three times as slow and covers nothing new."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever is first to need the container image waits for its build; with --examples properties are tried less."""
    for item in items:
        if item.path.relative_to(HERE).parts[0] not in COVERING:
            item.add_marker(pytest.mark.no_cover)
        if "agentd_image" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
    if (most := config.getoption("--examples")) is not None:
        for test in {item.function for item in items if isinstance(item, pytest.Function)}:
            _try_less(test, most)


def _try_less(test: Any, most: int) -> None:
    """Lower the number of a property's own settings; a profile of hypothesis could not: what a test says goes first."""
    if is_hypothesis_test(test):
        own = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(own, max_examples=min(most, own.max_examples))


@pytest.fixture(scope="session")
def _image() -> str:
    return image_or_skip()


@pytest.fixture
def agentd_image(_image: str) -> str:
    """The tag of the container image of these sources; skips, and says why, where there can be none."""
    docker_shared.share()
    return _image


@pytest.fixture(autouse=True)
def _docker_is_given_back() -> Iterator[None]:
    """Whoever asked for Docker had it until here."""
    yield
    docker_shared.give_back()


@pytest.fixture
def repeatable_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operating system gives the exact sampler, the same in every run: for statistics within this process."""
    chance = random.Random(20261116)
    monkeypatch.setattr("secrets.token_bytes", chance.randbytes)
    monkeypatch.setattr("secrets.randbits", chance.getrandbits)


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AGENTD_… variable of whoever runs the tests must not change what the commands do."""
    for name in [name for name in os.environ if name.startswith("AGENTD_")]:
        monkeypatch.delenv(name)
