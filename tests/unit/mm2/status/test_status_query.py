from __future__ import annotations

import pytest

from connect_runtime.system.supervised_threads import ThreadGroup
from mm2 import exit_codes
from mm2.status import status_document, status_query
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidenceKind
from mm2.status.process_socket import ProcessResponse, ProcessSocket
from mm2.status.status_document import (
    FlowProblem,
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    TaskReport,
)
from mm2.status.status_query import StatusQueryResult
from mm2.topics.flow_config import Flow
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

FLOW = Flow(source="east", target="west")
Side, State = ClusterSide, ReportedFlowState


def part(number, **more):
    return PartitionReport(topic="t", partition=number, mirror="east.t", **more)


def report(seen_by, *partitions, state=State.RUNNING, **more):
    return FlowReport(
        flow="east->west",
        seen_by=(seen_by,),
        at_ms=5,
        state=state,
        partitions=partitions,
        **more,
    )


def lost(side, *, since_ms=None, broker=""):
    cluster = FLOW.source if side is Side.SOURCE else FLOW.target
    return UnreachableCluster(
        side=side, cluster=cluster, reason="refused", since_ms=since_ms, broker=broker
    )


def crossed(at_ms):
    return ReplicationActivity(
        begun_ms=1, last=LastReplication(at_ms=at_ms, evidence=ReplicationEvidenceKind.BATCH)
    )


CLUSTERS = report(
    status_document.REPORTED_BY_CLUSTERS,
    part(0),
    part(1),
    state=State.PLANNING,
    tasks=(TaskReport(number=0, state="RUNNING"), TaskReport(number=1, state="FAILED")),
    warnings=("w",),
)


@pytest.fixture
def asked(tmp_path):
    """Asks, while a process that runs the file answers what `answers` holds."""
    file, where = tmp_path / "c.yaml", tmp_path / "run"
    where.mkdir(mode=0o700)

    def ask(answer=None, **more):
        given = {
            "clusters": lambda flow: CLUSTERS,
            "where": where,
            "timeout_s": 5.0,
            "within_s": 60.0,
            **more,
        }
        if answer is None:
            return status_query.collect_status(file, [FLOW], **given)
        made = ProcessSocket(file, folder=where)
        owned = ThreadGroup(on_unexpected_end=print)
        owned.start("answering", lambda stop: serve(made, stop, answer))
        try:
            return status_query.collect_status(file, [FLOW], **given)
        finally:
            owned.stop_all(5.0)
            made.close()

    return ask


def serve(made, stop, answer):
    while not stop.is_set():
        made.serve_request(lambda question: answer, 0.05)


def answer(*reports, version=status_document.STATUS_JSON_VERSION):
    told = [status_document.report_to_json(each) for each in reports]
    return ProcessResponse(
        code=exit_codes.DONE, lines=(), detail={"version": version, "flows": told}
    )


def test_a_process_that_knows_all_of_a_flow_is_enough(asked):
    mine = report("process 1", part(0), part(1))
    found = asked(answer(mine), clusters=None)
    assert found == StatusQueryResult(flows=(mine,), within_s=60.0)


def test_while_the_target_is_unreachable_nobody_else_is_asked(asked):
    mine = report(
        "process 1", part(0), partitions_on_other_nodes=1, unreachable=(lost(Side.TARGET),)
    )
    assert asked(answer(mine), clusters=None).flows == (mine,)


@pytest.mark.parametrize("found", [lost(Side.SOURCE), lost(Side.TARGET, broker="2 (b:9092)")])
def test_otherwise_the_clusters_know_more(asked, found):
    mine = report("process 1", part(0), partitions_on_other_nodes=1, unreachable=(found,))
    (merged,) = asked(answer(mine)).flows
    assert merged.seen_by == ("process 1", "clusters")
    assert merged.unreachable == (found,)


