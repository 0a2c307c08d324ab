"""Speaks to an MQTT broker in a process of its own, which a broker may fill, hold up or crash, and nothing else.

Run as `python -m agentd.shell.watch.mqtt_child`. The first line of standard input says whom to tell what, the others
are what to tell; when it ends, so do we. Nothing is subscribed to. Standard output says, a line each, how it goes.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

MOST_MEMORY = 256 << 20
KEEP_ALIVE_S = 60
LONGEST_WAIT_S = 60
_SAID_AT_MOST = 100
"""Lines about how it goes: a broker that lets us in and out again is told of no more then."""


class Connection:
    """One client, and what it tells whenever it is let in."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._availability = str(told["availability"])
        self._discovery: dict[str, str] = told["discovery"]
        self._topic = str(told["topic"])
        self._newest = b""
        self._said = 0
        self.client = Client(CallbackAPIVersion.VERSION2, client_id=str(told["client"]), protocol=MQTTv311)
        self.client.will_set(self._availability, "offline", retain=True)
        self.client.reconnect_delay_set(1, LONGEST_WAIT_S)
        if told.get("user") is not None:
            self.client.username_pw_set(str(told["user"]), str(told["password"]))
        if told["tls"]:
            self.client.tls_set()
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        self.client.on_connect_fail = self._not_reached
        self.client.connect_async(str(told["host"]), int(told["port"]), KEEP_ALIVE_S)

    def tell(self, status: bytes) -> None:
        """Publish a status; left out while there is no broker, or one that takes nothing."""
        self._newest = status
        if self.client.is_connected() and not self.client.want_write():
            self.client.publish(self._topic, status, retain=True)

    def end(self) -> None:
        """Say goodbye, if anybody listens."""
        if self.client.is_connected() and not self.client.want_write():
            self.client.publish(self._availability, "offline", retain=True).wait_for_publish(1.0)
        self.client.disconnect()

    def _connected(
        self, client: Client, _told: object, _flags: ConnectFlags, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._say(f"refused: {reason}")
            return
        self._say("connected")
        for topic, payload in self._discovery.items():
            client.publish(topic, payload, retain=True)
        client.publish(self._availability, "online", retain=True)
        if self._newest:
            client.publish(self._topic, self._newest, retain=True)

    def _disconnected(
        self, _client: Client, _told: object, _flags: DisconnectFlags, reason: ReasonCode, _more: Properties | None
    ) -> None:
        self._say(f"disconnected: {reason}")

    def _not_reached(self, _client: Client, _told: object) -> None:
        self._say("not reached")

    def _say(self, line: str) -> None:
        self._said += 1
        if self._said <= _SAID_AT_MOST:
            sys.stdout.write(f"{line:.200}\n")
            sys.stdout.flush()


def main() -> None:
    """Tell what comes in, until nothing does."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    threading.excepthook = lambda _: os._exit(1)  # whoever has started us notices, and may do so again
    connection = Connection(json.loads(sys.stdin.buffer.readline()))
    connection.client.loop_start()
    for line in sys.stdin.buffer:
        connection.tell(line.strip())
    connection.end()


if __name__ == "__main__":
    main()
