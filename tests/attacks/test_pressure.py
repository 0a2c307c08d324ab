"""What one neighbour that presses on a ring of six can do over real sockets: nobody exits, and it is blamed."""

from __future__ import annotations

import pytest
from pressed_ring import HONEST, Pressed, press

MOST_MB = 20.0
BEGIN = 100

pytestmark = pytest.mark.system


EACH = [("drip", "slow"), ("fat-refused", "flood")]
"""One of each kind; `agentd check` presses in all these ways in memory."""
LONG = [("greeting-only", "slow"), ("claims-horizon", "ahead"), ("wrong", "wrong"), ("many-frames", "flood")]


@pytest.mark.parametrize(("pressure", "why"), [*EACH, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)])
def test_everybody_goes_on_and_the_culprit_is_blamed(pressure: str, why: str) -> None:
    ring = Pressed(
        algorithm="sealed", pressure=pressure, begin=BEGIN, rounds=100_000, attack_s=5.0, stops=True, until_blamed=True
    )
    felt = press(ring)
    assert felt.ring.exits == (0,) * HONEST
    assert min(felt.ring.trials) > 2 * BEGIN
    assert felt.grown_mb < MOST_MB
    assert set(felt.blamed[HONEST][why]) <= {0, 1}
