from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.config import pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import CheckpointGroupsSnapshot, GroupSearchResult, TaskState
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.replication.partition_state import PartitionPhase
from mm2.status import replication_health, status_document, topic_rows
from mm2.status.replication_health import FlowHealth, FlowHealthResult
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, TaskReport
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.topics.flow_config import Flow
from mm2.ui import status_page_json
from mm2.ui.status_page_json import Badge, EstimateKind, FailoverEstimate
from tests.support import seen_flows, statuses

Kind = EstimateKind
FLOW = Flow(source="east", target="west")
NOW_MS = 1_700_000_000_000
DONE = PartitionReport(topic="orders", partition=0, mirror="m", state="copying", copied_to=9, end=9)


HEALTHY = FlowHealthResult(health=FlowHealth.HEALTHY)


def estimate(*parts, state=ReportedFlowState.RUNNING, **fields):
    report = FlowReport(
        flow=FLOW.name,
        seen_by=("process 1",),
        at_ms=NOW_MS,
        state=state,
        partitions=tuple(dataclasses.replace(DONE, **each) for each in parts),
        **fields,
    )
    return status_page_json.estimate_failover(report, FLOW, verdict=HEALTHY)


def test_where_all_is_copied_nothing_is_known_against_it_and_that_is_all_it_says():
    found = estimate({})
    assert status_page_json.estimate_to_json(found) == {
        "verdict": "no obstacle known",
        "badge": "good",
        "findings": [],
        "command": "mm2 failover --from east --to west",
    }


def test_what_is_not_copied_yet_costs_and_is_counted():
    found = estimate({"end": 12, "waiting_since_ms": NOW_MS - 5_000}, {"partition": 1, "end": 10})
    assert found.kind is Kind.COSTS
    assert found.findings == ("up to 4 records of east are not replicated to west, 5.0 s",)


@pytest.mark.parametrize(
    ("parts", "fields", "kind", "words"),
    [
        ([{"state": "halted"}], {}, Kind.COSTS, "1 partition is halted"),
        ([{"end": None}], {}, Kind.UNKNOWN, "lag of some partitions is unknown"),
        (
            [{}],
            {"partitions_on_other_nodes": 2},
            Kind.UNKNOWN,
            "2 partitions are replicated by other processes",
        ),
        ([{}], {"state": ReportedFlowState.PLANNING}, Kind.UNKNOWN, "the flow is PLANNING"),
        ([{}], {"state": ReportedFlowState.PAUSED}, Kind.UNKNOWN, "the flow is PAUSED"),
        ([], {}, Kind.UNKNOWN, "nothing to replicate: no topic of the source matches"),
        (
            [{"retention_risk": RetentionRisk(kind=RiskKind.GONE, deleted_offsets=7)}],
            {},
            Kind.COSTS,
            "the source deleted 7 offsets before they were replicated",
        ),
    ],
)
def test_what_was_found_decides_and_is_told(parts, fields, kind, words):
    found = estimate(*parts, **fields)
    assert found.kind is kind
    assert words in found.findings[0]


def test_what_is_unknown_decides_and_what_costs_is_told_too():
    found = estimate(
        {"state": "halted"}, {"partition": 1, "end": None}, partitions_on_other_nodes=1
    )
    assert found.kind is Kind.UNKNOWN
    assert len(found.findings) == 3


@pytest.mark.parametrize("kind", list(Kind))
def test_only_where_nothing_is_known_against_it_it_looks_well(kind):
    told = status_page_json.estimate_to_json(FailoverEstimate(kind=kind, findings=(), command=""))
    assert (told["badge"] == Badge.GOOD.value) == (kind is Kind.NOTHING_KNOWN)


def test_a_flow_that_does_not_replicate_cannot_be_judged():
    report = FlowReport(
        flow=FLOW.name,
        seen_by=(),
        at_ms=NOW_MS,
        state=ReportedFlowState.RUNNING,
        partitions=(DONE,),
    )
    unreachable = "source east unreachable since 22:03:28Z: refused"
    verdict = FlowHealthResult(health=FlowHealth.UNHEALTHY, reasons=(unreachable,))
    found = status_page_json.estimate_failover(report, FLOW, verdict=verdict)
    assert (found.kind, found.findings) == (Kind.UNKNOWN, (unreachable,))


