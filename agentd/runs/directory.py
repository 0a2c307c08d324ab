"""The run directory: what every run leaves behind, whoever carried it out.

manifest.json   settings, versions, seed, topology, who lied
topology.json   the graph, node-link
pulls.npz       arm (M×T uint16, 65535: not pulled), reward (M×T int32 on the grid, −1: not pulled)
regret.csv      round, group_regret, and what it is held against; both end with the last round that was made
summary.json    the figures a script wants
regret.svg      the curves
logs/           agent-<id>.jsonl where processes ran

It is its user's alone: mode 0700, every file in it 0600, because pulls.npz tells every reward of every agent. An empty
directory of the user's own that was more open becomes so; one of another user is refused, and so is a link.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import secrets
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.errors import ConfigurationError
from agentd.files import OwnDirectory, replace_text, replacing
from agentd.runs.regret import NOT_PULLED, regret_curve, rounds_made
from agentd.runs.yardstick import Yardstick
from agentd.untrusted import read_in

DEFAULT_PLACE = "runs"
PULLS = "pulls.npz"
_INDENTED_LINKS = 100_000
LARGEST_PULLS = 1 << 30
"""Bytes of a table of pulls that is read, and of what it unpacks to."""


class RunDirectory:
    """A directory that one run fills."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: str | Path | None, label: str) -> RunDirectory:
        """A new directory, or an empty one; a place that holds something already is refused, never overwritten."""
        place = Path(path) if path is not None else Path(DEFAULT_PLACE) / _fresh_name(label)
        try:
            own = OwnDirectory.made(place)
            try:
                if own.names():
                    raise ConfigurationError(f"the run directory {place} is not empty; name a new one with --run-dir")
            finally:
                own.close()
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(13, "not writable", str(place))
        except OSError as fault:
            raise ConfigurationError(
                f"cannot use {place} as run directory: {fault.strerror or fault}; name another with --run-dir"
            ) from None
        return cls(place)

    def write_json(self, name: str, content: Mapping[str, Any], *, indent: int | None = 2) -> None:
        """A JSON file, complete or not there."""
        self.write_text(name, json.dumps(finite(content), indent=indent, ensure_ascii=False) + "\n")

    def write_topology(self, graph: Mapping[str, Any]) -> None:
        """The graph as node-link data; a large one on one line, which takes half the room."""
        self.write_json("topology.json", graph, indent=2 if len(graph["links"]) <= _INDENTED_LINKS else None)

    def write_pulls(self, arm: NDArray[np.uint16], reward: NDArray[np.int32]) -> None:
        """Every pull; the same pulls give the same bytes, also under another version of Python."""
        place = self.path / PULLS
        with replacing(place) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, table in (("arm", arm), ("reward", reward)):
                # Its size is said beforehand: what stands there otherwise differs between versions of Python, which
                # is why numpy's own savez_compressed will not do.
                entry = zipfile.ZipInfo(f"{name}.npy")
                entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, table.nbytes
                with archive.open(entry, "w") as file:
                    np.lib.format.write_array(file, table, allow_pickle=False)

    def write_regret(
        self,
        arm: NDArray[np.uint16],
        means: Sequence[float],
        title: str,
        events: Sequence[tuple[int, str]] = (),
        *,
        subtitle: str = "",
        yardstick: Yardstick | None = None,
    ) -> NDArray[np.float64]:
        """The regret curve as CSV and picture, up to the last round that was made; returns it."""
        # At the end of a run only: who serves one needs no plots meanwhile.
        from agentd.plot.curves import Curve, far_apart
        from agentd.plot.plain_svg import plain_svg

        curve = regret_curve(arm[:, : rounds_made(arm)], means)
        beside = dict(yardstick.curves) if yardstick is not None else {}
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(("round", "group_regret", *beside))
        columns = zip(curve, *beside.values(), strict=True)
        writer.writerows((number, *(f"{value:.6f}" for value in row)) for number, row in enumerate(columns, start=1))
        self.write_text("regret.csv", text.getvalue())
        rounds, drawn = np.arange(1.0, len(curve) + 1.0), curve
        if not len(curve):
            rounds, drawn = np.zeros(1), np.zeros(1)  # nothing was pulled: a picture of that
        lines = [Curve("this run", rounds, drawn), *(yardstick.plotted() if yardstick is not None else ())]
        self.write_text("regret.svg", plain_svg(lines, title, subtitle, events=events, log_y=far_apart(lines)))
        return curve

    def write_text(self, name: str, text: str) -> None:
        """A text, complete or not there."""
        replace_text(self.path / name, text)


def read_pulls(place: Path, arms: int) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """Arms and rewards as `write_pulls` wrote them, also in a directory of somebody else.

    OSError where the file is not there or no plain one; ValueError, in few words, where it is damaged.
    """
    try:
        with np.load(_packed_pulls(place), allow_pickle=False) as file:
            arm, reward = np.asarray(file["arm"], dtype=np.uint16), np.asarray(file["reward"], dtype=np.int32)
    except (KeyError, TypeError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, NotImplementedError) as fault:
        raise ValueError(f"{PULLS} cannot be unpacked: {fault}") from None
    if arm.ndim != 2 or arm.shape != reward.shape or (arm[arm != NOT_PULLED] >= arms).any():
        raise ValueError(f"{PULLS} is no table of pulls of {arms} arms")
    return arm, reward


def _packed_pulls(place: Path) -> io.BytesIO:
    """The file of pulls, unless it is a pipe, a link, or would fill the memory when it is unpacked."""
    packed = io.BytesIO(read_in(place, PULLS, LARGEST_PULLS))
    with zipfile.ZipFile(packed) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > LARGEST_PULLS:
            raise ValueError(f"{PULLS} unpacks to more than {LARGEST_PULLS} bytes")
    packed.seek(0)
    return packed


def finite(value: Any) -> Any:
    """The value with infinities and NaN as null, because JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def _fresh_name(label: str) -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{label}-{secrets.token_hex(2)}"
