from __future__ import annotations

import dataclasses
import pathlib
from types import MappingProxyType
from typing import Any

import pytest

from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config, status_log, status_records
from mm2.app import flow_plan, flow_statuses, overview
from mm2.app.looks import mirrors, workers
from mm2.app.reports import flow_report, flow_verdict, from_clusters
from mm2.app.settings import load
from mm2.core import reachability, time_to_loss
from mm2.core.failover import seen
from mm2.core.offsets import log_ends, offset_map

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
"""
SETTINGS = load.parse(FILE, file="c", folder=pathlib.Path("/"), environment={})
(FLOW,) = SETTINGS.flows
PLAN = next(
    each
    for each in flow_plan.plans(SETTINGS, flow_plan.EVERYTHING, environment={})
    if each.name == FLOW.name
)
NAME = flow_plan.SOURCE
State, Target = flow_report.State, cluster_config.TargetState
Status = status_records.State
ENDS = log_ends.Ends(start=2, end=12)


def group(
    status=Status.RUNNING, *, target=None, hosts=("h",), task=Status.RUNNING, trace=None, **config
):
    entry = cluster_config.ConnectorEntry(
        config={"name": NAME, **config}, target_state=target, task_count=1, task_configs={0: {}}
    )

    def told(state):
        return status_records.Status(state=state, worker_id="a:1", generation=1, trace=trace)

    return workers.Workers(
        config=cluster_config.ClusterConfig(entries={NAME: entry}),
        statuses=status_log.Statuses(
            by_connector=MappingProxyType({} if status is None else {NAME: told(status)}),
            by_task=MappingProxyType({NAME: {0: told(task)}}),
        ),
        hosts=hosts,
        changed_ms={workers.status_key(NAME): 7, f"target-state-{NAME}": 8},
    )


NEVER = workers.Workers(config=cluster_config.EMPTY, statuses=status_log.Statuses(), hosts=())


def mirrored(**more):
    given: dict[str, Any] = {
        "partition": ids.TopicPartition("orders", 0),
        "mirror": ids.TopicPartition("east.orders", 0),
        "copied_to": 5,
        "here": ENDS,
        "there": ENDS,
        "waiting_since_ms": 1_000,
    }
    return seen.Mirrored(**given | more)


def report(of=None, *found, silent="", losses=0, retentions=MappingProxyType({})):
    looked = mirrors.Mirrors(
        known=offset_map.OffsetMap(), mirrored=found, silent=silent, losses=losses
    )
    return from_clusters.make(
        FLOW, PLAN, of or group(), found=looked, retentions=retentions, at_ms=5_000
    )


def verdict(found):
    return flow_verdict.judge(found, within_s=60.0)


@pytest.mark.parametrize(
    ("of", "state", "since_ms", "words"),
    [
        (NEVER, State.NOT_RUNNING, None, "it was never started"),
        (group(hosts=()), State.NOT_RUNNING, None, "no process, on whichever machine"),
        (
            group(target=Target.STOPPED, hosts=()),
            State.STOPPED,
            8,
            flow_statuses.stopped_reason(PLAN.resume, 8),
        ),
        (group(target=Target.PAUSED), State.PAUSED, 8, f"an operator; resume with: {PLAN.resume}"),
        (group(), State.RUNNING, 7, ""),
        (group(hosts=None), State.RUNNING, 7, ""),
        (group(Status.UNASSIGNED), State.PLANNING, 7, "its connector is UNASSIGNED"),
        (group(None), State.PLANNING, 7, "of no state yet"),
        (group(Status.FAILED, trace="x.Error: no right"), State.FAILED, 7, "no right"),
        (group(task=Status.FAILED, trace="Error: bad"), State.RUNNING, 7, "task 0: bad"),
    ],
)
def test_the_state_of_a_flow(of, state, since_ms, words):
    found = report(of, mirrored())
    assert (found.state, found.since_ms) == (state, since_ms)
    assert words in found.reason


def test_what_is_copied_and_what_is_not():
    kept = {"orders": time_to_loss.Retention(keeps_ms=10_000)}
    found = report(None, mirrored(), retentions=kept)
    (part,) = found.partitions
    assert (part.lag_records, part.lag_ms(found.at_ms)) == (7, 4_000)
    assert part.outlook.left_ms == 6_000
    assert (part.state, part.reason) == (flow_report.UNSEEN, "")
    assert verdict(found).is_healthy
    assert found.tasks == (flow_report.Task(number=0, state="RUNNING", node="a:1"),)
    assert found.nodes == ("a:1",)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stopped": "the topic was made anew"}, "made anew"),
        ({"copied_to": 20}, "was copied up to offset 20, and the source's log ends at 12"),
        ({"there": None}, "its mirror east.orders-0 was deleted"),
        ({"copied_to": 1}, "the source deleted 1 offset before they were copied"),
    ],
)
def test_what_is_wrong_with_its_logs_is_seen_from_outside(fields, words):
    found = report(None, mirrored(**fields))
    assert words in found.partitions[0].reason
    assert words in found.warnings[0]
    assert verdict(found).health is flow_verdict.Health.UNHEALTHY


def test_a_partition_of_which_nothing_was_copied_yet_is_fine():
    found = report(None, mirrored(copied_to=None, there=None))
    assert (found.partitions[0].reason, found.partitions[0].lag_records) == ("", 10)
    assert verdict(found).is_healthy


def test_a_source_that_does_not_answer_is_told_and_lags_are_unknown():
    found = report(None, mirrored(here=None, waiting_since_ms=None), silent="no route")
    assert found.partitions[0].lag_records is None
    (lost,) = found.unreachable
    assert (lost.side, lost.cluster, lost.since_ms) == (reachability.Side.SOURCE, "east", None)
    assert found.warnings == ()
    assert verdict(found).reasons[0] == "source east unreachable: no route"


def test_where_nobody_is_in_the_group_what_its_tasks_said_counts_for_nothing():
    found = report(group(hosts=()), mirrored())
    assert found.tasks == (flow_report.Task(number=0, state=""),)
    assert found.nodes == ()


def test_what_failed_last_is_told_with_its_time():
    found = report(group(Status.FAILED, hosts=(), trace="x.Error: no right"), mirrored())
    assert flow_report.Trouble(text=f"{NAME}: no right", at_ms=7) in found.troubles


def test_what_an_operator_holds_back():
    found = report(group(target=Target.PAUSED), mirrored())
    assert found.partitions[0].state == overview.PAUSED


def test_warnings():
    assert report().warnings == (overview.NO_TOPIC,)
    paused = cluster_config.ConnectorEntry(config={}, target_state=Target.PAUSED)
    held = group()
    entries = {**held.config.entries, flow_plan.CHECKPOINT: paused}
    held = dataclasses.replace(held, config=cluster_config.ClusterConfig(entries=entries))
    assert "MirrorCheckpointConnector is paused" in report(held, mirrored()).warnings[0]
    assert "may not be asked" in report(group(hosts=None), mirrored()).warnings[0]
    assert "2 receipts" in report(None, mirrored(), losses=2).warnings[0]
    many = [
        mirrored(partition=ids.TopicPartition("orders", number), stopped="made anew")
        for number in range(5)
    ]
    assert report(None, *many).warnings[-1] == "… and 2 more partitions; mm2 lag lists them"