def test_where_nothing_is_copied_why_is_told_once():
    empty = FlowReport(flow=FLOW.name, seen_by=(), at_ms=NOW_MS, state=ReportedFlowState.RUNNING)
    found = status_page_json.estimate_failover(
        empty, FLOW, verdict=replication_health.evaluate_flow(empty, within_s=60.0)
    )
    assert (found.kind, found.findings) == (Kind.UNKNOWN, (topic_rows.NOTHING_TO_COPY,))
    others = dataclasses.replace(empty, partitions_on_other_nodes=3)
    found = status_page_json.estimate_failover(
        others, FLOW, verdict=replication_health.evaluate_flow(others, within_s=60.0)
    )
    assert "this node replicates no partition of the flow" in found.findings


State = ReportedFlowState
GOOD = PartitionReport(topic="orders", partition=0, mirror="m", state="copying", copied_to=9, end=9)
RUNNING = TaskReport(number=0, state="RUNNING")
SHORT = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=5, cause=DeletionCause.TIME, share=0.1)


def partition(**fields):
    return dataclasses.replace(GOOD, **fields)


def flow(*parts, state=State.RUNNING, tasks=(RUNNING,), **fields):
    return FlowReport(
        flow="east->west",
        seen_by=("process 1",),
        at_ms=NOW_MS,
        state=state,
        tasks=tasks,
        partitions=parts,
        **fields,
    )


@pytest.mark.parametrize(
    ("fields", "badge"),
    [
        ({}, Badge.GOOD),
        (
            {"end": 12, "waiting_since_ms": NOW_MS - replication_health.LAG_NOTE_THRESHOLD_MS + 1},
            Badge.GOOD,
        ),
        (
            {"end": 12, "waiting_since_ms": NOW_MS - replication_health.LAG_NOTE_THRESHOLD_MS},
            Badge.WAIT,
        ),
        ({"end": None}, Badge.UNKNOWN),
        ({"end": 12, "waiting_since_ms": None}, Badge.UNKNOWN),
        ({"retention_risk": SHORT}, Badge.BAD),
        ({"state": "halted"}, Badge.BAD),
        ({"state": "fenced"}, Badge.BAD),
        ({"state": "waiting"}, Badge.WAIT),
        ({"state": "acquiring"}, Badge.WAIT),
        ({"state": topic_rows.PAUSED_STATE}, Badge.WAIT),
        ({"state": "closed"}, Badge.OFF),
        ({"state": ""}, Badge.UNKNOWN),
        ({"state": "", "reason": "its mirror is gone"}, Badge.BAD),
        ({"state": "something new"}, Badge.UNKNOWN),
    ],
)
def test_a_partition_is_well_only_where_all_of_it_is_known(fields, badge):
    assert status_page_json.choose_partition_badge(partition(**fields), NOW_MS) is badge


@pytest.mark.parametrize("phase", list(PartitionPhase))
def test_every_phase_of_a_copy_has_a_tone(phase):
    moving = phase.value in status_registry.COPYING_PHASES
    state = status_document.COPYING_STATE if moving else phase.value
    badge = status_page_json.choose_partition_badge(partition(state=state), NOW_MS)
    assert (badge is Badge.GOOD) == moving
    assert badge is not Badge.UNKNOWN


@pytest.mark.parametrize("state", list(TaskState))
def test_every_state_of_a_task_has_a_tone(state):
    badge = status_page_json.choose_task_badge(TaskReport(number=0, state=state.value))
    assert (badge is Badge.GOOD) == (state is TaskState.RUNNING)
    assert badge is not Badge.UNKNOWN


def test_a_task_of_which_nobody_has_said_anything_is_unknown():
    assert status_page_json.choose_task_badge(TaskReport(number=0, state="")) is Badge.UNKNOWN


def judged(report):
    return report, replication_health.evaluate_flow(report, within_s=60.0)


