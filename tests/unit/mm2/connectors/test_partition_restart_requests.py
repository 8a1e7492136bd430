"""Requests on their way into a flow's map."""

from __future__ import annotations

import itertools

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.connectors import partition_restart_requests
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from tests.fakes.admin import FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.plugin_contexts import Clock

MANY = {TopicPartition("orders", number): "latest" for number in range(50)}


def store(cluster: FakeCluster) -> FlowStateStore:
    bounds = UnacknowledgedRecordLimits(records=3)
    made = FlowStateStore(FakeFlowStateLog(cluster, source_alias="A", bounds=bounds))
    made.open(5.0)
    return made


def test_more_than_fit_at_once_are_recorded_one_after_the_other():
    numbers = itertools.count()
    known = partition_restart_requests.record_era_requests(
        MANY,
        store(FakeCluster()),
        now=SystemClock(),
        new_id=lambda: f"r{next(numbers)}",
    )
    found = [known.get_partition(each).request for each in MANY]
    assert [each and each.request for each in found] == [f"r{n}" for n in range(50)]
    assert {each and each.position for each in found} == {"latest"}


def test_what_is_not_acknowledged_in_time_is_told():
    cluster, now = FakeCluster(), Clock()
    made = store(cluster)
    work = made.run_once

    def work_in_vain(timeout_s: float) -> None:
        now.now += 10.0
        cluster.away = True
        work(timeout_s)

    made.run_once = work_in_vain  # type: ignore[method-assign]  # the target goes away
    with pytest.raises(
        RetriableError, match="not recorded: only those for 0 of 50 partitions were"
    ):
        partition_restart_requests.record_era_requests(MANY, made, now=now, new_id=lambda: "r")
