from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest

from mm2 import suggested_commands
from mm2.config import config_loader, pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.status import topic_explanation
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.support import statuses

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west, topics: 'orders.*, bills, __x', topics.exclude: '.*-old'%s}
"""
RESUME = suggested_commands.format_remedy("mm2 resume x")
STOPPED = f"it is damaged. The next attempt is in 30 s. {RESUME}"


FAR = dict.fromkeys(("copied_to", "lag_records", "lag_ms"))
RULE = "east->west: orders is replicated by topics includes orders.*"


def look(name, *partitions, more=""):
    settings = config_loader.parse_clusters_yaml(
        FILE % more, file="/c.yaml", folder=pathlib.Path("/"), environment={}
    )
    return topic_explanation.explain_topic(settings, [statuses.flow(*partitions)], name)


# Each: a partition's status, and what is said of it.
TABLE = [
    ({}, "passed through"),
    (
        {"reencode_reason": "compaction left gaps in the batch"},
        "re-encoded (compaction left gaps in the batch)",
    ),
    (
        {"transactional": True},
        f"passed through, in transactions ({topic_explanation.OLD_RECORDS_REASON})",
    ),
    (
        {"reencode_reason": "small", "transactional": True, "phase": "boundary"},
        f"re-encoded (small), in transactions ({topic_explanation.OLD_RECORDS_REASON})",
    ),
    (
        {"fenced": False},
        f"passed through, at least once ({topic_explanation.TRANSACTIONAL_ID_DENIED}). Remedy: "
        "kafka-acls.sh "
        "--bootstrap-server w:1 --add --allow-principal User:ANONYMOUS --operation Write "
        "--operation Describe --transactional-id 'mm2-east->west-' "
        "--resource-pattern-type prefixed && mm2 restart 'east->west' --config /c.yaml",
    ),
    ({"phase": "waiting", "reason": "a leader moved"}, "waiting: a leader moved"),
    (
        {"phase": "waiting", "reason": "WAITING_FOR_SLOT"},
        "waiting: its task is waiting for a Spark slot",
    ),
    ({"phase": "acquiring"}, "waiting"),
    ({"phase": "halted", "reason": STOPPED}, f"halted: {STOPPED}"),
    ({"phase": "fenced", "reason": "another"}, "halted: another"),
]


@pytest.mark.parametrize(("status", "said"), TABLE, ids=[said[:30] for _, said in TABLE])
def test_how_a_partition_is_copied(status, said):
    found = look("orders", statuses.partition(**status))
    assert found.explains_whether_topic_is_replicated
    assert list(found.format_lines()) == [
        f"east->west: orders -> east.orders, partition 0: {said}",
        RULE,
    ]


@pytest.mark.parametrize(
    ("delivery", "status", "said"),
    [
        ("transactional", {"transactional": True}, "in transactions (delivery is transactional)"),
        ("at-least-once", {"fenced": False}, "at least once (delivery is at-least-once)"),
    ],
)
def test_what_the_settings_ask_for_is_told_as_such(delivery, status, said):
    found = look("orders", statuses.partition(**status), more=f", delivery: {delivery}")
    line, _ = found.format_lines()
    assert line.endswith(f"passed through, {said}")


def test_partitions_of_which_the_same_is_said_share_a_line():
    numbers = [5, 0, 2, 1, 7]
    stopped = {"phase": "halted", "reason": "why"}
    found = look(
        "orders",
        *(statuses.partition(number=each) for each in numbers),
        statuses.partition(number=3, **stopped),
        statuses.partition("bills"),
    )
    assert list(found.format_lines()) == [
        "east->west: orders -> east.orders, partitions 0-2, 5, 7: passed through",
        "east->west: orders -> east.orders, partition 3: halted: why",
        RULE,
    ]


def test_a_mirrors_name_leads_to_its_topic():
    found = look("east.orders", statuses.partition())
    assert found.flows[0].topic == "orders"
    assert found.explains_whether_topic_is_replicated


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders-old", "topics.exclude includes .*-old"),
        ("users", "not matched by topics: orders.*, bills, __x"),
        ("__x", "internal topics of Kafka and MirrorMaker are never mirrored"),
    ],
)
def test_what_is_not_mirrored_is_told_why(name, reason):
    found = look(name, statuses.partition("bills"))
    assert found.explains_whether_topic_is_replicated
    assert list(found.format_lines()) == [f"east->west: {name} is not replicated: {reason}"]


def test_a_topic_that_should_be_mirrored_and_is_not_there_is_unknown():
    found = look("orders-new", statuses.partition("bills"))
    assert not found.explains_whether_topic_is_replicated
    (line,) = found.format_lines()
    assert line == (
        "east->west: the source has no topic orders-new; if the topic is created, it will be "
        "replicated to east.orders-new"
    )


def test_programs_are_told_the_same():
    stopped = statuses.partition(number=1, phase="halted", reason=STOPPED, cause="recreated")
    found = look("orders", statuses.partition(reencode_reason="gaps", transactional=True), stopped)
    assert json.loads(json.dumps(found.as_json())) == {
        "topic": "orders",
        "flows": [
            {
                "flow": "east->west",
                "topic": "orders",
                "mirror": "east.orders",
                "why_not": "",
                "rule": "topics includes orders.*",
                "seen_by": [],
                "trouble": "",
                "exists": True,
                "unhealthy": "",
                "state": "",
                "reason": "",
                "lines": list(found.format_lines()),
                "partitions": [
                    {
                        "partition": 0,
                        "state": "copying",
                        "reason": "",
                        "cause": "",
                        "path": [
                            {"property": "re-encoded", "reason": "gaps"},
                            {
                                "property": "in transactions",
                                "reason": topic_explanation.OLD_RECORDS_REASON,
                            },
                        ],
                        "remedy": "",
                        **FAR,
                    },
                    {
                        "partition": 1,
                        "state": "halted",
                        "reason": STOPPED,
                        "cause": "recreated",
                        "path": [],
                        "remedy": "mm2 resume x",
                        **FAR,
                    },
                ],
            }
        ],
    }


def held(name, holds, *partitions):
    settings = config_loader.parse_clusters_yaml(
        FILE % "", file="/c.yaml", folder=pathlib.Path("/"), environment={}
    )
    return topic_explanation.explain_topic(
        settings, [statuses.flow(*partitions, holds=holds)], name
    )


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (
            OperatorOverrides(paused=True),
            "paused: an operator paused the flow. Remedy: mm2 resume 'east->west' --config /c.yaml",
        ),
        (
            OperatorOverrides(paused_topics=frozenset({"orders"})),
            "paused: an operator paused the topic. Remedy: mm2 resume 'east->west' --topic "
            "orders --config /c.yaml",
        ),
        (OperatorOverrides(paused_topics=frozenset({"bills"})), "passed through"),
        (
            pause_and_throttle_overrides.parse_overrides(
                {"throttle": "5MB", "live.throttle.topic.orders": "500kB"}, is_paused=False
            ),
            "passed through, throttled to 5.0 MB/s (the flow), throttled to 500.0 kB/s (the topic)",
        ),
    ],
)
def test_what_an_operator_holds_back_is_told_with_the_way_back(holds, said):
    found = held("orders", holds, statuses.partition())
    assert next(found.format_lines()) == f"east->west: orders -> east.orders, partition 0: {said}"
    (part,) = found.as_json()["flows"][0]["partitions"]
    assert part["state"] == said.partition(":")[0] if "Remedy" in said else "copying"


def test_what_stands_still_is_told_as_such_though_it_is_paused():
    stopped = statuses.partition(phase="halted", reason=STOPPED)
    line, _ = held("orders", OperatorOverrides(paused=True), stopped).format_lines()
    assert "halted: it is damaged" in line


def report(*partitions, state=ReportedFlowState.RUNNING, reason="", nodes=()):
    return FlowReport(
        flow="east->west",
        seen_by=("x",),
        at_ms=9_000,
        state=state,
        reason=reason,
        nodes=nodes,
        partitions=partitions,
    )


def far(number=0, **more):
    given = {"copied_to": 4, "start": 0, "end": 9, "waiting_since_ms": 7_000}
    return PartitionReport(topic="orders", partition=number, mirror="east.orders", **given | more)


def looked(name, *reports, statuses=()):
    settings = config_loader.parse_clusters_yaml(
        FILE % "", file="/c.yaml", folder=pathlib.Path("/"), environment={}
    )
    return topic_explanation.explain_topic(settings, statuses, name, reports=reports)


def test_how_far_it_is_stands_behind_its_partitions():
    copying = [statuses.flow(statuses.partition(), statuses.partition(number=1))]
    found = looked("orders", report(far(), far(1, copied_to=9)), statuses=copying)
    assert list(found.format_lines())[-1] == f"{RULE}; lag: 5 records, 2.0 s"
    (flow,) = found.as_json()["flows"]
    assert (flow["lag_records"], flow["lag_ms"]) == (5, 2_000)
    assert [each["copied_to"] for each in flow["partitions"]] == [4, 9]


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (
            report(far(), nodes=("a:1",)),
            "unseen: only the process that replicates the partition knows the details (a:1)",
        ),
        (report(far(reason="its mirror was deleted")), "unseen: its mirror was deleted"),
        (
            report(far(), state=ReportedFlowState.NOT_RUNNING, reason="nobody"),
            "unseen: no problem is visible in its logs; the flow is NOT_RUNNING: nobody",
        ),
        (report(far(state="paused")), "paused"),
    ],
)
def test_of_a_flow_that_nobody_runs_here_its_logs_tell(flow, said):
    found = looked("east.orders", flow)
    assert found.explains_whether_topic_is_replicated
    assert next(found.format_lines()) == f"east->west: orders -> east.orders, partition 0: {said}"


def test_of_an_unreachable_source_it_is_not_said_that_the_topic_is_missing():
    lost = UnreachableCluster(side=ClusterSide.SOURCE, cluster="east", reason="refused")
    found = looked("orders", dataclasses.replace(report(), unreachable=(lost,)))
    assert (found.explains_whether_topic_is_replicated, found.has_errors) == (False, True)
    assert list(found.format_lines()) == [
        "east->west: the status of orders is unknown: source east unreachable: refused"
    ]


def test_a_target_that_does_not_answer_is_told():
    found = looked("orders", report(state=ReportedFlowState.UNKNOWN, reason="no route"))
    assert (found.explains_whether_topic_is_replicated, found.has_errors) == (False, True)
    assert list(found.format_lines()) == ["east->west: the status of orders is unknown: no route"]


@pytest.mark.parametrize(
    ("name", "may"), [("orders", True), ("east.orders", True), ("users", False), ("x.bills", False)]
)
def test_which_flows_may_have_something_of_a_topic(name, may):
    settings = config_loader.parse_clusters_yaml(
        FILE % "", file="/c.yaml", folder=pathlib.Path("/"), environment={}
    )
    assert topic_explanation.may_mirror_topic(settings.flows[0], name) is may
