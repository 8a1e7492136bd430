"""Offset syncs out of anchors, and what becomes of those that cannot be written."""

from __future__ import annotations

from connect_runtime.base.errors import RetriableError
from connect_runtime.system.system_clock import SystemClock
from mm2.connectors import offset_sync_emitter
from mm2.connectors.offset_sync_emitter import OffsetSyncEmitter
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    MapProducer,
    MapProducerKey,
    MapSegment,
    MapSegmentKey,
    OffsetRun,
)
from mm2.offsets import offset_syncs
from mm2.replication.recovery_instructions import FlowStateRecord
from tests.fakes import taking
from tests.fakes.source_task_clients import FakeWriter


class Kept:
    def __init__(self, *, lag_max: int = 100) -> None:
        self.writer = FakeWriter()
        self.emitter = OffsetSyncEmitter(self.writer, lag_max=lag_max, clock=SystemClock())

    def anchor(self, through: int, *, partition: int = 0, incident: bool = False) -> None:
        """All offsets up to there are copied, one further on the target."""
        key = MapSegmentKey(
            topic="t", partition=partition, era=1, ordinal=1, epoch=0, first_source=0
        )
        value = MapSegment(
            leader_epoch=0,
            source_epoch=0,
            owner=taking.ME,
            acquired_from=0,
            through=through,
            target_next=through + 1,
            last_crc=None,
            runs=(OffsetRun(0, 1),) if through else (),
        )
        item = FlowStateRecord(
            key=offset_map_records.encode_map_key(key),
            value=offset_map_records.encode_map_value(value),
            incident=incident,
        )
        self.emitter.record_segments(offset_sync_emitter.decode_segments([item]))

    @property
    def written(self) -> list[tuple[int, int, int]]:
        return [
            (each.partition.partition, each.upstream, each.downstream)
            for each in self.writer.written
        ]


def test_what_is_due_is_written_and_the_rest_once_offsets_are_stored():
    kept = Kept()
    kept.anchor(0)
    kept.anchor(50)
    kept.emitter.run_once()
    assert kept.written == [(0, 0, 1)]
    kept.emitter.handle_commit()
    kept.emitter.run_once()
    assert kept.written == [(0, 0, 1), (0, 49, 50)]
    kept.emitter.handle_commit()
    kept.emitter.run_once()
    assert len(kept.written) == 2


def test_other_records_of_the_stream_say_nothing():
    kept = Kept()
    producer = MapProducerKey(topic="t", partition=0, producer_id=1)
    value = offset_map_records.encode_map_value(MapProducer(ordinal=1, era=1))
    key = offset_map_records.encode_map_key(producer)
    kept.emitter.record_segments(
        offset_sync_emitter.decode_segments(
            [FlowStateRecord(key=key, value=value), FlowStateRecord(key=key, value=None)]
        )
    )
    kept.emitter.record_segments(
        offset_sync_emitter.decode_segments(
            [FlowStateRecord(key=b"incident", value=b"x", incident=True)]
        )
    )
    kept.emitter.run_once()
    assert kept.written == []


def test_so_many_are_under_way_and_no_more():
    kept = Kept()
    kept.writer.silent = True
    for partition in range(offset_syncs.IN_FLIGHT_SYNCS_MAX + 3):
        kept.anchor(0, partition=partition)
        kept.anchor(1, partition=partition)
    kept.emitter.run_once()
    kept.emitter.run_once()
    assert len(kept.written) == offset_syncs.IN_FLIGHT_SYNCS_MAX
    assert kept.emitter.is_busy
    kept.writer.silent = False
    kept.emitter.run_once()
    kept.emitter.run_once()
    assert len(kept.written) == offset_syncs.IN_FLIGHT_SYNCS_MAX + 3
    assert not kept.emitter.is_busy


def test_what_could_not_be_written_is_told_and_tried_at_the_next_commit(caplog):
    kept = Kept()
    kept.writer.failure = RetriableError("no leader")
    kept.anchor(0)
    kept.anchor(1)
    kept.emitter.run_once()
    kept.emitter.run_once()
    assert "no leader" in caplog.text
    kept.writer.failure = None
    kept.emitter.run_once()
    assert len(kept.written) == 1
    kept.emitter.handle_commit()
    kept.emitter.run_once()
    assert kept.written == [(0, 0, 1)] * 2


def test_closing_writes_all_that_is_known():
    kept = Kept()
    for partition in range(25):
        kept.anchor(0, partition=partition)
        kept.anchor(9, partition=partition)
    kept.emitter.close(5.0)
    last = {partition: upstream for partition, upstream, _ in kept.written}
    assert last == dict.fromkeys(range(25), 8)
    assert kept.writer.closed


def test_closing_waits_no_longer_than_it_may():
    kept = Kept()
    kept.writer.silent = True
    kept.anchor(0)
    kept.anchor(9)
    kept.emitter.close(0.1)
    assert kept.writer.closed
