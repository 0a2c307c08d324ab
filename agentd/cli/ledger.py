"""agentd ledger: what an agent has spent, from its state on disk."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from agentd.core.policy import ALGORITHMS, PolicySettings, schedule_of
from agentd.core.privacy.composition import LEAST_DELTA, tight_epsilon
from agentd.core.privacy.ledger import Ledger, paper_bound
from agentd.core.privacy.schedule import Schedule
from agentd.core.saved_state import SavedState
from agentd.core.upwards import at_least, shown
from agentd.errors import ConfigurationError, SettingsError, StateUnusable, install_with
from agentd.files import require_own
from agentd.runs.directory import finite
from agentd.untrusted import printable_lines

AGENTS = "state"
"""Where a run directory holds the state of its agents."""
MOST_SIZES = 50_000
"""Convolutions, a millisecond each; the tight value of a schedule that takes more is left out."""
RUNGS_PER_E = 1_000
_FROM_THE_PAPER = ("private-ucb", "dp-ucb-int")
_AGENT = re.compile(r"agent-[0-9]{1,5}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("place", metavar="STATE", type=click.Path(path_type=Path))
@click.option("--delta", type=float, default=1e-5, show_default=True, help="The δ of all (ε, δ) values.")
@click.option("--verify", is_flag=True, help="Compute the tight ε with dp-accounting too (slow; extra `accounting`).")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def ledger(place: Path, delta: float, verify: bool, as_json: bool) -> None:
    """Show what an agent has spent: its releases and the ε they add up to, per arm and in all.

    STATE is what the agent was given as --state, or the run directory of a testbed for all of its agents. An agent may
    run meanwhile; nothing is changed.

    \b
    pure      the sum over what was released; what it covers is said beside it
    advanced  holds but for probability δ, by advanced composition
    tight     the same by privacy-loss distributions: the smallest that is true
    paper     what the paper claims for so many trials, for comparison

    Values at δ hold for a number of releases that was fixed before the first reward. So they are told of the schedule,
    an arm that is pulled in every round up to the horizon, and not of what was released in the end; nor once a round
    was lost, or the agent went on beyond the horizon that it began with.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if not LEAST_DELTA <= delta < 1:
        raise SettingsError(f"--delta must lie in [{LEAST_DELTA:g}, 1), got {delta}")
    if place.exists():
        require_own(place)
    if (place / AGENTS).is_dir() and not (place / AGENTS).is_symlink():
        reports = [_report(agent, delta, tight=False) for agent in _agents(place / AGENTS)]
        click.echo(json.dumps(finite(reports)) if as_json else _overview(reports))
        return
    report = _report(place, delta, tight=True)
    if verify:
        _verify(report, place)
    click.echo(json.dumps(finite(report)) if as_json else printable_lines(_table(report)))


def _agents(place: Path) -> list[Path]:
    found = [path for path in place.iterdir() if _AGENT.fullmatch(path.name)]
    if not found:
        raise ConfigurationError(f"{place} holds no agent's state")
    return sorted(found, key=lambda path: int(path.name.removeprefix("agent-")))


def _report(place: Path, delta: float, *, tight: bool) -> dict[str, Any]:
    from agentd.shell.state.reader import read_state

    saved = read_state(place)
    try:
        return _report_of(saved, place, delta, tight=tight)
    except (ValueError, KeyError, OverflowError) as fault:  # digests hold, but no agent wrote this
        raise StateUnusable(f"the state in {place} tells what no agent can have spent: {fault!s:.100}") from None


