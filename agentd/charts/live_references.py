"""What a run under way is held against: played once from what its directory says, as if every agent made every pull.

A run that is over has its references in regret.csv, made of the pulls that it really made. Until then these stand in,
from the same arms, graph and streams of rewards. They are simulated once for each run that is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import SEED_LIMIT
from agentd.core.policy.knobs import PolicyKnobs, PolicySettings
from agentd.errors import AgentdError
from agentd.experiment.played_beside import play_beside
from agentd.runs.arms import Arms
from agentd.runs.scenario import network_in
from agentd.runs.spec import RunSpec
from agentd.untrusted import decode_json

MOST_WORK = 500_000
"""Agents × rounds × arms that are simulated beside a run under way: a second of a core, once."""
MOST_AGENTS = 1_000
_KEPT = 8


def live_references(
    manifest: Mapping[str, Any], graph: bytes, environment: bytes | None, rounds: int
) -> dict[str, NDArray[np.float64]]:
    """The first so many rounds of each reference; empty where that is too much work. ValueError where it cannot be.

    `graph` is what topology.json holds, `environment` environment.json, where the seed of the rewards stands.
    """
    told = manifest["settings"]
    arms, horizon = manifest["arms"], told["rounds"]
    agents = manifest["topology"]["nodes"]
    if not all(type(each) is int and each > 0 for each in (agents, horizon)) or horizon < rounds:
        raise ValueError("the manifest names no agents or rounds")
    if agents > MOST_AGENTS or agents * horizon * len(arms["requested"]) > MOST_WORK:
        return {}
    knobs = {one.name: told[one.name] for one in fields(PolicyKnobs) if one.name in told}
    seed = decode_json(environment)["seed"] if environment is not None else manifest.get("seed") or 0
    if type(seed) is not int or not 0 <= seed < SEED_LIMIT:
        raise ValueError("the seed is none")
    about = json.dumps({"arms": arms, "knobs": knobs}, sort_keys=True)
    whole = _played(about, graph, horizon, manifest["gamma"], seed)
    return {name: curve[:rounds] for name, curve in whole.items()}


@lru_cache(maxsize=_KEPT)
def _played(about: str, graph: bytes, rounds: int, gamma: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """All rounds of each reference, once for each run."""
    told = json.loads(about)
    arms, network = Arms.from_json(told["arms"]), network_in(graph)
    if network.agents * rounds * arms.count > MOST_WORK or type(gamma) is not int or gamma < 0:
        raise ValueError("the graph is of another run")
    try:
        policy = PolicySettings(arms=arms.count, **told["knobs"])
        spec = RunSpec(network, arms, "ucb1", rounds, gamma, policy, seed)
        everybody = np.zeros((network.agents, rounds), dtype=np.uint16)
        return dict(play_beside(spec, everybody, limit=MOST_WORK).curves)
    except AgentdError as fault:
        raise ValueError(str(fault)) from None