@pytest.mark.parametrize(
    ("report", "badge", "words"),
    [
        (flow(GOOD), Badge.GOOD, "running"),
        (
            flow(GOOD, partition(state="halted"), partition(state="fenced")),
            Badge.BAD,
            "running, 2 halted",
        ),
        (
            flow(GOOD, tasks=(TaskReport(number=0, state="FAILED"),)),
            Badge.BAD,
            "running, unhealthy",
        ),
        (flow(GOOD, tasks=(TaskReport(number=0, state="STARTING"),)), Badge.WAIT, "running"),
        (flow(GOOD, partitions_on_other_nodes=1), Badge.GOOD, "running here"),
        (flow(partitions_on_other_nodes=1), Badge.OFF, "running elsewhere"),
        (flow(partitions_on_other_nodes=1, state=State.PAUSED), Badge.WAIT, "paused"),
        (flow(), Badge.WAIT, "running, pending"),
        (flow(GOOD, warnings=("something",)), Badge.WAIT, "running"),
        (flow(partition(state="waiting")), Badge.WAIT, "running"),
        (flow(partition(end=12, waiting_since_ms=0)), Badge.WAIT, "running"),
        (flow(partition(state="", end=None)), Badge.UNKNOWN, "running, unknown"),
        (flow(GOOD, state=State.NOT_RUNNING), Badge.BAD, "not running"),
        (flow(GOOD, state=State.STOPPED), Badge.OFF, "stopped"),
        (flow(GOOD, state=State.UNKNOWN), Badge.UNKNOWN, "unknown"),
        (flow(GOOD, state=State.FAILED), Badge.BAD, "failed"),
        (flow(GOOD, state=State.PLANNING), Badge.WAIT, "planning"),
    ],
)
def test_a_flow_has_the_tone_and_the_words_of_its_verdict(report, badge, words):
    assert (
        status_page_json.choose_flow_badge(*judged(report)),
        status_page_json.describe_flow_state(*judged(report)),
    ) == (badge, words)


def test_of_nothing_nothing_is_known():
    assert status_page_json.find_worst_badge([]) is Badge.UNKNOWN


OFFSETS = st.none() | st.integers(0, 9)
PARTITIONS = st.builds(
    partition,
    state=st.sampled_from(["copying", "waiting", "halted", topic_rows.PAUSED_STATE, "closed", ""]),
    reason=st.sampled_from(["", "why"]),
    copied_to=OFFSETS,
    end=OFFSETS,
    waiting_since_ms=st.none() | st.just(NOW_MS - 5),
    retention_risk=st.sampled_from([status_document.UNKNOWN_RISK, SHORT]),
)
TASKS = st.builds(
    TaskReport,
    number=st.just(0),
    state=st.sampled_from(["RUNNING", "FAILED", "STARTING", "", "PAUSED"]),
)


@given(
    parts=st.lists(PARTITIONS, max_size=3),
    tasks=st.lists(TASKS, max_size=2),
    state=st.sampled_from(State),
    others=st.integers(0, 1),
    warnings=st.sampled_from([(), ("something",)]),
)
def test_what_looks_well_is_known_to_be_well(parts, tasks, state, others, warnings):
    report = flow(
        *parts, tasks=tuple(tasks), state=state, partitions_on_other_nodes=others, warnings=warnings
    )
    if status_page_json.choose_flow_badge(*judged(report)) is not Badge.GOOD:
        return
    assert (state, warnings) == (State.RUNNING, ())
    assert status_page_json.describe_flow_state(*judged(report)) == (
        "running here" if others else "running"
    )
    assert parts, "of what others copy nobody here says that it is well"
    assert {each.state for each in parts} == {"copying"}
    assert {each.state for each in tasks} <= {"RUNNING"}
    lag = status_document.sum_lag(parts, NOW_MS)
    assert lag.complete
    assert lag.age_complete
    assert judged(report)[1].is_healthy


def point(group, topic="east.orders", number=0, *, upstream=4, downstream=7):
    return Checkpoint(
        group=group,
        partition=TopicPartition(topic, number),
        upstream=upstream,
        downstream=downstream,
    )