def _report_of(saved: SavedState, place: Path, delta: float, *, tight: bool) -> dict[str, Any]:
    from agentd.shell.state.reader import ledger_of

    about, spent = saved.about, ledger_of(saved)
    schedule, one, person = _schedule(saved), spent.epsilon_one_reward(), about.get("rewards_per_person", 1)
    at_delta = _at_delta(schedule, delta, tight=tight)
    possible = Counter(release.arm for release, value in saved.releases if value is None)
    return {
        "state": str(place),
        **{name: about[name] for name in ("agent", "run", "algorithm", "arms", "epsilon", "seeded", "incarnation")},
        "trial": saved.trial,
        "refused": saved.refused,
        "delta": delta,
        "disjoint": spent.disjoint,
        "covers": ALGORITHMS[about["algorithm"]].covers,
        "rewards_per_person": person,
        "one_reward": {"pure": one, **at_delta},
        "one_person": {"rewards": person, "pure": _upwards(spent.cost_of_rewards(person))},
        "per_arm": [{"arm": arm, "possible": possible[arm], **_entry(spent, arm)} for arm in spent.arms],
        "total": {"possible": possible.total(), **_entry(spent)},
        "schedule": None if schedule is None else {**_schedule_entry(schedule), **at_delta},
        "paper_bound": _paper_bound(saved, delta),
    }


def _upwards(cost: Fraction) -> float:
    return at_least(cost.numerator, cost.denominator)


def _schedule(saved: SavedState) -> Schedule | None:
    """What there was to release at most, if it was fixed before the first reward for how many rounds."""
    about = saved.about
    knobs = {"epsilon": about["epsilon"]} | ({"v": about["v"]} if about.get("v") is not None else {})
    lost = any(value is None for _, value in saved.releases)
    rounds = about.get("rounds") if type(about.get("rounds")) is int else None
    if rounds is not None and saved.trial > rounds:  # it was started again for longer
        rounds = None
    return schedule_of(about["algorithm"], PolicySettings(arms=about["arms"], **knobs), rounds, lost=lost)


def _at_delta(schedule: Schedule | None, delta: float, *, tight: bool) -> dict[str, Any]:
    if schedule is None:
        return {"advanced": None, "tight": None}
    return {"advanced": schedule.at(delta), "tight": _tight(schedule, delta) if tight else None}


def _tight(schedule: Schedule, delta: float) -> float | None:
    scales = schedule.scales
    if not scales or _sizes(scales) > MOST_SIZES:
        return None if scales else 0.0
    if schedule.disjoint:  # a reward is in one batch, whichever that is
        return max((tight_epsilon([scale], delta) for scale in set(scales)), default=0.0)
    return tight_epsilon(scales, delta)


def _sizes(scales: Sequence[int]) -> int:
    """How many convolutions the tight value takes: one per size of noise, or per rung of a ladder."""
    return min(len(set(scales)), RUNGS_PER_E * (1 + math.ceil(math.log(max(scales) / min(scales)))))


def _schedule_entry(schedule: Schedule) -> dict[str, Any]:
    releases = None if schedule.disjoint else schedule.releases
    return {"pulls": schedule.pulls, "releases": releases, "pure": schedule.epsilon}


def _entry(spent: Ledger, arm: int | None = None) -> dict[str, Any]:
    """What was released; at δ nothing is said of it, because how much it was may follow from the rewards."""
    return {"releases": spent.releases(arm), "pure": spent.pure_epsilon(arm), "advanced": None, "tight": None}


def _paper_bound(saved: SavedState, delta: float) -> float | None:
    about = saved.about
    if about["algorithm"] not in _FROM_THE_PAPER or not saved.trial:
        return None
    return paper_bound(about["epsilon"], about["v"], saved.trial, delta)


def _verify(report: dict[str, Any], place: Path) -> None:
    from agentd.shell.state.reader import read_state

    if (schedule := _schedule(read_state(place))) is None:
        raise ConfigurationError(f"--verify: the state in {place} does not tell for how many rounds the run was to be")
    scales = list(schedule.scales[:1] if schedule.disjoint else schedule.scales)
    report["schedule"]["dp_accounting"] = dp_accounting_epsilon(scales, report["delta"])


