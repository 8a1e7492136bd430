"""What was done, as people read it in the end."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.failover import failover_report

REPORT: dict[str, Any] = {
    "kind": "failback",
    "from": "west",
    "to": "east",
    "flow": "west->east",
    "begun_at_ms": 1_000,
    "ended_at_ms": 6_300,
    "took_ms": 5_300,
    "steps": [
        {
            "step": "stop-flow",
            "began_at_ms": 2_000,
            "took_ms": 400,
            "read_back": "MirrorSourceConnector stand as stopped, no task runs",
        }
    ],
    "failures": [{"step": "stop-consumers", "error": "the hook says no"}],
    "lag_records": 0,
    "lag_ms": 0,
    "newest_ms": 900,
    "reread_max": 4,
    "reread": "unknown, at most 4 records (1 group at its last checkpoint, 149 s old)",
    "snapshot_ms": 150_000,
    "unmoved_groups": [{"group": "pool", "type": "share", "topics": {}, "read_error": ""}],
    "moved": [
        {
            "group": "billing",
            "basis": origin,
            "partitions": [
                {
                    "topic": "orders",
                    "partition": number,
                    "mirror": "west.orders",
                    "resume_offset": 60,
                    "reread_max": 2,
                    "basis": origin,
                    "checkpointed_ms": None if origin == "committed" else 1_000,
                    "state": "moves",
                    "reason": "",
                }
            ],
        }
        for number, origin in enumerate(("committed", "checkpoint"))
    ],
    "findings": [
        {
            "severity": "note",
            "code": "no-longer-replicated",
            "group": "",
            "text": "old was mirrored once",
        },
        {"severity": "cost", "code": "rereads", "group": "billing", "text": "2 are read again"},
    ],
    "verified": [
        {
            "group": "billing",
            "topic": "west.orders",
            "partition": number,
            "written_offset": 60,
            "current_offset": stands,
            "is_below_written_offset": stands == 50,
        }
        for number, stands in enumerate((61, 50))
    ],
    "unmoved": ["mail"],
    "stranded_records": 3,
    "active": ["billing"],
}


def told(**changed: Any) -> list[str]:
    return list(failover_report.format_report(REPORT | changed, file="my.yaml"))


def test_what_was_done_is_told_in_the_end():
    said = told()
    assert said[1] == "failback west -> east, flow west->east"
    assert said[2] == "done in 5.3 s, 1970-01-01T00:00:01Z to 1970-01-01T00:00:06Z"
    assert said[3] == "RPO: 0 records, 0 s"
    assert said[4] == (
        "2 groups moved, re-read: unknown, at most 4 records (1 group at its last checkpoint, "
        "149 s old)"
    )
    rows = [each.split() for each in said]
    tail = ["61", "2", "moves"]
    basis, bound = ["checkpoint,", "149", "s", "old"], ["0", "to", "2"]
    assert ["billing", "orders", "0", "west.orders", "committed", "60", *tail] in rows
    assert ["billing", "orders", "1", "west.orders", *basis, "60", "50", *bound, "moves"] in rows
    costs = [
        "COST   2 are read again (rereads)",
        "NOTE   old was mirrored once (no-longer-replicated)",
    ]
    assert [each for each in said if each[:4] in {"COST", "NOTE"}] == costs
    assert any(each.startswith("group billing is at offset 50 in west.orders-1") for each in said)
    assert "group mail was not moved" in said
    assert "share group pool was not moved" in said


def test_each_step_is_told_with_how_it_was_read_back():
    said = told()
    assert any(
        each.split("  ") == ["stop-flow", "1970-01-01T00:00:02Z", "0.4 s", back]
        for back in ("MirrorSourceConnector stand as stopped, no task runs",)
        for each in said
    )
    assert "earlier attempt of stop-consumers failed: the hook says no" in said


def test_the_way_on_names_the_file():
    said = told()
    resume = "mm2 resume 'west->east' --config my.yaml"
    assert f"the flow west->east remains stopped; to resume it: {resume}" in said
    assert any("mm2 resume 'east->west' --config my.yaml" in each for each in said)
    assert said[-1] == "3 records were written to west after the final check and not replicated"
    forward = told(kind="failover", stranded_records=None)
    assert forward[-1].endswith(resume)


@pytest.mark.parametrize(
    ("active", "words"),
    [
        (["billing"], ["members on east: billing"]),
        ([], ["no members on east yet: billing"]),
        (None, ["whether the groups have members on east is unknown: the cluster did not respond"]),
    ],
    ids=str,
)
def test_who_goes_on_there_already_is_told(active, words):
    moved = REPORT["moved"][:1]
    assert [each for each in told(active=active, moved=moved) if "members on" in each] == words


def test_of_many_groups_the_first_are_named():
    moved = [
        {"group": f"g{number:02}", "basis": "committed", "partitions": []} for number in range(12)
    ]
    (line,) = [each for each in told(active=[], moved=moved) if "no members" in each]
    assert line.endswith("g08, g09 and 2 more")
