"""Owners that copy one partition one after the other, and where every record came to stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapKey,
    MapSegment,
    MapSegmentKey,
    MapValue,
    OffsetRun,
)
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.offset_map_writer import MapWriter
from tests.fakes import copying

T7 = TopicPartition("orders", 7)


def era_key(era, ordinal=1, epoch=0):
    return EraKey(topic="orders", partition=7, era=era, ordinal=ordinal, epoch=epoch)


def era_of(first_source=0, first_target=1, request=""):
    return Era(
        source_cluster="a",
        target_cluster="b",
        source_topic_id=bytes(16),
        target_topic_id=bytes(16),
        first_source=first_source,
        first_target=first_target,
        request=request,
    )


def log(
    partition: TopicPartition, *, through: int, delta: int, start: int = 0, epoch: int = 0
) -> list[tuple[bytes | None, bytes | None]]:
    """A map topic of one era in which all was copied from `start` on, without a gap."""
    name, number = partition.topic, partition.partition
    where: dict[str, Any] = {"topic": name, "partition": number, "era": 1, "ordinal": 1}
    where["epoch"] = epoch
    segment = MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=b"12345678",
        acquired_from=start,
        through=through,
        target_next=through + delta,
        last_crc=None,
        runs=(OffsetRun(start, delta),),
    )
    pairs: list[tuple[MapKey, MapValue]] = [
        (EraKey(**where), era_of(start, max(0, start + delta))),
        (MapSegmentKey(**where, first_source=start), segment),
    ]
    return [
        (offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value))
        for key, value in pairs
    ]


@dataclass
class Copied:
    """Owners copy one after the other; `places` says where each source offset stands."""

    known: OffsetMap = field(default_factory=OffsetMap)
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # source, records, target
    source: int = 10
    target: int = 3

    def own(self, epoch, kept, steps):
        """One owner pairs the last batches anew, or copies them again, and then goes on."""
        kept = max(0, len(self.batches) - kept)
        again, self.batches = self.batches[kept:], self.batches[:kept]
        start = again[0][0] if again else self.source
        self.target += 1  # the fence's marker
        paired = epoch % 2
        writer = MapWriter(
            topic="orders",
            partition=7,
            era=1,
            ordinal=1,
            epoch=epoch,
            leader_epoch=0,
            owner=b"12345678",
            take_start=start,
            through=self.source if paired else start,
            target_next=self.target,
            segment_bytes=80,
        )
        if paired:
            for source, records, target in again:
                writer.add_matched_batch(source, target)
                self.batches.append((source, records, target))
        self.store(writer)
        if not paired:
            for source, records, _ in again:
                self.copy(writer, source, records)
        for skipped, markers, records, write in steps:
            self.source += skipped
            self.target += markers
            source, self.source = self.source, self.source + records
            self.copy(writer, source, records)
            if write:
                self.store(writer)
        self.store(writer)

    def copy(self, writer, source, records):
        self.batches.append((source, records, self.target))
        batch = copying.outgoing_of(*range(source, source + records))
        writer.add_acknowledged_batch(batch, target=self.target, crc=1, now_s=0.0)
        self.target += records
        writer.check_invariants()

    def store(self, writer):
        for item in writer.create_write_instruction(0.0).items:
            self.known.apply_record(item.key, item.value)

    @property
    def places(self):
        return {
            source + at: target + at
            for source, records, target in self.batches
            for at in range(records)
        }


steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=12
)
owners = st.lists(st.tuples(st.integers(0, 4), steps), min_size=1, max_size=5)


def history(owners):
    copied = Copied()
    key, value = era_key(1), era_of(first_source=10, first_target=3)
    copied.known.apply_record(
        offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value)
    )
    for epoch, (kept, steps) in enumerate(owners):
        copied.own(epoch, kept, steps)
    copied.known.check_invariants()
    return copied
