from __future__ import annotations

import pytest

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import EraKey, NewEraRequest, NewEraRequestKey
from mm2.offsets.offset_map import OffsetMap
from mm2.replication import partition_start_offsets
from mm2.replication.partition_setup import PartitionSetup
from tests.fakes import taking


def partitions(count: int, start: str = "latest", topic: str = "orders") -> list[PartitionSetup]:
    return [taking.where(topic=topic, partition=each, start=start) for each in range(count)]


def began(known: OffsetMap, partition: int, topic: str = "orders") -> None:
    key = EraKey(topic=topic, partition=partition, era=1, ordinal=1, epoch=0)
    known.apply_record(
        offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(taking.era())
    )


def starts(known: OffsetMap, given: list[PartitionSetup]) -> list[str]:
    return [each.start for each in partition_start_offsets.resolve_start_positions(given, known)]


@pytest.mark.parametrize("start", ["latest", "1700000000000", "earliest"])
def test_a_topic_without_progress_starts_where_the_flow_says(start):
    assert starts(OffsetMap(), partitions(3, start)) == [start] * 3


@pytest.mark.parametrize("start", ["latest", "1700000000000"])
@pytest.mark.parametrize("begun", [[0], [1], [0, 1]])
def test_what_has_no_era_beside_partitions_that_have_one_was_added(start, begun):
    known = OffsetMap()
    for each in begun:
        began(known, each)
    expected = [start if each in begun else "earliest" for each in range(4)]
    assert starts(known, partitions(4, start)) == expected


def test_topics_are_apart():
    known = OffsetMap()
    began(known, 0)
    given = [*partitions(2), *partitions(2, topic="users")]
    assert starts(known, given) == ["latest", "earliest", "latest", "latest"]


def test_a_request_or_a_producer_id_is_no_progress():
    """`mm2 topic reset` may be asked for before anything was copied."""
    known = OffsetMap()
    request = NewEraRequestKey(topic="orders", partition=0)
    value = NewEraRequest(request="r", position="latest")
    known.apply_record(
        offset_map_records.encode_map_key(request), offset_map_records.encode_map_value(value)
    )
    assert starts(known, partitions(2)) == ["latest"] * 2


def test_an_era_that_was_skipped_was_progress():
    known = OffsetMap()
    request = NewEraRequestKey(topic="orders", partition=0)
    value = NewEraRequest(
        request=f"{offset_map_records.LOST_ERA_REQUEST_PREFIX}17", position="earliest"
    )
    known.apply_record(
        offset_map_records.encode_map_key(request), offset_map_records.encode_map_value(value)
    )
    assert starts(known, partitions(2)) == ["latest", "earliest"]


def test_nothing_else_of_a_partition_changes():
    known = OffsetMap()
    began(known, 0)
    (_, added) = partition_start_offsets.resolve_start_positions(partitions(2), known)
    assert added == taking.where(partition=1, start="earliest")
