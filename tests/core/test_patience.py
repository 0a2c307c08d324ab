"""Who is named as slow: one who stays away, or is given up over and over; not one that only gets into step again."""

from __future__ import annotations

import pytest

from agentd.core.rounds.neighbour import Neighbour, Standing
from agentd.core.rounds.patience import MOST_OFTEN, OFTEN_TURNS, Patience
from agentd.wire.frame import Frame

TIMEOUT_S = 1.0


def times_until_named(every: int, absence_s: float, most: int) -> int | None:
    """After how many absences of so long, one in every so many rounds, a neighbour is named; None: not after `most`."""
    patience: Patience[Frame] = Patience()
    neighbour: Neighbour[Frame] = Neighbour(7, 0.0)
    now_s = 0.0
    for time in range(1, most + 1):
        patience.lateness.begin(now_s, TIMEOUT_S)
        neighbour.standing = Standing.DOWN
        patience.suspect(neighbour, now_s, time * every)
        neighbour.heard_turn = time * every + 1
        now_s += absence_s
        if patience.convicted([neighbour], now_s):
            return time
        patience.is_excused(neighbour, now_s)
        neighbour.standing = Standing.LIVE
    return None


def test_short_absences_do_not_add_up_and_long_ones_do() -> None:
    assert times_until_named(40, 0.4, 200) is None
    assert times_until_named(40, 0.6, 200) == 4


@pytest.mark.parametrize(("every", "most"), [(4, 25), (8, 40)])
def test_who_is_given_up_again_and_again_is_named_however_short_it_is_away(every: int, most: int) -> None:
    times = times_until_named(every, 0.01, 200)
    assert times is not None
    assert MOST_OFTEN < times <= most


def test_who_is_late_only_as_often_as_one_behind_it_makes_it_is_not_named() -> None:
    assert times_until_named(OFTEN_TURNS + 1, 0.01, 1000) is None
