"""agentd demo: the main idea once, with real processes on this machine, in well under a minute."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from agentd.core.upwards import shown
from agentd.errors import AgentdError, SettingsError
from agentd.plot.curves import Curve
from agentd.plot.plain_svg import plain_svg
from agentd.plot.with_matplotlib import plot_regret
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.regret import regret_curve
from agentd.runs.scenario import Scenario, make_scenario
from agentd.runs.summary import NOT_PRIVATE
from agentd.settings import TestbedSettings
from deploy.local.local_runtime import LOCAL
from deploy.testbed.display import display
from deploy.testbed.launch import carry_out
from deploy.testbed.outcome import PULLS
from deploy.testbed.runtime import Wanted
from deploy.testbed.supervisor import Ending

ARMS = (0.8, 0.6, 0.5, 0.4, 0.2)
"""Over 120 seeds of `agentd simulate` with the defaults below, together always stayed below 0.6 of alone."""
AGENTS, ROUNDS, EDGE_PROBABILITY, EPSILON = 16, 500, 0.3, 0.5
ALONE, TOGETHER = "ucb1", "private-ucb"
PICTURE = "regret.svg"


class Stopped(Exception):
    """A testbed of the demo was stopped by a signal; carries the exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("stopped")
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Half:
    """One of the two runs."""

    title: str
    directory: Path
    summary: dict[str, Any]

    @property
    def regret(self) -> float:
        return float(self.summary["group_regret"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--agents", type=click.IntRange(2, 200), default=AGENTS, show_default=True, help="How many agents.")
@click.option("--rounds", type=click.IntRange(10), default=ROUNDS, show_default=True, help="Pulls of each agent.")
@click.option("--seed", type=int, help="Make it reproducible (and not private).")
@click.option("--out", metavar="DIR", help="Where to write the runs; must be new or empty.  [default: runs/…]")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the figures, as JSON.")
@click.pass_context
def demo(ctx: click.Context, /, *, agents: int, rounds: int, seed: int | None, out: str | None, as_json: bool) -> None:
    """Alone against together: a small testbed on this machine.

    Agents pull the arms of one bandit, first each for itself, then telling their neighbours noised sums. Exits with 1
    if company did not pay; with fewer than about ten agents the noise can cost more than the company brings.
    """
    scenario = make_scenario(demo_settings(agents, rounds, seed))
    place = RunDirectory.create(out, "demo")
    say = _silent if as_json else click.echo
    say(introduction(scenario))
    try:
        alone = _run(alone_in(scenario), place.path / "alone", f"everybody alone ({ALONE})", quiet=as_json)
        say(f"1. {alone.title}: group regret {alone.regret:,.0f} in {alone.summary['wall_s']:.1f} s")
        together = _run(scenario, place.path / "together", f"together, noised ({TOGETHER})", quiet=as_json)
        say(f"2. {together.title}: group regret {together.regret:,.0f} in {together.summary['wall_s']:.1f} s")
    except Stopped as stop:
        ctx.exit(stop.exit_code)
    figures = compare(alone, together)
    draw(place, [alone, together], scenario)
    place.write_json("demo.json", figures)
    shown = {**figures, "picture": str(place.path / PICTURE), "run_dir": str(place.path)}
    click.echo(json.dumps(finite(shown), ensure_ascii=False) if as_json else conclusion(figures, place.path))
    ctx.exit(0 if figures["cooperation_won"] else 1)


def demo_settings(agents: int = AGENTS, rounds: int = ROUNDS, seed: int | None = None) -> TestbedSettings:
    """The testbed of the demo."""
    return TestbedSettings(
        agents=agents,
        rounds=rounds,
        edge_probability=EDGE_PROBABILITY if agents >= 10 else 0.5,  # few agents rarely are connected otherwise
        arms=ARMS,
        algorithm=TOGETHER,
        epsilon=EPSILON,
        gamma="full",
        seed=seed,
    )


def alone_in(scenario: Scenario) -> Scenario:
    """The same graph, arms and rewards, but nobody talks."""
    return Scenario(
        replace(scenario.settings, algorithm=ALONE), scenario.graph, replace(scenario.spec, algorithm=ALONE)
    )


def _run(scenario: Scenario, run_dir: Path, title: str, *, quiet: bool) -> Half:
    prepared = LOCAL.prepare(scenario, Wanted(run_dir=run_dir))
    with display(quiet=quiet, terminal=sys.stdout.isatty()) as shown:
        result = carry_out(prepared, shown)
    _refuse_failure(result.ending, run_dir)
    return Half(title, run_dir, result.summary)


def _refuse_failure(ending: Ending, run_dir: Path) -> None:
    if ending.stopped_by is not None:
        raise Stopped(ending.exit_code)
    if ending.failure or ending.lost:
        why = ending.failure or f"agent {ending.lost[0].agent}: {ending.lost[0].why}"
        raise AgentdError(f"the demo's testbed failed: {why}; its logs are in {run_dir / 'logs'}")


def compare(alone: Half, together: Half) -> dict[str, Any]:
    """What the two runs say."""
    return {
        "agents": together.summary["agents"],
        "rounds": together.summary["rounds"],
        "regret_alone": alone.regret,
        "regret_together": together.regret,
        "saved": 1.0 - together.regret / alone.regret if alone.regret else 0.0,
        "cooperation_won": together.regret < alone.regret,
        "privacy": together.summary["privacy"],
        "wall_s": round(alone.summary["wall_s"] + together.summary["wall_s"], 3),
    }


def draw(place: RunDirectory, halves: list[Half], scenario: Scenario) -> None:
    """Both curves in one picture; by hand where matplotlib is not installed."""
    curves = [_curve(half, scenario.spec.arms.means) for half in halves]
    title = "Alone against together"
    subtitle = f"{scenario.settings.agents} agents, {len(ARMS)} arms, nominal ε = {EPSILON:g}"
    with contextlib.suppress(SettingsError):
        plot_regret(curves, place.path / PICTURE, title=title, subtitle=subtitle)
        return
    place.write_text(PICTURE, plain_svg(curves, title, subtitle))


def _curve(half: Half, means: tuple[float, ...]) -> Curve:
    with np.load(half.directory / PULLS, allow_pickle=False) as file:
        curve = regret_curve(file["arm"], means)
    return Curve(half.title, np.arange(1.0, len(curve) + 1.0), curve)


def introduction(scenario: Scenario) -> str:
    """What is about to happen."""
    settings, spec = scenario.settings, scenario.spec
    return f"""\
{settings.agents} agents and their environment, each a process of its own on this machine, pull the arms of one bandit
{settings.rounds} times each: first everybody alone, then telling what they learned over a random graph of \
{len(scenario.graph.edges)} links,
noised at the source; a message lives {spec.gamma} hops. Regret is what was lost by not always pulling the best arm.
"""


def conclusion(figures: dict[str, Any], place: Path) -> str:
    """What came out, for people."""
    spent = figures["privacy"]
    won = figures["cooperation_won"]
    verdict = (
        f"Together they lost {figures['saved']:.0%} less than alone."
        if won
        else f"Company did not pay this time: together they lost {-figures['saved']:.0%} more than alone."
    )
    noise = f"The noise followed from a seed: {NOT_PRIVATE}." if spent["note"] else "The noise came from the system."
    return f"""
{verdict}
Privacy spent: ε = {shown(spent["per_agent_epsilon"])} for one reward, all {spent["releases"]:,} releases composed; \
the nominal {spent["nominal_epsilon"]:g} is a rate.
What was certain before the run, for an arm that is pulled every time: ε = {shown(spent["epsilon_at_delta"])} at \
δ = {spent["delta"]:g}.
{noise} It is the ε of {spent["covers"]}.
Picture: {place / PICTURE}

Try next:
  agentd up --agents 20 --edge-probability 0.3 --detach, then: agentd status, agentd logs --follow, agentd down
  agentd simulate --agents 200 --edge-probability 0.1
  agentd experiment fig1a --trials 10"""


def _silent(_text: str) -> None:
    """Say nothing."""
