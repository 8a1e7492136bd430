from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

from connect_runtime.base import ids
from mm2.connectors import (
    flow_report,
    flow_status,
    receipts,
    source_connector,
    source_task,
)
from mm2.core.copy import messages, setup
from tests.fakes import taking

RUNNING = flow_status.FlowState.RUNNING
GAUGE = messages.Gauge(
    index=0,
    phase="copying",
    records=5,
    bytes=50,
    copied_to=5,
    source_end=9,
    log_start=0,
    age_ms=1,
    oldest_ms=2,
    transactional=False,
    reason="",
    cause="",
)


class Flow:
    """One task with two partitions."""

    def __init__(self):
        partitions = tuple(taking.where(partition=number) for number in range(2))
        self.task: Any = SimpleNamespace(
            settings=SimpleNamespace(task=3, partitions=partitions),
            gauges={0: GAUGE},
            totals=lambda index: (100 + index, 1000),
            state=source_task.TaskState.RUNNING,
            reason="",
            restarts=0,
            receipts=receipts.Receipts(),
        )
        self.report = flow_report.FlowReport("a->b")

    def publish(self):
        self.report.publish(RUNNING, "", [self.task], slots_missing=0)
        return self.report.status


def test_before_anything_is_known_a_flow_is_planning():
    assert flow_report.FlowReport("a->b").status.state is flow_status.FlowState.PLANNING


def test_a_partition_shows_its_gauge_and_the_totals_of_all_copies():
    (seen, _) = Flow().publish().partitions
    assert seen.partition == ids.TopicPartition("orders", 0)
    assert (seen.task, seen.phase, seen.records, seen.copied_to) == (3, "copying", 100, 5)


def test_a_partition_without_a_gauge_waits_for_what_its_task_waits_for():
    flow = Flow()
    (_, waiting) = flow.publish().partitions
    assert (waiting.phase, waiting.reason) == ("waiting", source_task.TaskState.RUNNING.value)
    flow.task.reason = "the copy is gone"
    (_, waiting) = flow.publish().partitions
    assert waiting.reason == "the copy is gone"


def test_a_task_shows_what_its_receipts_stated():
    flow = Flow()
    assert flow.publish().tasks[0].receipts == ()
    flow.task.receipts.counts["orders", "not-paired"] += 2
    (seen,) = flow.publish().tasks[0].receipts
    assert (seen.topic, seen.kind, seen.count) == ("orders", "not-paired", 2)


def test_nothing_is_made_anew_while_nothing_changes():
    flow = Flow()
    before = flow.publish()
    assert flow.publish() is before


def test_only_partitions_that_moved_are_made_anew():
    flow = Flow()
    one, two = flow.publish().partitions
    flow.task.gauges = {0: dataclasses.replace(GAUGE, copied_to=7)}
    after = flow.publish().partitions
    assert (after[0].copied_to, after[1] is two) == (7, True)
    assert one.copied_to == 5


def test_a_task_that_changes_is_news():
    flow = Flow()
    before = flow.publish()
    flow.task.restarts = 1
    assert flow.publish().tasks[0].restarts == 1
    assert before.tasks[0].restarts == 0


def test_partitions_that_are_not_copied_are_shown_as_stopped():
    flow = Flow()
    where = ids.TopicPartition("odd", 0)
    flow.report.found(
        [source_connector.Finding(partition=where, cause="target-setting", message="why")]
    )
    seen = flow.publish().partitions[0]
    assert (seen.partition, seen.phase, seen.reason) == (where, "stopped", "why")


def test_the_right_that_fencing_lacks_is_named_while_it_is_lacking():
    flow = Flow()
    assert flow.publish().fencing == ""
    flow.task.gauges = {0: dataclasses.replace(GAUGE, fenced=False)}
    assert "--transactional-id 'mm2-a->b-' --resource-pattern-type prefixed" in (
        flow.publish().fencing
    )
    flow.task.settings.partitions = tuple(
        taking.where(partition=number, delivery=setup.Delivery.AT_LEAST_ONCE) for number in range(2)
    )
    assert flow.publish().fencing == ""
