"""An agent as `agentd` runs it, which also writes down what it signs and what it finds genuine: argv[1] is where."""

from __future__ import annotations

import sys
from pathlib import Path

from agentd.cli import cli
from agentd.core.message import Batch
from agentd.shell.signing.key_notary import KeyNotary

SIGNED, BELIEVED = "signed", "believed"


def attend(path: str) -> None:
    """Have every signature of this process noted, before it is used."""
    file = Path(path).open("a", buffering=1, encoding="ascii")  # noqa: SIM115 - for as long as the process lives
    sign, is_genuine = KeyNotary.sign, KeyNotary.is_genuine

    def noted_sign(self: KeyNotary, batch: Batch) -> Batch:
        made = sign(self, batch)
        file.writelines(f"{SIGNED} {statement.hex()}\n" for statement in self.statements(made))
        return made

    def noted_genuine(self: KeyNotary, origin: int, statement: bytes, signature: bytes) -> bool:
        genuine = is_genuine(self, origin, statement, signature)
        if genuine:
            file.write(f"{BELIEVED} {statement.hex()}\n")
        return genuine

    KeyNotary.sign, KeyNotary.is_genuine = noted_sign, noted_genuine  # type: ignore[method-assign]


if __name__ == "__main__":
    attend(sys.argv.pop(1))
    cli(prog_name="agentd")
