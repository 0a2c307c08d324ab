"""The rows of finished configurations, so that an interrupted sweep goes on; and the one table of all of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from agentd.errors import ConfigurationError
from agentd.files import OwnDirectory, replace_text, replacing
from agentd.sweeps.measuring import COLUMNS, Row
from agentd.untrusted import decode_json

TABLE = "sweep"
_PARTS = "parts"
_TYPES = {
    **dict.fromkeys(("algorithm", "topology", "gamma", "reward", "rule", "attack"), "string"),
    **dict.fromkeys(("agents", "rounds", "random_arms", "byzantine", "repetition"), "int64"),
    **dict.fromkeys(("gamma_hops", "diameter", "messages", "bytes"), "int64"),
    "seed": "uint64",
}
"""Of columns in Parquet, those that hold no fractions; the same for every sweep, also where a column is empty."""


class RowStore:
    """Finished configurations by their digest, in a directory of the user's own."""

    def __init__(self, place: Path) -> None:
        self._place = place / _PARTS
        try:
            OwnDirectory.made(place).close()
            OwnDirectory.made(self._place).close()
        except OSError as fault:
            raise _unusable(place, fault) from None

    def load(self, digest: str, repetitions: int) -> list[Row] | None:
        """The rows of a configuration; None where there are none, or none that can be used."""
        try:
            own = OwnDirectory(self._place)
            try:
                content = own.read(f"{digest}.json")
            finally:
                own.close()
            rows = decode_json(content) if content is not None else None
        except (OSError, ValueError, ConfigurationError):
            return None
        if not isinstance(rows, list) or len(rows) != repetitions:
            return None
        return rows if all(isinstance(row, dict) and set(row) == set(COLUMNS) for row in rows) else None

    def save(self, digest: str, rows: Sequence[Row]) -> None:
        """Keep the rows, all or none."""
        try:
            replace_text(self._place / f"{digest}.json", json.dumps(rows) + "\n")
        except OSError as fault:
            raise _unusable(self._place, fault) from None


def write_table(place: Path, rows: Sequence[Row], name: str = TABLE) -> list[str]:
    """One row for each repetition of each configuration: CSV, and Parquet where pyarrow is; says what was written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(row[column]) for column in COLUMNS] for row in rows)
    table, packed = f"{name}.csv", f"{name}.parquet"
    replace_text(place / table, text.getvalue())
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        return [table]
    schema = arrow.schema([(column, getattr(arrow, _TYPES.get(column, "float64"))()) for column in COLUMNS])
    with replacing(place / packed) as file:
        parquet.write_table(arrow.Table.from_pylist(list(rows), schema=schema), file)
    return [table, packed]


def _cell(value: object) -> object:
    return "" if value is None else value


def _unusable(place: Path, fault: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot write to {place}: {fault.strerror or fault}; name another place with --out")
