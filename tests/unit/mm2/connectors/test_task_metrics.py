"""What source tasks measure, from gauge to series; checkpoint tasks: `test_checkpoint_task`."""

from __future__ import annotations

import dataclasses
import threading

from connect_runtime.base import ids
from connect_runtime.system import threads
from mm2.connectors import task_metrics
from mm2.core import mirror_metrics
from mm2.core.copy import ages, messages, setup
from tests.fakes import plugin_contexts

ABOUT = mirror_metrics.Owner(
    task=ids.ConnectorTaskId("mirror", 0), source="A", target="B", formats=("legacy",)
)
LEGACY = "kafka_connect_mirror_mirrorsourceconnector_"


def where(partition=0, topic="orders"):
    return setup.PartitionSetup(
        flow="A->B",
        topic=topic,
        partition=partition,
        source_topic_id=bytes(16),
        remote_topic=f"A.{topic}",
        target_topic_id=bytes(16),
        transactional_id="x",
    )


def gauge(records, *, copied_to=0, end=0, oldest_ms=-1, stored=ages.NONE):
    return messages.Gauge(
        index=0,
        phase="copying",
        records=records,
        bytes=10 * records,
        copied_to=copied_to,
        source_end=end,
        log_start=0,
        age_ms=0,
        oldest_ms=oldest_ms,
        transactional=False,
        reason="",
        cause="",
        stored=stored,
    )


def shown(made):
    return {each.metric.name: each.series for each in made.families()}


def begun(*partitions):
    clock = plugin_contexts.Clock()
    return clock, task_metrics.SourceMetrics(ABOUT, partitions, clock=clock)


def test_what_is_assigned_is_shown_from_the_start():
    _, made = begun(where(0), where(1))
    counts = shown(made)[f"{LEGACY}record_count"]
    assert counts == {("A", "B", "A.orders", "0"): 0, ("A", "B", "A.orders", "1"): 0}
    assert shown(made)["mm2_partition_lag_records"] == {}, "it is not known yet"


def test_gauges_are_counted_and_lags_shown_where_they_are_known():
    clock, made = begun(where())
    old_ms = clock.wall_ms() - 1500
    stored = ages.Ages(4, 80, 10, 40)
    made.observe(where(), gauge(4, copied_to=4, end=9, oldest_ms=old_ms, stored=stored))
    found = {name: list(series.values()) for name, series in shown(made).items()}
    assert found[f"{LEGACY}record_count"] == [4]
    assert found[f"{LEGACY}byte_count"] == [40]
    assert found[f"{LEGACY}replication_latency_ms_avg"] == [20]
    assert found["mm2_partition_lag_records"] == [5]
    assert found["mm2_partition_lag_seconds"] == [1.5]
    assert found["mm2_partition_stopped"] == []
    halted = dataclasses.replace(gauge(4), phase="stopped", cause="corrupt-batch")
    made.observe(where(), halted)
    expected = {("A", "B", "A.orders", "0", "corrupt-batch"): 1}
    assert shown(made)["mm2_partition_stopped"] == expected


def test_who_stays_assigned_goes_on_and_who_does_not_is_not_shown():
    _, made = begun(where(0), where(1))
    made.observe(where(0), gauge(4))
    made.observe(where(1), gauge(7))
    made.assigned([where(1), where(2)])
    made.observe(where(0), gauge(9))
    counts = shown(made)[f"{LEGACY}record_count"]
    assert counts == {("A", "B", "A.orders", "1"): 7, ("A", "B", "A.orders", "2"): 0}


def test_it_is_read_while_it_is_told():
    _, made = begun(where())
    failed: list[threads.UnaskedEnd] = []
    readers = threads.Threads(on_unasked_end=failed.append)

    def read(stop: threading.Event) -> None:
        while not stop.is_set():
            made.families()

    readers.start("reader", read)
    for count in range(300):
        made.assigned([where(each) for each in range(count % 5)])
        made.observe(where(), gauge(count))
    assert readers.stop_all(10.0) == []
    assert failed == []
