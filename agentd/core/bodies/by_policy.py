"""What is judged by how its origin noises: one judge per noise that the terms of a run know."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from agentd.core.bodies.kind import Kind, Mask
from agentd.core.message import Columns
from agentd.core.terms import PolicyTerms, Terms

Judge = TypeVar("Judge")

MIN_EPSILON = 1e-6
"""No policy takes a smaller ε, and noise for one cannot be told from anything."""
_UNKNOWN = PolicyTerms("", None, None, None, ())


class ByPolicy(Generic[Judge]):
    """The judges of one kind of body: mostly one for all origins."""

    def __init__(self, kind: Kind, terms: Terms, make: Callable[[float | None, float | None], Judge]) -> None:
        """`make` is given ε and v, None where nobody knows."""
        policies = terms.policies or (terms.assumed or _UNKNOWN,)
        noises = [_noise_of(policy) if policy.tag in (None, kind.tag) else None for policy in policies]
        distinct = list(dict.fromkeys(noise for noise in noises if noise is not None)) or [_noise_of(_UNKNOWN)]
        self._judges = [make(*noise) for noise in distinct]
        self.only: Judge | None = self._judges[0] if len(distinct) == 1 else None
        """The judge of everybody, if there is one; ask it first, for it is asked in every round."""
        self._place_of = _places_of(terms, tuple(-1 if noise is None else distinct.index(noise) for noise in noises))

    def verdict(self, origin: Columns, judge: Callable[[Judge, Mask], Mask]) -> Mask:
        """Each message by the judge of its origin, who is asked about some rows at once; others are not honest."""
        honest = np.zeros(len(origin), dtype=np.bool_)
        known = (origin >= 0) & (origin < len(self._place_of))
        place = np.where(known, self._place_of[np.where(known, origin, 0)], -1)
        for number, one in enumerate(self._judges):
            rows: Mask = place == number
            if rows.any():
                honest[rows] = judge(one, rows)
        return honest


@lru_cache(maxsize=4)
def _places_of(terms: Terms, places: tuple[int, ...]) -> Columns:
    """For every id up to the largest the place of its policy's judge; all agents of a process share it."""
    place_of: Columns = np.array([*places, -1])[terms.policy_numbers()]
    place_of.flags.writeable = False
    return place_of


def _noise_of(policy: PolicyTerms) -> tuple[float | None, float | None]:
    epsilon = policy.epsilon
    return None if epsilon is None or epsilon < MIN_EPSILON else epsilon, policy.v
