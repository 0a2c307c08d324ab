"""What charts are drawn with: the classes of a page, whose style sheet has the colours, or ink on white paper."""

from __future__ import annotations

from agentd.plot.curves import PALETTE


class Paint:
    """The attributes of what is drawn on a page: classes, whose colours are the style sheet's."""

    words = 'class="words"'
    strong = 'class="words strong"'
    grid = 'class="grid"'
    axis = 'class="axis"'
    mark = 'class="mark"'
    mark_words = 'class="mark-words"'

    def line(self, place: int) -> str:
        return f'class="line c{place % len(PALETTE)}"'

    def bar(self, place: int, *, weak: bool = False) -> str:
        """A bar; a weak one is of what is left, in the colour of the one below it."""
        return f'class="bar weak c{(place - 1) % len(PALETTE)}"' if weak else f'class="bar c{place % len(PALETTE)}"'


class Ink(Paint):
    """The same in colours, for white paper."""

    words = 'fill="#333333" font-size="12"'
    strong = 'fill="#111111" font-size="15" font-weight="600"'
    grid = 'stroke="#E4E4E4"'
    axis = 'stroke="#666666" fill="none"'
    mark = 'stroke="#9A3B3B" stroke-dasharray="3 3" stroke-opacity="0.7"'
    mark_words = 'fill="#9A3B3B" font-size="10"'

    def line(self, place: int) -> str:
        return f'stroke="{PALETTE[place % len(PALETTE)]}" fill="none" stroke-width="2" stroke-linejoin="round"'

    def bar(self, place: int, *, weak: bool = False) -> str:
        colour = PALETTE[(place - weak) % len(PALETTE)]
        return f'fill="{colour}" fill-opacity="0.3"' if weak else f'fill="{colour}"'
