"""random: anything of any arm."""

from __future__ import annotations

from agentd.core.attacks.basis.scheme import Claim, Scheme


class RandomRecords(Scheme):
    """Draws the arm and what it is said to pay."""

    def claim(self, trial: int) -> Claim:  # noqa: ARG002
        """One draw for the arm, one for its mean."""
        which, mean = self._draws(2).tolist()
        return Claim(int(which * len(self.known.means)), mean)
