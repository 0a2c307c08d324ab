"""What a run is agreed on, as far as the core needs to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """What all agents of a run have agreed on; by it bodies are judged."""

    arms: int
    lifetime: int
    """γ: how many hops an own message travels."""
    epsilon: float | None = None
    """Of the group's sealed releases; None where nobody knows."""
