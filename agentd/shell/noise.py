"""Where a running agent's noise comes from: our exact sampler, or OpenDP's where the operator trusts that more.

OpenDP is an optional extra and is loaded only when it is asked for; an agent without it never imports it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib import import_module
from typing import Any

from agentd.core.privacy.laplace import ExactLaplace, Noise, SeededLaplace
from agentd.errors import ConfigurationError, install_with
from agentd.settings import AgentSettings


class OpenDpLaplace:
    """Discrete Laplace noise by OpenDP's `make_laplace` on integers; same distribution, somebody else's sampler."""

    def __init__(self) -> None:
        self._dp = load_opendp()
        self._dp.enable_features("contrib")
        self._space = self._dp.atom_domain(T="i64"), self._dp.absolute_distance(T="i64")
        self._mechanisms: dict[int, Callable[[int], int]] = {}

    def draw(self, arm: int, scale: int) -> int:  # noqa: ARG002 - one source serves every arm
        """Return one integer x with P(x) ∝ exp(−|x|/scale)."""
        mechanism = self._mechanisms.get(scale)
        if mechanism is None:
            mechanism = self._mechanisms[scale] = self._dp.m.make_laplace(*self._space, scale=float(scale))
        return int(mechanism(0))


def load_opendp() -> Any:
    """The library, or a refusal with the cure."""
    try:
        return import_module("opendp.prelude")
    except ImportError:
        raise ConfigurationError(
            f"--noise opendp needs OpenDP, which is not installed: {install_with('opendp')}, or leave --noise out"
        ) from None


def noise_of(settings: AgentSettings, incarnation: int) -> Noise:
    """The noise that the settings ask for."""
    if settings.seed is not None:
        return SeededLaplace(settings.seed, settings.id + (incarnation << 32))  # another life, another stream
    return OpenDpLaplace() if settings.noise == "opendp" else ExactLaplace(secrets.token_bytes)
