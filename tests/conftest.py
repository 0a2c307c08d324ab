"""Options and fixtures of the whole test suite."""

from __future__ import annotations

import os

import pytest

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


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AGENTD_… variable of whoever runs the tests must not change what the commands do."""
    for name in [name for name in os.environ if name.startswith("AGENTD_")]:
        monkeypatch.delenv(name)
