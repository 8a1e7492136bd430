from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import record_batch, record_sets, records
from tests.fakes import batches, messages
from tests.support import examples

NOW_MS = 1_790_000_000_000


def batch(base_offset=0, *, count=1, value=b"value"):
    held = [batches.Record(value=value, timestamp=NOW_MS + at) for at in range(count)]
    return batches.data(held, batches.Stamp(base_offset=base_offset, leader_epoch=6))


def old(offset, magic=1, value=b"old"):
    return messages.message(offset, value, magic=magic, timestamp=NOW_MS)


def split(*parts):
    return list(record_sets.batches(memoryview(b"".join(parts))))


def offsets(found):
    return [header.base_offset for header, _ in found]


# Whole batches


def test_whole_batches_are_given_with_their_bytes():
    one, two = batch(10, count=2), batch(12, value=b"x" * 300)
    found = split(one, two)
    assert [bytes(data) for _, data in found] == [one, two]
    assert offsets(found) == [10, 12]
    assert [header for header, _ in found] == [
        record_batch.read_header(memoryview(each)) for each in (one, two)
    ]


def test_batches_are_views_into_what_was_fetched():
    fetched = bytearray(batch(10))
    ((_, data),) = record_sets.batches(memoryview(fetched))
    data[-1] = 7
    assert fetched[-1] == 7


@given(st.integers(0, len(batch()) - 1))
def test_a_batch_that_is_cut_off_is_left_out(kept):
    assert offsets(split(batch(10), batch(11)[:kept])) == [10]


def test_a_batch_of_a_header_alone_is_a_batch():
    ((header, data),) = split(batches.data([], last_offset_delta=4))
    assert len(data) == record_batch.HEADER_BYTES
    assert (header.record_count, header.last_offset) == (0, 4)


# Older formats


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_older_formats_are_read_as_batches(magic):
    found = split(old(10, magic), old(12, magic, b"x" * 300), batch(13))
    assert offsets(found) == [10, 12, 13]
    opened = [record for each in found for record in records.open_batch(*each)]
    times = [-1, -1] if magic == 0 else [NOW_MS, NOW_MS]
    assert [(each.offset, each.timestamp) for each in opened] == [
        (10, times[0]),
        (12, times[1]),
        (13, NOW_MS),
    ]
    assert records.read_body(opened[1].body).value == b"x" * 300


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_that_is_cut_off_is_left_out(magic):
    whole = old(11, magic)
    for kept in range(len(whole)):
        assert offsets(split(old(10, magic), whole[:kept])) == [10]


def test_a_short_message_at_the_very_end_is_read():
    """It is shorter than a header of v2."""
    assert len(messages.message(5, None, magic=0)) < record_batch.HEADER_BYTES
    assert offsets(split(messages.message(5, None, magic=0))) == [5]


# Damage


@pytest.mark.parametrize("length", [48, 0, -1, -13, -(1 << 31)])
def test_a_length_that_holds_no_header_is_damage(length):
    wrong = bytearray(batch(11))
    struct.pack_into(">i", wrong, 8, length)
    pieces = record_sets.batches(memoryview(batch(10) + wrong))
    assert next(pieces)[0].base_offset == 10
    with pytest.raises(record_sets.DamagedBatchError, match=f"length of {length} bytes") as raised:
        next(pieces)
    assert raised.value.base_offset == 11


@pytest.mark.parametrize("magic", [3, 4, 127, 128, 255])
def test_a_format_that_nobody_has_written_yet_is_told(magic):
    wrong = bytearray(batch(11))
    wrong[16] = magic
    pieces = record_sets.batches(memoryview(batch(10) + wrong))
    next(pieces)
    with pytest.raises(record_sets.DamagedBatchError, match=f"record format v{magic}"):
        next(pieces)


def test_the_end_of_a_batch_that_would_fit_and_cannot_be_one_is_damage():
    stub = struct.pack(">qi", 11, 9) + bytes(4) + b"\x02" + bytes(4)
    pieces = record_sets.batches(memoryview(batch(10) + stub))
    next(pieces)
    with pytest.raises(record_sets.DamagedBatchError, match="impossible"):
        next(pieces)


@pytest.mark.parametrize("length", [-12, -13, 0, 13])
def test_an_old_message_of_an_impossible_length_is_damage(length):
    wrong = bytearray(old(11))
    struct.pack_into(">i", wrong, 8, length)
    pieces = record_sets.batches(memoryview(batch(10) + wrong))
    next(pieces)
    with pytest.raises(record_sets.DamagedBatchError) as raised:
        next(pieces)
    assert raised.value.base_offset == 11


def test_a_damaged_message_is_told_by_its_offset():
    wrong = bytearray(old(11))
    wrong[-1] ^= 1
    pieces = record_sets.batches(memoryview(old(10) + wrong))
    next(pieces)
    with pytest.raises(record_sets.DamagedBatchError, match="checksum") as raised:
        next(pieces)
    assert raised.value.base_offset == 11


# Fuzzed


def batches_or_refused(data):
    """What is given lies within the data, in order, and is whole."""
    given = 0
    try:
        for header, found in record_sets.batches(memoryview(data)):
            assert header.size == len(found) >= record_batch.HEADER_BYTES
            given += 1
    except record_sets.DamagedBatchError:
        return given
    return given


@settings(max_examples=examples.of(150))
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_batches_or_refused(data):
    batches_or_refused(data)


@settings(max_examples=examples.of(150))
@given(st.binary(min_size=17, max_size=120), st.integers(0, 3), st.integers(-20, 130))
def test_arbitrary_bytes_that_say_their_format_are_too(data, magic, length):
    whole = bytearray(data)
    whole[16] = magic
    struct.pack_into(">i", whole, 8, length)
    batches_or_refused(bytes(whole))


@settings(max_examples=examples.of(150), deadline=None)
@given(st.data())
def test_changed_and_cut_sets_are_batches_or_refused(data):
    kinds = st.sampled_from(
        [
            lambda at: batch(at, count=2),
            lambda at: old(at, 0),
            old,
            lambda at: messages.wrapper(
                at + 1, [old(0), old(1)], magic=1, codec=1, timestamp=NOW_MS
            ),
        ]
    )
    chosen = data.draw(st.lists(kinds, min_size=1, max_size=4))
    whole = bytearray(b"".join(kind(at * 2) for at, kind in enumerate(chosen)))
    assert batches_or_refused(whole) == len(chosen)
    for _ in range(data.draw(st.integers(0, 2))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    batches_or_refused(whole[: data.draw(st.integers(0, len(whole)))])
