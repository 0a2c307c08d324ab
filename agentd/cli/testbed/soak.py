"""agentd soak: a testbed under churn and faults, for minutes or hours."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from agentd.cli.configuration.explaining import ExplainingCommand
from agentd.cli.configuration.forms import LASTING
from agentd.cli.options import FROM_ENVIRONMENT, group_options, scenario_of, taken, testbed_options, testbed_settings
from agentd.cli.progress import duration
from agentd.cli.testbed.common_options import keep_of
from agentd.errors import AgentdError, SettingsError
from agentd.interrupts import termination_as_interrupt
from agentd.runs.directory import finite
from agentd.runs.scenario import Scenario
from agentd.runs.summary import banner
from agentd.settings import Pace, Spending
from agentd.untrusted import read_json_in
from deploy.local.local_runtime import LOCAL
from deploy.soak.driver import Driver
from deploy.soak.findings import STUCK_S
from deploy.soak.happenings import KINDS, Happening, Weather, draw_happenings
from deploy.soak.samples import Sample
from deploy.soak.soak_report import text, write_report
from deploy.testbed import registry
from deploy.testbed.detach import start_detached
from deploy.testbed.runtime import Wanted
from deploy.testbed.stopping import bring_down

AGENTS, ALGORITHM, LASTS_S = 20, "sealed", 600.0
_TELL_EVERY_S = 15.0
_FASTEST = 10_000
"""Pulls a second that all agents together will not make: how many rounds a soak asks for."""


@click.command(cls=ExplainingCommand, context_settings=FROM_ENVIRONMENT)
@testbed_options
@group_options(Pace)
@click.option(
    "--for",
    "for_s",
    type=LASTING,
    default=LASTS_S,
    help="How long: 90s, 30m, 8h.  [default: 10m]",
)
@click.option(
    "--churn", type=float, default=1.0, show_default=True, help="Percent of the agents that crash in a minute."
)
@click.option(
    "--faults-per-minute", type=float, default=1.0, show_default=True, help="Pauses, losses, delays and cuts together."
)
@click.option("--faults", default=",".join(KINDS), show_default=True, help="What may happen.")
@click.option(
    "--stuck-after",
    type=LASTING,
    default=STUCK_S,
    show_default=True,
    help="Seconds without a pull that are too long.",
)
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print nothing but the report, as JSON.")
@click.pass_context
def soak(ctx: click.Context, /, *, for_s: float, as_json: bool, run_dir: str | None, **flags: Any) -> None:
    """Run a testbed of processes under churn and faults, and see whether anything grows, sticks or is lost.

    \b
    agentd soak --agents 50 --edge-probability 0.2 --for 30m
    agentd soak --for 8h --churn 5 --faults kill,partition

    Agents are killed and come back with their state, stand still, lose and delay frames, and are cut in halves; when is
    drawn from --seed. All the while memory and descriptors of every process, rounds, drops and regret are looked at.
    The report says how much anything grew, who made no pull for long, and what the faults cost against the same run
    without them, simulated. In the run directory: soak.json, samples.csv and soak.svg, beside what `agentd up` leaves.

    Runs until the time is up or Ctrl-C. Exit code 0: everything held; 1: something did not.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    weather = _weather(flags)
    _fill_in(ctx, flags, for_s)
    pace = Pace(**taken(Pace, flags))
    stuck_s = flags.pop("stuck_after")
    scenario = scenario_of(testbed_settings(**flags))
    prepared = LOCAL.prepare(scenario, Wanted(run_dir=run_dir, pace=pace, keep=keep_of(scenario, True, Spending())))
    place = prepared.directory.path
    if not as_json:
        click.echo(banner(prepared.scenario))
    if failure := start_detached(prepared)["failure"]:
        raise AgentdError(str(failure))
    driver = Driver(place, scenario.settings.agents, for_s, _drawn(scenario, for_s, weather))
    try:
        with termination_as_interrupt():
            driver.run(_watch(for_s, quiet=as_json))
    except KeyboardInterrupt:
        click.echo("interrupted: this is what there is so far", err=True)
        driver.record.lasted_s = driver.record.samples[-1].at_s if driver.record.samples else 0.0
    finally:
        bring_down(registry.read(place))
    report = write_report(place, scenario, driver.record, read_json_in(place, "summary.json"), stuck_s)
    told = {**report.content, "run_dir": str(place)}
    click.echo(json.dumps(finite(told), ensure_ascii=False) if as_json else text(report, place))
    ctx.exit(0 if report.passed else 1)


def _weather(flags: dict[str, Any]) -> Weather:
    churn, others = flags.pop("churn"), flags.pop("faults_per_minute")
    kinds = tuple(kind.strip() for kind in flags.pop("faults").split(",") if kind.strip())
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise SettingsError(f"unknown fault {', '.join(unknown)}; choose from {', '.join(KINDS)}")
    if not 0.0 <= churn <= 1000.0 or not 0.0 <= others <= 1000.0:
        raise SettingsError("--churn and --faults-per-minute must be in 0…1000")
    return Weather(churn, others, kinds)


def _fill_in(ctx: click.Context, flags: dict[str, Any], for_s: float) -> None:
    """What a soak has other defaults for than a testbed."""
    if flags.get("seed") is None:  # faults, rewards and noise follow from it: another soak of it is the same
        flags["seed"] = secrets.randbelow(1 << 31)
    others = {"agents": AGENTS, "algorithm": ALGORITHM}
    for name, value in others.items():
        if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
            flags[name] = value
    if ctx.get_parameter_source("rounds") is ParameterSource.DEFAULT:
        flags["rounds"] = max(1000, int(for_s * max(20, _FASTEST / max(1, flags["agents"]))))


def _drawn(scenario: Scenario, for_s: float, weather: Weather) -> list[Happening]:
    return draw_happenings(scenario.settings.agents, for_s, weather, scenario.settings.seed or 0)


def _watch(for_s: float, *, quiet: bool) -> Callable[[float, Sample], None]:
    """A line now and then, on standard error."""
    told = [0.0]

    def tell(now_s: float, sample: Sample) -> None:
        if quiet or now_s - told[0] < _TELL_EVERY_S:
            return
        told[0] = now_s
        agents = [p.rss_mb for a in range(len(sample.trials)) if (p := sample.agent(a))] or [0.0]
        click.echo(
            f"soak: {duration(for_s - now_s)} left, {len(agents)} up, round {sample.round:,}, "
            f"{sum(agents) / len(agents):.1f} MB each, {sample.dropped:,} dropped",
            err=True,
        )

    return tell