def shown(*points, round_ms=5):
    names = sorted({each.group for each in points})

    def find(text, most):
        matching = [name for name in names if text in name]
        return GroupSearchResult(
            total_count=len(names),
            matching_count=len(matching),
            groups={
                name: [each for each in points if each.group == name] for name in matching[:most]
            },
        )

    return CheckpointGroupsSnapshot(
        last_round_s=round_ms, last_round_wall_ms=round_ms, find_groups=find
    )


def told(*tasks, text="", holds=pause_and_throttle_overrides.NO_OVERRIDES):
    status = statuses.flow(holds=holds)
    one = seen_flows.flow(seen_flows.part(end=20), status=status)
    found = status_page_json.make_groups_document(seen_flows.seen(one), one, tasks, text=text)
    assert json.loads(json.dumps(found)) == found
    return found


def test_a_groups_positions_are_told_on_both_sides_with_what_it_has_not_read():
    found = told(shown(point("billing")))
    assert (found["version"], found["flow"], found["local_tasks"]) == (1, "east->west", 1)
    assert (found["group_count"], found["groups_found"], found["checkpoints_ms"]) == (1, 1, 5)
    assert found["groups"] == [
        {
            "group": "billing",
            "partition_count": 1,
            "unread_records": 16,
            "unread_known": True,
            "partitions": [
                {
                    "topic": "orders",
                    "mirror": "east.orders",
                    "partition": 0,
                    "source_offset": 4,
                    "mirror_offset": 7,
                    "unread_records": 16,
                }
            ],
        }
    ]


def test_what_is_not_known_of_the_source_is_null():
    elsewhere = told(shown(point("billing", "east.other")))["groups"][0]
    assert elsewhere["partitions"][0]["topic"] is None
    assert (elsewhere["unread_records"], elsewhere["unread_known"]) == (None, False)
    some = told(shown(point("billing"), point("billing", number=1)))["groups"][0]
    assert (some["unread_records"], some["unread_known"]) == (16, False)


def test_who_has_read_all_has_nothing_unread():
    assert told(shown(point("a", upstream=25)))["groups"][0]["unread_records"] == 0


def test_groups_of_all_tasks_are_shown_by_name_and_counted():
    found = told(shown(point("b"), point("c"), round_ms=9), shown(point("a"), round_ms=7), text="")
    assert [each["group"] for each in found["groups"]] == ["a", "b", "c"]
    assert (found["local_tasks"], found["group_count"], found["checkpoints_ms"]) == (2, 3, 7)
    narrowed = told(shown(point("b"), point("c")), shown(point("a")), text="c")
    assert [each["group"] for each in narrowed["groups"]] == ["c"]
    assert (narrowed["group_count"], narrowed["groups_found"]) == (3, 1)


def test_as_long_as_one_task_is_not_through_nobody_says_of_when_it_is():
    assert told(shown(point("a")), shown(point("b"), round_ms=None))["checkpoints_ms"] is None


def test_that_somebody_holds_checkpoints_back_is_told():
    for by in OverrideKind:
        beside = {"MirrorCheckpointConnector": by}
        assert (
            told(shown(point("a")), holds=OperatorOverrides(other_connectors=beside))[
                "checkpoints_override"
            ]
            == by.value
        )
    assert (
        told(shown(point("a")), holds=OperatorOverrides(paused=True))["checkpoints_override"]
        is None
    )


def test_without_a_task_here_nothing_is_known():
    found = told()
    assert (found["local_tasks"], found["checkpoints_ms"], found["groups"]) == (0, None, [])


def test_only_so_many_groups_and_partitions_are_shown():
    many = shown(*(point(f"g{number:03}") for number in range(80)))
    found = told(many, many)
    assert (len(found["groups"]), found["groups_found"]) == (
        status_page_json.LISTED_GROUPS_MAX,
        160,
    )
    wide = told(shown(*(point("g", number=number) for number in range(70))))["groups"][0]
    assert (len(wide["partitions"]), wide["partition_count"]) == (
        status_page_json.GROUP_PARTITIONS_MAX,
        70,
    )
    assert [each["partition"] for each in wide["partitions"]] == list(range(50))
