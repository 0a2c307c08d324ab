"""Repeated measurements in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, least and most, and how many there were."""
    return {"median": median(values), "least": min(values), "most": max(values), "repetitions": len(values)}
