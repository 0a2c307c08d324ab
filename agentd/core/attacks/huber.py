"""huber: the paper's contamination. With probability `--contamination` a reward is told as the far end of its range.

Beside all others it is no scheme: its liar plays and reports as an honest agent does, only of other rewards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.grid import UNIT


def far_end(honest: NDArray[np.int64], _u: NDArray[np.float64], _value: float) -> NDArray[np.int64]:
    """The end of the range that is further from the truth."""
    return np.where(2 * honest >= UNIT, 0, UNIT)
