"""What a worker of ours shows of itself to Prometheus."""

from __future__ import annotations

import urllib.error
import urllib.request

from prometheus_client import parser

from mm2.sandbox import port_reservation

Samples = dict[str, list[tuple[dict[str, str], float]]]
"""By name: labels and value."""


class Listener:
    """A port for one worker, whose `settings` make it listen there."""

    def __init__(self) -> None:
        self._port = port_reservation.reserve_port()
        self._url = f"http://127.0.0.1:{self._port.port}"

    @property
    def settings(self) -> dict[str, str]:
        return {"prometheus.listener": self._url}

    def read(self) -> Samples:
        """Empty while nobody answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=10.0) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return {}
        found: Samples = {}
        for family in parser.text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return found

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series that bear these labels."""
        found = self.read().get(name, [])
        return sum(value for has, value in found if labels.items() <= has.items())

    def close(self) -> None:
        self._port.release()
