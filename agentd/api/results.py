"""What came of a run, as arrays in the units of rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT
from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.directory import read_pulls
from agentd.runs.regret import NOT_PULLED, regret_curve, rounds_made
from agentd.untrusted import read_json_in

if TYPE_CHECKING:
    from agentd.charts.chart import Chart


@dataclass(frozen=True, eq=False)
class Run:
    """A run that was simulated, carried out or loaded.

    `arm` and `reward` have one row for each agent and one column for each trial, which is one pull.
    """

    arm: NDArray[np.int64]
    """Which arm was pulled; −1 where nothing was: an agent was down, or the run was interrupted."""
    reward: NDArray[np.float64]
    """What it paid, in [0, 1]; NaN where nothing was pulled."""
    means: NDArray[np.float64]
    """Of the arms; what nobody in the run knows."""
    summary: dict[str, Any] = field(repr=False)
    """As in summary.json."""
    manifest: dict[str, Any] = field(repr=False)
    """As in manifest.json."""
    path: Path | None = None
    """The run directory, where there is one."""
    references: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """What the regret of a simulated run is held against, by the names of `summary["yardstick"]`."""

    @property
    def agents(self) -> int:
        return int(self.arm.shape[0])

    @property
    def trials(self) -> int:
        return int(self.arm.shape[1])

    @property
    def regret(self) -> NDArray[np.float64]:
        """Cumulative group regret after each round that was made, measured with the true means."""
        arm = np.where(self.arm < 0, NOT_PULLED, self.arm)
        return regret_curve(arm[:, : rounds_made(arm)], tuple(self.means.tolist()))

    @property
    def regret_per_agent(self) -> float:
        curve = self.regret
        return float(curve[-1]) / self.agents if len(curve) else 0.0

    def frame(self) -> Any:
        """One row for each pull that was made, as a pandas DataFrame: agent, trial (from 1), arm, reward."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise SettingsError("a frame needs pandas, which is not installed: pip install pandas") from None
        agent, trial = np.nonzero(self.arm >= 0)
        columns = {
            "agent": agent,
            "trial": trial + 1,
            "arm": self.arm[agent, trial],
            "reward": self.reward[agent, trial],
        }
        return pandas.DataFrame(columns)

    def charts(self) -> list[Chart]:
        """What there is to see, as plain values: `name`, `title`, `series` of `x` and `y`, `marks`; see `as_json`."""
        from agentd.api.reports import told_of

        return told_of(self).charts

    def report(self) -> str:
        """One HTML page about the run, as `agentd report` writes it; `report(a, b)` compares several."""
        from agentd.api.reports import report

        return report(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from agentd.api.reports import fragment_of

        return fragment_of(self)


def run_of(
    arm: NDArray[np.uint16],
    reward: NDArray[np.int32],
    *,
    means: tuple[float, ...],
    summary: dict[str, Any],
    manifest: dict[str, Any],
    path: Path | None = None,
    references: Mapping[str, NDArray[np.float64]] | None = None,
) -> Run:
    """The run of pulls as run directories have them."""
    pulled = arm != NOT_PULLED
    return Run(
        np.where(pulled, arm.astype(np.int64), -1),
        np.where(pulled, reward / UNIT, np.nan),
        np.array(means),
        summary,
        manifest,
        path,
        references or {},
    )


def load_run(path: str | Path) -> Run:
    """Read a run directory, of `agentd up`, `agentd simulate` or this library, while nobody writes to it any more.

    It may come from somebody else: nothing in it is executed, and what is damaged is refused.
    """
    place = Path(path)
    try:
        summary, manifest = (read_json_in(place, name) for name in ("summary.json", "manifest.json"))
        means = tuple(float(mean) for mean in manifest["arms"]["means"])
        arm, reward = read_pulls(place, len(means))
    except FileNotFoundError as fault:
        raise ConfigurationError(
            f"{place} holds no finished run: there is no {Path(str(fault.filename)).name}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise ConfigurationError(f"cannot read the run in {place}: {fault}") from None
    return run_of(arm, reward, means=means, summary=summary, manifest=manifest, path=place)
