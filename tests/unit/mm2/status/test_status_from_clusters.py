from __future__ import annotations

import dataclasses
import pathlib
from types import MappingProxyType
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    ConnectorConfigEntry,
    TargetState,
)
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusSnapshot
from mm2.clusters import connect_group_state
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.replication_progress import MirrorState
from mm2.config import config_loader, flow_connector_configs
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.status import (
    flow_status,
    replication_health,
    status_document,
    status_from_clusters,
    topic_rows,
)
from mm2.status.replication_health import FlowHealth
from mm2.status.status_document import FlowProblem, ReportedFlowState, TaskReport
from mm2.status.time_to_data_loss import TopicRetention
from mm2.unreachable_cluster import ClusterSide

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
"""
SETTINGS = config_loader.parse_clusters_yaml(
    FILE, file="c", folder=pathlib.Path("/"), environment={}
)
(FLOW,) = SETTINGS.flows
PLAN = next(
    each
    for each in flow_connector_configs.plan_flows(
        SETTINGS, flow_connector_configs.ALL_FLOWS, environment={}
    )
    if each.name == FLOW.name
)
NAME = flow_connector_configs.SOURCE_CONNECTOR
State, Target = ReportedFlowState, TargetState
Status = RunState
ENDS = LogBounds(start=2, end=12)


def group(
    status=Status.RUNNING, *, target=None, hosts=("h",), task=Status.RUNNING, trace=None, **config
):
    entry = ConnectorConfigEntry(
        config={"name": NAME, **config}, target_state=target, task_count=1, task_configs={0: {}}
    )

    def told(state):
        return RunStatus(state=state, worker_id="a:1", generation=1, trace=trace)

    return ConnectGroupSnapshot(
        config=ClusterConfigState(entries={NAME: entry}),
        statuses=StatusSnapshot(
            by_connector=MappingProxyType({} if status is None else {NAME: told(status)}),
            by_task=MappingProxyType({NAME: {0: told(task)}}),
        ),
        hosts=hosts,
        changed_ms={connect_group_state.build_status_key(NAME): 7, f"target-state-{NAME}": 8},
    )


NEVER = ConnectGroupSnapshot(
    config=cluster_config_state.EMPTY_CONFIG_STATE, statuses=StatusSnapshot(), hosts=()
)


def mirrored(**more):
    given: dict[str, Any] = {
        "partition": TopicPartition("orders", 0),
        "mirror": TopicPartition("east.orders", 0),
        "copied_to": 5,
        "source_bounds": ENDS,
        "mirror_bounds": ENDS,
        "waiting_since_ms": 1_000,
    }
    return MirroredPartition(**given | more)


def report(of=None, *found, silent="", losses=0, retentions=MappingProxyType({})):
    looked = MirrorState(
        offset_map=OffsetMap(), mirrored=found, source_error=silent, loss_count=losses
    )
    return status_from_clusters.make_report(
        FLOW, PLAN, of or group(), found=looked, retentions=retentions, at_ms=5_000
    )


def verdict(found):
    return replication_health.evaluate_flow(found, within_s=60.0)


@pytest.mark.parametrize(
    ("of", "state", "since_ms", "words"),
    [
        (NEVER, State.NOT_RUNNING, None, "it was never started"),
        (group(hosts=()), State.NOT_RUNNING, None, "no mm2 process runs it anywhere"),
        (
            group(target=Target.STOPPED, hosts=()),
            State.STOPPED,
            8,
            flow_status.describe_stopped_flow(PLAN.resume_command, 8),
        ),
        (
            group(target=Target.PAUSED),
            State.PAUSED,
            8,
            f"an operator; resume with: {PLAN.resume_command}",
        ),
        (group(), State.RUNNING, 7, ""),
        (group(hosts=None), State.RUNNING, 7, ""),
        (group(Status.UNASSIGNED), State.PLANNING, 7, "its connector is UNASSIGNED"),
        (group(None), State.PLANNING, 7, "of unknown state"),
        (group(Status.FAILED, trace="x.Error: no right"), State.FAILED, 7, "no right"),
        (group(task=Status.FAILED, trace="Error: bad"), State.RUNNING, 7, "task 0: bad"),
    ],
)
def test_the_state_of_a_flow(of, state, since_ms, words):
    found = report(of, mirrored())
    assert (found.state, found.since_ms) == (state, since_ms)
    assert words in found.reason


def test_what_is_copied_and_what_is_not():
    kept = {"orders": TopicRetention(retention_ms=10_000)}
    found = report(None, mirrored(), retentions=kept)
    (part,) = found.partitions
    assert (part.lag_records, part.compute_lag_ms(found.at_ms)) == (7, 4_000)
    assert part.retention_risk.left_ms == 6_000
    assert (part.state, part.reason) == (status_document.UNREPORTED_STATE, "")
    assert verdict(found).is_healthy
    assert found.tasks == (TaskReport(number=0, state="RUNNING", node="a:1"),)
    assert found.nodes == ("a:1",)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stop_reason": "the topic was recreated"}, "recreated"),
        ({"copied_to": 20}, "was copied up to offset 20, but the source log ends at 12"),
        ({"mirror_bounds": None}, "its mirror east.orders-0 was deleted"),
        ({"copied_to": 1}, "the source deleted 1 offset before they were replicated"),
    ],
)
def test_what_is_wrong_with_its_logs_is_seen_from_outside(fields, words):
    found = report(None, mirrored(**fields))
    assert words in found.partitions[0].reason
    assert words in found.warnings[0]
    assert verdict(found).health is FlowHealth.UNHEALTHY


def test_a_partition_of_which_nothing_was_copied_yet_is_fine():
    found = report(None, mirrored(copied_to=None, mirror_bounds=None))
    assert (found.partitions[0].reason, found.partitions[0].lag_records) == ("", 10)
    assert verdict(found).is_healthy


def test_a_source_that_does_not_answer_is_told_and_lags_are_unknown():
    found = report(None, mirrored(source_bounds=None, waiting_since_ms=None), silent="no route")
    assert found.partitions[0].lag_records is None
    (lost,) = found.unreachable
    assert (lost.side, lost.cluster, lost.since_ms) == (ClusterSide.SOURCE, "east", None)
    assert found.warnings == ()
    assert verdict(found).reasons[0] == "source east unreachable: no route"


def test_where_nobody_is_in_the_group_what_its_tasks_said_counts_for_nothing():
    found = report(group(hosts=()), mirrored())
    assert found.tasks == (TaskReport(number=0, state=""),)
    assert found.nodes == ()


def test_what_failed_last_is_told_with_its_time():
    found = report(group(Status.FAILED, hosts=(), trace="x.Error: no right"), mirrored())
    assert FlowProblem(text=f"{NAME}: no right", at_ms=7) in found.problems


def test_what_an_operator_holds_back():
    found = report(group(target=Target.PAUSED), mirrored())
    assert found.partitions[0].state == topic_rows.PAUSED_STATE


def test_warnings():
    assert report().warnings == (topic_rows.NO_MATCHING_TOPIC,)
    paused = ConnectorConfigEntry(config={}, target_state=Target.PAUSED)
    held = group()
    entries = {
        **held.config.entries,
        flow_connector_configs.CHECKPOINT_CONNECTOR: paused,
    }
    held = dataclasses.replace(held, config=ClusterConfigState(entries=entries))
    assert "MirrorCheckpointConnector is paused" in report(held, mirrored()).warnings[0]
    assert (
        "it is unknown whether its Connect group has members: grant"
        in report(group(hosts=None), mirrored()).warnings[0]
    )
    assert "2 incidents" in report(None, mirrored(), losses=2).warnings[0]
    many = [
        mirrored(partition=TopicPartition("orders", number), stop_reason="recreated")
        for number in range(5)
    ]
    assert report(None, *many).warnings[-1] == "… and 2 more partitions; mm2 lag lists them"
