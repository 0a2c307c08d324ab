"""Graphs in files: edge lists, node-link JSON and GraphML, the format chosen by the suffix.

A file may be wrong, huge or hostile: whatever is in it, reading either gives a connected graph or raises
TopologyFileError with the path and the reason. Nothing is repaired; a disconnected graph is refused with its
components named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from topology import edge_list, graphml, node_link
from topology.graph import Graph, require_connected
from topology.node_link import from_node_link, to_node_link
from topology.validation import TopologyError, TopologyFileError, brief

__all__ = ["MAX_FILE_BYTES", "SUFFIXES", "from_node_link", "read", "to_node_link", "write", "write_text"]

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Longer files are refused unread; the largest graph there may be fits in every format."""


class _Format(NamedTuple):
    parse: Callable[[bytes], Graph]
    render: Callable[[Graph], str]


_FORMATS: Mapping[str, _Format] = MappingProxyType(
    {
        ".edges": _Format(edge_list.parse, edge_list.render),
        ".txt": _Format(edge_list.parse, edge_list.render),
        ".json": _Format(node_link.parse, node_link.render),
        ".graphml": _Format(graphml.parse, graphml.render),
    }
)

SUFFIXES = tuple(_FORMATS)
"""What the name of a graph's file may end with."""


def read(path: str | os.PathLike[str]) -> Graph:
    """Read a connected graph from a file."""
    parse = _format_of(path).parse
    content = _content(path)
    try:
        return require_connected(parse(content))
    except TopologyError as error:
        raise TopologyFileError(f"{_shown(path)}: {error}") from error


def write(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph to a file, replacing what was there."""
    write_text(_format_of(path).render(graph), path)


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a text to a file; a place that cannot be written is the operator's fault and said in one line."""
    try:
        with os.fdopen(_opened_to_write(path), "wb") as file:
            file.write(text.encode())
    except (OSError, ValueError) as error:
        raise TopologyFileError(f"cannot write {_shown(path)}: {_reason(error)}; name another place") from error


def _format_of(path: str | os.PathLike[str]) -> _Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        known = ", ".join(SUFFIXES)
        raise TopologyFileError(f"{_shown(path)}: no graph format ends in {brief(suffix)}; known are {known}")
    return _FORMATS[suffix]


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe would be waited for
                raise ValueError("it is not a file")
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise TopologyFileError(f"cannot read {_shown(path)}: {_reason(error)}; check the path") from error
    if len(content) > MAX_FILE_BYTES:
        raise TopologyFileError(f"{_shown(path)}: longer than {MAX_FILE_BYTES} bytes; no graph needs that much")
    return content


def _opened_to_write(path: str | os.PathLike[str]) -> int:
    """A file, made anew or emptied; through no link, for somebody else may have put it there, but those in /dev."""
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return os.open(path, how if str(path).startswith("/dev/") else how | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _shown(path: str | os.PathLike[str]) -> str:
    """The path on one line, even when its name holds control characters."""
    return "".join(char if char.isprintable() else "?" for char in str(path))


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error)
