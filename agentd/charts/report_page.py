"""A report: one HTML file that needs no server, no script and no network, of one run or of several side by side.

Whatever stands in a run directory is shown as text, and the page's own policy lets nothing be loaded or run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from agentd import __version__
from agentd.charts import report_parts as parts
from agentd.charts.chart import Chart
from agentd.charts.chart_files import svg_of
from agentd.charts.comparing import compared, differing_settings, labels_of
from agentd.charts.ledger_rows import HEADINGS, Spent, ledgers_of, rows_of
from agentd.charts.of_run import charts_of, regret_of
from agentd.charts.report_style import STYLE, style_hash
from agentd.charts.run_facts import RunFacts, mapping, number, read_facts, text
from agentd.core.upwards import shown
from agentd.plot.curves import number_text
from agentd.quantities import as_bytes

KEEP_PRIVATE = (
    "Made from every pull of the run, of which agents released only what the ledger says: this page is as private as "
    "the run directory."
)


@dataclass(frozen=True, eq=False)
class Told:
    """One run, with everything that a report shows of it."""

    facts: RunFacts
    charts: list[Chart]
    ledgers: dict[int, Spent] = field(default_factory=dict)

    @classmethod
    def of(cls, place: str | Path) -> Told:
        """What a run directory tells."""
        facts = read_facts(place)
        return cls(facts, charts_of(facts), ledgers_of(Path(place)))


def report_html(runs: Sequence[Told]) -> str:
    """The page."""
    if not runs:
        raise ValueError("a report needs a run")
    names = labels_of([run.facts for run in runs])
    title = names[0] if len(runs) == 1 else f"{len(runs)} runs compared"
    body = _one(runs[0], names[0]) if len(runs) == 1 else _several(runs, names)
    return page(f"agentd: {title}", body)


def page(title: str, body: str) -> str:
    """A whole document around what it shows."""
    policy = f"default-src 'none'; style-src '{style_hash()}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>{body}</main>\n"
        f'<footer><p class="note">{escape(KEEP_PRIVATE)} Written by agentd {escape(__version__)}.</p></footer>\n'
        "</body>\n</html>\n"
    )


def fragment_html(run: Told) -> str:
    """A run for a notebook, on a page of somebody else: figures and the first charts, without a style sheet."""
    figures = " · ".join(f"{name} <b>{escape(value)}</b>" for name, value, _ in headline(run.facts))
    return f"<p>{escape(run.facts.algorithm)} · {figures}</p>" + "".join(svg_of(chart) for chart in run.charts[:2])


def headline(facts: RunFacts) -> list[tuple[str, str, str]]:
    """What matters most of a run: name, value, and a word about it."""
    told = [("rounds", f"{_made(facts):,}", _of_rounds(facts)), ("agents", f"{facts.agents:,}", facts.algorithm)]
    curve = regret_of(facts)
    if curve is not None and len(curve):
        each = curve[-1] / max(1, facts.agents)
        told.append(("group regret", number_text(round(float(curve[-1]), 1)), f"{each:.2f} per agent"))
        told += _against(facts, float(curve[-1]))
    privacy = mapping(facts.summary.get("privacy"))
    if not math.isnan(spent := number(privacy.get("per_agent_epsilon"))) and spent >= 0.0:
        told.append(("ε of one reward", shown(spent), "simulated" if privacy.get("simulated") else "spent at most"))
    messages, size = number(facts.summary.get("messages")), number(facts.summary.get("bytes"))
    if facts.status is not None and math.isnan(messages):
        messages, size = float(facts.status.messages), float(sum(agent.bytes for agent in facts.status.agents))
    if messages >= 0.0 and size >= 0.0:
        told.append(("messages", number_text(messages), as_bytes(int(size))))
    if (took := number(facts.summary.get("wall_s"))) >= 0.0:
        told.append(("took", f"{took:,.1f} s", ""))
    return told


def _against(facts: RunFacts, regret: float) -> list[tuple[str, str, str]]:
    alone = facts.references.get("alone")
    if alone is None or not len(alone) or regret <= 0.0:
        return []
    return [
        ("playing alone", number_text(round(float(alone[-1]), 1)), f"{float(alone[-1]) / regret:.1f} times as much")
    ]


def _made(facts: RunFacts) -> int:
    return facts.rounds or (facts.status.round() if facts.status is not None else 0)


def _of_rounds(facts: RunFacts) -> str:
    asked = mapping(facts.manifest.get("settings")).get("rounds")
    state = "finished" if facts.over else "under way, or ended without a summary"
    return f"of {asked:,}, {state}" if type(asked) is int and asked != _made(facts) else state


def _heading(facts: RunFacts, name: str, level: int) -> str:
    created = text(facts.manifest.get("created") or "")
    runtime = text(facts.manifest.get("runtime") or "")
    about = " · ".join(filter(None, (facts.algorithm, runtime, created)))
    return f'<h{level}>{escape(name)}</h{level}><p class="faint">{escape(about)}</p>{_alarms(facts)}'


def _alarms(facts: RunFacts) -> str:
    told = [text(facts.summary["failure"])] if facts.summary.get("failure") else []
    if facts.summary.get("interrupted"):
        told.append("It was stopped before it was done.")
    if note := text(mapping(facts.summary.get("privacy")).get("note") or ""):
        told.append(note)
    told += [f"left out: {why}" for why in facts.left_out]
    return "".join(f'<p class="alarm">{escape(each)}</p>' for each in told)


def _one(run: Told, name: str, key: str = "0") -> str:
    facts = run.facts
    return _heading(facts, name, 1) + parts.cards(headline(facts)) + _rest(run, key)


def _rest(run: Told, key: str) -> str:
    facts = run.facts
    rows = rows_of(facts, run.ledgers)
    agents = parts.table(HEADINGS, rows, label=f"Agents of {facts.name} ({key})", numbers=True)
    ledger = f"<h2>Agents and their ledgers</h2>{agents}" if rows else ""
    summary = f"<h2>Summary</h2>{parts.pairs(facts.summary)}" if facts.summary else ""
    settings = mapping(facts.manifest.get("settings"))
    others = {name: value for name, value in facts.manifest.items() if name != "settings"}
    asked = f"<h2>Settings</h2>{parts.pairs(settings)}" if settings else ""
    more = f"<details><summary>Versions, arms and graph</summary>{parts.pairs(others)}</details>" if others else ""
    first = run.charts[0] if run.charts else None
    shown = f"<h2>Charts</h2>{parts.charts(run.charts, key)}" if run.charts else ""
    return f"{shown}{parts.marks(first)}{ledger}{summary}{asked}{more}"


def _several(runs: Sequence[Told], names: Sequence[str]) -> str:
    facts = [run.facts for run in runs]
    body = [f"<h1>{len(runs)} runs compared</h1>", f'<p class="faint">{escape(", ".join(names))}</p>']
    body.append(f"<h2>Charts</h2>{parts.charts(compared(facts), 'all')}")
    came = parts.table(("what", *names), _figures(facts), label="What came of them", numbers=True)
    body.append(f"<h2>What came of them</h2>{came}")
    if differing := differing_settings(facts):
        rows = [(setting, *values) for setting, values in differing]
        body.append(
            f"<h2>Settings that differ</h2>{parts.table(('setting', *names), rows, label='Settings that differ')}"
        )
    else:
        body.append("<h2>Settings that differ</h2><p>None.</p>")
    for place, (run, name) in enumerate(zip(runs, names, strict=True)):
        inside = _alarms(run.facts) + parts.cards(headline(run.facts)) + _rest(run, str(place))
        body.append(f"<details><summary>{escape(name)}: all of it</summary>{inside}</details>")
    return "".join(body)


def _figures(facts: Sequence[RunFacts]) -> list[tuple[str, ...]]:
    """The headline of each run, side by side."""
    told: list[dict[str, str]] = [
        {name: f"{value} ({more})" if more else value for name, value, more in headline(one)} for one in facts
    ]
    names = dict.fromkeys(name for each in told for name in each)
    return [(name, *(each.get(name, "–") for each in told)) for name in names]


def report_json(runs: Sequence[Told]) -> list[dict[str, Any]]:
    """The charts of every run, for programs."""
    return [{"run": run.facts.name, "charts": [chart.as_json() for chart in run.charts]} for run in runs]
