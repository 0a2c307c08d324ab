"""Where each value of a command comes from, and all that is wrong with them, not only what is met first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import click
from click.core import ParameterSource, iter_params_for_processing

from agentd.cli.configuration.reading import LINES, nearest
from agentd.errors import AgentdError

PREFIX = "AGENTD_"
BESIDE_FLAGS = frozenset({"AGENTD_PLUGINS", "AGENTD_HEALTH_FILE"})
"""Variables that stand for no flag."""
_OF_A_CLUSTER = re.compile(r"AGENTD_.*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_.*)?)")
"""Variables that Kubernetes makes of the names of services."""
_NEXT_FAULT = re.compile(r"; (?=--|unknown )")
"""Where one fault of several ends: other sentences have semicolons, too."""
_FLAG = re.compile(r"--[a-z][a-z0-9-]*")


@dataclass(slots=True)
class Looked:
    """What a look at the settings of a command came to."""

    ctx: click.Context
    values: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Each with where it comes from, if that is not a flag."""
    missing: list[str] = field(default_factory=list)
    """Flags that must be said, and were not."""
    from_outside: bool = False
    """Whether a fault is in a file or a variable."""


def look(command: click.Command, words: Sequence[str], name: str) -> Looked:
    """Read the settings of a command as it would, but go on after a fault."""
    ctx = command.context_class(command, info_name=name, **command.context_settings)
    looked = Looked(ctx)
    try:
        opts, rest, order = command.make_parser(ctx).parse_args(list(words))
    except click.UsageError as fault:
        looked.faults.append(fault.format_message())
        return looked
    for param in iter_params_for_processing(order, command.get_params(ctx)):
        if param.name in ("help", "version"):
            continue
        _look_at(param, looked, opts, rest)
    return looked


def _look_at(param: click.Parameter, looked: Looked, opts: dict[str, Any], rest: list[str]) -> None:
    ctx, name = looked.ctx, str(param.name)
    try:
        param.handle_parse_result(ctx, opts, rest)
    except click.MissingParameter:
        looked.missing.append(param.opts[0])
        return
    except click.UsageError as fault:
        place = outside(ctx, param)
        looked.from_outside |= place is not None
        looked.faults.append(f"{place}: {fault.message}" if place else fault.format_message().rstrip("."))
        return
    except AgentdError as fault:
        looked.from_outside = True
        looked.faults += str(fault).splitlines()
        return
    if param.expose_value:
        value = ctx.params.get(name)
        looked.values[name] = None if isinstance(value, Enum) else value  # click's own word for "not said"


def outside(ctx: click.Context, param: click.Parameter) -> str | None:
    """The variable, or the file and line, that a value was taken from; None: from a flag, or it is the default."""
    source = ctx.get_parameter_source(str(param.name))
    if source is ParameterSource.ENVIRONMENT:
        return variable_of(ctx, param)
    if source is ParameterSource.DEFAULT_MAP:
        return str(ctx.meta.get(LINES, {}).get(str(param.name), "the configuration"))
    return None


def origin(ctx: click.Context, param: click.Parameter) -> str:
    """Where a value comes from, for people."""
    if (place := outside(ctx, param)) is not None:
        return place
    return "flag" if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE else "default"


def variable_of(ctx: click.Context, param: click.Parameter) -> str:
    """The variable that stands for a flag; of several, the one that is set."""
    names = variables_of(ctx, param)
    return next((name for name in names if os.environ.get(name)), names[0])


def variables_of(ctx: click.Context, param: click.Parameter) -> list[str]:
    """The variables that stand for a flag."""
    if param.envvar is not None:
        return [param.envvar] if isinstance(param.envvar, str) else list(param.envvar)
    return [f"{ctx.auto_envvar_prefix}_{str(param.name).upper()}"]


def with_origins(ctx: click.Context, complaint: str) -> str | None:
    """A complaint about settings with where those come from; None: from flags alone, which it names already."""
    by_flag = {flag: param for param in ctx.command.params for flag in param.opts}
    told, found = [], False
    for fault in _NEXT_FAULT.split(complaint):
        flag = _FLAG.search(fault)
        param = by_flag.get(flag[0]) if flag else None
        place = outside(ctx, param) if param is not None else None
        found |= place is not None
        told.append(f"{place}: {fault}" if place else fault)
    return "\n".join(told) if found else None


def unknown_variables(ctx: click.Context, elsewhere: Callable[[], Sequence[str]]) -> list[str]:
    """Complaints about AGENTD_… variables that no verb reads, with what was probably meant."""
    own = {name for param in ctx.command.params for name in variables_of(ctx, param)}
    known = {*BESIDE_FLAGS, *own, *elsewhere()}
    strange = (name for name in os.environ if name.startswith(PREFIX) and name not in known)
    return [
        f"{name} is a variable that nothing reads{nearest(name, sorted(known))}"
        for name in sorted(strange)
        if not _OF_A_CLUSTER.fullmatch(name)
    ]
