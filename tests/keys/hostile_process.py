"""The hostile one as a process of its own: it has one valid key, the roster, and whatever it hears.

argv[1] is a JSON file: its number, its place and those of its neighbours, its keys, the run, how much to send and when
to sign two things for one trial. It goes on until it is ended, and says on standard output how much it has sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hostile_company import Company, Hostile
from keyed_world import World

from agentd.core.bodies import SEALED, TOTALS
from agentd.keys.key_files import read_keys
from agentd.keys.keying import Keying
from agentd.shell.doors.keyring import Keyring
from agentd.shell.json_log import open_log


def only_its_own(told: dict[str, Any]) -> World:
    """What it has of the world: no key but its own."""
    keying = Keying(keys=told["keys"], roster=told["roster"], operator_fingerprint=told["operator"])
    own = read_keys(Path(told["keys"]))
    return cast(
        World,
        SimpleNamespace(keyring=lambda number, log: Keyring.open(keying, log, own=number), agents={told["own"]: own}),
    )


async def attack(hostile: Hostile, number: int, rounds: int) -> None:
    stop = asyncio.Event()
    await hostile.link.wait_until_ready(120.0, stop, some_needed=True)
    for round_ in range(1, rounds + 1):
        hostile.publish(round_, number)
        print(json.dumps({"round": round_, "sent": hostile.sent}), flush=True)
        await hostile.listen(stop, within_s=5.0)


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    places = {int(own): place for own, place in told["places"].items()}
    company = SimpleNamespace(
        world=only_its_own(told),
        kind=SEALED if told["algorithm"] == "sealed" else TOTALS,
        ids=told["ids"],
        truth=set(),
        equivocates_in=told["equivocates_in"],
    )
    hostile = Hostile(
        cast(Company, company), told["own"], places, open_log(told["log"], "info"), bytes.fromhex(told["run"])
    )
    try:
        asyncio.run(attack(hostile, told["number"], told["rounds"]))
    finally:
        hostile.close()


if __name__ == "__main__":
    main()
