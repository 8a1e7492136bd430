from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.status import status_document
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidenceKind
from mm2.status.status_document import (
    FlowProblem,
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    ReportedLag,
    TaskReport,
)
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

State = ReportedFlowState
SHORT = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=5, cause=DeletionCause.TIME, share=0.1)
OUTLOOKS = st.builds(
    RetentionRisk,
    kind=st.sampled_from(RiskKind),
    left_ms=st.none() | st.integers(0),
    cause=st.none() | st.sampled_from(DeletionCause),
    share=st.none() | st.floats(0, 1),
    deleted_offsets=st.integers(0),
)
NUMBERS = st.none() | st.integers(0)
PARTITIONS = st.builds(
    PartitionReport,
    topic=st.text(),
    partition=st.integers(0),
    mirror=st.text(),
    state=st.text(),
    reason=st.text(),
    since_ms=NUMBERS,
    copied_to=NUMBERS,
    start=NUMBERS,
    end=NUMBERS,
    waiting_since_ms=NUMBERS,
    retention_risk=OUTLOOKS,
)
REPORTS = st.builds(
    FlowReport,
    flow=st.text(),
    seen_by=st.lists(st.text()).map(tuple),
    at_ms=st.integers(0),
    state=st.sampled_from(State),
    reason=st.text(),
    since_ms=NUMBERS,
    nodes=st.lists(st.text()).map(tuple),
    tasks=st.lists(
        st.builds(
            TaskReport,
            number=st.integers(0),
            state=st.text(),
            node=st.text(),
            reason=st.text(),
            restarts=NUMBERS,
        )
    ).map(tuple),
    partitions=st.lists(PARTITIONS, max_size=4).map(tuple),
    partitions_on_other_nodes=st.integers(0),
    problems=st.lists(st.builds(FlowProblem, text=st.text(), at_ms=NUMBERS)).map(tuple),
    warnings=st.lists(st.text()).map(tuple),
    unreachable=st.lists(
        st.builds(
            UnreachableCluster,
            side=st.sampled_from(ClusterSide),
            cluster=st.text(),
            reason=st.text(),
            since_ms=NUMBERS,
            broker=st.text(),
        ),
        max_size=3,
    ).map(tuple),
    activity=st.none()
    | st.builds(
        ReplicationActivity,
        begun_ms=st.integers(0),
        last=st.none()
        | st.builds(
            LastReplication, at_ms=st.integers(0), evidence=st.sampled_from(ReplicationEvidenceKind)
        ),
    ),
)


@given(REPORTS)
def test_a_report_comes_back_as_it_was_sent(report):
    assert (
        status_document.parse_report(json.loads(json.dumps(status_document.report_to_json(report))))
        == report
    )


def part(topic="t", number=0, **more):
    return PartitionReport(topic=topic, partition=number, mirror=f"e.{topic}", **more)


def report(*partitions, state=State.RUNNING, **more):
    return FlowReport(
        flow="e->w", seen_by=("clusters",), at_ms=1_000, state=state, partitions=partitions, **more
    )


@pytest.mark.parametrize(
    ("fields", "records", "ms"),
    [
        ({}, None, None),
        ({"end": 10}, None, None),
        ({"end": 10, "start": 4}, 6, None),
        ({"end": 10, "copied_to": 7, "waiting_since_ms": 400}, 3, 600),
        ({"end": 10, "copied_to": 7, "waiting_since_ms": 1_400}, 3, 0),
        ({"end": 10, "copied_to": 10, "waiting_since_ms": 400}, 0, 0),
        ({"end": 10, "copied_to": 12}, 0, 0),
        ({"end": 10, "start": 8, "copied_to": 2}, 2, None),
        ({"copied_to": 2}, None, None),
        ({"end": 3, "start": 0, "copied_to": 20, "cause": "recreated"}, None, None),
        ({"end": 30, "start": 0, "copied_to": 20, "cause": "source-truncated"}, None, None),
        ({"end": 30, "start": 0, "copied_to": 20, "cause": "source-gap"}, 10, None),
    ],
)
def test_lag_is_what_the_source_has_and_nobody_copied_yet(fields, records, ms):
    found = part(**fields)
    assert (found.lag_records, found.compute_lag_ms(1_000)) == (records, ms)


def test_lags_are_added_ages_are_not_and_what_is_unknown_is_said():
    known = part(end=10, copied_to=7, waiting_since_ms=400)
    later = part(number=1, end=10, copied_to=9, waiting_since_ms=900)
    assert status_document.sum_lag([known, later], 1_000) == ReportedLag(
        records=4, ms=600, complete=True, age_complete=True
    )
    partly = status_document.sum_lag([known, part(number=1)], 1_000)
    assert partly == ReportedLag(records=3, ms=600, complete=False, age_complete=False)
    undated = status_document.sum_lag([known, part(end=5, copied_to=1)], 1_000)
    assert (undated.complete, undated.age_complete) == (True, False)
    assert status_document.sum_lag([part()], 1_000).records is None


def test_what_is_lost_first_counts():
    later = dataclasses.replace(SHORT, left_ms=50)
    gone = RetentionRisk(kind=RiskKind.GONE, left_ms=0, deleted_offsets=3)
    assert (
        status_document.find_soonest_data_loss(
            [part(retention_risk=later), part(retention_risk=SHORT), part()]
        )
        == SHORT
    )
    assert (
        status_document.find_soonest_data_loss(
            [part(retention_risk=SHORT), part(retention_risk=gone)]
        )
        == gone
    )
    assert status_document.find_soonest_data_loss([part()]) is None


def test_partitions_are_grouped_in_order():
    found = status_document.group_partitions_by_topic([part("b", 1), part("a"), part("b", 0)])
    assert [(name, [each.partition for each in parts]) for name, parts in found.items()] == [
        ("a", [0]),
        ("b", [0, 1]),
    ]