@pytest.mark.parametrize("state", [State.STOPPED, State.PLANNING])
def test_of_a_flow_that_hands_out_no_partitions_the_clusters_know_the_lag(asked, state):
    mine = report("process 1", state=state, reason="why")
    (found,) = asked(answer(mine)).flows
    assert (found.state, found.reason) == (state, "why")
    assert found.partitions == CLUSTERS.partitions


def test_without_a_process_the_clusters_tell(asked):
    found = asked()
    assert found.flows == (CLUSTERS,)
    assert "no process runs" in found.notes[0]


def test_what_runs_elsewhere_the_clusters_tell(asked):
    mine = report("process 1", part(0, state="halted"), partitions_on_other_nodes=1)
    (found,) = asked(answer(mine)).flows
    assert found.seen_by == ("process 1", "clusters")
    assert (found.state, found.partitions_on_other_nodes) == (State.RUNNING, 0)
    assert [each.state for each in found.partitions] == ["halted", ""]


def test_partitions_of_other_nodes_that_the_clusters_do_not_tell_stay_unknown(asked):
    mine = report("process 1", part(0), partitions_on_other_nodes=3)
    refused = report(
        status_document.REPORTED_BY_CLUSTERS, state=State.UNKNOWN, reason="not authorized"
    )
    (found,) = asked(answer(mine), clusters=lambda flow: refused).flows
    assert (found.state, found.partitions_on_other_nodes, found.other_nodes_error) == (
        State.RUNNING,
        3,
        "not authorized",
    )


def test_the_clusters_alone_if_they_are_asked_for(asked):
    found = asked(answer(report("process 1")), processes=False)
    assert found == StatusQueryResult(flows=(CLUSTERS,), within_s=60.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer(report("process 1"), version=0), "another release of mm2: version 0"),
        (ProcessResponse(code=exit_codes.DONE, lines=(), detail={}), "another release of mm2"),
        (
            ProcessResponse(code=exit_codes.FAILED, lines=("no usable question",)),
            "no usable question",
        ),
    ],
)
def test_a_process_that_cannot_tell_is_noted(asked, given, words):
    found = asked(given)
    assert found.flows == (CLUSTERS,)
    assert words in found.notes[0]


def test_two_processes_may_know_all_of_it_together():
    first = report("process 1", part(0), partitions_on_other_nodes=1)
    second = report("process 2", part(1), partitions_on_other_nodes=1)
    assert not status_query.are_reports_complete([first])
    assert status_query.are_reports_complete([first, second])
    assert [each.partition for each in status_query.merge_reports([first, second]).partitions] == [
        0,
        1,
    ]


def test_what_is_merged_says_each_thing_once_the_newest_trouble_first():
    first = report(
        "process 1",
        state=State.PLANNING,
        nodes=("b",),
        warnings=("w", "x"),
        tasks=(TaskReport(number=0, state="RUNNING", restarts=1),),
        problems=(FlowProblem(text="old", at_ms=1),),
    )
    second = report("process 2", nodes=("a",), problems=(FlowProblem(text="new", at_ms=2),))
    found = status_query.merge_reports([first, second, CLUSTERS])
    assert found.state is State.RUNNING
    assert found.nodes == ("a", "b")
    assert found.warnings == ("w", "x")
    assert [each.text for each in found.problems] == ["new", "old"]
    assert [(each.number, each.restarts) for each in found.tasks] == [(0, 1), (1, None)]


def test_what_several_miss_is_said_once_as_whoever_misses_it_longest_says_it():
    first = report("process 1", unreachable=(lost(Side.SOURCE, since_ms=9), lost(Side.TARGET)))
    second = report("process 2", unreachable=(lost(Side.SOURCE, since_ms=4),))
    found = status_query.merge_reports([first, second])
    assert found.unreachable == (lost(Side.SOURCE, since_ms=4), lost(Side.TARGET))


def test_the_last_batch_is_that_of_any_process():
    reports = [report("process 1", activity=crossed(5)), report("process 2", activity=crossed(8))]
    assert status_query.merge_reports([*reports, CLUSTERS]).activity == crossed(8)
    assert status_query.merge_reports([CLUSTERS, report("process 1")]).activity is None
