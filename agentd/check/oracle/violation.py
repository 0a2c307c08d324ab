"""What must not happen, and did."""

from __future__ import annotations


class Violation(BaseException):
    """An invariant that does not hold; like the end of a process, nothing of the daemon may catch it."""

    def __init__(self, invariant: str, what: str, now_s: float) -> None:
        super().__init__(f"at {now_s:.3f} s, {invariant}: {what}")
        self.invariant = invariant
        self.what = what
        self.now_s = now_s
        self.story: list[str] = []
        """What happened before."""
