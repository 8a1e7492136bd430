"""What would fail late is said before anything is stopped."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.failover import readiness
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.failover.readiness import FailoverReadiness, UnfinishedFailover
from mm2.suggested_commands import ClusterCommands

WANTED = FailoverRequest(origin="east", destination="west", kind=FailoverKind.PLANNED)
Weight = PlanSeverity
ANOTHER = FailoverRequest(origin="west", destination="east", kind=FailoverKind.BACK)


def found(**given: Any) -> list[PlanFinding]:
    usual: dict[str, Any] = {
        "flow": "east->west",
        "config_topic": "configs",
        "connectors": ("MirrorSourceConnector",),
        "may_stop": True,
        "clusters": ClusterIds(origin="idE", destination="idW"),
    }
    return list(readiness.check_readiness(WANTED, FailoverReadiness(**usual | given)))


def test_who_is_ready_hears_nothing():
    assert found() == []
    assert found(may_stop=None, clusters=ClusterIds()) == []


LOGIN = ClusterCommands(bootstrap="w:9092", principal="User:mm2")


@pytest.mark.parametrize(
    ("given", "code", "weight", "words"),
    [
        ({"connectors": ()}, "no-connectors", Weight.FORBIDS, "--accept no-connectors"),
        (
            {"may_stop": False, "worker": LOGIN},
            "stop-denied",
            Weight.FORBIDS,
            "grant it: kafka-acls.sh --bootstrap-server w:9092 --add --allow-principal User:mm2 "
            "--operation Write --topic configs",
        ),
        (
            {"denied_ids": ["mm2-east->west-b-0", "mm2-east->west-a-0"], "producer": LOGIN},
            "unfenced",
            Weight.COSTS,
            "mm2-east->west-a-0 and 1 more",
        ),
        ({"journal_error": "the folder /x does not exist"}, "no-journal", Weight.FORBIDS, "/x"),
        ({"export_error": "/x already exists"}, "no-export", Weight.FORBIDS, "/x"),
        (
            {"hook_errors": {"stop-producers": "the command halt-all does not exist"}},
            "no-hook",
            Weight.FORBIDS,
            "the hook stop-producers cannot be run: the command halt-all does not exist",
        ),
        (
            {
                "unfinished_failovers": [
                    UnfinishedFailover(path="a.jsonl", request=ANOTHER, busy=True)
                ]
            },
            "other-move",
            Weight.FORBIDS,
            "a.jsonl: another process",
        ),
        (
            {
                "unfinished_failovers": [
                    UnfinishedFailover(path="a.jsonl", request=ANOTHER, busy=False)
                ]
            },
            "unfinished-move",
            Weight.COSTS,
            "(mm2 failback --from west --to east --resume --journal a.jsonl)",
        ),
        (
            {"clusters": ClusterIds(origin="id", destination="id")},
            "one-cluster",
            Weight.FORBIDS,
            "east and west are the same cluster, id",
        ),
        ({"unchecked": ["node 2 is away"]}, "unchecked", Weight.NOTE, "node 2 is away"),
    ],
)
def test_what_is_in_the_way_is_told_with_what_to_do(given, code, weight, words):
    (told,) = found(**given)
    assert (told.code, told.severity, told.group) == (code, weight, "")
    assert words in told.text


def test_a_group_that_may_not_be_written_is_told_as_its_own():
    told = found(denied_groups=["billing", "mail"], admin=LOGIN)
    assert [(each.code, each.group) for each in told] == [
        ("group-write-denied", "billing"),
        ("group-write-denied", "mail"),
    ]
    assert "--operation Read --group billing" in told[0].text
