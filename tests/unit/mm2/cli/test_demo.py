"""What the demo prints at its end."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.cli import demo
from mm2.sandbox.log_comparison import (
    DifferenceKind,
    PartitionComparison,
    RecordDifference,
    TopicsComparison,
)
from mm2.sandbox.scenarios.replication_demo import DemoFailoverResult, DemoResult, DemoThroughput
from mm2.sandbox.traffic.latency_probe import LatencyPercentiles


def result(
    *differences: RecordDifference,
    stopped: tuple[str, ...] = (),
    moved: DemoFailoverResult | None = None,
) -> DemoResult:
    part = PartitionComparison(
        source=TopicPartition("orders", 0),
        target=TopicPartition("east.orders", 0),
        source_records=1_000,
        target_records=1_000,
        size=2_000_000,
        differences=differences,
    )
    return DemoResult(
        comparison=TopicsComparison(partitions=(part,)),
        backlog=DemoThroughput(records=3_000, size=30_000_000, seconds=0.5),
        latencies=LatencyPercentiles(count=10, p50_ms=1.04, p99_ms=2.0, p999_ms=3.0, max_ms=3.0),
        halted_partitions=stopped,
        failover=moved,
    )


def move(*, reread: int = 0, missing: int = 0) -> DemoFailoverResult:
    return DemoFailoverResult(
        origin="east",
        destination="west",
        sent=1_000,
        before=600,
        after=400,
        reread=reread,
        missing=missing,
        seconds=7.0,
    )


def test_an_equal_result():
    shown = list(demo.format_demo_result(result()))
    assert " ".join(shown[1].split()) == "orders 1 1,000 2.0 all records equal"
    assert shown[3] == "records     1,000 (2.0 MB of keys and values) in 1 topic"
    assert shown[4].startswith("throughput  60.0 MB/s, 6,000 records/s")
    assert shown[5].startswith("latency     p50 1.0 ms, p99 2.0 ms from producer to consumer")
    assert shown[6:] == ["proof       all records equal: key, value, headers, timestamp, order"]


def test_differences_and_stopped_partitions():
    lost = RecordDifference(kind=DifferenceKind.MISSING, count=1, source_offset=4, target_offset=5)
    shown = list(demo.format_demo_result(result(lost, stopped=("orders-0: a reason",))))
    assert "  orders-0: missing 1, the first at source offset 4, target offset 5" in shown
    assert shown[-2:] == ["halted      orders-0: a reason", "proof       DIFFERENT in 1 partition"]


def test_a_group_that_was_moved():
    moved = result(moved=move())
    assert list(demo.format_demo_result(moved))[-2:] == [
        "failover    600 records processed on east, 400 on west, 7.0 s in total",
        "            each of the 1,000 records sent was processed once",
    ]
    assert moved.is_successful


@pytest.mark.parametrize("wrong", [move(reread=2), move(missing=3)])
def test_a_group_that_lost_or_repeats_records_is_a_failure(wrong):
    moved = result(moved=wrong)
    assert list(demo.format_demo_result(moved))[-1] == (
        f"            WRONG: of 1,000 records {wrong.missing} were not processed, "
        f"{wrong.reread} were processed again"
    )
    assert not moved.is_successful
