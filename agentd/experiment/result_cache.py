"""What one unit of work measured, and the directory in which finished units survive an interrupt.

A result is found by the hash of everything that decides its numbers, so a directory never answers with the numbers of
other settings. A result is complete or not there: it is written beside its place and moved.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.errors import ConfigurationError
from agentd.files import OwnDirectory, replacing

FORMAT = 4
"""Raised whenever results written before no longer mean the same."""

Floats = NDArray[np.float64]

PER_REPETITION = ("final", "honest", "epsilon", "epsilon_at_delta", "fallbacks", "messages", "bytes", "message_bytes")


@dataclass(frozen=True, slots=True, eq=False)
class UnitResult:
    """The repetitions of one unit, in its order; NaN where a quantity does not exist."""

    final: Floats
    """Group regret after the last round, per repetition."""
    curve: Floats
    """Group regret, repetition × round."""
    epsilon: Floats
    """The ε that one changed reward was really exposed to, of the worst agent, per repetition."""
    epsilon_at_delta: Floats
    """At δ = DELTA, of what was going to be released at most."""
    fallbacks: Floats
    """The share of robust estimates that had to use the plain mean, per repetition."""
    seconds: float
    """How long the unit took."""
    messages: Floats
    """Messages sent, per repetition, each once per neighbour it was sent to."""
    bytes: Floats
    """Bytes of all frames, per repetition; NaN where nobody asked, because counting them takes a third of the run."""
    message_bytes: Floats
    """The same without the headers of the frames."""
    honest: Floats
    """Regret of one honest agent on average, per repetition; NaN where everybody lies."""


class ResultCache:
    """Finished results by their description."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.damaged = 0
        """Parts that were found but could not be used."""
        try:
            OwnDirectory.made(directory).close()
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(13, "not writable", str(directory))
        except OSError as fault:
            raise _unusable(directory, fault) from None

    def load(self, description: Mapping[str, Any], repetitions: int, rounds: int) -> UnitResult | None:
        """The part of this description; None where there is none, or none that can be trusted."""
        text = _canonical(description)
        try:
            with self._path(text).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                result = _result_of(arrays, text)
        except FileNotFoundError:
            return None
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
            result = None
        if result is None or not _complete(result, repetitions, rounds):
            self.damaged += 1
            return None
        return result

    def save(self, description: Mapping[str, Any], result: UnitResult) -> None:
        """Keep a part; what is on disk under its name is always complete."""
        text = _canonical(description)
        path = self._path(text)
        per_repetition = {name: getattr(result, name) for name in PER_REPETITION}
        try:
            with replacing(path, shared=True) as file:
                np.savez(file, description=text, curve=result.curve, seconds=result.seconds, **per_repetition)
        except OSError as fault:
            raise _unusable(self._directory, fault) from None

    def _path(self, text: str) -> Path:
        return self._directory / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def _canonical(description: Mapping[str, Any]) -> str:
    return json.dumps({"format": FORMAT, **description}, sort_keys=True)


def _result_of(arrays: Mapping[str, NDArray[Any]], text: str) -> UnitResult | None:
    """The part in an opened file; None where it was made for something else."""
    if str(arrays["description"]) != text:
        return None
    per_repetition = {name: np.asarray(arrays[name], dtype=np.float64) for name in PER_REPETITION}
    return UnitResult(
        curve=np.asarray(arrays["curve"], dtype=np.float64), seconds=float(arrays["seconds"]), **per_repetition
    )


def _complete(result: UnitResult, repetitions: int, rounds: int) -> bool:
    whole = all(getattr(result, name).shape == (repetitions,) for name in PER_REPETITION)
    return whole and result.curve.shape == (repetitions, rounds) and bool(np.isfinite(result.curve).all())


def _unusable(directory: Path, fault: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot write to {directory}: {fault.strerror or fault}; name another place with --out")
