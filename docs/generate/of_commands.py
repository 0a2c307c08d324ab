"""Every verb and every flag, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from agentd.cli import cli
from generate.text import code, paragraphs, plain, table


def commands(command: click.Command = cli, path: str = "agentd") -> Iterator[tuple[str, click.Command]]:
    """Every verb and every verb of a verb, by what one types."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from commands(below, f"{path} {name}")


def page() -> str:
    """All commands on one page, so that a browser's search finds any flag."""
    intro = (
        "# Commands and flags\n\nMade from the code. A flag that has a variable can also be a line in a TOML file "
        "(`--config`), where the command takes one. `agentd --id 3 …` is short for `agentd agent --id 3 …`.\n"
    )
    return "\n".join([intro, *(_section(path, command) for path, command in commands())])


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    told = paragraphs(command.help or command.short_help or "")
    rows = [_row(one, command) for one in command.params]
    flags = table(["flag", "default", "what it does, its variable"], rows) if rows else ""
    return f"## {path}\n\n```text\n{usage}\n```\n\n{told}\n{flags}"


def _row(one: click.Parameter, command: click.Command) -> list[str]:
    context = click.Context(command, info_name="agentd")
    is_flag = isinstance(one, click.Option) and (one.is_flag or one.count)
    names = ", ".join(code(name) for name in [*one.opts, *one.secondary_opts])
    if isinstance(one, click.Argument):
        names = code(one.make_metavar(context))
    value = "" if is_flag or isinstance(one, click.Argument) else plain(_value(one, context))
    about = [plain(getattr(one, "help", None) or ""), _variable(one, command)]
    return [f"{names} {value}".strip(), code(_default(one)), " ".join(filter(None, about))]


def _value(one: click.Parameter, context: click.Context) -> str:
    if isinstance(one.type, click.Choice):
        return ", ".join(map(str, one.type.choices))
    return one.make_metavar(context)


def _default(one: click.Parameter) -> str:
    """What holds where nothing is said; nothing for flags that are off, and for what must be said."""
    value = one.to_info_dict().get("default")
    if one.required:
        return "(needed)" if isinstance(one, click.Option) else ""
    if value is None or value is False or value == () or callable(value) or "Sentinel" in type(value).__name__:
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _variable(one: click.Parameter, command: click.Command) -> str:
    prefix = command.context_settings.get("auto_envvar_prefix")
    if not isinstance(one, click.Option):
        return ""
    if one.envvar:
        return ", ".join(code(name) for name in ([one.envvar] if isinstance(one.envvar, str) else one.envvar))
    return code(f"{prefix}_{str(one.name).upper()}") if prefix else ""