def dp_accounting_epsilon(scales: list[int], delta: float, interval: float = 1e-4) -> float:
    """The tight ε as Google's library computes it; it takes seconds to minutes."""
    from agentd.core.grid import UNIT

    try:
        from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism, identity
    except ImportError:
        raise ConfigurationError(f"--verify needs dp-accounting: {install_with('accounting')}") from None
    composed = identity(value_discretization_interval=interval)
    for scale, count in Counter(scales).items():
        one = from_laplace_mechanism(scale / UNIT, value_discretization_interval=interval)
        composed = composed.compose(one.self_compose(count))
    return float(composed.get_epsilon_for_delta(delta))


def _table(report: dict[str, Any]) -> str:
    possible = report["total"]["possible"]
    columns = ("releases", *(("possible",) if possible else ()), "pure")
    rows: list[tuple[str, ...]] = [("arm", *columns)]
    rows += [(str(entry["arm"]), *_cells(entry, columns)) for entry in report["per_arm"]]
    rows += [("all", *_cells(report["total"], columns))]
    one, person = report["one_reward"], report["one_person"]
    lines = [
        f"agent {report['agent']} of run {report['run']}, incarnation {report['incarnation']}, "
        f"{report['algorithm']} with nominal ε = {report['epsilon']:g}, after trial {report['trial']}",
        *_aligned(rows),
        "",
        f"one reward: ε = {shown(one['pure'], 4)} of {report['covers']}"
        + (" (each reward is in one release only)" if report["disjoint"] else ""),
        *_person_lines(person),
        *_schedule_lines(report),
    ]
    if possible:
        lines.append(
            f"possible: {possible} of these releases may have been made by a life whose last round was lost (a crash, "
            "or a copy restored); they are charged, their values are not known, and they are never sent"
        )
    if report["paper_bound"] is not None:
        lines.append(f"the paper's bound for {report['trial']} trials: {report['paper_bound']:.4g}")
    if report["refused"]:
        lines.append(f"the budget is spent: {report['refused']} releases were not made")
    if report["seeded"]:
        lines.append("the noise follows from a seed: reproducible, not private")
    return "\n".join(lines)


def _person_lines(person: dict[str, Any]) -> list[str]:
    if person["rewards"] == 1:
        return ["a person behind r of its rewards: r times that"]
    return [f"a person behind {person['rewards']} of its rewards: ε = {shown(person['pure'], 4)}"]


def _schedule_lines(report: dict[str, Any]) -> list[str]:
    schedule, delta = report["schedule"], report["delta"]
    if schedule is None:
        return [
            f"at δ = {delta:g} nothing is told: how many releases there may be was not fixed before the run "
            "(no horizon, one that was passed or is too long, or a round was lost)"
        ]
    named = (("advanced", "advanced"), ("tight", "tight"), ("dp_accounting", "dp-accounting"))
    values = ", ".join(f"{shown(schedule[key], 4)} ({name})" for key, name in named if schedule.get(key) is not None)
    over = "" if schedule["releases"] is None else f" with {schedule['releases']} releases"
    return [
        f"fixed before the run, for an arm that is pulled in all {schedule['pulls']} rounds{over}: "
        f"ε = {shown(schedule['pure'], 4)}; at δ = {delta:g}: {values}"
    ]


def _overview(reports: list[dict[str, Any]]) -> str:
    rows: list[tuple[str, ...]] = [
        ("agent", "trial", "releases", "one reward: pure ε", "at δ, by schedule", "refused"),
    ]
    rows += [
        (
            *(str(report["agent"]), str(report["trial"]), str(report["total"]["releases"])),
            *(shown(report["one_reward"]["pure"], 4), _or_none(report["one_reward"]["advanced"])),
            str(report["refused"]),
        )
        for report in reports
    ]
    return "\n".join(_aligned(rows))


def _or_none(epsilon: float | None) -> str:
    return "-" if epsilon is None else shown(epsilon, 4)


def _cells(entry: dict[str, Any], columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(entry[name]) if isinstance(entry[name], int) else shown(entry[name], 4) for name in columns)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
