from __future__ import annotations

import gzip

import hypothesis
from hypothesis import strategies
from kio.records import readers as kio_records

from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.support import examples

NOW_MS = 1_790_000_000_000

maybe_bytes = strategies.none() | strategies.binary(max_size=200)
some_records = strategies.lists(
    strategies.builds(
        Record,
        key=maybe_bytes,
        value=maybe_bytes,
        headers=strategies.lists(
            strategies.tuples(strategies.binary(max_size=9), maybe_bytes), max_size=3
        ).map(tuple),
        timestamp=strategies.integers(NOW_MS // 1000 - 86_400, NOW_MS // 1000).map(
            lambda seconds: seconds * 1000
        ),
    ),
    min_size=1,
    max_size=8,
)


@hypothesis.given(some_records, strategies.integers(0, 1 << 60), strategies.integers(0, 0x7FFFFFFF))
@hypothesis.settings(deadline=None, max_examples=examples.of(100))
def test_another_decoder_reads_the_same_records(records, base_offset, sequence):
    stamp = Stamp(
        base_offset=base_offset,
        leader_epoch=7,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=sequence,
        attributes=batches.TRANSACTIONAL,
    )
    encoded = batches.data(records, stamp)
    batch, size = kio_records.read_batch(encoded, 0)
    assert size == len(encoded)
    assert (batch.base_offset, batch.partition_leader_epoch) == (base_offset, 7)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, sequence)
    assert batch.attributes == batches.TRANSACTIONAL
    assert batch.last_offset_delta == len(records) - 1
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert [(r.key, r.value, r.offset) for r in batch.records] == [
        (r.key, r.value, base_offset + at) for at, r in enumerate(records)
    ]
    assert [r.timestamp.timestamp() * 1000 for r in batch.records] == [r.timestamp for r in records]
    assert [tuple((h.key, h.value) for h in r.headers) for r in batch.records] == [
        r.headers for r in records
    ]


def test_a_marker_is_a_control_batch_with_kafkas_key_and_value():
    stamp = Stamp(base_offset=5, leader_epoch=1, producer_id=9, producer_epoch=2)
    for commit, kind in ((True, 1), (False, 0)):
        encoded = batches.marker(stamp, commit=commit, timestamp=NOW_MS)
        batch, _ = kio_records.read_batch(encoded, 0)
        assert batch.attributes == batches.TRANSACTIONAL | batches.CONTROL
        assert batch.base_sequence == -1
        (record,) = batch.records
        assert record.key == bytes([0, 0, 0, kind])
        assert record.value == bytes(6)
        assert len(encoded) == 78


def test_a_hole_left_by_compaction_keeps_the_last_offset():
    records = [
        Record(value=b"a", timestamp=NOW_MS, offset_delta=0),
        Record(value=b"b", timestamp=NOW_MS, offset_delta=6),
    ]
    encoded = batches.data(records, last_offset_delta=9)
    batch, _ = kio_records.read_batch(encoded, 0)
    assert batch.last_offset_delta == 9
    assert [record.offset for record in batch.records] == [0, 6]


def test_compressed_bodies_are_wrapped_as_they_are():
    body = gzip.compress(b"whatever")
    stamp = Stamp(attributes=1)
    encoded = batches.assemble(body, stamp, count=3, last=2, timestamps=(NOW_MS, NOW_MS))
    assert encoded.endswith(body)
    assert len(encoded) == 61 + len(body)
