"""agentd audit: try to refute the privacy that an algorithm claims."""

from __future__ import annotations

import json
import math
import secrets
from typing import Any

import click

from agentd.audit.case import AUDITABLE, Case
from agentd.audit.distinguish import CONFIDENCE
from agentd.audit.examine import SIGNIFICANCE, Verdict, Workers, blocks, default_processes, examine, workers
from agentd.audit.matrix import REAL_DEATHS, Entry, matrix
from agentd.audit.planted_faults import FAULTS
from agentd.cli.options import FROM_ENVIRONMENT
from agentd.cli.progress import progress
from agentd.core.chance import SEED_LIMIT
from agentd.core.message import MAX_ARMS
from agentd.errors import SettingsError
from agentd.run.directory import finite

RUNS = 20_000
_LEAST_RUNS = 100


@click.command(context_settings=FROM_ENVIRONMENT)
@click.option("--algorithm", type=click.Choice(AUDITABLE), default="sealed", show_default=True, help="What to audit.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The agent's --epsilon.")
@click.option("--arms", type=int, default=2, show_default=True, help="Arms of the bandit.")
@click.option("--runs", type=int, help=f"Runs of each of the two inputs.  [default: {RUNS}; {REAL_DEATHS} with --kill]")
@click.option("--trials", type=int, help="Trials of a run.  [default: until releases and a choice from them are seen]")
@click.option(
    "--adversary/--no-adversary",
    default=True,
    show_default=True,
    help="A neighbour that chooses what it sends so as to steer the agent, or one that only listens.",
)
@click.option("--restart", is_flag=True, help="Let the agent die and come back from its journal in mid-run.")
@click.option(
    "--kill", is_flag=True, help="The same with processes, SIGKILL and a disk, which takes a tenth of a second per run."
)
@click.option("--fault", type=click.Choice(list(FAULTS)), help="Plant a fault into sealed, to see it found.")
@click.option("--all", "everything", is_flag=True, help="Every fault and every situation, against what must come out.")
@click.option("--processes", type=int, help="Processes that work.  [default: one per core]")
@click.option("--seed", type=int, help="Of decision coins and moments of death. Noise has none: it is the agent's own.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(everything: bool, runs: int | None, processes: int | None, kill: bool, as_json: bool, **flags: Any) -> int:
    """Try to refute the privacy that an algorithm claims.

    Many runs of a real agent on two inputs that differ in one reward, 0 or 1; everything that it publishes, byte by
    byte, and every arm it pulls is looked at for an event that tells them apart better than e^ε allows. Events are
    chosen on one half of the runs and tested on the other, so a verdict of `violated` is a proof at the p-value given;
    `holds` means that nothing was found.

    \b
    agentd audit                                  sealed, against a neighbour that steers
    agentd audit --algorithm private-ucb          the paper's algorithm: its counts give rewards away
    agentd audit --fault half-noise --runs 2000   what a mistake looks like
    agentd audit --all                            everything, some minutes

    Exit code 0: holds (with --all: everything as expected); 1: violated, or not as expected.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    seed = flags.pop("seed")
    runs = runs if runs is not None else REAL_DEATHS if kill and not everything else RUNS
    case = _case(seed=secrets.randbits(63) if seed is None else seed, kill=kill, **flags)
    _require(case, runs, processes)
    entries = matrix(case.epsilon, case.seed) if everything else [Entry(case.name, case, False, kill)]
    team_size = processes or default_processes()
    total = sum(
        len(blocks(entry.case, 1, entry.runs(runs) if everything else runs, real=entry.real)) for entry in entries
    )
    with workers(team_size) as team, progress("audit", total, quiet=as_json) as advance:
        if everything:
            return _all(entries, runs, team, advance, as_json=as_json)
        verdict = examine(case, runs, team, advance, real=kill)
    click.echo(json.dumps(finite(verdict.to_json()), ensure_ascii=False) if as_json else _report(verdict))
    return int(verdict.violated)


def _case(*, trials: int | None, kill: bool, restart: bool, fault: str | None, **flags: Any) -> Case:
    """The case that the flags describe; a fault that shows in restarts only gets restarts."""
    return Case(trials=trials or 0, restart=restart or kill or fault == "redrawn-noise", fault=fault, **flags)


def _require(case: Case, runs: int, processes: int | None) -> None:
    faults = []
    if not (case.epsilon > 0 and math.isfinite(case.epsilon)):
        faults.append(f"--epsilon must be positive and finite, got {case.epsilon:g}")
    if not 2 <= case.arms <= MAX_ARMS:
        faults.append(f"--arms must be in 2…{MAX_ARMS}, got {case.arms}")
    if runs < _LEAST_RUNS:
        faults.append(f"--runs must be at least {_LEAST_RUNS}, got {runs}: fewer prove nothing")
    if case.trials < 0 or (processes is not None and processes < 1):
        faults.append("--trials and --processes must be positive")
    if not 0 <= case.seed < SEED_LIMIT:
        faults.append(f"--seed must be in [0, 2^64), got {case.seed}")
    if case.fault is not None and case.algorithm != "sealed":
        faults.append("--fault plants mistakes into sealed; leave --algorithm out")
    if faults:
        raise SettingsError("; ".join(faults))


def _all(entries: list[Entry], runs: int, team: Workers, advance: Any, *, as_json: bool) -> int:
    """The whole matrix; 1 if anything is other than expected."""
    lines = []
    for entry in entries:
        verdict = examine(entry.case, entry.runs(runs), team, advance, real=entry.real)
        lines.append((entry, verdict))
        if not as_json:
            if len(lines) == 1:
                click.echo(_HEAD)
            click.echo(_line(entry, verdict))
    if as_json:
        click.echo(json.dumps(finite({"entries": [_entry_json(*line) for line in lines]}), ensure_ascii=False))
    return int(any(not _as_expected(*line) for line in lines))


def _as_expected(entry: Entry, verdict: Verdict) -> bool:
    return entry.violated == verdict.violated and (entry.violated or not verdict.noised_twice)


def _entry_json(entry: Entry, verdict: Verdict) -> dict[str, Any]:
    expected = {"name": entry.name, "expected": _word(entry.violated), "as_expected": _as_expected(entry, verdict)}
    return {**expected, **verdict.to_json()}


def _word(violated: bool) -> str:
    return "violated" if violated else "holds"


_HEAD = f"{'':<28}{'expected':<10}{'verdict':<10}{'claimed ε':>9} {'proved ε':>9} {'p':>9} {'runs':>6} {'s':>5}  event"


def _line(entry: Entry, verdict: Verdict) -> str:
    mark = "" if _as_expected(entry, verdict) else "  ← NOT AS EXPECTED"
    event = verdict.findings[0].event if verdict.findings and verdict.violated else ""
    return (
        f"{entry.name:<28}{_word(entry.violated):<10}{_word(verdict.violated):<10}{verdict.claimed:>9.3g} "
        f"{verdict.epsilon:>9.3g} {_chance(verdict.p):>9} {verdict.runs:>6} {verdict.wall_s:>5.0f}  {event}{mark}"
    )


def _chance(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-300 else "<1e-300"


def _report(verdict: Verdict) -> str:
    """For a person: the verdict, and what every distinguisher found."""
    case = verdict.case
    lines = [
        f"{_word(verdict.violated)}: {case.name}" + (f", planted: {FAULTS[case.fault]}" if case.fault else ""),
        f"claimed ε {verdict.claimed:.4g}; proved at least {verdict.epsilon:.4g} ({CONFIDENCE:.0%} confidence); "
        f"p = {_chance(verdict.p)} (violated below {SIGNIFICANCE:g})",
        f"{verdict.runs} runs of each input, {case.trials} trials each, {verdict.wall_s:.0f} s",
    ]
    if case.restart:
        lines.append(f"runs in which a release was noised twice: {verdict.noised_twice}")
    lines += ["", f"{'seen in':<13}{'reward 0':>9}{'reward 1':>9} of{verdict.findings[0].runs:>6}  event"]
    lines += [
        f"{f.family:<13}{f.counts[0]:>9}{f.counts[1]:>9}{'':>9}  {f.event} (ε ≥ {f.epsilon:.3g}, p = {_chance(f.p)})"
        for f in verdict.findings
    ]
    return "\n".join(lines)
