"""What faults were doing to whom in a given round: from the log of faults, for who looks at a run again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentd.dashboard.surroundings import Edge
from agentd.shell.link_faults import LinkFaults, parse_sides

DEAD, PAUSED, LATE, LIAR, DISTRUSTED, DISTURBED, DONE = (
    *("dead", "paused", "late", "liar", "distrusted", "disturbed", "done"),
)
"""What an agent may be marked as."""
_BEGINS = {"kill": DEAD, "pause": PAUSED, "lie": LIAR, "disconnect": DISTURBED}
_ENDS = {"restart": (DEAD, PAUSED), "resume": (PAUSED,), "honest": (LIAR,), "reconnect": (DISTURBED,)}


@dataclass(slots=True)
class Afflictions:
    """What has been done so far and not undone, as the log tells it fault by fault."""

    marks: dict[int, set[str]]
    cuts: list[str]

    @classmethod
    def none(cls) -> Afflictions:
        return cls({}, [])

    def befall(self, fault: Mapping[str, Any]) -> None:
        """Take one line of the log in; what cannot be understood changes nothing."""
        verb, parameters = fault.get("verb"), fault.get("parameters")
        parameters = parameters if isinstance(parameters, dict) else {}
        if verb == "partition":
            self._cut(parameters.get("cut"))
        elif verb == "heal":
            self._heal(parameters.get("cut"))
        elif verb in ("delay", "loss"):
            amount = parameters.get("ms", parameters.get("rate"))
            self._mark(fault, DISTURBED, on=bool(amount))
        elif verb in _BEGINS:
            self._mark(fault, _BEGINS[verb], on=True)
        else:
            for mark in _ENDS.get(str(verb), ()):
                self._mark(fault, mark, on=False)

    def cut_edges(self, edges: Sequence[Edge]) -> list[int]:
        """The edges that nothing passes."""
        return cut_edges(self.cuts, edges)

    def _mark(self, fault: Mapping[str, Any], mark: str, *, on: bool) -> None:
        named = fault.get("agents")
        for agent in named if isinstance(named, list) else ():
            if type(agent) is int:
                (self.marks.setdefault(agent, set()).add if on else self.marks.setdefault(agent, set()).discard)(mark)

    def _cut(self, cut: Any) -> None:
        with contextlib.suppress(ValueError, AttributeError):
            parse_sides(cut)
            self.cuts.append(cut)

    def _heal(self, cut: Any) -> None:
        if cut is None:
            self.cuts.clear()
            for marks in self.marks.values():
                marks.discard(DISTURBED)
        elif cut in self.cuts:
            self.cuts.remove(cut)


def cut_edges(cuts: Iterable[str], edges: Sequence[Edge]) -> list[int]:
    """By number, the edges between the sides of these cuts."""
    faults = LinkFaults(cuts=tuple(parse_sides(cut) for cut in cuts))
    return [number for number, (i, j) in enumerate(edges) if faults.between(i, j).cut] if faults.cuts else []
