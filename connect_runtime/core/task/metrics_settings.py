"""What a worker's properties say of its metrics: over which time, and where they are served.

`metrics.sample.window.ms` and `metrics.num.samples` are Java's. `prometheus.listener` is ours, as
Java shows metrics over JMX alone: `http://host:port`, without a host every interface, port 0 any
free one; empty, which is the default, nowhere. It has no password: names of connectors, tasks and
their classes are all that can be read there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base import sampled

LISTENER = "prometheus.listener"
_LISTENER = re.compile(r"http://\[?(?P<host>[0-9A-Za-z._:%-]*)\]?:(?P<port>[0-9]{1,5})/?")
_PORT_MAX = 65_535
_WINDOW_MIN_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """`host` "" is every interface, `port` 0 any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """`listener` None: metrics are served nowhere."""

    sampling: sampled.Sampling
    listener: Listener | None


def check(name: str, value: Any) -> None:
    """As a validator of `prometheus.listener`. Raises `ConfigError`."""
    if value and _listener(value) is None:
        raise config_types.invalid(
            name, value, "Value must have the form http://host:port, such as http://:9404"
        )


def settings(found: Mapping[str, Any]) -> MetricsSettings:
    """From properties that were parsed, and checked."""
    window_s = float(found["metrics.sample.window.ms"]) / 1000.0
    return MetricsSettings(
        sampling=sampled.Sampling(
            window_s=max(window_s, _WINDOW_MIN_S), windows=found["metrics.num.samples"]
        ),
        listener=_listener(found[LISTENER]),
    )


def _listener(text: str) -> Listener | None:
    """None for what is none."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match["port"]) > _PORT_MAX:
        return None
    return Listener(host=match["host"], port=int(match["port"]))
