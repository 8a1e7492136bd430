"""Which records stand in a mirror twice, and who wrote the second one: we, or another program.

Batches of ours are told by their producer ids, which the flow's map topic lists.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mm2.formats import offset_map_records, record_batch
from mm2.formats.offset_map_records import MapProducerKey
from mm2.formats.record_batch import BatchHeader
from tests.support import kafka
from tests.support.wire import Driver


@dataclass(frozen=True, slots=True)
class Batch:
    """From `first` to `last` offset, by this producer; -1 has no id."""

    first: int
    last: int
    producer: int


@dataclass(frozen=True, slots=True)
class Doubled:
    """How many records stood there before when they were written, by who wrote them so."""

    by_us: int
    by_others: int


Found = tuple[int, object]
"""A record's offset, and its content."""


def judge(records: Iterable[Found], batches: Sequence[Batch], ours: Collection[int]) -> Doubled:
    """One partition's; both in order of offsets."""
    firsts = [each.first for each in batches]
    counts, seen = {True: 0, False: 0}, set[object]()
    for offset, content in records:
        if content in seen:
            batch = batches[bisect.bisect(firsts, offset) - 1]
            assert batch.first <= offset <= batch.last, (offset, batch)
            counts[batch.producer in ours] += 1
        seen.add(content)
    return Doubled(by_us=counts[True], by_others=counts[False])


def doubled(target: Mapping[str, str], mirror: str, *, source: str) -> Doubled:
    """In all partitions of a mirror on `target`; `source`: the alias of the flow's source."""
    ours = _producers(target, f"mm2-offset-map.{source}.internal")
    found = []
    with Driver(target) as driver:
        for partition in range(kafka.partition_count(target, mirror)):
            records = kafka.read_partition(target, mirror, partition)
            end = records[-1].offset + 1 if records else 0
            batches = _batches(driver, mirror, partition, end)
            found.append(judge([(each.offset, each.content) for each in records], batches, ours))
    return Doubled(
        by_us=sum(each.by_us for each in found), by_others=sum(each.by_others for each in found)
    )


def _producers(target: Mapping[str, str], topic: str) -> set[int]:
    """None before a worker of ours has copied anything."""
    if topic not in kafka.topics(target):
        return set()
    keys = [
        offset_map_records.decode_map_key(record.key or b"")
        for records in kafka.read_topic(target, topic).values()
        for record in records
    ]
    return {key.producer_id for key in keys if isinstance(key, MapProducerKey)}


def _batches(driver: Driver, topic: str, partition: int, end: int) -> list[Batch]:
    found: list[Batch] = []
    at = 0
    while at < end:
        fetched = driver.fetch(topic, at, partition=partition, isolation_level=0)
        assert fetched.error_code == 0, fetched
        read = list(_headers(memoryview(fetched.records or b"")))
        assert read, f"{topic}-{partition} has nothing at {at} of {end}"
        found += (
            Batch(first=each.base_offset, last=each.last_offset, producer=each.producer_id)
            for each in read
            if each.base_offset >= at
        )
        at = read[-1].last_offset + 1
    return found


def _headers(data: memoryview) -> Iterable[BatchHeader]:
    while len(data) >= record_batch.HEADER_BYTES:
        header = record_batch.read_batch_header(data)
        if header.size > len(data):
            return
        yield header
        data = data[header.size :]
