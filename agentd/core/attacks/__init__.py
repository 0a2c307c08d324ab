"""Attacks on values, one module each, by the names that `--attack` knows them by. Pure: chance is handed in.

Liars here know the arms, and the adaptive ones everything that honest agents release. They obey every check: a forged
body that is refused does no harm, so only what passes is worth defending against.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentd.core.attacks.adaptive.bury import AdaptiveBury
from agentd.core.attacks.adaptive.leader import AdaptiveLeader
from agentd.core.attacks.adaptive.strike import AdaptiveStrike
from agentd.core.attacks.adaptive.swap import AdaptiveSwap
from agentd.core.attacks.basis.scheme import Scheme
from agentd.core.attacks.both import Both
from agentd.core.attacks.count_inflation import CountInflation
from agentd.core.attacks.demote_best import DemoteBest
from agentd.core.attacks.edge import Edge
from agentd.core.attacks.inversion import Inversion
from agentd.core.attacks.mixed import Mixed
from agentd.core.attacks.promote_worst import PromoteWorst
from agentd.core.attacks.random_records import RandomRecords
from agentd.core.attacks.sleeper import Sleeper
from agentd.core.attacks.split import Split
from agentd.core.attacks.stealth import Stealth

SCHEMES: Mapping[str, type[Scheme]] = MappingProxyType(
    {
        "inversion": Inversion,
        "promote-worst": PromoteWorst,
        "demote-best": DemoteBest,
        "both": Both,
        "stealth": Stealth,
        "edge": Edge,
        "random": RandomRecords,
        "count-inflation": CountInflation,
        "mixed": Mixed,
        "sleeper": Sleeper,
        "split": Split,
        "adaptive-swap": AdaptiveSwap,
        "adaptive-leader": AdaptiveLeader,
        "adaptive-strike": AdaptiveStrike,
        "adaptive-bury": AdaptiveBury,
    }
)
"""Every attack that forges what its liar says."""

FIXED = tuple(name for name, scheme in SCHEMES.items() if not scheme.knows_everything)
ADAPTIVE = tuple(name for name, scheme in SCHEMES.items() if scheme.knows_everything)
"""Those that must be told what honest agents release: in memory only."""
