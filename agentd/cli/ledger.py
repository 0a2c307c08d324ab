"""agentd ledger: what an agent has spent, from its state on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from agentd.core.privacy.composition import LEAST_DELTA, tight_epsilon
from agentd.core.privacy.ledger import Ledger, paper_bound
from agentd.core.saved_state import SavedState
from agentd.errors import ConfigurationError, SettingsError

AGENTS = "state"
"""Where a run directory holds the state of its agents."""
_FROM_THE_PAPER = ("private-ucb", "dp-ucb-int")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("place", metavar="STATE", type=click.Path(path_type=Path))
@click.option("--delta", type=float, default=1e-5, show_default=True, help="The δ of all (ε, δ) values.")
@click.option("--verify", is_flag=True, help="Compute the tight ε with dp-accounting too (slow; extra `accounting`).")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def ledger(place: Path, delta: float, verify: bool, as_json: bool) -> None:
    """Show what an agent has spent: its releases and the true ε they add up to, per arm and in all.

    STATE is what the agent was given as --state, or the run directory of a testbed for all of its agents. An agent may
    run meanwhile; nothing is changed.

    \b
    pure      the sum: holds always
    advanced  holds but for probability δ, by advanced composition
    tight     the same by privacy-loss distributions: the smallest that is true
    paper     what the paper claims for so many trials, for comparison
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if not LEAST_DELTA <= delta < 1:
        raise SettingsError(f"--delta must lie in [{LEAST_DELTA:g}, 1), got {delta}")
    if (place / AGENTS).is_dir():
        reports = [_report(agent, delta, tight=False) for agent in _agents(place / AGENTS)]
        click.echo(json.dumps(reports) if as_json else _overview(reports))
        return
    report = _report(place, delta, tight=True)
    if verify:
        _verify(report, place)
    click.echo(json.dumps(report) if as_json else _table(report))


def _agents(place: Path) -> list[Path]:
    found = [path for path in place.iterdir() if path.name.removeprefix("agent-").isdigit()]
    if not found:
        raise ConfigurationError(f"{place} holds no agent's state")
    return sorted(found, key=lambda path: int(path.name.removeprefix("agent-")))


def _report(place: Path, delta: float, *, tight: bool) -> dict[str, Any]:
    from agentd.shell.state.reader import ledger_of, read_state

    saved = read_state(place)
    about, spent = saved.about, ledger_of(saved)
    scales = _scales(saved) if tight else {}
    return {
        "state": str(place),
        **{name: about[name] for name in ("agent", "run", "algorithm", "arms", "epsilon", "seeded", "incarnation")},
        "trial": saved.trial,
        "refused": saved.refused,
        "delta": delta,
        "disjoint": spent.disjoint,
        "one_reward": _one_reward(spent, scales, delta),
        "per_arm": [{"arm": arm, **_entry(spent, scales.get(arm), delta, arm)} for arm in spent.arms],
        "total": _entry(spent, [s for each in scales.values() for s in each] if tight else None, delta),
        "paper_bound": _paper_bound(saved, delta),
    }


def _scales(saved: SavedState) -> dict[int, list[int]]:
    scales: dict[int, list[int]] = {}
    for release, _ in saved.releases:
        scales.setdefault(release.arm, []).append(release.scale)
    return scales


def _one_reward(spent: Ledger, scales: dict[int, list[int]], delta: float) -> dict[str, Any]:
    """What the ledger promises for one changed reward."""
    pure = spent.epsilon_one_reward()
    tight = max((tight_epsilon(each, delta) for each in scales.values()), default=0.0) if scales else None
    if spent.disjoint and scales:  # a reward is in one batch, whichever that is
        tight = max(tight_epsilon([scale], delta) for each in scales.values() for scale in set(each))
    return {"pure": pure, "advanced": spent.epsilon_one_reward(delta), "tight": tight}


def _entry(spent: Ledger, scales: list[int] | None, delta: float, arm: int | None = None) -> dict[str, Any]:
    return {
        "releases": spent.releases(arm),
        "pure": spent.pure_epsilon(arm),
        "advanced": spent.advanced_epsilon(delta, arm),
        "tight": tight_epsilon(scales, delta) if scales is not None else None,
    }


def _paper_bound(saved: SavedState, delta: float) -> float | None:
    about = saved.about
    if about["algorithm"] not in _FROM_THE_PAPER or not saved.trial:
        return None
    return paper_bound(about["epsilon"], about["v"], saved.trial, delta)


def _verify(report: dict[str, Any], place: Path) -> None:
    from agentd.shell.state.reader import read_state

    scales = _scales(read_state(place))
    for entry in report["per_arm"]:
        entry["dp_accounting"] = dp_accounting_epsilon(scales[entry["arm"]], report["delta"])
    report["total"]["dp_accounting"] = dp_accounting_epsilon(
        [s for each in scales.values() for s in each], report["delta"]
    )


def dp_accounting_epsilon(scales: list[int], delta: float, interval: float = 1e-4) -> float:
    """The tight ε as Google's library computes it; it takes seconds to minutes."""
    from collections import Counter

    from agentd.core.grid import UNIT

    try:
        from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism, identity
    except ImportError:
        raise ConfigurationError("--verify needs dp-accounting: pip install 'agentd[accounting]'") from None
    composed = identity(value_discretization_interval=interval)
    for scale, count in Counter(scales).items():
        one = from_laplace_mechanism(scale / UNIT, value_discretization_interval=interval)
        composed = composed.compose(one.self_compose(count))
    return float(composed.get_epsilon_for_delta(delta))


def _table(report: dict[str, Any]) -> str:
    verified = "dp_accounting" in report["total"]
    columns = ("releases", "pure", "advanced", "tight", *(("dp_accounting",) if verified else ()))
    rows: list[tuple[str, ...]] = [("arm", *columns)]
    rows += [(str(entry["arm"]), *_cells(entry, columns)) for entry in report["per_arm"]]
    rows += [("all", *_cells(report["total"], columns))]
    one = report["one_reward"]
    lines = [
        f"agent {report['agent']} of run {report['run']}, incarnation {report['incarnation']}, "
        f"{report['algorithm']} with nominal ε = {report['epsilon']:g}, after trial {report['trial']}",
        *_aligned(rows),
        "",
        f"one reward: ε = {one['pure']:.4g}; at δ = {report['delta']:g}: {one['tight'] or 0.0:.4g}"
        + (" (each reward is in one release only)" if report["disjoint"] else ""),
    ]
    if report["paper_bound"] is not None:
        lines.append(f"the paper's bound for {report['trial']} trials: {report['paper_bound']:.4g}")
    if report["refused"]:
        lines.append(f"the budget is spent: {report['refused']} releases were not made")
    if report["seeded"]:
        lines.append("the noise follows from a seed: reproducible, not private")
    return "\n".join(lines)


def _overview(reports: list[dict[str, Any]]) -> str:
    rows: list[tuple[str, ...]] = [("agent", "trial", "releases", "one reward: pure ε", "advanced", "refused")]
    rows += [
        (
            *(str(report["agent"]), str(report["trial"]), str(report["total"]["releases"])),
            *(f"{report['one_reward']['pure']:.4g}", f"{report['one_reward']['advanced']:.4g}", str(report["refused"])),
        )
        for report in reports
    ]
    return "\n".join(_aligned(rows))


def _cells(entry: dict[str, Any], columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(entry[name]) if name == "releases" else f"{entry[name]:.4g}" for name in columns)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
