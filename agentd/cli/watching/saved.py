"""What an agent's state on disk holds, for people and programs; nothing of it that was not released.

A state also keeps raw sums, open batches and which arm is about to be pulled. These stay where they are: only their
names and how many numbers there are is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS
from agentd.core.saved_state import SavedState
from agentd.core.upwards import shown
from agentd.errors import ConfigurationError
from agentd.untrusted import printable

_ABOUT = ("agent", "run", "algorithm", "epsilon", "v", "arms", "incarnation", "rounds", "rewards_per_person", "seeded")
"""What a state says of itself; all of it is public in its run."""


def told_of(place: Path, *, releases: bool = False) -> dict[str, Any]:
    """What the state in a directory holds; with every release where that is wanted."""
    from agentd.shell.state.reader import ledger_of, read_state

    saved = read_state(place)
    if saved.about.get("algorithm") not in ALGORITHMS:
        raise ConfigurationError(
            f"the state in {place} is of an algorithm that is not known here; name its plug-in with AGENTD_PLUGINS"
        )
    ledger = ledger_of(saved)
    told = {name: saved.about.get(name) for name in _ABOUT}
    told |= {
        "trial": saved.trial,
        "spent": ledger.epsilon_one_reward(),
        "covers": ALGORITHMS[saved.about["algorithm"]].covers,
        "releases": ledger.releases(),
        "possible": sum(charged.value is None for charged in saved.releases),
        "refused": saved.refused,
        "per_arm": [
            {"arm": arm, "releases": ledger.releases(arm), "spent": ledger.pure_epsilon(arm)} for arm in ledger.arms
        ],
        "withheld": {name: len(row) for name, row in saved.policy.items()},
    }
    return told | {"released": _released(saved)} if releases else told


def _released(saved: SavedState) -> list[dict[str, Any]]:
    """Every value that left the agent, in rewards, with the noise that it was given."""
    return [
        {
            "arm": release.arm,
            "trial": release.trial,
            "pulls": release.pulls,
            "noise_scale": release.scale / UNIT,
            "epsilon": float(release.epsilon),
            "value": None if value is None else value / UNIT,
        }
        for release, value in saved.releases
    ]


def saved_text(told: dict[str, Any]) -> str:
    """The same for people, without the single releases."""
    rounds = f" of {told['rounds']:,}" if told["rounds"] else ""
    by_arm = ", ".join(f"{entry['releases']:,} of arm {entry['arm']}" for entry in told["per_arm"])
    lines = [
        *([f"state           {told['state_dir']}"] if "state_dir" in told else []),
        f"agent           {told['agent']} of run {told['run']}, incarnation {told['incarnation']}",
        f"algorithm       {told['algorithm']}, {told['arms']} arms, ε = {told['epsilon']:g} nominal",
        f"trial           {told['trial']:,}{rounds}",
        *([f"written         {told['written_s_ago']:,.0f} s ago"] if "written_s_ago" in told else []),
        f"releases        {told['releases']:,}" + (f", {told['possible']:,} perhaps" if told["possible"] else ""),
        *([f"                {by_arm}"] if by_arm else []),
        f"spent           ε = {shown(told['spent'], 4)} of one reward; of {told['covers']}",
    ]
    if told["refused"]:
        lines.append(f"budget          spent: {told['refused']:,} releases were not made")
    if told["seeded"]:
        lines.append("noise           follows from a seed: reproducible, not private")
    kept = ", ".join(f"{name} ({count} numbers)" for name, count in told["withheld"].items())
    lines.append(f"not shown       {kept}: what was seen, and not all of it was released")
    return "\n".join(map(printable, lines))
