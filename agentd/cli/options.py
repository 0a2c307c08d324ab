"""Flags that several verbs share, and how variables and a TOML file stand in for them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

import click

from agentd.core.policy.knobs import about, flag_of
from agentd.errors import ConfigurationError
from agentd.settings import TestbedSettings, ordered
from agentd.untrusted import read_named

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_CONFIG = 16 << 20
Option = Callable[[Any], Any]
"""A decorator of click's."""

FROM_ENVIRONMENT = {"auto_envvar_prefix": "AGENTD", "help_option_names": ["-h", "--help"], "max_content_width": 110}
"""Context settings of a verb whose flags may also come as AGENTD_… variables."""


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers separated by commas."""

    name = "NUMBERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
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
        numbers = super().convert(value, param, ctx)
        if len(numbers) != 2:
            self.fail(f"{value!r} is not a range like 0.3,0.7", param, ctx)
        return numbers


class Assignments(click.ParamType):  # type: ignore[type-arg]
    """`3=ucb1`: what one agent gets."""

    name = "AGENT=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, str]:
        if isinstance(value, tuple):
            return value
        agent, found, name = str(value).partition("=")
        if not found or not agent.isascii() or not agent.isdigit() or len(agent) > 9:
            self.fail(f"{value!r} is not of the form 3=ucb1", param, ctx)
        return int(agent), name


class Peers(click.ParamType):  # type: ignore[type-arg]
    """`1=tcp://gate-1:7001,2=tcp://gate-2:7002`."""

    name = "ID=ADDRESS,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[int, str]:
        if isinstance(value, dict):
            return {int(peer): str(address) for peer, address in value.items()}
        peers: dict[int, str] = {}
        for item in filter(None, str(value).split(",")):
            peer, found, address = item.partition("=")
            if not found or not peer.isascii() or not peer.isdigit():
                self.fail(f"{item!r} is not of the form 1=tcp://gate-1:7001", param, ctx)
            if int(peer) in peers:
                self.fail(f"agent {peer} is named twice", param, ctx)
            peers[int(peer)] = address
        return peers


class Networks(click.ParamType):  # type: ignore[type-arg]
    """`10.0.0.0/8,fd00::/8`; what is none is told with the other faults of the settings."""

    name = "CIDR,…"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(filter(None, str(value).split(",")))


def joined(_ctx: click.Context, _param: click.Parameter, values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What a flag was given in all, where it may be repeated."""
    return tuple(each for value in values for each in value)


def read_config(ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    """Let a TOML file provide defaults: one key per long flag, dashes or underscores."""
    if path is None:
        return None
    try:
        content = tomllib.loads(read_named(path, LONGEST_CONFIG).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as fault:  # with errors of UTF-8 and of TOML among the second
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

_FORMS: dict[str, dict[str, Any]] = {
    "int": {"type": int},
    "float": {"type": float},
    "bool": {"is_flag": True},
    "str": {},
    "numbers": {"type": Numbers()},
    "range": {"type": Range()},
    "assignments": {"type": Assignments(), "multiple": True},
    "peers": {"type": Peers(), "default": ""},
    "networks": {"type": Networks(), "multiple": True, "callback": joined},
}
"""How the text of a flag becomes a value, by what the field of the settings says about it."""


def option(one: Field[Any], *, testbed: bool = False, **changes: Any) -> Option:
    """The flag of a field, as the help pages of testbeds have it or that of one agent."""
    said = about(one)
    how = dict(_FORMS[said.reads or str(one.type).removesuffix(" | None")])
    if said.choices:
        how["type"] = click.Choice(list(said.choices))
    if one.default is MISSING:
        how["required"] = one.default_factory is MISSING
    elif one.default is not None and one.default is not False and one.default != ():
        how |= {"default": _as_typed_default(one.default), "show_default": True}
    how["help"] = said.testbed_help if testbed and said.testbed_help is not None else said.help
    return click.option(flag_of(one), _parameter(one) if testbed else one.name, metavar=said.metavar, **(how | changes))


def in_order(options: Sequence[Option]) -> Option:
    """Several options as one decorator."""

    def decorate(command: F) -> F:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate


def group_options(group: type, **changes: Mapping[str, Any]) -> Option:
    """The flags of a group of knobs on a page of testbeds; `taken` finds their values again."""
    return in_order([option(one, testbed=True, **changes.get(one.name, {})) for one in fields(group)])


def taken(group: type, flags: dict[str, Any]) -> dict[str, Any]:
    """The values of a group of knobs, taken out of the flags of a page of testbeds."""
    return {one.name: flags.pop(_parameter(one)) for one in fields(group)}


def testbed_options(command: F) -> F:
    """The flags that `up` and `simulate` share; the command receives them as keyword arguments."""
    run_dir = click.option(
        "--run-dir", metavar="DIR", help="Where to write the run; must be new or empty.  [default: runs/…]"
    )
    decorate = in_order([*(option(one, testbed=True) for one in ordered(TestbedSettings)), run_dir, config_option])
    decorated: F = decorate(command)
    return decorated


def testbed_settings(**flags: Any) -> TestbedSettings:
    """Validated settings from the flags of `testbed_options`."""
    values = taken(TestbedSettings, flags)
    values["policies"] = dict(values["policies"])
    values["arms"] = tuple(values["arms"] or ())
    values["arm_range"] = tuple(values["arm_range"])
    return TestbedSettings(**values, **flags)


def _parameter(one: Field[Any]) -> str:
    """What a verb of testbeds receives a flag as: named like the flag, and so is the variable."""
    return flag_of(one).removeprefix("--").replace("-", "_")


def _as_typed_default(default: Any) -> Any:
    return ",".join(f"{end:g}" for end in default) if isinstance(default, tuple) else default
