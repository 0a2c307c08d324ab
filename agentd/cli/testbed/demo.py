"""agentd demo: the main idea three times, with real processes on this machine, in well under a minute."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from agentd.cli.testbed.demo_words import ALONE, PAPER, SEALED, conclusion, introduction
from agentd.core.privacy.calibrate import nominal_private
from agentd.errors import AgentdError, SettingsError
from agentd.experiment.played_beside import play_beside
from agentd.plot.curves import Curve
from agentd.plot.plain_svg import plain_svg
from agentd.plot.with_matplotlib import plot_regret
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.regret import regret_curve
from agentd.runs.scenario import Scenario, make_scenario
from agentd.settings import TestbedSettings
from deploy.local.local_runtime import LOCAL
from deploy.testbed.display import display
from deploy.testbed.launch import carry_out
from deploy.testbed.outcome import PULLS
from deploy.testbed.runtime import Wanted
from deploy.testbed.supervisor import Ending

ARMS = (0.8, 0.6, 0.5, 0.4, 0.2)
"""Over 40 seeds of `agentd simulate` with the defaults below, sealed always stayed below a quarter of alone."""
AGENTS, ROUNDS, EDGE_PROBABILITY, EPSILON = 16, 400, 0.3, 1.0
PICTURE = "regret.svg"


class Stopped(Exception):
    """A testbed of the demo was stopped by a signal; carries the exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("stopped")
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Part:
    """One of the three runs."""

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
@click.option(
    *("--out", "--run-dir", "out"),
    metavar="DIR",
    help="Where to write the runs; must be new or empty.  [default: runs/…]",
)
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the figures, as JSON.")
@click.pass_context
def demo(ctx: click.Context, /, *, agents: int, rounds: int, seed: int | None, out: str | None, as_json: bool) -> None:
    """Alone, the paper's way, and sealed: a small testbed on this machine, three times.

    Agents pull the arms of one bandit: first each for itself, then telling their neighbours noised sums as the paper's
    private-ucb does, then by sealed, which hides more at the same ε. Exits with 1 if company did not pay; with very
    few agents the noise can cost more than the company brings.
    """
    scenario = make_scenario(demo_settings(agents, rounds, seed))
    place = RunDirectory.create(out, "demo")
    say = _silent if as_json else click.echo
    say(introduction(scenario))
    parts: dict[str, Part] = {}
    try:
        for number, (name, (title, one)) in enumerate(three(scenario).items(), start=1):
            parts[name] = part = _run(one, place.path / name, title, quiet=as_json)
            say(f"{number}. {part.title}: group regret {part.regret:,.0f} in {part.summary['wall_s']:.1f} s")
    except Stopped as stop:
        ctx.exit(stop.exit_code)
    figures = compare(parts)
    draw(place, list(parts.values()), scenario)
    place.write_json("demo.json", figures)
    shown = {**figures, "picture": str(place.path / PICTURE), "run_dir": str(place.path)}
    click.echo(json.dumps(finite(shown), ensure_ascii=False) if as_json else conclusion(figures, place.path / PICTURE))
    ctx.exit(0 if figures["cooperation_won"] else 1)


def demo_settings(agents: int = AGENTS, rounds: int = ROUNDS, seed: int | None = None) -> TestbedSettings:
    """The testbed of the demo."""
    return TestbedSettings(
        agents=agents,
        rounds=rounds,
        edge_probability=EDGE_PROBABILITY if agents >= 10 else 0.5,  # few agents rarely are connected otherwise
        arms=ARMS,
        algorithm=SEALED,
        epsilon=EPSILON,
        gamma="full",
        seed=seed,
    )


def three(scenario: Scenario) -> dict[str, tuple[str, Scenario]]:
    """The same graph, arms and rewards three times, by the names of their directories."""
    rate = nominal_private(EPSILON, scenario.settings.rounds)
    return {
        "alone": (f"everybody alone ({ALONE})", _playing(scenario, ALONE, EPSILON)),
        "paper": (f"together, the paper's way ({PAPER})", _playing(scenario, PAPER, rate)),
        "sealed": (f"together, {SEALED}", scenario),
    }


def _playing(scenario: Scenario, algorithm: str, epsilon: float) -> Scenario:
    settings = replace(scenario.settings, algorithm=algorithm, epsilon=epsilon)
    return Scenario(settings, scenario.graph, replace(scenario.spec, algorithm=algorithm, policy=settings.policy))


def _run(scenario: Scenario, run_dir: Path, title: str, *, quiet: bool) -> Part:
    prepared = LOCAL.prepare(scenario, Wanted(run_dir=run_dir))
    with display(quiet=quiet, terminal=sys.stdout.isatty()) as shown:
        result = carry_out(prepared, shown)
    _refuse_failure(result.ending, run_dir)
    return Part(title, run_dir, result.summary)


def _refuse_failure(ending: Ending, run_dir: Path) -> None:
    if ending.stopped_by is not None:
        raise Stopped(ending.exit_code)
    if ending.failure or ending.lost:
        why = ending.failure or f"agent {ending.lost[0].agent}: {ending.lost[0].why}"
        raise AgentdError(f"the demo's testbed failed: {why}; its logs are in {run_dir / 'logs'}")


def compare(parts: dict[str, Part]) -> dict[str, Any]:
    """What the three runs say."""
    alone, paper, sealed = parts["alone"], parts["paper"], parts["sealed"]
    return {
        "agents": sealed.summary["agents"],
        "rounds": sealed.summary["rounds"],
        "regret_alone": alone.regret,
        "regret_paper": paper.regret,
        "regret_sealed": sealed.regret,
        "saved": 1.0 - sealed.regret / alone.regret if alone.regret else 0.0,
        "cooperation_won": sealed.regret < alone.regret,
        "privacy": sealed.summary["privacy"],
        "privacy_paper": paper.summary["privacy"],
        "yardstick": sealed.summary["yardstick"],
        "wall_s": round(sum(part.summary["wall_s"] for part in parts.values()), 3),
    }


def draw(place: RunDirectory, parts: list[Part], scenario: Scenario) -> None:
    """All curves in one picture; by hand where matplotlib is not installed."""
    means, pulls = scenario.spec.arms.means, [_arms(part) for part in parts]
    curves = [_curve(part.title, regret_curve(arm, means)) for part, arm in zip(parts, pulls, strict=True)]
    beside = play_beside(scenario.spec, pulls[-1]).without("alone").plotted()  # that one was not simulated, but ran
    bounds = [one for one in beside if one.dashed]
    simulated = [one for one in beside if not one.dashed]
    title = "Alone, the paper's way, and sealed"
    subtitle = f"{scenario.settings.agents} agents, {len(ARMS)} arms, composed ε = {EPSILON:g} where it is private"
    with contextlib.suppress(SettingsError):
        lines = [*curves, *simulated]
        plot_regret(lines, place.path / PICTURE, title=title, subtitle=subtitle, bounds=bounds, log_y=True)
        return
    place.write_text(PICTURE, plain_svg([*curves, *simulated, *bounds], title, subtitle, log_y=True))


def _arms(part: Part) -> Any:
    with np.load(part.directory / PULLS, allow_pickle=False) as file:
        return file["arm"]


def _curve(title: str, curve: Any) -> Curve:
    return Curve(title, np.arange(1.0, len(curve) + 1.0), curve)


def _silent(_text: str) -> None:
    """Say nothing."""
