"""edge: as stealth, at one and a half deviations: where most tests for liars begin to see something."""

from __future__ import annotations

from agentd.core.attacks.stealth import Stealth


class Edge(Stealth):
    """Lies as much as a cautious test lets pass."""

    deviations = 1.5
