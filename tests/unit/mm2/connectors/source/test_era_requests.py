"""Requests on their way into a flow's map; the rest: tests/unit/mm2/app/test_resume.py."""

from __future__ import annotations

import itertools

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.system import clock
from mm2.cluster import flow_log_writer
from mm2.connectors.share import flow_ledger
from mm2.connectors.source import era_requests
from tests.fakes import admin, flow_log, plugin_contexts

MANY = {ids.TopicPartition("orders", number): "latest" for number in range(50)}


def ledger(cluster: admin.FakeCluster) -> flow_ledger.FlowLedger:
    bounds = flow_log_writer.Bounds(records=3)
    made = flow_ledger.FlowLedger(flow_log.FakeFlowLog(cluster, source_alias="A", bounds=bounds))
    made.open(5.0)
    return made


def test_more_than_fit_at_once_are_recorded_one_after_the_other():
    numbers = itertools.count()
    known = era_requests.record(
        MANY,
        ledger(admin.FakeCluster()),
        now=clock.SystemClock(),
        new_id=lambda: f"r{next(numbers)}",
    )
    found = [known.partition(each).request for each in MANY]
    assert [each and each.request for each in found] == [f"r{n}" for n in range(50)]
    assert {each and each.position for each in found} == {"latest"}


def test_what_is_not_acknowledged_in_time_is_told():
    cluster, now = admin.FakeCluster(), plugin_contexts.Clock()
    made = ledger(cluster)
    work = made.work

    def work_in_vain(timeout_s: float) -> None:
        now.now += 10.0
        cluster.away = True
        work(timeout_s)

    made.work = work_in_vain  # type: ignore[method-assign]  # the target goes away
    with pytest.raises(
        errors.RetriableError, match="not recorded: only the requests of 0 of 50 partitions were"
    ):
        era_requests.record(MANY, made, now=now, new_id=lambda: "r")
