"""Metrics settings of a worker: the sample window and the Prometheus listener.

`metrics.sample.window.ms` and `metrics.num.samples` have the same meaning as in Java.
`prometheus.listener` does not exist in Java, which exposes metrics only over JMX. The form of its
value is `http://host:port`. Without a host, the listener listens on all interfaces. With port 0, it
uses any free port. An empty value (the default) disables the listener. The listener requires no
password, because metrics contain no data more sensitive than names of connectors, tasks and
classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base.windowed_stats import SampleWindows

LISTENER_KEY = "prometheus.listener"
_LISTENER_PATTERN = re.compile(r"http://\[?(?P<host>[0-9A-Za-z._:%-]*)\]?:(?P<port>[0-9]{1,5})/?")
_MAX_PORT = 65_535
_MIN_WINDOW_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsListener:
    """Address of the Prometheus metrics listener."""

    host: str
    """Host name or address; "" for all interfaces."""
    port: int
    """Port; 0 for any free port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetricsSettings:
    """Parsed metrics settings."""

    sampling: SampleWindows
    listener: MetricsListener | None
    """Address of the metrics listener; None if metrics are not served."""


def validate_metrics_listener(name: str, value: Any) -> None:
    """Check that the value of `prometheus.listener` is valid. Raises `ConfigError` if it is not."""
    if value and _parse_metrics_listener(value) is None:
        raise config_types.build_invalid_value_error(
            name, value, "Value must have the form http://host:port, such as http://:9404"
        )


def parse_metrics_settings(found: Mapping[str, Any]) -> WorkerMetricsSettings:
    """Build the metrics settings from a worker's parsed and validated properties."""
    window_s = float(found["metrics.sample.window.ms"]) / 1000.0
    return WorkerMetricsSettings(
        sampling=SampleWindows(
            window_s=max(window_s, _MIN_WINDOW_S), windows=found["metrics.num.samples"]
        ),
        listener=_parse_metrics_listener(found[LISTENER_KEY]),
    )


def _parse_metrics_listener(text: str) -> MetricsListener | None:
    """Parse the listener address. Return None if it is invalid or empty."""
    match = _LISTENER_PATTERN.fullmatch(text.strip())
    if match is None or int(match["port"]) > _MAX_PORT:
        return None
    return MetricsListener(host=match["host"], port=int(match["port"]))
