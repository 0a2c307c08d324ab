"""How much was said in a run on the vectorised engine, over its rounds."""

from __future__ import annotations

import numpy as np

from agentd.runs.history.look_back import MOST_AGENTS, LookBack
from agentd.runs.spec import Outcome, RunSpec
from agentd.simulation.engine import spoken
from agentd.simulation.traffic import bytes_per_frame, messages_per_frame

MOST_FRAMES = 2_000_000
"""Agents × rounds whose frames are sized once more; a larger run has no history."""
_LOOKS = 240


def history_of(spec: RunSpec, outcome: Outcome) -> list[LookBack]:
    """Evenly spread over the rounds that were made, the last of them among these."""
    made, sent = spoken(spec, outcome)
    if not 0 < made.network.agents * made.rounds <= MOST_FRAMES:
        return []
    neighbours = np.array([len(each) for each in made.network.neighbours], dtype=np.int64)[:, np.newaxis]
    messages = np.cumsum(messages_per_frame(made, sent) * neighbours, axis=1)
    length = np.cumsum((bytes_per_frame(made, sent) * neighbours).sum(axis=0))
    rounds = np.unique(np.linspace(1, made.rounds, min(made.rounds, _LOOKS)).round().astype(np.int64))
    by_agent = made.network.agents <= MOST_AGENTS
    return [
        LookBack(
            round=number,
            messages=int(messages[:, number - 1].sum()),
            bytes=int(length[number - 1]),
            sent=tuple(messages[:, number - 1].tolist()) if by_agent else (),
        )
        for number in rounds.tolist()
    ]
