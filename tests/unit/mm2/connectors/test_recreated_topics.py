"""Partitions that are new only because their topic is another one now."""

from __future__ import annotations

from typing import Any

from mm2.connectors import recreated_topics
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import EraKey, NewEraRequest, NewEraRequestKey
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.partition_halt_messages import HaltCause
from tests.fakes import taking

OLD, NEW, NONE = b"1" * 16, b"2" * 16, offset_map_records.NO_TOPIC_ID


def known(*eras: tuple[int, bytes, bytes], asked: int | None = None) -> OffsetMap:
    """The map of `orders`: (partition, source id, target id) of each era; `asked` to begin anew."""
    made = OffsetMap()
    for partition, source, target in eras:
        key = EraKey(topic="orders", partition=partition, era=1, ordinal=1, epoch=0)
        era = taking.era(source_topic_id=source, target_topic_id=target)
        made.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(era)
        )
    if asked is not None:
        request = NewEraRequestKey(topic="orders", partition=asked)
        value = NewEraRequest(request="r", position="earliest")
        made.apply_record(
            offset_map_records.encode_map_key(request), offset_map_records.encode_map_value(value)
        )
    return made


def stopped(of: OffsetMap, count: int = 3, **ids: Any) -> list[int]:
    given = {"source_topic_id": NEW, "target_topic_id": NEW, **ids}
    partitions = [taking.where(partition=each, **given) for each in range(count)]
    found = recreated_topics.split_recreated_topics(partitions, of)
    apart = [where.partition for where, _ in found.halted]
    assert [each.partition for each in found.replicable] == [
        n for n in range(count) if n not in apart
    ]
    assert all(stop.cause is HaltCause.RECREATED for _, stop in found.halted)
    return apart


def test_a_topic_that_grew_is_the_same_one():
    assert stopped(known((0, NEW, NEW))) == []


def test_more_partitions_of_a_topic_that_was_made_again_wait_with_the_others():
    assert stopped(known((0, OLD, NEW))) == [1, 2]
    assert stopped(known((0, NEW, OLD), (1, NEW, OLD))) == [2]


def test_its_reason_is_the_others_and_names_the_way_on():
    where = taking.where(partition=1, source_topic_id=NEW, target_topic_id=NEW)
    ((_, stop),) = recreated_topics.split_recreated_topics([where], known((0, OLD, NEW))).halted
    assert "source topic orders was deleted and created again" in stop.message
    assert "mm2 topic reset" in stop.message


def test_who_is_asked_to_begin_anew_does():
    assert stopped(known((0, OLD, NEW), asked=1)) == [2]


def test_a_partition_that_has_begun_anew_speaks_for_the_others():
    assert stopped(known((0, NEW, NEW), (1, OLD, NEW))) == []


def test_where_topics_have_no_ids_nothing_can_be_told():
    assert stopped(known((0, NONE, NONE))) == []
    assert stopped(known((0, OLD, OLD)), source_topic_id=NONE, target_topic_id=NONE) == []


def test_a_topic_without_progress_is_new():
    assert stopped(OffsetMap()) == []
