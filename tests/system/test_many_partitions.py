"""One flow with many topics: all of them move soon, in little memory, and cost little while idle.

Both sizes are long tests: 20 topics of 10 partitions, and the 200 of the promise: moving
within 60 s, copy processes under 600 MB together, an idle flow under 5 % of a core.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import admin

from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import java_server_process, sandbox_cluster
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full]

PARTITIONS = 10
TASKS = 4
MOVING_S = 60.0
COPIES_PSS_BYTES = 600_000_000
IDLE_SHARE = 0.05
SETTLE_S = 12.0
MEASURE_S = 20.0
CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    topics: int

    @property
    def partitions(self) -> int:
        return self.topics * PARTITIONS


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Size(topics=20), id="200 partitions"),
        pytest.param(Size(topics=200), id="2000 partitions", marks=pytest.mark.full),
    ],
)
def size(request: pytest.FixtureRequest) -> Size:
    found: Size = request.param
    return found


@pytest.fixture(scope="module")
def clusters(size: Size) -> Iterator[tuple[SandboxCluster, SandboxCluster]]:
    east = SandboxCluster("east", jvm=java_server_process.BENCH_JVM_FLAGS)
    west = SandboxCluster("west", jvm=java_server_process.BENCH_JVM_FLAGS)
    sandbox_cluster.start_clusters([east, west])
    try:
        fill(east.client_properties(), size)
        yield east, west
    finally:
        east.close()
        west.close()


def fill(properties: Properties, size: Size) -> None:
    names = [f"many-{number:03}" for number in range(size.topics)]
    wanted = [admin.NewTopic(name, PARTITIONS, 1) for name in names]
    client = kafka.admin_client(properties)  # its futures fail when it is collected
    created = client.create_topics(wanted, request_timeout=120.0)
    for future in created.values():
        future.result()
    producer = confluent_kafka.Producer(kafka.client_config(properties))
    for name in names:
        for partition in range(PARTITIONS):
            producer.produce(name, b"one record each", partition=partition)
    assert producer.flush(120.0) == 0


@pytest.mark.timeout(900)
def test_many_partitions_move_soon_in_little_memory_and_rest_cheaply(
    tmp_path: Path,
    size: Size,
    clusters: tuple[SandboxCluster, SandboxCluster],
    capsys: pytest.CaptureFixture[str],
) -> None:
    east, west = clusters
    given = mirror.settings(
        east.client_properties(),
        west.client_properties(),
        topics="many-.*",
        tasks_max=TASKS,
    )
    began_s = CLOCK.now_s()
    with Mirror(tmp_path, given) as running:
        running.await_records(size.partitions, MOVING_S * 3)
        moving_s = CLOCK.now_s() - began_s
        copies = mirror.copy_processes(running.pid)
        pss = sum(pss_bytes(pid) for pid in copies)
        eventually.eventually(
            lambda: CLOCK.now_s() - began_s > moving_s + SETTLE_S, 60.0, "the last anchors"
        )
        share = idle_share(running.pid)
        figures = (
            f"{size.partitions} partitions: moving after {moving_s:.1f} s, {len(copies)} copies "
            f"with {pss / 1e6:.0f} MB, idle {share:.1%} of a core"
        )
        with capsys.disabled():
            sys.stdout.write(f"\n{figures}\n")
        assert moving_s <= MOVING_S, figures
        assert pss <= COPIES_PSS_BYTES, figures
        assert share <= IDLE_SHARE, figures
        assert running.stop() == 143


def idle_share(pid: int) -> float:
    """Share of one core that the process and all that it started take now."""
    before, began_s = cpu_seconds(pid), CLOCK.now_s()
    eventually.eventually(lambda: CLOCK.now_s() - began_s >= MEASURE_S, 60.0, "time to pass")
    return (cpu_seconds(pid) - before) / (CLOCK.now_s() - began_s)


def cpu_seconds(pid: int) -> float:
    family = [pid, *mirror.descendants(pid)]
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for each in family:
        with suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def pss_bytes(pid: int) -> int:
    """Proportional set size: shared pages count for the part that is this process's."""
    match = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    assert match is not None
    return int(match[1]) * 1024
