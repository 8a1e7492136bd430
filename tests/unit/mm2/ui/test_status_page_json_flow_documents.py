from __future__ import annotations

import json

import pytest

from mm2 import suggested_commands
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.status.status_document import FlowProblem, TaskReport
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.status.topic_rows import CopyRates
from mm2.topics.flow_config import FlowThrottles
from mm2.ui import status_page_json
from mm2.ui.lag_timeline import TimelinePoint
from tests.support import seen_flows, statuses

NOW_MS = seen_flows.NOW_MS
STOP = "orders-{}: the topic is gone. Remedy: mm2 run c.yaml"
SHORT = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=60_000, cause=DeletionCause.TIME, share=0.1)
SUMMARY: dict[str, object] = {
    "flow": "east->west",
    "source": "east",
    "target": "west",
    "state": "RUNNING",
    "badge": "good",
    "state_text": "running",
    "health": "healthy",
    "reasons": [],
    "reason": "",
    "since_ms": None,
    "nodes": [],
    "partitions_on_other_nodes": 0,
    "topic_count": 1,
    "partition_count": 1,
    "partition_states": {"copying": 1},
    "halted_count": 0,
    "task_states": {"RUNNING": 1},
    "warning_count": 0,
    "slots_missing": 0,
    "copied_records": 0,
    "copied_bytes": 0,
    "data_loss": "",
    "lag_records": 0,
    "lag_records_known": True,
    "lag_ms": 0,
    "lag_ms_known": True,
    "records_s": None,
    "bytes_s": None,
}


def overview(*shown):
    found = status_page_json.make_overview_document(seen_flows.seen(*shown))
    assert json.loads(json.dumps(found)) == found
    return found


def detail(one, past=(), **more):
    made = status_page_json.make_flow_detail(seen_flows.seen(one), one, past)
    found = status_page_json.make_flow_document(made, **more)
    assert json.loads(json.dumps(found)) == found
    return found


def test_the_overview_has_all_flows_in_short_and_says_whose_it_is_and_of_when():
    assert overview(seen_flows.flow(seen_flows.part())) == {
        "version": 1,
        "at_ms": NOW_MS,
        "node": {
            "release": "0.1.0",
            "pid": 7,
            "host": "a",
            "file": "clusters.yaml",
            "engine": "spark",
            "engine_ready": True,
            "started_ms": NOW_MS - 1000,
        },
        "clusters": [{"alias": "east"}, {"alias": "west"}],
        "flows": [SUMMARY],
        "halts": [],
        "halts_hidden": 0,
    }


def test_every_cluster_is_there_once_in_the_files_order():
    shown = [seen_flows.flow(flow=name) for name in ("b->a", "a->b", "b->c")]
    assert [each["alias"] for each in overview(*shown)["clusters"]] == ["b", "a", "c"]


def test_what_nobody_knows_is_null_and_never_nothing():
    (of_none,) = overview(seen_flows.flow())["flows"]
    assert (of_none["lag_records"], of_none["lag_ms"], of_none["records_s"]) == (None, None, None)
    assert not of_none["lag_records_known"]
    (unknown,) = overview(seen_flows.flow(seen_flows.part(end=None)))["flows"]
    assert (unknown["lag_records"], unknown["badge"]) == (None, "unknown")
    in_part = seen_flows.flow(seen_flows.part(end=12), seen_flows.part(number=1, end=None))
    (lower,) = overview(in_part)["flows"]
    assert (lower["lag_records"], lower["lag_records_known"]) == (3, False)


def test_rates_are_those_of_the_flows_topics():
    before = [statuses.flow(statuses.partition(records=0))]
    after = statuses.flow(statuses.partition(records=40, bytes=900))
    known = CopyRates()
    known.observe(before, 0.0)
    known.observe([after], 2.0)
    one = seen_flows.flow(seen_flows.part(), status=after, rates=known)
    (told,) = overview(one)["flows"]
    assert (told["records_s"], told["bytes_s"]) == (20.0, 450.0)
    assert (told["copied_records"], told["copied_bytes"]) == (40, 900)
    assert detail(one)["topics"][0]["records_s"] == 20.0


def stopped(number, topic="orders", **fields):
    reason = fields.pop("reason", STOP.format(number))
    return seen_flows.part(topic, number, state="halted", reason=reason, **fields)


def test_what_stands_still_is_told_with_its_reason_and_the_command_that_helps():
    shown = seen_flows.flow(stopped(3, since_ms=5), seen_flows.part())
    (told,) = overview(shown)["halts"]
    assert told == {
        "flow": "east->west",
        "topic": "orders",
        "state": "halted",
        "partitions": [3],
        "partition_count": 1,
        "since_ms": 5,
        "reason": "orders-3: the topic is gone",
        "command": "mm2 run c.yaml",
    }
    (summary,) = overview(shown)["flows"]
    assert (summary["badge"], summary["state_text"]) == ("bad", "running, 1 halted")


def test_partitions_that_stand_for_the_same_reason_are_told_together():
    parts = [stopped(number, since_ms=100 - number) for number in range(12)]
    other = stopped(99, reason="orders-99: forbidden")
    first, second = overview(seen_flows.flow(*parts, other))["halts"]
    assert (first["partitions"], first["partition_count"]) == ([0, 1, 2, 3, 4], 12)
    assert first["since_ms"] == 89, "the earliest"
    assert (second["partitions"], second["since_ms"], second["command"]) == ([99], None, "")


