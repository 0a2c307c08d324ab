"""Sweeps from a program: a grid of settings, simulated, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd import plugins
from agentd.api.policies import named, where_it_stands
from agentd.errors import SettingsError
from agentd.sweeps.combinations import grid
from agentd.sweeps.measuring import COLUMNS, Row
from agentd.sweeps.rows_on_disk import RowStore, write_table
from agentd.sweeps.sweeping import Sweep, carry_out_sweep

SEED = 2020


@dataclass(frozen=True, eq=False)
class Table:
    """One row for each repetition of each combination."""

    rows: list[Row]
    varied: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def column(self, name: str) -> NDArray[Any]:
        """One of `sweep.csv`'s columns; NaN where a number is missing."""
        if name not in COLUMNS:
            raise SettingsError(f"there is no column {name}; there are {', '.join(COLUMNS)}")
        values = [row[name] for row in self.rows]
        numbers = all(value is None or isinstance(value, (int, float)) for value in values)
        return np.array([np.nan if value is None else value for value in values]) if numbers else np.array(values)

    def frame(self) -> Any:
        """The same as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise SettingsError("a frame needs pandas, which is not installed: pip install pandas") from None
        return pandas.DataFrame(self.rows, columns=list(COLUMNS))


def sweep(
    axes: Mapping[str, Sequence[Any]],
    *,
    repetitions: int = 10,
    jobs: int | None = None,
    seed: int = SEED,
    out: str | Path | None = None,
    **settings: Any,
) -> Table:
    """Simulate every combination of the axes' values, each `repetitions` times: what `agentd sweep` does.

    `axes` names settings and their values, as in {"epsilon": [0.1, 1], "algorithm": ["sealed", "coop-ucb"]}; `settings`
    are the same in all. With `out` finished combinations and the table are kept there, and an interrupted one goes on.
    """
    chosen = {name: [_value(name, value) for value in values] for name, values in axes.items()}
    fixed = {
        name: _value(name, value) for name, value in ({"algorithm": "sealed"} | settings).items() if name not in axes
    }
    if repetitions < 1 or (jobs is not None and jobs < 1):
        raise SettingsError("repetitions and jobs must be at least 1")
    configurations = grid(fixed, chosen, seed)
    store = RowStore(Path(out)) if out is not None else None
    wanted = Sweep.on_cores(configurations, repetitions, jobs)
    if wanted.jobs > 1:
        classes = [
            each for each in (*axes.get("algorithm", ()), settings.get("algorithm", "")) if isinstance(each, type)
        ]
        plugins.also(entry for each in classes for entry in where_it_stands(each))
    rows = carry_out_sweep(wanted, store, lambda: None)
    if out is not None:
        write_table(Path(out), rows)
    return Table(rows, configurations[0].varied)


def _value(name: str, value: Any) -> Any:
    if name == "algorithm":
        return named(value)
    if name == "gamma":
        return str(value)
    return tuple(value) if isinstance(value, list) else value
