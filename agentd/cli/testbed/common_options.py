"""The flags that several verbs of testbeds share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from agentd.cli.options import group_options, in_order
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.knobs import values_of
from agentd.errors import SettingsError
from agentd.runs.scenario import Scenario
from agentd.settings import Pace, Spending, budget_fault
from deploy.plan.plan import Keep

F = TypeVar("F", bound=Callable[..., Any])

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
run_dir_option = click.option(
    "--run-dir", metavar="DIR", help="The testbed.  [default: of this directory, else the newest (that runs)]"
)
json_option = click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Machine-readable.")

_KEEP_OPTIONS = (
    click.option(
        "--state/--no-state",
        default=None,
        help="Keep the agents' ledgers and state in the run directory.  [default: yes, unless --seed]",
    ),
    group_options(Spending),
)
_PLAN_OPTIONS = (
    click.option(
        "--image", metavar="NAME", help="Of the containers; see agentd image build.  [default: agentd:VERSION]"
    ),
    click.option("--subnet", metavar="CIDR", help="Of the containers' network.  [default: one that is free]"),
    group_options(Pace),
)


def testbed_argument(command: F) -> F:
    """Which testbed is meant: RUN_DIR, or the same as --run-dir, which every verb knows."""

    @wraps(command)
    def run(*args: Any, run_dir: str | None, named_dir: str | None, **flags: Any) -> Any:
        if run_dir is not None and named_dir is not None:
            raise SettingsError("name the run directory once, as RUN_DIR or with --run-dir")
        return command(*args, run_dir=run_dir or named_dir, **flags)

    named = click.option("--run-dir", "named_dir", metavar="DIR", help="The same as RUN_DIR.")
    decorated: Any = click.argument("run_dir", required=False)(named(run))
    chosen: F = decorated
    return chosen


def plan_options(command: F) -> F:
    """The flags that say how agents keep time and what containers are made of, for verbs that plan testbeds."""
    for option in reversed(_PLAN_OPTIONS):
        command = option(command)
    return command


def keep_options(command: F) -> F:
    """The flags that say what agents keep and may spend, for verbs that plan testbeds; `keep_of` reads them."""
    decorated: F = in_order(_KEEP_OPTIONS)(command)
    return decorated


def keep_of(scenario: Scenario, state: bool | None, spending: Spending) -> Keep:
    """What the agents write down; a seeded run has no privacy to keep a ledger of, and the disk costs time."""
    spec = scenario.spec
    noised = any(ALGORITHMS[spec.algorithm_of(agent)].noised for agent in range(scenario.graph.nodes))
    if spending.epsilon_budget is not None and not noised:
        raise SettingsError(f"--epsilon-budget: {scenario.settings.algorithm} adds no noise; no budget bounds it")
    for name in sorted({spec.algorithm_of(agent) for agent in range(scenario.graph.nodes)}):
        if ALGORITHMS[name].noised and (fault := budget_fault(name, spending.epsilon_budget, spec.policy)):
            raise SettingsError(fault)
    keeps = scenario.settings.seed is None if state is None else state
    return Keep(state=keeps, **values_of(Spending, spending))
