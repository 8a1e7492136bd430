"""The listing of Java's metric names is what Java itself prints of its registry."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from connect_runtime.system import java_installation
from mm2.sandbox import kafka_jars

pytestmark = pytest.mark.integration

LISTING = (
    Path(__file__).parents[1] / "unit/connect_runtime/worker/java_metric_names.txt"
).read_text()
_CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
_REGISTERED_ELSEWHERE = (
    "app-info",
    "connect-coordinator-metrics",
    "connect-metrics",
    "connect-node-metrics",
    "kafka-metrics-count",
    "plugins",
)
"""By the clients, the group's member and plugins, as they are made."""


def printed_by_java(folder: Path) -> set[str]:
    done = subprocess.run(
        [
            *(str(java_installation.find_java().program), "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{kafka_jars.ensure_jars()}{os.sep}*"),
            "org.apache.kafka.connect.runtime.ConnectMetrics",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=True,
    )
    found = set()
    for row in done.stdout.split("<tr>"):
        cells = _CELL.findall(row)
        if len(cells) == 3:
            group, *tags = cells[2].partition("type=")[2].replace("&quot;", '"').split(",")
            names = ",".join(each.partition("=")[0] for each in tags)
            found.add(f"{group} {names or '-'} {cells[0].strip()}")
    return found


def test_the_listing_is_javas(tmp_path):
    listed = {line for line in LISTING.splitlines() if not line.startswith("#")}
    printed = printed_by_java(tmp_path)
    assert len(printed) > 80
    assert printed == {each for each in listed if not each.startswith(_REGISTERED_ELSEWHERE)}
