"""Whether every pull of a soak was counted once: the journal, the table and what the agents know must agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agentd.environment.pull_journal import PullJournal, Records
from agentd.environment.store import read_terms
from agentd.errors import AgentdError, StateUnusable
from agentd.runs.regret import NOT_PULLED
from agentd.shell.state.reader import read_state
from deploy.plan.plan import state_name
from deploy.testbed.outcome import PULLS


def miscounted(run_dir: Path, agents: int) -> list[str]:
    """What does not fit, in words; nothing where everything does."""
    records = _journal(run_dir)
    with np.load(run_dir / PULLS, allow_pickle=False) as file:
        pulled = file["arm"] != NOT_PULLED
    wrong = _twice(records)
    counts = np.bincount(records["agent"], minlength=agents)
    for agent in range(agents):
        made = int(pulled[agent].sum())
        if made != counts[agent] or not pulled[agent, :made].all():
            wrong.append(f"agent {agent}: {counts[agent]} pulls in the journal, {made} in the table, or gaps in it")
        if (known := _known(run_dir, agent)) is not None and not made - 1 <= known <= made:
            wrong.append(f"agent {agent} knows of {known} pulls, the environment of {made}")
    return wrong


def _journal(run_dir: Path) -> Records:
    terms = read_terms(run_dir)
    if terms is None:
        raise AgentdError(f"{run_dir} holds no terms of a run: its environment never began")
    journal = PullJournal.open(run_dir)
    try:
        return journal.read(terms.run)[0]
    finally:
        journal.close()


def _twice(records: Records) -> list[str]:
    places = records["agent"].astype(np.uint64) << np.uint64(32) | records["trial"].astype(np.uint64)
    distinct = len(np.unique(places))
    return [f"{len(places) - distinct} pulls stand twice in the journal"] if distinct < len(places) else []


def _known(run_dir: Path, agent: int) -> int | None:
    """The trials that an agent has committed, with its last pull or without; None where it kept no state."""
    try:
        return read_state(run_dir / state_name(agent)).trial
    except StateUnusable:
        return None
