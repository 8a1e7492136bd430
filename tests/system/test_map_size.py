"""Bytes that the offset map takes per transaction, of real ones; see
`tests/unit/mm2/offsets/test_map_upkeep_size.py` for what becomes of millions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.formats import offset_map_records
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import replication_policy
from tests.support import content, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

CLOCK = SystemClock()
BYTES_PER_MARKER = 2.3
FIXED_BYTES = 400
"""Keys and heads of a map that holds little."""


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_transaction_takes_about_two_bytes_of_the_map(tmp_path, east, west, topic):
    count = 400

    def enough(number: int) -> bool:
        return number == count

    assert measured(tmp_path, east, west, topic(), enough) == count


@pytest.mark.full
@pytest.mark.system
@pytest.mark.timeout(900)
def test_two_minutes_of_transactions(tmp_path, east, west, topic):
    end_s = CLOCK.now_s() + 120.0
    assert measured(tmp_path, east, west, topic(), lambda _: CLOCK.now_s() > end_s) > 1000


def measured(tmp_path, east, west, name: str, enough: Callable[[int], bool]) -> int:
    """How many transactions were mirrored as they came, the map of which was not too large."""
    source, target = east.client_properties(), west.client_properties()
    kafka.create_topic(source, name)
    given = mirror.settings(source, target, topics=[name], spark={"engine": "inline"})
    producer = kafka.transactional_producer(source, f"size-{name}")
    count = 0
    with Mirror(tmp_path, given) as run:
        while not enough(count):
            producer.begin_transaction()
            kafka.send(producer, name, content.some(2))
            kafka.end_transaction(producer, commit=True)
            count += 1
        run.await_records(2 * count, topic=name)
        assert run.stop(60.0) == 143
    size = map_bytes(target, TopicPartition(name, 0))
    print(f"{count} transactions: {size} bytes, {size / count:.3f} each")  # noqa: T201
    assert size < count * BYTES_PER_MARKER + FIXED_BYTES
    return count


def map_bytes(target: Properties, of: TopicPartition) -> int:
    known = OffsetMap()
    for each in kafka.read_partition(target, replication_policy.format_offset_map_topic("east")):
        assert each.key is not None
        known.apply_record(each.key, each.value)
    return sum(
        len(each.values[at]) + len(offset_map_records.encode_map_key(each.get_key(at)))
        for each in known.get_partition(of).segments.owners
        for at in range(len(each))
    )
