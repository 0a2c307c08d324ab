"""What a soak leaves behind: soak.json, samples.csv, soak.svg and a table for people."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agentd.plot.curves import Curve
from agentd.quantities import counted
from agentd.runs.directory import RunDirectory
from agentd.runs.regret import NOT_PULLED, regret_curve
from agentd.runs.scenario import Scenario
from agentd.simulation.engine import has_twin, run_vector
from deploy.soak.counting import miscounted
from deploy.soak.driver import Record
from deploy.soak.findings import Finding, judge
from deploy.soak.panels import soak_svg
from deploy.soak.samples import Sample
from deploy.testbed.outcome import PULLS

_COLUMNS = ("at_s", "up", "round", "pulls", "dropped", "group_regret", "rss_mean_mb", "rss_max_mb")
_MORE = ("descriptors_mean", "descriptors_max", "environment_rss_mb", "environment_descriptors", "held")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a soak."""

    findings: tuple[Finding, ...]
    wrong: tuple[str, ...]
    """Everything that may not happen and did, in words."""
    content: dict[str, Any]

    @property
    def passed(self) -> bool:
        return not self.wrong and all(finding.held for finding in self.findings)


def write_report(run_dir: Path, scenario: Scenario, record: Record, summary: dict[str, Any], stuck_s: float) -> Report:
    """Judge a soak whose testbed has ended, and write down everything about it."""
    agents = scenario.settings.agents
    regret, ratio = _regret(run_dir, scenario)
    findings = judge(record.samples, agents, record.lasted_s, stuck_s)
    if ratio is not None:
        findings.append(Finding("regret, as a share of the same run without faults", ratio, None, "", "per pull made"))
    wrong = [*miscounted(run_dir, agents), *record.undone_late]
    wrong += [f"agent {lost['agent']} was lost: {lost['why']}" for lost in summary["agents_lost"]]
    if summary["failure"]:
        wrong.append(str(summary["failure"]))
    last = record.samples[-1]
    content = {
        "passed": not wrong and all(finding.held for finding in findings),
        "lasted_s": round(record.lasted_s, 3),
        "agents": agents,
        "pulls": int(last.pulls),
        "rounds": int(last.round),
        "rounds_per_s": round(last.round / max(last.at_s, 1e-9), 2),
        "happened": dict(Counter(happening.kind for happening in record.happened)),
        "findings": [finding.to_json() for finding in findings],
        "wrong": wrong,
        "dropped": summary["dropped"],
        "samples": len(record.samples),
        "seed": scenario.settings.seed,
    }
    directory = RunDirectory(run_dir)
    directory.write_text("samples.csv", _csv(record.samples))
    directory.write_text("soak.svg", soak_svg(record, agents, regret))
    directory.write_json("soak.json", content)
    return Report(tuple(findings), tuple(wrong), content)


def text(report: Report, run_dir: Path) -> str:
    """The report for people."""
    content = report.content
    lines = [
        f"{counted(content['agents'], 'agent')}, {content['lasted_s'] / 60:.1f} min, {content['pulls']:,} pulls, "
        f"{content['rounds_per_s']:g} rounds/s",
        "what happened: " + (", ".join(f"{kind} {many}" for kind, many in content["happened"].items()) or "nothing"),
        "",
    ]
    for finding in report.findings:
        limit = f"at most {finding.limit:g}" if finding.limit is not None else ""
        mark = "" if finding.limit is None else ("ok" if finding.held else "TOO MUCH")
        figure = f"{finding.value:.3g} {finding.unit}".strip()
        lines.append(f"  {finding.what:<48} {figure:>12}  {limit:<12} {mark:<9} {finding.note}".rstrip())
    lines.append(f"  {'every pull counted once, nobody lost':<48} {'no' if report.wrong else 'yes':>12}")
    lines += [f"    {what}" for what in report.wrong[:10]]
    lines += ["", f"{'passed' if report.passed else 'FAILED'}; picture: {run_dir / 'soak.svg'}"]
    return "\n".join(lines)


def _regret(run_dir: Path, scenario: Scenario) -> tuple[list[Curve], float | None]:
    """The regret of the run and of the same one without faults, simulated; and their ratio per pull that was made."""
    with np.load(run_dir / PULLS, allow_pickle=False) as file:
        arm = np.asarray(file["arm"], dtype=np.uint16)
    made = (arm != NOT_PULLED).sum(axis=1)
    rounds, means = int(made.max(initial=0)), scenario.spec.arms.means
    if rounds == 0:
        return [], None
    curve = regret_curve(arm[:, :rounds], means)
    places = np.arange(1.0, rounds + 1.0)
    curves = [Curve("with faults", places, curve)]
    if not has_twin(scenario.settings.algorithm, scenario.settings.half_life):
        return curves, None
    calm = run_vector([replace(scenario.spec, rounds=rounds)])[0].arm
    curves.append(Curve("without, simulated", places, regret_curve(calm, means)))
    calm_lost = float(regret_curve(np.where(arm[:, :rounds] != NOT_PULLED, calm, NOT_PULLED), means)[-1])
    return curves, float(curve[-1]) / calm_lost if calm_lost else None


def _csv(samples: Sequence[Sample]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*_COLUMNS, *_MORE])
    for sample in samples:
        writer.writerow(_row(sample))
    return out.getvalue()


def _row(sample: Sample) -> list[Any]:
    agents = [p for agent in range(len(sample.trials)) if (p := sample.agent(agent))]
    memory, descriptors = [p.rss_mb for p in agents] or [0.0], [p.descriptors for p in agents] or [0]
    served = sample.environment
    return [
        *(f"{sample.at_s:.2f}", len(agents), sample.round, sample.pulls, sample.dropped, f"{sample.group_regret:.3f}"),
        *(f"{np.mean(memory):.3f}", f"{max(memory):.3f}", f"{np.mean(descriptors):.2f}", max(descriptors)),
        *((f"{served.rss_mb:.3f}", served.descriptors) if served else ("", "")),
        len(sample.held),
    ]
