"""RUN/history.jsonl: bounded however long a run is, and read without faith in who wrote it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agentd.runs.history.history_file import FILE, LONGEST_HISTORY, MOST_LOOKS, HistoryFile, read_history
from agentd.runs.history.look_back import MOST_AGENTS, MOST_REASONS, OTHER_REASONS, LookBack, few, from_json, look_back
from agentd.runs.status import AgentStatus, Status


def look(number: int) -> LookBack:
    return LookBack(written=float(number), round=number, messages=2 * number, bytes=9, sent=(number, number))


def test_a_history_has_no_more_lines_however_long_the_run_is(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path)
    for number in range(1, 20 * MOST_LOOKS):
        history.keep(look(number))
        if number % 977 == 0:
            assert len((tmp_path / FILE).read_text().splitlines()) <= MOST_LOOKS
    history.keep(look(20 * MOST_LOOKS), last=True)
    rounds = [each.round for each in read_history(tmp_path)]
    assert MOST_LOOKS / 2 <= len(rounds) <= MOST_LOOKS
    assert (rounds[0], rounds[-1]) == (1, 20 * MOST_LOOKS)
    assert len({after - before for before, after in pairwise(rounds[:-1])}) == 1, "evenly spread"
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_the_largest_history_is_shorter_than_what_is_read() -> None:
    reasons = {f"{number:060}": 2**62 for number in range(MOST_REASONS)}
    largest = LookBack(
        written=1e9, round=2**31, messages=2**62, bytes=2**62, dropped=reasons, sent=(2**31,) * MOST_AGENTS
    )
    assert len(json.dumps(largest.to_json())) * MOST_LOOKS < LONGEST_HISTORY


def test_a_history_is_taken_up_after_a_crash_without_the_half_line_that_it_left(tmp_path: Path) -> None:
    first = HistoryFile(tmp_path)
    for number in (1, 2, 3):
        first.keep(look(number))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"round": 4, "mess')
    again = HistoryFile(tmp_path)
    again.take_up()
    again.keep(look(5))
    assert [each.round for each in read_history(tmp_path)] == [1, 2, 3, 5]
    assert read_history(tmp_path)[0] == look(1)


def test_a_look_tells_of_all_agents_together_and_what_each_has_sent() -> None:
    agents = tuple(AgentStatus(id=n, trial=10 + n, messages=5 * n, bytes=7, epsilon=0.5 * n) for n in range(3))
    status = Status(rounds=20, agents=agents, group_regret=1.0, pulls=33, pulls_per_s=1.0)
    told = look_back(status, {"stale": 2}, 1.0)
    assert (told.round, told.messages, told.bytes, told.epsilon, told.epsilon_median) == (11, 15, 21, 1.0, 0.5)
    assert (told.sent, told.distrusted) == ((0, 5, 10), ())
    liar = replace(agents[1], doubted=(0,))
    told = look_back(replace(status, agents=(agents[0], liar, replace(agents[2], blamed={"slow": [0]}))), {}, 1.0)
    assert told.distrusted == (1,), "who is slow is not distrusted"
    assert from_json(json.loads(json.dumps(told.to_json()))) == told
    gap = Status(rounds=20, agents=agents[1:], group_regret=1.0, pulls=33, pulls_per_s=1.0)
    assert look_back(gap, {}, 1.0).sent == ()


def test_reasons_that_agents_make_up_are_added_up() -> None:
    kept = few({f"reason {number}": number + 1 for number in range(100)})
    assert len(kept) == MOST_REASONS + 1
    assert sum(kept.values()) == 5050
    assert kept[OTHER_REASONS] == sum(range(1, 101 - MOST_REASONS))


@pytest.mark.parametrize(
    "data",
    [
        *(None, [], {}, {"round": -1}, {"round": "1"}, {"round": 1, "messages": 1.5}, {"round": True}),
        *({"round": 1, "sent": [0] * (MOST_AGENTS + 1)}, {"round": 1, "sent": ["x"]}, {"round": 1, "dropped": [1]}),
        *({"round": 1, "epsilon": float("nan")}, {"round": 1, "written": -5}, {"round": 1, "sent": 7}),
    ],
)
def test_what_is_no_look_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_json(data)


def test_a_hostile_history_is_passed_over_line_by_line(tmp_path: Path) -> None:
    lines = ["[" * 9999, '{"round": 5, "dropped": {"\\u001b[2J<b>": 1}}', '{"round": 4}', "\x00", '{"round": 6}']
    (tmp_path / FILE).write_text("\n".join(lines))
    looks = read_history(tmp_path)
    assert [each.round for each in looks] == [5, 6], "nothing goes back"
    assert list(looks[0].dropped) == ["?[2J<b>"]
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/etc/passwd")
    assert read_history(tmp_path) == ()