def test_only_so_many_standstills_are_shown_and_the_others_counted():
    parts = [stopped(0, topic=f"t{number:02}", reason=f"r{number}") for number in range(25)]
    found = overview(seen_flows.flow(*parts))
    assert (len(found["halts"]), found["halts_hidden"]) == (
        status_page_json.LISTED_HALTS_MAX,
        5,
    )
    assert len(detail(seen_flows.flow(*parts))["halts"]) == status_page_json.LISTED_HALTS_MAX


def test_the_command_is_no_part_of_the_reason():
    why = f"x. {suggested_commands.format_remedy('mm2 run')}"
    (told,) = overview(seen_flows.flow(stopped(0, reason=why)))["halts"]
    assert (told["reason"], told["command"]) == ("x", "mm2 run")


def test_topics_come_with_the_gravest_first_and_can_be_narrowed():
    one = seen_flows.flow(
        seen_flows.part("calm"),
        seen_flows.part("late", end=20, waiting_since_ms=NOW_MS - 90_000),
        seen_flows.part("later", end=30, waiting_since_ms=NOW_MS - 90_000),
        stopped(0, topic="halt"),
        seen_flows.part("dark", end=None),
        seen_flows.part("doomed", end=12, waiting_since_ms=NOW_MS, retention_risk=SHORT),
    )
    told = detail(one)["topics"]
    assert [(each["topic"], each["badge"]) for each in told] == [
        ("doomed", "bad"),
        ("halt", "bad"),
        ("dark", "unknown"),
        ("later", "wait"),
        ("late", "wait"),
        ("calm", "good"),
    ]
    assert told[0]["data_loss"].startswith("the source deletes unreplicated records in 60 s")
    assert told[1]["reason"] == "", "it is told of on its own"
    narrowed = detail(one, topic="late")
    assert ([each["topic"] for each in narrowed["topics"]], narrowed["topics_found"]) == (
        ["later", "late"],
        2,
    )


def test_only_so_many_topics_are_shown():
    one = seen_flows.flow(*(seen_flows.part(f"t{number:04}") for number in range(150)))
    told = detail(one)
    assert (len(told["topics"]), told["topics_found"]) == (status_page_json.LISTED_TOPICS_MAX, 150)
    assert told["topic_count"] == 150


def test_a_topics_partitions_are_counted_by_state():
    one = seen_flows.flow(
        seen_flows.part(number=0), seen_flows.part(number=1, state="waiting", reason="STARTING")
    )
    (told,) = detail(one)["topics"]
    assert (told["states"], told["badge"]) == ({"copying": 1, "waiting": 1}, "wait")
    assert (told["reason"], told["mirror"]) == ("its copy process is starting", "east.orders")


def test_holds_warnings_and_troubles_are_told_and_what_lasts_is_not_told_twice():
    holds = OperatorOverrides(
        paused=True, paused_topics=frozenset({"b", "a"}), budgets=FlowThrottles(flow=5_000)
    )
    problems = (
        FlowProblem(text="orders: the topic is gone. Remedy: mm2 run c.yaml", at_ms=9),
        FlowProblem(text="task 0: its copy has ended", at_ms=4, resolved_ms=6),
    )
    one = seen_flows.flow(
        stopped(0),
        status=statuses.flow(holds=holds),
        warnings=("one", "two"),
        problems=problems,
    )
    told = detail(one)
    assert told["overrides"] == {
        "paused": True,
        "paused_topics": ["a", "b"],
        "throttle_bytes_s": 5_000,
    }
    assert told["warnings"] == ["one", "two"]
    assert told["problems"] == [
        {"text": "task 0: its copy has ended", "at_ms": 4, "resolved_ms": 6}
    ]


def test_only_the_newest_troubles_are_told():
    problems = tuple(FlowProblem(text=f"t{number}") for number in range(15))
    told = detail(seen_flows.flow(problems=problems))["problems"]
    assert [each["text"] for each in told] == [
        f"t{n}" for n in range(status_page_json.LISTED_PROBLEMS_MAX)
    ]


@pytest.mark.parametrize(
    ("state", "badge"), [("RUNNING", "good"), ("FAILED", "bad"), ("", "unknown")]
)
def test_tasks_are_told_with_who_runs_them(state, badge):
    task = TaskReport(number=2, state=state, node="a:1", reason="why", restarts=None)
    told = detail(seen_flows.flow(tasks=(task,)))["tasks"]
    assert told == [
        {
            "number": 2,
            "state": state,
            "badge": badge,
            "node": "a:1",
            "reason": "why",
            "restarts": None,
        }
    ]


def test_a_flow_has_its_estimate_and_its_past():
    point = TimelinePoint(at_ms=1, lag_records=2, lag_ms=3, records_s=None, bytes_s=None)
    told = detail(seen_flows.flow(seen_flows.part()), [point])
    assert told["estimate"]["verdict"] == "no obstacle known"
    assert told["timeline"]["lag_records"] == [2]
    assert {key: told[key] for key in SUMMARY} == SUMMARY


def test_a_flow_is_found_by_its_name():
    one = seen_flows.flow()
    assert seen_flows.seen(one).find_flow("east->west") is one
    assert seen_flows.seen(one).find_flow("west->east") is None
