"""Flags that several verbs share, and how variables and a TOML file stand in for them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentd.core.estimate import ESTIMATORS
from agentd.core.policy import ALGORITHMS, RULES
from agentd.errors import ConfigurationError
from agentd.settings import NOISES, REWARDS, TestbedSettings

F = TypeVar("F", bound=Callable[..., Any])

FROM_ENVIRONMENT = {"auto_envvar_prefix": "AGENTD", "help_option_names": ["-h", "--help"], "max_content_width": 110}
"""Context settings of a verb whose flags may also come as AGENTD_… variables."""


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers separated by commas."""

    name = "NUMBERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Read them."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers like 0.9,0.8,0.5", param, ctx)


class Range(Numbers):
    """Two numbers separated by a comma."""

    name = "LOW,HIGH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Read them."""
        numbers = super().convert(value, param, ctx)
        if len(numbers) != 2:
            self.fail(f"{value!r} is not a range like 0.3,0.7", param, ctx)
        return numbers


class Assignments(click.ParamType):  # type: ignore[type-arg]
    """`3=ucb1`: what one agent gets."""

    name = "AGENT=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, str]:
        """Read it."""
        if isinstance(value, tuple):
            return value
        agent, found, name = str(value).partition("=")
        if not found or not agent.isascii() or not agent.isdigit() or len(agent) > 9:
            self.fail(f"{value!r} is not of the form 3=ucb1", param, ctx)
        return int(agent), name


def read_config(ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    """Let a TOML file provide defaults: one key per long flag, dashes or underscores."""
    if path is None:
        return None
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise ConfigurationError(f"cannot read the configuration {path}: {fault}") from None
    flags = _by_long_flag(ctx.command)
    given = {key.replace("-", "_"): value for key, value in content.items()}
    if unknown := sorted(set(given) - set(flags)):
        raise ConfigurationError(f"{path} sets {', '.join(unknown)}, which {ctx.command_path} does not know")
    defaults = {str(flags[key].name): _as_typed(flags[key], value) for key, value in given.items()}
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _by_long_flag(command: click.Command) -> dict[str, click.Parameter]:
    """The parameters that a file may set, by their flags as people type them, with underscores for dashes."""
    names = ((flag, param) for param in command.params for flag in param.opts if param.name != "config")
    return {flag.removeprefix("--").replace("-", "_"): param for flag, param in names if flag.startswith("--")}


def _as_typed(param: click.Parameter, value: Any) -> str | list[str]:
    """The value as it would be typed, so that a file is held to what a flag is: no 3.7 agents, cut to 3."""
    if isinstance(param, click.Option) and param.multiple:
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, list) and isinstance(param.type, Numbers):
        return ",".join(str(item) for item in value)
    return str(value)


config_option = click.option(
    "--config",
    metavar="FILE",
    callback=read_config,
    is_eager=True,
    expose_value=False,
    help="TOML file with one key per flag; flags and AGENTD_… variables win over it.",
)

_DEFAULT = TestbedSettings()

