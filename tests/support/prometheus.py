"""A real Prometheus over the rules in deploy/, hastened, that scrapes what a test runs."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import promql_parser
import yaml

from connect_runtime.system import child_processes
from mm2.sandbox import port_reservation
from tests.support import debian_tools, eventually, rules

STARTS_S = 60.0
_RANGE = re.compile(r"\[(\w+)\]|(?<=offset )(\d\w+)")
_LIMIT = re.compile(r"vector\((\d+)\)")
Sample = tuple[dict[str, str], float]


def hastened(text: str, factor: int) -> str:
    """A file of rules that is as the one given, but that all that takes time takes a `factor`th:
    windows, waits, and the limits that are seconds."""
    found = yaml.safe_load(text)
    for group in found["groups"]:
        for rule in group["rules"]:
            rule["expr"] = _LIMIT.sub(
                lambda limit: f"vector({int(limit[1]) / factor:g})",
                with_shorter_windows(rule["expr"], factor),
            )
            if "for" in rule:
                rule["for"] = _divided(rule["for"], factor)
    made: str = yaml.safe_dump(found, sort_keys=False)
    return made


def with_shorter_windows(expr: str, factor: int) -> str:
    """An expression that looks back a `factor`th of the time."""

    def shorter(window: re.Match[str]) -> str:
        duration = window[1] or window[2]
        return window[0].replace(duration, _divided(duration, factor))

    return _RANGE.sub(shorter, expr)


def _divided(duration: str, factor: int) -> str:
    """At least three seconds: a window has to hold some samples."""
    ms = promql_parser.parse_duration(duration).total_seconds() * 1000 / factor
    return f"{max(int(ms), 3000)}ms"


class Prometheus:
    """Scrapes `targets` (host:port) every second, as the sample configuration does; `factor` times
    as fast as that in all else. Ends with the test's process."""

    def __init__(self, folder: Path, targets: list[str], *, factor: int) -> None:
        command = debian_tools.path("prometheus")
        folder.mkdir(parents=True)
        rules_folder = folder / "rules"
        rules_folder.mkdir()
        for file in sorted((rules.PROMETHEUS / "rules").glob("*.yml")):
            (rules_folder / file.name).write_text(hastened(file.read_text(), factor))
        config = yaml.safe_load((rules.PROMETHEUS / "prometheus.yml").read_text())
        config["global"] = {
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "evaluation_interval": "1s",
        }
        config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._port = port_reservation.reserve_port()
        self._url = f"http://127.0.0.1:{self._port.port}"
        self._log = folder / "prometheus.log"
        with self._log.open("ab") as output:
            self._child = child_processes.start_process(
                [
                    command,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port.port}",
                ],
                output=output,
            )

    def __enter__(self) -> Self:
        eventually.eventually(
            lambda: self.ask("vector(1)"), STARTS_S, lambda: self._log.read_text()[-2000:]
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.kill()
        self._child.wait(10.0)
        self._port.release()

    def ask(self, expr: str) -> list[Sample]:
        """What it answers now: labels and value; an error of Prometheus' fails the test."""
        query = urllib.parse.urlencode({"query": expr})
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/query?{query}", timeout=10.0) as said:
                told = json.load(said)
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{expr}: {refused.read().decode()}") from refused
        except OSError:
            return []  # it is not up yet
        assert told["status"] == "success", told
        result = told["data"]["result"]
        if told["data"]["resultType"] == "scalar":
            return [({}, float(result[1]))]
        return [(each["metric"], float(each["value"][1])) for each in result]

    def firing(self) -> dict[str, set[str]]:
        """Flows (or "") by alert that fires now."""
        found: dict[str, set[str]] = {}
        for labels, _ in self.ask('ALERTS{alertstate="firing"}'):
            found.setdefault(labels["alertname"], set()).add(labels.get("flow", ""))
        return found

    def await_firing(self, alert: str, deadline_s: float) -> None:
        eventually.eventually(
            lambda: alert in self.firing(),
            deadline_s,
            lambda: f"{alert} fires; there are {self.states()}",
            interval_s=0.5,
        )

    def await_quiet(self, alert: str, deadline_s: float) -> None:
        eventually.eventually(
            lambda: alert not in self.firing(),
            deadline_s,
            lambda: f"{alert} no longer fires; there are {self.states()}",
            interval_s=0.5,
        )

    def states(self) -> list[Mapping[str, Any]]:
        return [labels for labels, _ in self.ask("ALERTS")]
