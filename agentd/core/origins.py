"""Which origins were heard of: agent ids to dense rows, with bounded memory.

Everything an agent remembers per origin (rings, newest bodies, contributions) lives in arrays indexed by these rows,
so that a whole batch is looked up with one indexing operation.

Where the run is closed there is a place for everybody who takes part, and nobody else gets here. In an open run nobody
knows who takes part: the places of neighbours are kept for them, but an agent further away that is heard late may find
that invented names have taken the rest. That cannot be refused without knowing who takes part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import MAX_AGENT_ID, Columns
from agentd.core.terms import Terms

MAX_ORIGINS = 4096
"""In an open run."""
_MOST_SHORT = (1 << 15) - 1
ABSENT = -1
"""The row of an origin that there is no room for."""
OWN = -2
"""The row of the agent itself, which needs no memory of what it said."""

Number = TypeVar("Number", bound=np.generic)


class Origins:
    """The rows of the origins one agent has heard of."""

    def __init__(self, own: int, limit: int = MAX_ORIGINS, *, neighbours: Iterable[int] = ()) -> None:
        self.own = own
        self._expected = set(neighbours) - {own}
        """Neighbours that were not heard of yet; there is a place for each."""
        self._limit = max(limit, len(self._expected))
        # Of all ids, not of all origins: among ten thousand agents this is most of what an agent remembers.
        width = np.int16 if self._limit <= _MOST_SHORT else np.int32
        self._row_of: NDArray[np.int16 | np.int32] = np.full(max(64, own + 1), ABSENT, dtype=width)
        self._row_of[own] = OWN
        self._count = 0

    @classmethod
    def under(cls, terms: Terms, own: int, neighbours: Iterable[int] = ()) -> Origins:
        """Room for all who take part, or where nobody knows them for the neighbours and some others."""
        if not terms.closed:
            return cls(own, neighbours=neighbours)
        return cls(own, terms.agents)

    def __len__(self) -> int:
        return self._count

    @property
    def room(self) -> int:
        """How many rows a per-origin array must have; grows by an eighth, so that arrays grow rarely and stay small."""
        step = max(8, 1 << max(0, self._count.bit_length() - 3))
        return max(1, -(-self._count // step)) * step

    def known_rows(self, origins: Columns) -> Columns:
        """The row of each origin; OWN for the agent itself, ABSENT for those not heard of."""
        if len(origins) and (top := int(origins.max())) >= len(self._row_of):
            self._row_of = grown(self._row_of, min(top + 1 + top // 8, MAX_AGENT_ID + 1), ABSENT)
        return self._row_of[origins].astype(np.int64)

    def rows(self, origins: Columns) -> Columns:
        """The row of each origin, new origins admitted; OWN for the agent itself, ABSENT where there is no room."""
        rows = self.known_rows(origins)
        if self._count < self._limit and (rows == ABSENT).any():
            # Not np.unique, which loads numpy.ma: two megabytes in every agent.
            self._admit(sorted(set(origins[rows == ABSENT].tolist())))
            rows = self.known_rows(origins)
        return rows

    def _admit(self, newcomers: Sequence[int]) -> None:
        """Give places to neighbours, and to as many others as leave room for the neighbours that are still to come."""
        heard = self._expected.intersection(newcomers)
        room = max(0, self._limit - self._count - len(self._expected))
        strangers = [origin for origin in newcomers if origin not in heard][:room]
        self._expected -= heard
        for origin in sorted([*heard, *strangers]):
            self._row_of[origin] = self._count
            self._count += 1


def grown(array: NDArray[Number], size: int, fill: int = 0) -> NDArray[Number]:
    """The array itself if it has `size` rows already, else a longer copy padded with `fill`."""
    if len(array) >= size:
        return array
    longer = np.full((size, *array.shape[1:]), fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def all_differ(rows: Columns) -> bool:
    """Whether none of some rows, at least one, is there twice."""
    return len(rows) == 1 or int(np.bincount(rows).max()) == 1
