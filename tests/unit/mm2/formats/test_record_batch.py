from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import record_batch
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

NOW_MS = 1_790_000_000_000


def batch(base_offset=0, *, count=1, attributes=0, value=b"value"):
    records = [Record(value=value, timestamp=NOW_MS + at) for at in range(count)]
    stamp = Stamp(
        base_offset=base_offset,
        leader_epoch=6,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=50,
        attributes=attributes,
    )
    return batches.data(records, stamp)


# Headers


def test_a_header_is_read_field_by_field():
    data = batch(1000, count=3, attributes=record_batch.TRANSACTIONAL)
    header = record_batch.read_batch_header(memoryview(data))
    assert header._asdict() == {
        "base_offset": 1000,
        "length": len(data) - 12,
        "leader_epoch": 6,
        "magic": 2,
        "crc": int.from_bytes(data[17:21]),
        "attributes": 0x10,
        "last_offset_delta": 2,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS + 2,
        "producer_id": 4711,
        "producer_epoch": 3,
        "base_sequence": 50,
        "record_count": 3,
    }
    assert (header.size, header.last_offset) == (len(data), 1002)
    assert header.is_transactional
    assert not header.is_control


def test_a_header_that_is_cut_off_is_refused():
    with pytest.raises(struct.error):
        record_batch.read_batch_header(memoryview(batch()[:60]))


# CRC and stamping


@given(st.integers(record_batch.CRC_START, len(batch()) - 1), st.integers(1, 255))
def test_one_changed_byte_is_seen(at, mask):
    data = bytearray(batch())
    header = record_batch.read_batch_header(memoryview(data))
    assert record_batch.has_valid_crc(memoryview(data), header)
    data[at] ^= mask
    assert not record_batch.has_valid_crc(memoryview(data), header)


@given(
    st.integers(0, 0x3F),
    st.integers(-1, (1 << 63) - 1),
    st.integers(-1, (1 << 15) - 1),
    st.integers(-1, (1 << 31) - 1),
)
def test_a_stamp_changes_what_it_names_and_nothing_else(attributes, producer_id, epoch, sequence):
    data = bytearray(batch(1000, count=2))
    before = record_batch.read_batch_header(memoryview(bytes(data)))
    records = bytes(data[61:])
    crc = record_batch.stamp_producer_fields(
        memoryview(data), attributes=attributes, producer=(producer_id, epoch, sequence)
    )
    after = record_batch.read_batch_header(memoryview(data))
    assert after == before._replace(
        base_offset=0,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        crc=crc,
    )
    assert data[61:] == records
    assert record_batch.has_valid_crc(memoryview(data), after)


def test_a_stamped_batch_equals_one_written_for_that_producer():
    records = [Record(value=b"a", key=b"k", timestamp=NOW_MS)]
    data = bytearray(batches.data(records, Stamp(base_offset=7, leader_epoch=6)))
    record_batch.stamp_producer_fields(memoryview(data), attributes=0x10, producer=(9, 2, 30))
    ours = Stamp(leader_epoch=6, producer_id=9, producer_epoch=2, base_sequence=30, attributes=0x10)
    assert bytes(data) == batches.data(records, ours)


@pytest.mark.parametrize(
    ("sequence", "count", "following"),
    [(0, 1, 1), (5, 10, 15), (2**31 - 2, 1, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 1, 3, 2)],
)
def test_sequences_wrap_to_zero_after_31_bits(sequence, count, following):
    assert record_batch.compute_next_sequence(sequence, count) == following


# Control batches


@pytest.mark.parametrize(
    ("commit", "kind"), [(True, record_batch.COMMIT_MARKER), (False, record_batch.ABORT_MARKER)]
)
def test_the_type_of_a_marker(commit, kind):
    data = batches.marker(Stamp(producer_id=9, producer_epoch=1), commit=commit, timestamp=NOW_MS)
    assert record_batch.read_batch_header(memoryview(data)).is_control
    assert record_batch.read_control_type(memoryview(data)) == kind


def test_the_type_is_found_behind_long_varints():
    key = struct.pack(">hh", 0, record_batch.COMMIT_MARKER)
    record = Record(key=key, value=bytes(300), timestamp=NOW_MS + 100_000, offset_delta=1000)
    data = batches.data([record], Stamp(attributes=record_batch.CONTROL), base_timestamp=NOW_MS)
    assert record_batch.read_control_type(memoryview(data)) == record_batch.COMMIT_MARKER


def test_a_marker_without_its_record_is_neither_abort_nor_commit():
    """What the cleaner leaves of a marker that the producer state still needs is a bare header."""
    emptied = bytearray(record_batch.HEADER_BYTES)
    assert record_batch.read_control_type(memoryview(emptied)) == -1


@given(st.binary(max_size=30))
def test_a_control_batch_of_arbitrary_bytes_has_some_type_or_none(body):
    stamp = Stamp(attributes=record_batch.CONTROL)
    data = batches.assemble(body, stamp, count=1, last=0, timestamps=(0, 0))
    assert -(1 << 15) <= record_batch.read_control_type(memoryview(data)) < 1 << 15
