"""Who is blamed by whom, for files and for people.

Agents report what they hold against their neighbours; a liar may blame anybody. So it is always told who says so, what
is said of whom most often comes first, and a list for people is short, however much is said: one agent can say sixteen
things, and none of them stands before what two agents say. Where it is known who is whose neighbour, what others say is
left out: they cannot know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from agentd.core.trust.blame import Blame

Blamed = dict[str, list[int]]
"""Why one agent is blamed, and who says so."""
Neighbours = Mapping[int, Collection[int]]

MOST_SHOWN = 8
"""Agents in a list for people."""
MOST_NAMED = 6
"""Of those who say the same."""


def blamed_by(said: Iterable[tuple[int, Iterable[Blame]]], agents: Collection[int]) -> dict[int, Blamed]:
    """Who of the agents is blamed for what, from what each of them says."""
    blamed: dict[int, Blamed] = {}
    for who, blames in said:
        for neighbour, why, times in blames:
            if times and neighbour != who and neighbour in agents:
                blamed.setdefault(neighbour, {}).setdefault(why.label, []).append(who)
    return {agent: {why: sorted(who) for why, who in sorted(blamed[agent].items())} for agent in sorted(blamed)}


def to_json(blamed: Mapping[int, Blamed]) -> dict[str, Blamed]:
    """As a file has it, where every name is a text."""
    return {str(agent): why for agent, why in blamed.items()}


def from_json(blamed: Mapping[str, Blamed]) -> dict[int, Blamed]:
    """What `to_json` wrote."""
    return {int(agent): why for agent, why in blamed.items()}


def blamed_lines(blamed: Mapping[int, Blamed], neighbours: Neighbours | None = None) -> list[str]:
    """The same for people, those first of whom most is said; with what they are told, it is theirs to judge."""
    told = {agent: _of_neighbours(why, agent, neighbours) for agent, why in blamed.items()}
    ordered = sorted((agent for agent in told if told[agent]), key=lambda agent: (-_loudest(told[agent]), agent))
    lines = [f"agent {agent}: {_reasons(told[agent], agent, neighbours)}" for agent in ordered[:MOST_SHOWN]]
    if len(ordered) > MOST_SHOWN:
        lines.append(f"and {len(ordered) - MOST_SHOWN} more, of whom no more is said")
    return lines


def _of_neighbours(blamed: Blamed, agent: int, neighbours: Neighbours | None) -> Blamed:
    if neighbours is None:
        return blamed
    near = neighbours.get(agent, ())
    heard = {why: [each for each in who if each in near] for why, who in blamed.items()}
    return {why: who for why, who in heard.items() if who}


def _loudest(blamed: Blamed) -> int:
    return max(len(who) for who in blamed.values())


def _reasons(blamed: Blamed, agent: int, neighbours: Neighbours | None) -> str:
    ordered = sorted(blamed.items(), key=lambda item: (-len(item[1]), item[0]))
    return ", ".join(f"{why} ({_sayers(who, agent, neighbours)})" for why, who in ordered)


def _sayers(who: list[int], agent: int, neighbours: Neighbours | None) -> str:
    names = ", ".join(map(str, who[:MOST_NAMED])) + (f" and {len(who) - MOST_NAMED} more" if who[MOST_NAMED:] else "")
    verb = "say" if len(who) > 1 else "says"
    if neighbours is None:
        return f"{verb} {names}"
    near = len(neighbours[agent])
    return f"{verb} {names}: {len(who)} of its {near} neighbour{'s' if near > 1 else ''}"
