"""What a run is held against: the same arms, seed and rounds, played by others, and what nobody beats in the long run.

It is the environment's view, as all of the summary: it is made with the true means and with the streams that rewards
come from, which no agent knows. References have the pulls that the run made and no others, so that an agent that
crashed, or a run that was interrupted, is compared with as many pulls of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from agentd.plot.curves import Curve

VIEW = "the environment's: made with the true means and the streams of rewards, which no agent knows"
NAMES = {
    "alone": "ucb1, every agent alone",
    "alone_thompson": "Thompson sampling, every agent alone",
    "coop_thompson": "coop-thompson: every pull shared, not private",
    "lower_bound": "lower bound of any group in the long run (Lai and Robbins)",
}
"""Every reference by its name in summary.json and regret.csv."""
SIMULATED = tuple(name for name in NAMES if name != "lower_bound")


@dataclass(frozen=True, slots=True, eq=False)
class Yardstick:
    """Group regret after each round of each reference, and why one is missing."""

    agents: int
    rounds: int
    """Those that the run made."""
    curves: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As in summary.json; a reference that is left out is null."""
        return {
            "view": VIEW,
            "rounds": self.rounds,
            **{name: self._figures(name) for name in NAMES},
            "left_out": dict(self.left_out),
        }

    def _figures(self, name: str) -> dict[str, Any] | None:
        if name not in self.curves:
            return None
        regret = float(self.curves[name][-1])
        return {"what": NAMES[name], "group_regret": regret, "regret_per_agent": regret / self.agents}

    def without(self, name: str) -> Yardstick:
        """Without one of the references."""
        return replace(self, curves={each: curve for each, curve in self.curves.items() if each != name})

    def plotted(self) -> list[Curve]:
        """The references as lines of a picture; the bound is dashed."""
        from agentd.plot.curves import Curve  # at the end of a run only

        rounds = np.arange(1.0, self.rounds + 1.0)
        return [Curve(_label(name), rounds, one, dashed=name not in SIMULATED) for name, one in self.curves.items()]


def _label(name: str) -> str:
    return f"{NAMES[name]} (simulated)" if name in SIMULATED else NAMES[name]


def table_lines(yardstick: Mapping[str, Any]) -> list[str]:
    """What summary.json has of it, for a person."""
    there = [yardstick[name] for name in NAMES if yardstick.get(name)]
    widths = [max((len(f"{one[key]:,.{digits}f}") for one in there), default=0) for key, digits in _SHOWN]
    lines = []
    for one in there:
        group, each = (f"{one[key]:{width},.{digits}f}" for (key, digits), width in zip(_SHOWN, widths, strict=True))
        lines.append(f"{group} ({each} per agent)  {one['what']}")
    if any(yardstick.get(name) for name in SIMULATED):
        lines.append("simulated, same arms, seed and rounds; the environment's view: no agent knows it")
    lines += sorted({f"not simulated: {why}" for name, why in yardstick["left_out"].items() if name in SIMULATED})
    return lines


_SHOWN = (("group_regret", 1), ("regret_per_agent", 2))
