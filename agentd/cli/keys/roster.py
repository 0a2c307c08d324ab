"""agentd roster: who is who in a run, signed by the operator."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from agentd.cli.configuration.forms import Peers
from agentd.errors import ConfigurationError, SettingsError
from agentd.files import PUBLIC, replace_text
from agentd.keys.accepted import verified
from agentd.keys.equivocation import LONGEST_FILE as LONGEST_PROOF
from agentd.keys.equivocation import parse_proof
from agentd.keys.key_files import PublicKeys, read_keys, read_public
from agentd.keys.roster import LONGEST_FILE, Entry, Roster, SignedRoster, parse, signed
from agentd.quantities import counted
from agentd.terms_file import read_terms_file
from agentd.untrusted import printable, read_named
from agentd.wire.terms_digest import digest

_DAY_S = 86_400
_LONGEST_DAYS = 36_500


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def roster() -> None:
    """Make, show and verify rosters: which public keys each agent has, signed by the operator."""


@roster.command()
@click.argument("public", nargs=-1, required=True, metavar="FILE.pub…")
@click.option("--operator", metavar="FILE", required=True, help="The operator's own .key, which signs it.")
@click.option("--version", type=int, default=1, show_default=True, help="Larger than that of every roster before.")
@click.option("--valid-days", type=int, default=365, show_default=True, help="Days after which nobody takes it up.")
@click.option("--addresses", type=Peers(), default="", help="Where agents listen, as in 0=tcp://gate-0:7000,…")
@click.option("--environment-address", metavar="ADDRESS", help="Where the environment listens.")
@click.option("--terms", metavar="FILE", help="Pin the terms of the run: others are refused; see agentd terms make.")
@click.option("--signatures-required", is_flag=True, help="Say that every message must be signed by its origin.")
@click.option("--out", metavar="FILE", required=True, help="Where to write it; it is no secret.")
def make(
    *,
    public: Sequence[str],
    operator: str,
    version: int,
    valid_days: int,
    addresses: dict[int, str],
    environment_address: str | None,
    terms: str | None,
    signatures_required: bool,
    out: str,
) -> None:
    """Say who is who, and sign it.

    \b
    agentd roster make keys/*.pub --operator operator/operator.key --out roster.json

    To let an agent in later, or to shut one out, make another with a larger --version, hand it to everybody and send
    their processes a SIGHUP.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if not 0 < valid_days <= _LONGEST_DAYS:
        raise SettingsError(f"--valid-days must be in 1…{_LONGEST_DAYS}, got {valid_days}")
    agents, environment = _entries([read_public(path) for path in public], addresses, environment_address)
    key = read_keys(operator)
    if key.kind != "operator":
        raise ConfigurationError(f"{operator} holds the keys of {key.name}; name the operator's own")
    wanted = Roster(
        version=version,
        valid_until=int(time.time()) + valid_days * _DAY_S,
        agents=agents,
        environment=environment,
        terms=None if terms is None else digest(read_terms_file(terms)),
        signatures=signatures_required,
    )
    try:
        made = signed(wanted, key.sign_public, key.sign_secret)
        parse(made.text().encode())  # addresses are looked at there
    except ValueError as fault:
        raise SettingsError(f"this makes no roster: {fault}") from None
    try:
        replace_text(Path(out), made.text(), mode=PUBLIC)
    except OSError as fault:
        raise ConfigurationError(f"cannot write {out}: {fault.strerror}; name another --out") from None
    click.echo(f"version {version} with {counted(len(agents), 'agent')}, operator {made.fingerprint}, written to {out}")


@roster.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(file: str, as_json: bool) -> None:
    """Show a roster. That its signature is genuine says nothing about whose it is: verify tells."""
    found = _read(file)
    if as_json:
        about = {"operator_fingerprint": found.fingerprint, "genuine": found.is_genuine()}
        click.echo(json.dumps({**found.roster.to_json(), **about}))
        return
    for name, value in _lines(found):
        click.echo(printable(f"{name:12} {value}"))


@roster.command()
@click.argument("file")
@click.option("--operator-fingerprint", metavar="HEX", required=True, help="Of the operator that you trust.")
def verify(file: str, operator_fingerprint: str) -> None:
    """Tell whether this operator has signed the roster and it has not expired; exit code 78 if not."""
    found = verified(file, operator_fingerprint, time.time())
    click.echo(f"good: version {found.version}, {counted(len(found.agents), 'agent')}, {_until(found)}")


@roster.command()
@click.argument("proof")
@click.option("--operator-fingerprint", metavar="HEX", required=True, help="Of the operator that you trust.")
def judge(proof: str, operator_fingerprint: str) -> None:
    """Tell whether a file proves that an agent has signed two things for one trial; exit code 78 if not.

    Nothing but the file is needed, and the fingerprint of the operator whose word on keys you take.
    """
    try:
        found = parse_proof(read_named(proof, LONGEST_PROOF))
        fault = found.fault()
    except (OSError, ValueError) as wrong:
        raise ConfigurationError(
            f"cannot judge {proof}: {wrong.strerror if isinstance(wrong, OSError) else wrong}; name a proof that an "
            "agent has kept beside its keys"
        ) from None
    named = found.roster.fingerprint
    if fault is None and operator_fingerprint != named:  # anybody can be an operator, and give anybody keys
        fault = f"its roster is of operator {named:.16}…, not {operator_fingerprint:.16}…"
    if fault is not None:
        raise ConfigurationError(f"{proof} proves nothing: {fault}; do not hold it against anybody")
    run, origin, incarnation, trial = found.about
    click.echo(
        f"proved: agent {origin} has signed two different messages for trial {trial} of its life {incarnation} in run "
        f"{run.hex()}, by the keys that operator {named} gave it"
    )


def _read(file: str) -> SignedRoster:
    try:
        return parse(read_named(file, LONGEST_FILE))
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigurationError(f"cannot read the roster {file}: {why}; make it with agentd roster make") from None


def _entries(
    public: Sequence[PublicKeys], addresses: dict[int, str], environment_address: str | None
) -> tuple[dict[int, Entry], Entry | None]:
    agents: dict[int, Entry] = {}
    environment = None
    for each in public:
        if each.kind == "operator":
            raise SettingsError("the operator's public keys are no part of a roster; leave them out")
        if each.id in agents or (each.kind == "environment" and environment is not None):
            raise SettingsError(f"{each.name} is named twice")
        if each.id is None:
            environment = Entry(each.curve_public, each.sign_public, environment_address)
        else:
            agents[each.id] = Entry(each.curve_public, each.sign_public, addresses.get(each.id))
    if unknown := sorted(set(addresses) - set(agents)):
        raise SettingsError(f"--addresses names agent {unknown[0]}, whose public keys are not among the files")
    return agents, environment


def _until(found: Roster) -> str:
    return f"valid until {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(found.valid_until))}"


def _lines(found: SignedRoster) -> Iterator[tuple[str, str]]:
    inside = found.roster
    yield "operator", found.fingerprint
    yield "signature", "genuine" if found.is_genuine() else "FORGED: not of this operator"
    yield "version", f"{inside.version}, {_until(inside)}"
    yield "terms", inside.terms or "not pinned"
    yield "signatures", "required" if inside.signatures else "not required"
    if inside.environment is not None:
        yield "environment", _about(inside.environment)
    for number, entry in inside.agents.items():
        yield f"agent {number}", _about(entry)


def _about(entry: Entry) -> str:
    return f"{entry.curve.hex():.16}…  {entry.address or ''}".rstrip()
