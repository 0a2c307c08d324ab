"""The figures of a snapshot as the text that Prometheus reads, by its own client library.

Not the library's usual registry: that tells of the process, and the processor time of an agent would tell how long a
draw of noise took (SECURITY.md, "Clocks").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentd.errors import ConfigurationError, install_with
from agentd.shell.watch.snapshot import Figure

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise ConfigurationError(f"--http needs prometheus_client: {install_with('metrics')}") from None

__all__ = ["CONTENT_TYPE_LATEST", "PREFIX", "metrics_page"]

PREFIX = "agentd_"
_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


class _Figures(Collector):
    def __init__(self, figures: Iterable[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for figure in self._figures:
            family = _FAMILIES[figure.kind](PREFIX + figure.name, figure.help, labels=figure.labels)
            for labels, value in figure.samples:
                family.add_metric(labels, value)
            yield family


def metrics_page(figures: Iterable[Figure]) -> bytes:
    """The text of /metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures))
    return generate_latest(registry)
