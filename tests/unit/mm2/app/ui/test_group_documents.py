from __future__ import annotations

import json

from connect_runtime.base import ids
from mm2.app.ui import group_documents
from mm2.connectors import board
from mm2.core import holds as holding
from mm2.formats import checkpoint
from tests.support import seen_flows, statuses


def point(group, topic="east.orders", number=0, *, upstream=4, downstream=7):
    return checkpoint.Checkpoint(
        group=group,
        partition=ids.TopicPartition(topic, number),
        upstream=upstream,
        downstream=downstream,
    )


def shown(*points, round_ms=5):
    names = sorted({each.group for each in points})

    def find(text, most):
        matching = [name for name in names if text in name]
        return board.GroupsFound(
            known=len(names),
            matching=len(matching),
            groups={
                name: [each for each in points if each.group == name] for name in matching[:most]
            },
        )

    return board.GroupsShown(round_s=round_ms, round_ms=round_ms, find=find)


def told(*tasks, text="", holds=holding.NOTHING):
    status = statuses.flow(holds=holds)
    one = seen_flows.flow(seen_flows.part(end=20), status=status)
    found = group_documents.groups_json(seen_flows.seen(one), one, tasks, text=text)
    assert json.loads(json.dumps(found)) == found
    return found


def test_a_groups_positions_are_told_on_both_sides_with_what_it_has_not_read():
    found = told(shown(point("billing")))
    assert (found["version"], found["flow"], found["tasks_here"]) == (1, "east->west", 1)
    assert (found["group_count"], found["groups_found"], found["round_ms"]) == (1, 1, 5)
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
    assert (found["tasks_here"], found["group_count"], found["round_ms"]) == (2, 3, 7)
    narrowed = told(shown(point("b"), point("c")), shown(point("a")), text="c")
    assert [each["group"] for each in narrowed["groups"]] == ["c"]
    assert (narrowed["group_count"], narrowed["groups_found"]) == (3, 1)


def test_as_long_as_one_task_is_not_through_nobody_says_of_when_it_is():
    assert told(shown(point("a")), shown(point("b"), round_ms=None))["round_ms"] is None


def test_that_somebody_holds_checkpoints_back_is_told():
    for by in holding.By:
        beside = {"MirrorCheckpointConnector": by}
        assert told(shown(point("a")), holds=holding.Holds(beside=beside))["held"] == by.value
    assert told(shown(point("a")), holds=holding.Holds(paused=True))["held"] is None


def test_without_a_task_here_nothing_is_known():
    found = told()
    assert (found["tasks_here"], found["round_ms"], found["groups"]) == (0, None, [])


def test_only_so_many_groups_and_partitions_are_shown():
    many = shown(*(point(f"g{number:03}") for number in range(80)))
    found = told(many, many)
    assert (len(found["groups"]), found["groups_found"]) == (group_documents.GROUPS_MAX, 160)
    wide = told(shown(*(point("g", number=number) for number in range(70))))["groups"][0]
    assert (len(wide["partitions"]), wide["partition_count"]) == (
        group_documents.PARTITIONS_MAX,
        70,
    )
    assert [each["partition"] for each in wide["partitions"]] == list(range(50))
