"""What the demo says: before, after, and what to type next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from agentd.core.upwards import shown
from agentd.runs.scenario import Scenario
from agentd.runs.summary import NOT_PRIVATE

ALONE, PAPER, SEALED = "ucb1", "private-ucb", "sealed"

TRY_NEXT = (
    "up --agents 20 --edge-probability 0.3 --rounds 5000 --detach",
    "status",
    "logs 0",
    "down",
    "simulate --agents 200 --edge-probability 0.1",
    "sweep --agents 8,32 --algorithm sealed,coop-thompson --rounds 300 --repetitions 3",
)
"""Words after the name of the program; each line works by itself, in this order."""


def introduction(scenario: Scenario) -> str:
    """What is about to happen."""
    settings, spec = scenario.settings, scenario.spec
    return f"""\
{settings.agents} agents and their environment, each a process of its own on this machine, pull the arms of one bandit
{settings.rounds} times each: everybody alone; then telling what they learned over a random graph of \
{len(scenario.graph.edges)} links, noised at the
source, by the paper's {PAPER}; then by {SEALED}, at the same composed ε = {settings.epsilon:g}. A message lives \
{spec.gamma} hops.
Regret is what was lost by not always pulling the best arm.
"""


def conclusion(figures: dict[str, Any], picture: Path) -> str:
    """What came out, for people."""
    spent, paper, beside = figures["privacy"], figures["privacy_paper"], figures["yardstick"]
    noise = f"The noise followed from a seed: {NOT_PRIVATE}." if spent["note"] else "The noise came from the system."
    simulated = ""
    if beside["alone_thompson"] and beside["coop_thompson"]:
        simulated = f"""
Simulated beside them, same arms and rewards: Thompson sampling alone {beside["alone_thompson"]["group_regret"]:,.0f}; \
coop-thompson, which is
{SEALED}'s rule without privacy, {beside["coop_thompson"]["group_regret"]:,.0f}: the rest is what privacy costs."""
    return f"""
{_verdict(figures)}{simulated}
{SEALED}: ε = {shown(spent["per_agent_epsilon"])} for one reward, of {spent["covers"]}.
{PAPER}: ε = {shown(paper["per_agent_epsilon"])}, of {paper["covers"]};
its nominal ε had to be {paper["nominal_epsilon"]:.2g} for that, because it is a rate.
{noise}
Picture: {picture}

Try next:
{try_next()}"""


def _verdict(figures: dict[str, Any]) -> str:
    if figures["cooperation_won"]:
        return f"With {SEALED} they lost {figures['saved']:.0%} less than alone."
    return f"Company did not pay this time: with {SEALED} they lost {-figures['saved']:.0%} more than alone."


def try_next() -> str:
    """Lines that work as they are printed."""
    return "\n".join(f"  {program()} {words}" for words in TRY_NEXT)


def program() -> str:
    """How this program is called from here: by its name where a shell finds it, else as it was called now."""
    called = Path(sys.argv[0])
    if called.name != "agentd":
        return f"{shlex.quote(sys.executable)} -m agentd"
    found = shutil.which("agentd")
    if found is not None and os.path.realpath(found) == os.path.realpath(called):
        return "agentd"
    return shlex.quote(str(called))
