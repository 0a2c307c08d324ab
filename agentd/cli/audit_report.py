"""What an audit has to say, in words: one report each, and the lines of the whole matrix."""

from __future__ import annotations

from agentd.audit.coupling.many_worlds import Equality
from agentd.audit.distinguish import CONFIDENCE
from agentd.audit.examine import CANNOT_TELL, HOLDS, SIGNIFICANCE, VIOLATED, Verdict
from agentd.audit.planted_faults import FAULTS
from agentd.core.policy import ALGORITHMS

EXIT_CODES = {HOLDS: 0, "identical": 0, "exact": 0, VIOLATED: 1, "differs": 1, CANNOT_TELL: 3}
"""Of a verdict."""

HEAD = f"{'expected':<13}{'verdict':<13}{'s':>4}  what was seen"


def line(name: str, expected: str, word: str, wall_s: float, seen: str) -> str:
    """One of the matrix."""
    mark = "" if word == expected else "  ← NOT AS EXPECTED"
    return f"{name:<28}{expected:<13}{word:<13}{wall_s:>4.0f}  {seen}{mark}"


def seen_by_statistics(verdict: Verdict) -> str:
    """The end of its line."""
    said = (
        f"ε {verdict.claimed:.3g} claimed, {verdict.epsilon:.3g} proved, p = {chance(verdict.p)}, {verdict.runs} runs"
    )
    if verdict.noised_twice:
        said += f"; {verdict.noised_twice} noised twice"
    if verdict.word == CANNOT_TELL:
        return f"{said}; nothing above {verdict.ceiling:.3g} can be refuted"
    return f"{said}; {verdict.findings[0].event}" if verdict.p < SIGNIFICANCE else said


def seen_by_coupling(equality: Equality) -> str:
    """The end of its line."""
    said = f"{equality.differing} of {equality.worlds} worlds differ, {equality.shown} without the shift"
    if not ALGORITHMS[equality.algorithm].disjoint:
        said += f", {equality.differing_composed} with all releases shifted"
    return said if equality.example is None else f"{said}; first in world {equality.example.number}"


def statistics_report(verdict: Verdict) -> str:
    """For a person: the verdict, and what every distinguisher found."""
    case = verdict.case
    lines = [
        f"{verdict.word}: {case.name}" + (f", planted: {FAULTS[case.fault]}" if case.fault else ""),
        f"claimed ε {verdict.claimed:.4g}; proved at least {verdict.epsilon:.4g} ({CONFIDENCE:.0%} confidence); "
        f"p = {chance(verdict.p)} (violated below {SIGNIFICANCE:g})",
        f"{verdict.runs} runs of each input, {case.trials} trials each, {verdict.wall_s:.0f} s; so many runs can "
        f"refute an ε up to {verdict.ceiling:.3g}",
    ]
    if ALGORITHMS[case.algorithm].disjoint and verdict.ledger > verdict.claimed * (1 + 1e-6):
        lines.append(f"the agent's own ledger says {verdict.ledger:.4g}, more than --epsilon: the claim is --epsilon")
    elif not ALGORITHMS[case.algorithm].disjoint:
        lines.append(f"the claim is what the ledger adds up; --epsilon {case.epsilon:g} is the rate at which it grows")
    if verdict.word == CANNOT_TELL:
        lines.append(
            "no event, however clear, would refute this claim: take more --runs, or test the noise exactly (--sampler) "
            "and everything around it (--coupling)"
        )
    if case.restart or verdict.noised_twice:
        lines.append(f"runs in which a release was noised twice: {verdict.noised_twice}; any is a violation")
    if verdict.findings:
        lines += ["", f"{'seen in':<13}{'reward 0':>9}{'reward 1':>9} of{verdict.findings[0].runs:>6}  event"]
    lines += [
        f"{f.family:<13}{f.counts[0]:>9}{f.counts[1]:>9}{'':>9}  {f.event} (ε ≥ {f.epsilon:.3g}, p = {chance(f.p)})"
        for f in verdict.findings
    ]
    return "\n".join(lines)


def coupling_report(equality: Equality) -> str:
    """For a person: whether two inputs were ever told apart, and how to look at it again."""
    e, algorithm = equality, ALGORITHMS[equality.algorithm]
    last = e.first_world + e.worlds - 1
    lines = [
        f"{e.verdict}: {e.algorithm}, worlds {e.first_world}…{last} of seed {e.seed}"
        + (f", planted: {FAULTS[e.fault]}" if e.fault else ""),
        f"one reward is another, the noise of one release that holds it is shifted: {e.differing} of {e.worlds} differ",
    ]
    if not algorithm.disjoint:
        lines.append(f"with the noise of every release that holds it shifted: {e.differing_composed} differ")
    lines += [
        f"without any shift: {e.shown} differ ({e.power:.0%}); in so many worlds a mistake could have shown",
        f"{e.observables} observables compared, {e.lives} lives, {e.wall_s:.0f} s",
    ]
    return "\n".join([*lines, *_explained(equality)])


def _explained(e: Equality) -> list[str]:
    """Why a verdict is what it is, and what to do."""
    if e.verdict == CANNOT_TELL:
        return ["nothing shows even without the shift: nothing of a reward leaves, or these worlds end before it does"]
    if e.example is None:
        return []
    lines = ["", f"first in world {e.example.number}: {e.example.differs}", f"again: {again(e)}"]
    if e.unrepeatable:
        lines.append(f"{e.unrepeatable} worlds differ from themselves: the policy draws chance that was not handed in")
    if e.fault is not None or ALGORITHMS[e.algorithm].transcript_private:
        return lines
    if e.differing_composed:
        why = "what it shows beside its noised sums follows from raw rewards (its choices, and so its counts)"
    else:
        why = "a reward enters release after release; what the ledger adds up for all of them holds, --epsilon does not"
    return [*lines, f"expected: {e.algorithm} does not claim a private transcript; {why}"]


def again(e: Equality) -> str:
    """The command that shows just the first world in which something differs."""
    assert e.example is not None  # noqa: S101 - whoever asks has seen it
    fault = f" --fault {e.fault}" if e.fault else f" --algorithm {e.algorithm}"
    return f"agentd audit --coupling{fault} --seed {e.seed} --worlds 1 --first-world {e.example.number}"


def sampler_report(fault: str | None, faults: list[str]) -> str:
    """For a person: whether the noise is what it should be, exactly."""
    word = "differs" if faults else "exact"
    planted = f", planted: {FAULTS[fault]}" if fault else ""
    said = "every probability of the sampler, and every draw of the source from given bytes, is as it must be"
    return "\n".join([f"{word}: the noise{planted}", *(faults[:5] or [said])])


def chance(p: float) -> str:
    """A p-value."""
    return f"{p:.2g}" if p >= 1e-300 else "<1e-300"
