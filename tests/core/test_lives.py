"""What an agent is told of the lives of all."""

from __future__ import annotations

import numpy as np
import pytest

from agentd.core.message import MAX_AGENT_ID, MAX_INCARNATION
from agentd.core.trust.lives import Lives


def test_everybody_begins_with_zero() -> None:
    lives = Lives()
    assert lives.all_first
    assert not lives.changed
    assert lives.of_all(np.array([0, 7, MAX_AGENT_ID])).tolist() == [0, 0, 0]


def test_what_was_told_is_known_of_those_it_is_about() -> None:
    lives = Lives([(3, 40)], known=1)
    lives.told([(1, 5), (MAX_AGENT_ID, 7)], 3)
    lives.told([(3, 60)], 4)
    asked = np.array([0, 1, 2, 3, 4, MAX_AGENT_ID - 1, MAX_AGENT_ID])
    assert lives.of_all(asked).tolist() == [0, 5, 0, 60, 0, 0, 7]
    assert [lives.of(agent) for agent in asked.tolist()] == [0, 5, 0, 60, 0, 0, 7]
    assert lives.known == 4
    assert not lives.all_first


def test_an_older_answer_that_comes_late_takes_nothing_back() -> None:
    lives = Lives([(3, 60)], 4)
    lives.told([(3, 40)], 1)
    assert (lives.of(3), lives.known) == (60, 4)


def test_changes_are_taken_once() -> None:
    lives = Lives()
    lives.told([(3, 40), (2, 1)])
    lives.told([(3, 60)])
    assert lives.changed
    assert lives.take() == {3: 60, 2: 1}
    assert not lives.changed
    lives.told([(3, 60)])
    assert lives.take() == {}


@pytest.mark.parametrize("life", [(-1, 0), (MAX_AGENT_ID + 1, 0), (0, -1), (0, MAX_INCARNATION + 1)])
def test_a_life_that_no_frame_can_hold_is_refused(life: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot have an incarnation"):
        Lives([life])
