"""Flags that several verbs share, and how variables and a TOML file stand in for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from agentd.cli.configuration.forms import Assignments, Duration, Networks, Numbers, Peers, Range, joined
from agentd.cli.configuration.reading import config_option
from agentd.core.policy.knobs import about, flag_of
from agentd.errors import SettingsError
from agentd.quantities import counted
from agentd.settings import TestbedSettings, ordered

if TYPE_CHECKING:
    from agentd.runs.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Any], Any]
"""A decorator of click's."""

FROM_ENVIRONMENT = {"auto_envvar_prefix": "AGENTD", "help_option_names": ["-h", "--help"], "max_content_width": 110}
"""Context settings of a verb whose flags may also come as AGENTD_… variables."""


_FORMS: dict[str, dict[str, Any]] = {
    "int": {"type": int},
    "float": {"type": float},
    "duration": {"type": Duration()},
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
    plain = "duration" if said.unit == "s" else str(one.type).removesuffix(" | None")
    how = dict(_FORMS[said.reads or plain])
    if said.choices:
        how["type"] = click.Choice(list(said.choices))
    if one.default is MISSING:
        how["required"] = one.default_factory is MISSING
    elif one.default is not None and one.default is not False and one.default != ():
        how |= {"default": _as_typed_default(one.default), "show_default": True}
    how["help"] = said.testbed_help if testbed and said.testbed_help is not None else said.help
    name = parameter_of(one) if testbed else one.name
    if name != parameter_of(one):  # the variable has always had the unit in its name; now it may
        how["envvar"] = [f"AGENTD_{text.upper()}" for text in (parameter_of(one), name)]
    return click.option(flag_of(one), name, metavar=said.metavar, **(how | changes))


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
    return {one.name: flags.pop(parameter_of(one)) for one in fields(group)}


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


def scenario_of(settings: TestbedSettings) -> Scenario:
    """The run that these settings of the current command describe; a graph file must have as many agents as it says."""
    from agentd.runs.scenario import make_scenario

    scenario = make_scenario(settings)
    source = click.get_current_context().get_parameter_source("agents")
    if scenario.graph.nodes != settings.agents and source is not ParameterSource.DEFAULT:
        raise SettingsError(
            f"--topology {settings.topology} has {counted(scenario.graph.nodes, 'agent')}, and --agents says "
            f"{settings.agents}; leave --agents out, or name another graph"
        )
    return scenario


def parameter_of(one: Field[Any]) -> str:
    """What a verb of testbeds receives a flag as: named like the flag, and so is the variable."""
    return flag_of(one).removeprefix("--").replace("-", "_")


def _as_typed_default(default: Any) -> Any:
    return ",".join(f"{end:g}" for end in default) if isinstance(default, tuple) else default
