"""Agents on their own clock wait for nobody, and yet notice who is gone: told once, and once when it is back."""

from __future__ import annotations

from agentd.core.rounds import Do, Rounds, Standing
from agentd.core.rounds.contacts import DEAF_AFTER_S
from agentd.wire.frame import Frame


class Listening:
    """Rounds of one who looks at its one neighbour every so often."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.rounds: Rounds[Frame] = Rounds([2], now_s=0.0)
        self.interval_s, self.now_s = interval_s, 0.0

    def look(self, *, heard: bool, times: int = 1) -> list[Do]:
        done = []
        for _ in range(times):
            self.now_s += self.interval_s
            self.rounds.listened(self.rounds[2], heard=heard, now_s=self.now_s, usual_s=self.interval_s)
            done += [do for do, _ in self.rounds.take_orders()]
        return done

    @property
    def down(self) -> list[int]:
        return [neighbour.id for neighbour in self.rounds.down]


def test_who_falls_silent_is_given_up_once_and_looked_for_all_the_time() -> None:
    listening = Listening()
    assert listening.look(heard=True, times=5) == []
    silent = listening.look(heard=False, times=120)
    assert silent.count(Do.GIVE_UP) == 1
    assert silent.count(Do.RECONNECT) >= 120 / DEAF_AFTER_S - 2
    assert listening.down == [2]


def test_who_is_back_is_welcomed_once() -> None:
    listening = Listening()
    listening.look(heard=True)
    listening.look(heard=False, times=30)
    assert listening.look(heard=True, times=10) == [Do.WELCOME]
    assert listening.down == []
    assert listening.look(heard=False, times=30).count(Do.GIVE_UP) == 1


def test_who_was_not_there_at_the_start_is_not_given_up_again() -> None:
    listening = Listening()
    listening.rounds.begin_without(listening.rounds.everybody)
    assert Do.GIVE_UP not in listening.look(heard=False, times=60)
    assert listening.look(heard=True, times=3) == [Do.WELCOME]


def test_who_speaks_seldom_is_not_gone_between_two_words() -> None:
    listening = Listening(interval_s=1.0)
    for _ in range(5):
        assert Do.GIVE_UP not in [*listening.look(heard=True), *listening.look(heard=False, times=8)]
    assert Do.GIVE_UP not in listening.look(heard=False, times=15)
    assert Do.GIVE_UP in listening.look(heard=False, times=15)


def test_who_looks_seldom_does_not_take_one_missed_look_for_an_absence() -> None:
    listening = Listening(interval_s=60.0)
    listening.look(heard=True, times=2)
    assert Do.GIVE_UP not in listening.look(heard=False, times=2)
    assert Do.GIVE_UP in listening.look(heard=False, times=2)


def test_who_said_goodbye_is_not_missed() -> None:
    listening = Listening()
    listening.look(heard=True)
    listening.rounds[2].standing = Standing.LEFT
    assert listening.look(heard=False, times=60) == []
