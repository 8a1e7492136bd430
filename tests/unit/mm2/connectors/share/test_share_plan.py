"""What is copied of a share: by the map, and by later looks."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base import ids
from mm2.connectors.share import share_plan
from mm2.connectors.topics import partition_setups
from mm2.core.copy import setup
from mm2.core.offsets import offset_map
from mm2.formats import map_record
from tests.fakes import taking

OLD, NEW = b"1" * 16, b"2" * 16


def where(partition: int, **changed: object) -> setup.PartitionSetup:
    base = taking.where(topic="orders", partition=partition, start="latest")
    return dataclasses.replace(base, **changed)  # type: ignore[arg-type]  # any of its fields


def plan(
    *partitions: setup.PartitionSetup, findings: tuple[partition_setups.Finding, ...] = ()
) -> partition_setups.SourcePlan:
    return partition_setups.SourcePlan(partitions=partitions, findings=findings)


def finding(partition: int, *, spoils: bool = False) -> partition_setups.Finding:
    return partition_setups.Finding(
        partition=ids.TopicPartition("orders", partition),
        cause="x",
        message=f"orders-{partition} is wrong",
        spoils=spoils,
    )


def known(*partitions: int, topic_id: bytes = map_record.NO_TOPIC_ID) -> offset_map.OffsetMap:
    """These have begun."""
    found = offset_map.OffsetMap()
    for each in partitions:
        key = map_record.EraKey(topic="orders", partition=each, era=1, ordinal=1, epoch=0)
        era = taking.era(source_topic_id=topic_id)
        found.apply(map_record.encode_key(key), map_record.encode_value(era))
    return found


def starts(found: partition_setups.SourcePlan) -> list[str]:
    return [each.start for each in found.partitions]


def test_partitions_start_where_the_flow_says_or_at_the_earliest_record():
    all_three = plan(where(0), where(1), where(2))
    assert starts(share_plan.settled(all_three, known(), added=())) == ["latest"] * 3
    added = {ids.TopicPartition("orders", 2)}
    assert starts(share_plan.settled(all_three, known(), added=added)) == [
        "latest",
        "latest",
        "earliest",
    ]
    # Another one of the topic is in progress: at another task, say.
    assert starts(share_plan.settled(all_three, known(7), added=())) == ["earliest"] * 3


def test_a_topic_that_was_made_again_is_found():
    again = plan(where(0, source_topic_id=NEW), where(1, source_topic_id=NEW))
    found = share_plan.settled(again, known(0, topic_id=OLD), added=())
    assert [each.partition for each in found.partitions] == [0]
    assert [each.partition.partition for each in found.findings] == [1]


UNREADABLE = {
    "a sibling's era": (
        map_record.encode_key(
            map_record.EraKey(topic="orders", partition=0, era=1, ordinal=1, epoch=0)
        ),
        True,
    ),
    "a key that names nothing": (b"\x09garbage", True),
    "another topic's era": (
        map_record.encode_key(
            map_record.EraKey(topic="users", partition=0, era=1, ordinal=1, epoch=0)
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_where_siblings_eras_may_be_unreadable_nothing_starts(name):
    """Neither whether the topic is in progress, nor whether it was made again, is known."""
    key, concerned = UNREADABLE[name]
    found = offset_map.OffsetMap()
    found.fold(key, b"\x09", offset=17)
    added = plan(where(4))
    settled = share_plan.settled(added, found, added=())
    assert share_plan.waits_for_map(added, found) is concerned
    if not concerned:
        assert starts(settled) == ["latest"]
        return
    assert settled.partitions == ()
    (held_back,) = settled.findings
    assert (held_back.partition.partition, held_back.cause) == (4, "offset-map-unreadable")
    assert "offset 17" in held_back.message
    era = map_record.encode_value(taking.era())
    found.fold(key, None if name == "a key that names nothing" else era, offset=18)
    expected = "latest" if name == "a key that names nothing" else "earliest"
    assert starts(share_plan.settled(added, found, added=())) == [expected]
    assert not share_plan.waits_for_map(added, found)


def test_what_has_progress_or_is_to_begin_anew_needs_no_siblings():
    """Its take halts by itself while something is unreadable."""
    found = known(0)
    found.apply(
        map_record.encode_key(map_record.RequestKey(topic="orders", partition=1)),
        map_record.encode_value(map_record.Request(request="r", position="latest")),
    )
    found.fold(b"\x09garbage", b"x", offset=17)
    settled = share_plan.settled(plan(where(0), where(1)), found, added=())
    assert ([each.partition for each in settled.partitions], settled.findings) == ([0, 1], ())


def test_what_a_later_look_does_not_find_is_copied_on():
    running = [where(0), where(1)]
    later = share_plan.merged(running, plan(where(0), findings=(finding(1), finding(2))))
    assert [each.partition for each in later.partitions] == [0, 1]
    assert [each.partition.partition for each in later.findings] == [2]
    assert later.troubles == ("orders-1 is wrong",)


def test_what_would_spoil_the_mirror_ends():
    running = [where(0), where(1)]
    later = share_plan.merged(running, plan(where(0), findings=(finding(1, spoils=True),)))
    assert [each.partition for each in later.partitions] == [0]
    assert [each.partition.partition for each in later.findings] == [1]
    assert later.troubles == ()


def test_what_is_well_again_is_copied():
    later = share_plan.merged([where(0)], plan(where(0), where(1)))
    assert [each.partition for each in later.partitions] == [0, 1]
    assert not share_plan.same([where(0)], later.partitions)


def test_a_copy_goes_on_where_nothing_that_it_relies_on_has_changed():
    ours = [where(0), where(1)]
    assert share_plan.same(ours, [where(1), where(0)])
    assert share_plan.same(ours, [where(0, renew_after_s=1e9, old_after_ms=10**9), where(1)])
    for changed in ({"target_codec": 2}, {"renew_after_s": 1.0}, {"old_after_ms": 1}):
        assert not share_plan.same(ours, [where(0, **changed), where(1)]), changed
