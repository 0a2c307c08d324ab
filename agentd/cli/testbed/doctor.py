"""agentd doctor: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from agentd.cli.testbed.doctor_checks import Finding, examine, refuse_if_fatal

_PART = 20
_STATE = 8


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def doctor(as_json: bool) -> None:
    """Show what this machine has for testbeds, what it lacks, and what to do about it.

    Only Python and the required packages must be there; everything else enables one more thing. Nothing is changed or
    installed. Exit codes: 0 nothing required is missing, 69 something is.
    """
    findings = list(examine())
    click.echo(json.dumps([asdict(one) for one in findings]) if as_json else table(findings))
    refuse_if_fatal(findings)


def table(findings: list[Finding]) -> str:
    """One line each, remedies at the end of theirs."""
    return "\n".join(line(one) for one in findings)


def line(finding: Finding) -> str:
    """One finding for a person."""
    remedy = f"  →  {finding.remedy}" if finding.remedy else ""
    return f"{finding.part:{_PART}} {finding.state:{_STATE}} {finding.detail}{remedy}"
