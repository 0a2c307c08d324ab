"""Exit codes, from the tree of errors."""

from __future__ import annotations

import inspect

from agentd import errors
from agentd.audit.examine import CANNOT_TELL
from agentd.cli import cli
from agentd.cli.audit_report import EXIT_CODES
from generate.text import code, plain, table

OF_SINGLE_VERBS = {
    EXIT_CODES[CANNOT_TELL]: "`agentd audit`: so many runs could not have refuted the claim",
    130: "interrupted with Ctrl-C (143: with SIGTERM) where something was left undone",
}


def faults() -> list[type[errors.AgentdError]]:
    """Every error that somebody outside can cause."""
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.AgentdError)]
    return sorted(found, key=lambda one: (one.exit_code, one.__name__))


def page() -> str:
    """By code, and by what is raised."""
    summary = " ".join((cli.help or "").partition("Exit codes:")[2].split()).rstrip(".")
    said = [part.strip().split(" ", 1) for part in summary.split(",")]
    told = {int(number): meaning for number, meaning in said} | OF_SINGLE_VERBS
    rows = [[code(number), plain(told[number])] for number in sorted(told)]
    raised = [
        [code(one.__name__), code(one.exit_code), plain((inspect.getdoc(one) or "").partition("\n")[0])]
        for one in faults()
        if one is not errors.PeerError  # which ends nobody
    ]
    return (
        "# Exit codes\n\nMade from the code. Every foreseen failure is one line on standard error, which says what "
        f"happened, why, and what to do.\n\n{table(['code', 'meaning'], rows)}\n## By what is raised\n\n"
        f"`except` clauses of a program that uses [the library](library.md):\n\n"
        f"{table(['error', 'exit code', 'when'], raised)}"
    )
