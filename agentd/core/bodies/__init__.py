"""The kinds of bodies, one module each; everybody else goes through this registry and names none of them.

A module owns all there is to say about its kind: its tag and fields on the wire, what an honest body looks like by
itself and after what its origin said before, and how a lie bends it. Whoever has a policy with a body of its own
registers one more kind, before or after anything else is imported:

    class Counted(Kind):
        tag, name, fields = 200, "COUNTED", (Field("arm", "u2"), Field("heads", "u4"))
        def plausible(self, batch, terms): ...
        def bend(self, body, lie): ...

    COUNTED = register(Counted())
"""

from __future__ import annotations

from agentd.core.bodies.cumulative import Cumulative
from agentd.core.bodies.kind import WIRE_TYPES, Field, Kind, Memory
from agentd.core.bodies.released import RELEASED
from agentd.core.bodies.sample import SAMPLE
from agentd.core.bodies.sealed import SEALED
from agentd.core.bodies.totals import TOTALS

__all__ = ["KINDS", "RELEASED", "SAMPLE", "SEALED", "TOTALS", "Cumulative", "Field", "Kind", "Memory", "register"]

FIRST_OWN_TAG = 128
"""Tags below are the protocol's; those from here on are their users'."""
MAX_TAG = 255

KINDS: dict[int, Kind] = {kind.tag: kind for kind in (RELEASED, TOTALS, SAMPLE, SEALED)}
"""Every kind by its tag; tags are on the wire, so they are only ever appended."""


def register(kind: Kind) -> Kind:
    """Let agents send and understand one more kind; ValueError where its tag or its fields cannot be."""
    if not FIRST_OWN_TAG <= kind.tag <= MAX_TAG:
        raise ValueError(f"{kind!r} has tag {kind.tag}; tags for users are {FIRST_OWN_TAG}…{MAX_TAG}")
    if not kind.fields or any(field.type not in WIRE_TYPES for field in kind.fields):
        raise ValueError(f"{kind!r} needs fields, each of a type among {', '.join(WIRE_TYPES)}")
    if KINDS.setdefault(kind.tag, kind) is not kind:
        raise ValueError(f"tag {kind.tag} of {kind!r} is taken by {KINDS[kind.tag]!r}")
    return kind
