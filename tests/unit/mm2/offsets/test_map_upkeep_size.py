"""How large a map becomes: of transactions, each of whose markers is a gap on the source."""

from __future__ import annotations

import dataclasses
import tracemalloc

import pytest

from mm2.formats import offset_map_records
from mm2.offsets import offset_map_compaction, offset_translation
from mm2.offsets.offset_map import OffsetMap, PartitionMap, SegmentStore
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset
from mm2.replication.offset_map_writer import MapWriter
from tests.fakes import copied_map, copying

BYTES_PER_MARKER = 2.2
"""With it a day of 1,000 transactions a second (86.4 million) is a map of 190 MB, or of 16 MB where
that is the budget, and old answers are bounds."""

BYTES_PER_MARKER_HELD = 2.3
"""In memory, by whoever reads all of such a map."""


def transactions(count: int, *, records: int = 10) -> tuple[OffsetMap, int]:
    """The map as its writer makes it, stored once a second, and the source's end."""
    known = OffsetMap()
    era = copied_map.era_key(1), copied_map.era_of(0, 1)
    known.apply_record(
        offset_map_records.encode_map_key(era[0]), offset_map_records.encode_map_value(era[1])
    )
    writer = MapWriter(
        topic="orders",
        partition=7,
        era=1,
        ordinal=1,
        epoch=0,
        leader_epoch=3,
        owner=b"12345678",
        take_start=0,
        through=0,
        target_next=1,
    )
    source, target = 0, 1
    batch = copying.outgoing_of(*range(records))
    for number in range(count):
        sent = batch._replace(source=source, next_source=source + records + 1)
        writer.add_acknowledged_batch(sent, target=target, crc=1, now_s=number / 1000)
        source, target = source + records + 1, target + records
        if writer.is_write_due(number / 1000) or number == count - 1:
            for item in writer.create_write_instruction(number / 1000).items:
                known.apply_record(item.key, item.value)
    return known, source


def stored(known: PartitionMap) -> int:
    """Bytes of its keys and values."""
    return sum(
        len(each.values[at]) + len(offset_map_records.encode_map_key(each.get_key(at)))
        for each in known.segments.owners
        for at in range(len(each))
    )


def test_a_marker_takes_two_bytes_and_a_tenth():
    known, end = transactions(50_000)
    mine = known.get_partition(copied_map.T7)
    assert stored(mine) / 50_000 < BYTES_PER_MARKER
    for at in range(0, end, 997):
        assert isinstance(offset_translation.translate_to_target(mine, at), ExactOffset)


@pytest.mark.timeout(300)
def test_beyond_its_budget_it_stays_there_and_old_answers_get_bounds():
    known, end = transactions(50_000)
    mine = known.get_partition(copied_map.T7)
    budget = 32_000
    while changes := offset_map_compaction.plan_compaction(
        mine, log_start=0, budget_bytes=budget, changes_max=50
    ):
        for key, segment in changes:
            value = None if segment is None else offset_map_records.encode_map_value(segment)
            known.apply_record(offset_map_records.encode_map_key(key), value)
    assert stored(mine) <= budget
    old = offset_translation.translate_to_target(mine, end // 10)
    assert isinstance(old, EarlierOffset)
    assert old.reread_max < 64
    exact = end // 10 - (end // 10 // 11)  # of each eleven offsets one is a marker
    assert old.downstream <= exact + 1 <= old.downstream + old.reread_max
    assert isinstance(offset_translation.translate_to_target(mine, end - 20), ExactOffset)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_what_a_reader_holds_of_a_day_of_a_thousand_transactions_a_second():
    """86.4 million markers, none of them thinned out: a hundredth of them by the writer itself, as
    often as it takes, one behind the other."""
    a_part, a_day = 864_000, 86_400_000
    known, end = transactions(a_part)
    (written,) = known.get_partition(copied_map.T7).segments.owners
    store = SegmentStore()
    tracemalloc.start()
    for turn in range(a_day // a_part):
        for at in range(len(written)):
            key = written.get_key(at)
            moved = dataclasses.replace(key, first_source=key.first_source + turn * end)
            store.store_segment(moved, bytes(bytearray(written.values[at])))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(store) == len(written) * (a_day // a_part)
    print(f"{held / 1e6:.0f} MB, {held / a_day:.2f} bytes a marker")  # noqa: T201
    assert held < a_day * BYTES_PER_MARKER_HELD