_TESTBED_OPTIONS = (
    click.option("--agents", type=int, default=_DEFAULT.agents, show_default=True, help="Number of agents, M."),
    click.option(
        "--edge-probability",
        type=float,
        default=_DEFAULT.edge_probability,
        show_default=True,
        help="Edge probability of the Erdős–Rényi graph; it is redrawn until it is connected.",
    ),
    click.option("--topology", metavar="FILE", help="Graph file (.edges, .json, .graphml) instead of a drawn graph."),
    click.option(
        "--algorithm",
        type=click.Choice(list(ALGORITHMS)),
        default=_DEFAULT.algorithm,
        show_default=True,
        help="What the agents run.",
    ),
    click.option(
        "--policy",
        "policies",
        type=Assignments(),
        multiple=True,
        envvar="AGENTD_POLICY",
        help="Another algorithm for one agent, as in 3=ucb1; may be repeated.",
    ),
    click.option("--rounds", type=int, default=_DEFAULT.rounds, show_default=True, help="Pulls of each agent, T."),
    click.option(
        "--gamma",
        metavar="INT|half|full",
        default=_DEFAULT.gamma,
        show_default=True,
        help="Hops a message lives: a number, or half or full of the graph's diameter.",
    ),
    click.option("--arms", type=Numbers(), default=None, help="Means of the arms, as in 0.9,0.8,0.5."),
    click.option(
        "--random-arms",
        type=int,
        default=_DEFAULT.random_arms,
        show_default=True,
        help="Draw the means of this many arms instead.",
    ),
    click.option(
        "--arm-range",
        type=Range(),
        default=",".join(f"{end:g}" for end in _DEFAULT.arm_range),
        show_default=True,
        help="Where the means of random arms are drawn from.",
    ),
    click.option(
        "--reward",
        type=click.Choice(REWARDS),
        default=_DEFAULT.reward,
        show_default=True,
        help="How rewards are distributed around the mean.",
    ),
    click.option(
        "--epsilon",
        type=float,
        default=_DEFAULT.epsilon,
        show_default=True,
        help="sealed: the ε of each reward, whatever is observed for however long. Elsewhere the paper's nominal ε, "
        "which is a rate; the summary reports the ε that was really spent.",
    ),
    click.option(
        "--v", type=float, default=_DEFAULT.v, show_default=True, help="The paper's v in (1, 1.5): noise per release."
    ),
    click.option(
        "--sigma",
        type=float,
        default=_DEFAULT.sigma,
        show_default=True,
        help="Standard deviation of rewards that byzantine-ucb assumes.",
    ),
    click.option(
        "--estimator",
        type=click.Choice(list(ESTIMATORS)),
        default=_DEFAULT.estimator,
        show_default=True,
        help="The robust mean of byzantine-ucb.",
    ),
    click.option(
        "--rule",
        type=click.Choice(RULES),
        default=_DEFAULT.rule,
        show_default=True,
        help="How sealed chooses an arm from what was released: by a draw around each mean, or by an upper bound.",
    ),
    click.option(
        "--refresh",
        type=int,
        default=_DEFAULT.refresh,
        show_default=True,
        help="Rounds without a message after which sealed repeats one, so that a lost one is made good.",
    ),
    click.option(
        "--noise",
        type=click.Choice(NOISES),
        default=_DEFAULT.noise,
        show_default=True,
        help="Where agents that are processes take their noise from; opendp needs the extra of that name.",
    ),
    click.option(
        "--byzantine",
        type=int,
        default=_DEFAULT.byzantine,
        show_default=True,
        help="How many agents lie (seeded choice).",
    ),
    click.option(
        "--contamination",
        type=float,
        default=_DEFAULT.contamination,
        show_default=True,
        help="How often a liar lies, and what byzantine-ucb prepares for.",
    ),
    click.option(
        "--attack",
        default=_DEFAULT.attack,
        show_default=True,
        help="What liars say: worst, uniform, bernoulli[:p], point[:x]; relay-… corrupts what they forward instead.",
    ),
    click.option(
        "--seed",
        type=int,
        help="Make the run reproducible (and not private: whoever knows the seed knows the noise).",
    ),
    click.option("--run-dir", metavar="DIR", help="Where to write the run; must be new or empty.  [default: runs/…]"),
    config_option,
)


def testbed_options(command: F) -> F:
    """The flags that `up` and `simulate` share; the command receives them as keyword arguments."""
    for option in reversed(_TESTBED_OPTIONS):
        command = option(command)
    return command


def testbed_settings(**flags: Any) -> TestbedSettings:
    """Validated settings from the flags of `testbed_options`."""
    flags["policies"] = dict(flags["policies"])
    flags["arms"] = tuple(flags["arms"] or ())
    flags["arm_range"] = tuple(flags["arm_range"])
    return TestbedSettings(**flags)
