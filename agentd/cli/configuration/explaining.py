"""Commands that say of every wrong setting where it comes from, of all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from agentd.cli.configuration.origins import look, unknown_variables, with_origins
from agentd.cli.configuration.variables import variables_of_verbs
from agentd.errors import ConfigurationError, SettingsError

if TYPE_CHECKING:
    _Command = click.Command
else:
    _Command = object


class Explaining(_Command):
    """What commands and groups have in common here: they are made with this before click's own class."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; if something is wrong, look for all that is."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as first:
            self._refuse(ctx, words, first)
        for complaint in unknown_variables(ctx, variables_of_verbs):
            click.echo(f"warning: {complaint}", err=True)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Carry it out; what it finds wrong with settings of files and variables is told with their places."""
        try:
            return super().invoke(ctx)
        except SettingsError as fault:
            if type(fault) is SettingsError and (told := with_origins(ctx, str(fault))) is not None:
                raise ConfigurationError(told) from None
            raise

    def _refuse(self, ctx: click.Context, words: list[str], first: click.UsageError) -> NoReturn:
        looked = look(self, words, ctx.info_name or "")
        faults = [*looked.faults, *(f"Missing option '{flag}'" for flag in looked.missing)]
        if looked.from_outside:
            raise ConfigurationError("\n".join(faults)) from None
        if len(faults) > 1:
            raise click.UsageError("; ".join(faults), ctx) from None
        raise first


class ExplainingCommand(Explaining, click.Command):
    """A verb whose settings may come from anywhere."""


class ExplainingGroup(Explaining, click.Group):
    """The same of a verb with verbs of its own."""
