"""Runs on the vectorised engine where it can carry them out, and on the core agents where only they can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentd.runs.spec import Outcome, RunSpec
from agentd.simulation.engine import run_vector, what_needs_agents
from agentd.simulation.network import run_agents
from agentd.simulation.traffic import count_bytes, count_header_bytes


def needs_agents(spec: RunSpec) -> bool:
    """Whether the vectorised engine cannot carry it out."""
    return what_needs_agents(spec) is not None


def run_each(specs: Sequence[RunSpec], together: int) -> Iterator[Outcome]:
    """What comes of each of some runs of one algorithm, up to `together` of them side by side."""
    if any(needs_agents(spec) for spec in specs):
        yield from map(run_agents, specs)
        return
    for start in range(0, len(specs), together):
        yield from run_vector(specs[start : start + together])


def bytes_of(spec: RunSpec, outcome: Outcome, *, headers: bool = True) -> int | None:
    """Bytes of all frames of a run, which core agents have counted; without `headers`, what the messages take."""
    if not needs_agents(spec):
        return count_bytes(spec, outcome.sent, headers=headers)
    if headers or outcome.bytes is None:
        return outcome.bytes
    return outcome.bytes - count_header_bytes(spec)
