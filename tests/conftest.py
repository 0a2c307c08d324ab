"""Options and fixtures of the whole test suite."""

from __future__ import annotations

import os
import random
import signal

import pytest
from container_image import PATIENCE_S, image_or_skip

pytest.register_assert_rewrite("small_runs")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-scenarios",
        action="store_true",
        help="write the output of tests/scenarios/*.txt anew instead of comparing with it; then read the diff",
    )


@pytest.fixture
def record_scenarios(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--record-scenarios"))


def pytest_configure() -> None:
    """Hear Ctrl-C, and let the processes of the tests hear it; a shell makes what it runs in the background deaf."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever is first to need the container image waits for its build."""
    for item in items:
        if "agentd_image" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="session")
def agentd_image() -> str:
    """The tag of the container image of these sources; skips, and says why, where there can be none."""
    return image_or_skip()


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
