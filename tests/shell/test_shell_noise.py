from __future__ import annotations

import sys
from typing import Any

import pytest
from laplace_distribution import cumulative

from agentd.core.grid import UNIT
from agentd.core.privacy.laplace import ExactLaplace, SeededLaplace
from agentd.errors import ConfigurationError, SettingsError
from agentd.settings import AgentSettings, TestbedSettings
from agentd.shell.noise import OpenDpLaplace, noise_of


def settings(**changed: Any) -> AgentSettings:
    return AgentSettings(id=3, listen="tcp://127.0.0.1:7001", environment="tcp://127.0.0.1:7000", **changed)


def test_the_noise_is_what_the_settings_ask_for() -> None:
    assert isinstance(noise_of(settings(), 0), ExactLaplace)
    assert isinstance(noise_of(settings(seed=1), 0), SeededLaplace)
    assert isinstance(noise_of(settings(noise="opendp"), 0), OpenDpLaplace)


def test_opendp_draws_the_distribution_that_our_own_sampler_draws() -> None:
    """4,000 draws; the empirical distribution stays within 0.035 of the exact one (chance of more: below 10⁻⁴)."""
    noise, scale = OpenDpLaplace(), UNIT // 3
    drawn = sorted(noise.draw(0, scale) for _ in range(4000))
    assert all(type(x) is int for x in drawn)
    gap = max(abs((place + 1) / len(drawn) - cumulative(x, scale)) for place, x in enumerate(drawn))
    assert gap < 0.035


def test_a_missing_extra_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'agentd-bandits\[opendp\]'") as fault:
        noise_of(settings(noise="opendp"), 0)
    assert fault.value.exit_code == 78


def test_noise_that_takes_no_seed_is_refused_where_a_run_is_to_be_repeated() -> None:
    for make in (settings, TestbedSettings):
        with pytest.raises(SettingsError, match="--noise opendp takes no seed"):
            make(noise="opendp", seed=1)
        with pytest.raises(SettingsError, match="unknown noise 'gauss'; choose one of exact, opendp"):
            make(noise="gauss")
