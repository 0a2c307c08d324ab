"""Asks a small web server, as a program would that trusts it, and as one would that does not."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from loopback import LONG_S
from prometheus_client.parser import text_string_to_metric_families


def asked(url: str, path: str, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    """The status and the text of a page."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LONG_S)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def status_of(url: str) -> dict[str, Any]:
    code, text = asked(url, "/status")
    assert code == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


def metrics_of(url: str) -> dict[str, float]:
    """Every sample, as name{label=value}, read by the parser of Prometheus's own client."""
    code, text = asked(url, "/metrics")
    assert code == 200, text
    return parsed_metrics(text)


def parsed_metrics(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=LONG_S)
