from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import compression, record_batch, record_codec, record_set_splitter
from mm2.formats.record_codec import BatchRecord, RecordFields
from mm2.formats.record_set_splitter import DamagedBatchError, MalformedLegacyMessageError
from tests.fakes import batches, generated, messages
from tests.fakes.batches import Record, Stamp
from tests.support import examples

NOW_MS = 1_790_000_000_000


def batch(base_offset=0, *, count=1, value=b"value"):
    held = [Record(value=value, timestamp=NOW_MS + at) for at in range(count)]
    return batches.data(held, Stamp(base_offset=base_offset, leader_epoch=6))


def old(offset, magic=1, value=b"old"):
    return messages.message(offset, value, magic=magic, timestamp=NOW_MS)


def split(*parts):
    return list(record_set_splitter.iter_batches(memoryview(b"".join(parts))))


def offsets(found):
    return [header.base_offset for header, _ in found]


# Whole batches


def test_whole_batches_are_given_with_their_bytes():
    one, two = batch(10, count=2), batch(12, value=b"x" * 300)
    found = split(one, two)
    assert [bytes(data) for _, data in found] == [one, two]
    assert offsets(found) == [10, 12]
    assert [header for header, _ in found] == [
        record_batch.read_batch_header(memoryview(each)) for each in (one, two)
    ]


def test_batches_are_views_into_what_was_fetched():
    fetched = bytearray(batch(10))
    ((_, data),) = record_set_splitter.iter_batches(memoryview(fetched))
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
    opened = [record for each in found for record in record_codec.decode_batch(*each)]
    times = [-1, -1] if magic == 0 else [NOW_MS, NOW_MS]
    assert [(each.offset, each.timestamp) for each in opened] == [
        (10, times[0]),
        (12, times[1]),
        (13, NOW_MS),
    ]
    assert record_codec.decode_record_body(opened[1].body).value == b"x" * 300


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
    pieces = record_set_splitter.iter_batches(memoryview(batch(10) + wrong))
    assert next(pieces)[0].base_offset == 10
    with pytest.raises(DamagedBatchError, match=f"length of {length} bytes") as raised:
        next(pieces)
    assert raised.value.base_offset == 11


@pytest.mark.parametrize("magic", [3, 4, 127, 128, 255])
def test_a_format_that_nobody_has_written_yet_is_told(magic):
    wrong = bytearray(batch(11))
    wrong[16] = magic
    pieces = record_set_splitter.iter_batches(memoryview(batch(10) + wrong))
    next(pieces)
    with pytest.raises(DamagedBatchError, match=f"record format v{magic}"):
        next(pieces)


def test_the_end_of_a_batch_that_would_fit_and_cannot_be_one_is_damage():
    stub = struct.pack(">qi", 11, 9) + bytes(4) + b"\x02" + bytes(4)
    pieces = record_set_splitter.iter_batches(memoryview(batch(10) + stub))
    next(pieces)
    with pytest.raises(DamagedBatchError, match="the data is too short for a batch header"):
        next(pieces)


@pytest.mark.parametrize("length", [-12, -13, 0, 13])
def test_an_old_message_of_an_impossible_length_is_damage(length):
    wrong = bytearray(old(11))
    struct.pack_into(">i", wrong, 8, length)
    pieces = record_set_splitter.iter_batches(memoryview(batch(10) + wrong))
    next(pieces)
    with pytest.raises(DamagedBatchError) as raised:
        next(pieces)
    assert raised.value.base_offset == 11


def test_a_damaged_message_is_told_by_its_offset():
    wrong = bytearray(old(11))
    wrong[-1] ^= 1
    pieces = record_set_splitter.iter_batches(memoryview(old(10) + wrong))
    next(pieces)
    with pytest.raises(DamagedBatchError, match="checksum") as raised:
        next(pieces)
    assert raised.value.base_offset == 11


# Fuzzed


def batches_or_refused(data):
    """What is given lies within the data, in order, and is whole."""
    given = 0
    try:
        for header, found in record_set_splitter.iter_batches(memoryview(data)):
            assert header.size == len(found) >= record_batch.HEADER_BYTES
            given += 1
    except DamagedBatchError:
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


CODECS = [1, 2, 3, 4]
maybe_bytes = generated.maybe_bytes
held_messages = st.lists(
    st.tuples(maybe_bytes, maybe_bytes, generated.timestamps), min_size=1, max_size=5
)


def as_records(message):
    batch = memoryview(record_set_splitter.convert_legacy_message(memoryview(message)).batch)
    header = record_batch.read_batch_header(batch)
    assert record_batch.has_valid_crc(batch, header)
    assert (header.size, header.producer_id) == (len(batch), -1)
    return header, record_codec.decode_batch(header, batch)


def record(offset, timestamp, key, value):
    return BatchRecord(offset, timestamp, record_codec.encode_record_body(RecordFields(key, value)))


# Single messages


@settings(deadline=None, max_examples=examples.of(60))
@given(maybe_bytes, maybe_bytes, st.integers(0, (1 << 63) - 1))
def test_a_message_of_v0_is_a_batch_of_one_without_timestamp(key, value, offset):
    header, found = as_records(messages.message(offset, value, magic=0, key=key))
    assert found == [record(offset, -1, key, value)]
    assert (header.base_offset, header.last_offset, header.attributes) == (offset, offset, 0)


@settings(deadline=None, max_examples=examples.of(60))
@given(maybe_bytes, maybe_bytes, st.integers(-1, (1 << 63) - 1), st.booleans())
def test_a_message_of_v1_has_the_timestamp_that_stands_in_it(key, value, timestamp, appended):
    attributes = messages.APPEND_TIME if appended else 0
    message = messages.message(
        7, value, magic=1, key=key, timestamp=timestamp, attributes=attributes
    )
    header, found = as_records(message)
    assert found == [record(7, timestamp, key, value)]
    assert (header.attributes, header.max_timestamp) == (0, timestamp)


# Messages that hold others


@settings(deadline=None, max_examples=examples.of(60))
@given(held_messages, st.sampled_from(CODECS), st.integers(0, 1 << 50), st.data())
def test_what_a_message_of_v0_holds_has_whole_offsets(said, codec, base, data):
    offsets = data.draw(gapped(base, len(said)))
    held = [
        messages.message(at, value, magic=0, key=key)
        for at, (key, value, _) in zip(offsets, said, strict=True)
    ]
    header, found = as_records(messages.wrapper(offsets[-1], held, magic=0, codec=codec))
    assert found == [
        record(at, -1, key, value) for at, (key, value, _) in zip(offsets, said, strict=True)
    ]
    assert (header.attributes, header.last_offset) == (codec, offsets[-1])


@settings(deadline=None, max_examples=examples.of(60))
@given(held_messages, st.sampled_from(CODECS), st.integers(0, 1 << 50), st.data())
def test_what_a_message_of_v1_holds_counts_from_its_first(said, codec, base, data):
    deltas = data.draw(gapped(0, len(said)))
    held = [
        messages.message(delta, value, magic=1, key=key, timestamp=timestamp)
        for delta, (key, value, timestamp) in zip(deltas, said, strict=True)
    ]
    last = base + deltas[-1]
    newest = max(timestamp for _, _, timestamp in said)
    wrapped = messages.wrapper(last, held, magic=1, codec=codec, timestamp=newest)
    header, found = as_records(wrapped)
    assert found == [
        record(base + delta, timestamp, key, value)
        for delta, (key, value, timestamp) in zip(deltas, said, strict=True)
    ]
    assert (header.base_offset, header.last_offset) == (base + deltas[0], last)


@st.composite
def gapped(draw, first, count):
    found = [first]
    for _ in range(count - 1):
        found.append(found[-1] + draw(st.sampled_from([1, 1, 2, 9])))
    return found


def test_where_compaction_took_the_first_the_others_stay_where_they_were():
    held = [messages.message(at, b"v", magic=1, timestamp=NOW_MS) for at in (3, 7)]
    header, found = as_records(messages.wrapper(107, held, magic=1, codec=1))
    assert [each.offset for each in found] == [103, 107]
    assert header.base_offset == 103


def test_under_log_append_time_the_outer_messages_time_is_that_of_all():
    held = [messages.message(at, b"v", magic=1, timestamp=NOW_MS + at) for at in range(3)]
    wrapped = messages.wrapper(
        12, held, magic=1, codec=1, timestamp=NOW_MS + 500, attributes=messages.APPEND_TIME
    )
    header, found = as_records(wrapped)
    assert [each.timestamp for each in found] == [NOW_MS + 500] * 3
    assert not header.attributes & record_batch.LOG_APPEND_TIME


def test_offsets_count_as_the_outer_messages_format_says_whatever_the_inner_ones_is():
    """As Java reads what brokers of old did not compare (`DeepRecordsIterator`)."""
    old, new = (
        [messages.message(at, b"v", magic=m, timestamp=NOW_MS) for at in (3, 7)] for m in (0, 1)
    )
    _, found = as_records(messages.wrapper(107, old, magic=1, codec=1, timestamp=NOW_MS))
    assert [(each.offset, each.timestamp) for each in found] == [(103, -1), (107, -1)]
    _, found = as_records(messages.wrapper(7, new, magic=0, codec=1))
    assert [(each.offset, each.timestamp) for each in found] == [(3, NOW_MS), (7, NOW_MS)]


# Damage


def refused(message, saying):
    with pytest.raises(MalformedLegacyMessageError, match=saying):
        record_set_splitter.convert_legacy_message(memoryview(message))


FINE = messages.message(7, b"value", magic=1, timestamp=NOW_MS, key=b"key")


@pytest.mark.parametrize("at", [12, 16, 17, 18, 30, len(FINE) - 1])
def test_one_changed_byte_is_found(at):
    damaged = bytearray(FINE)
    damaged[at] ^= 1
    with pytest.raises(MalformedLegacyMessageError):
        record_set_splitter.convert_legacy_message(memoryview(damaged))


def changed(message, at, new):
    return messages.rechecked(message[:at] + new + message[at + len(new) :])


@pytest.mark.parametrize(
    ("message", "saying"),
    [
        (b"", "the message has only 0 bytes"),
        (FINE[:25], "the message has only 25 bytes"),
        (changed(FINE, 16, b"\x02"), "message format v2"),
        (changed(FINE, 16, b"\xff"), "message format v-1"),
        (changed(FINE, 26, struct.pack(">i", 99)), "a field has a length of 99 bytes"),
        (messages.rechecked(FINE + b"x"), "1 unexpected bytes after the message's value"),
        (messages.rechecked(FINE[:35]), "the message is truncated"),
        (messages.message(7, None, magic=1, attributes=1), "compressed message is empty"),
        (messages.wrapper(7, [], magic=1, codec=1), "compressed message is empty"),
        (messages.message(7, b"garbage", magic=1, attributes=1), "gzip data is damaged"),
        (messages.message(7, b"garbage", magic=1, attributes=6), "codec 6"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damage_is_told(message, saying):
    refused(message, saying)


@pytest.mark.parametrize(
    ("held", "saying"),
    [
        (messages.wrapper(0, [FINE], magic=1, codec=1), "contains another compressed message"),
        (FINE + b"tail", "4 unexpected bytes after the last inner message"),
        (FINE[:-1], "an inner message has an invalid size of 42 bytes"),
        (FINE[:8] + bytes(4) + FINE[12:], "an inner message has an invalid size of 12 bytes"),
        (FINE[:16] + b"\x02" + FINE[17:], "message format v2"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damage_inside_is_told(held, saying):
    refused(messages.wrapper(9, [held], magic=1, codec=2), saying)


# Limits


def part(message, **limits):
    found = record_set_splitter.convert_legacy_message(memoryview(message), **limits)
    header = record_batch.read_batch_header(memoryview(found.batch))
    decoded = record_codec.decode_batch(header, memoryview(found.batch))
    assert decoded[-1].offset == header.last_offset
    return [each.offset for each in decoded], found.is_whole


def of_many(count, *, last, magic=1, value=b"v"):
    first = 0 if magic == 1 else last - count + 1
    held = [messages.message(first + at, value, magic=magic) for at in range(count)]
    return messages.wrapper(last, held, magic=magic, codec=1)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_many_is_converted_in_parts(monkeypatch, magic):
    monkeypatch.setattr(record_set_splitter, "CONVERTED_RECORDS_MAX", 2)
    message = of_many(5, last=14, magic=magic)
    assert part(message) == ([10, 11], False)
    assert part(message, position=12) == ([12, 13], False)
    assert part(message, position=14) == ([14], True)


def test_a_part_has_a_limited_size_but_at_least_one_message(monkeypatch):
    monkeypatch.setattr(record_set_splitter, "CONVERTED_BYTES_MAX", 300)
    message = of_many(3, last=2, value=b"v" * 100)
    assert part(message) == ([0, 1], False)
    assert part(of_many(2, last=1, value=b"v" * 1000)) == ([0], False)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_many_is_scanned_in_linear_time(monkeypatch, magic):
    """Each part scanned all inner messages, twice."""
    monkeypatch.setattr(record_set_splitter, "CONVERTED_RECORDS_MAX", 10)
    scanned = []
    read = record_set_splitter._read_inner_message_head

    def counted(*of):
        scanned.append(of)
        return read(*of)

    monkeypatch.setattr(record_set_splitter, "_read_inner_message_head", counted)
    message = of_many(1000, last=5000, magic=magic, value=b"linear")
    found, position, whole = [], 0, False
    while not whole:
        read_offsets, whole = part(message, position=position)
        found += read_offsets
        position = read_offsets[-1] + 1
    assert found == list(range(4001, 5001))
    assert len(scanned) < 2500
    assert part(message, position=4001)[0] == list(range(4001, 4011)), "an earlier part again"
    assert part(message, position=4500)[0] == list(range(4500, 4510))
    assert part(message, position=6000) == ([5000], True)


def test_what_one_read_does_not_convert_is_left_for_the_next(monkeypatch):
    monkeypatch.setattr(record_set_splitter, "CONVERTED_RECORDS_MAX", 3)
    read = memoryview(of_many(2, last=1) + of_many(5, last=6) + batch(7) + of_many(5, last=12))
    found, position = [], 0
    while position < 13:
        before = position
        for header, data in record_set_splitter.iter_batches(read, position=position):
            if header.last_offset >= position:
                found += [each.offset for each in record_codec.decode_batch(header, data)]
                position = header.last_offset + 1
        assert position > before
    assert found == list(range(13))


def test_a_read_converts_a_limited_size(monkeypatch):
    monkeypatch.setattr(record_set_splitter, "CONVERTED_BYTES_MAX", 300)
    read = [of_many(2, last=last, value=b"v" * 100) for last in (1, 3, 5)]
    assert offsets(split(*read)) == [0, 2]


def test_messages_before_the_position_are_not_decompressed(monkeypatch):
    monkeypatch.setattr(compression, "decompress", lambda *_, **__: pytest.fail("decompressed"))
    read = memoryview(of_many(2, last=1) + batch(2))
    assert offsets(record_set_splitter.iter_batches(read, position=2)) == [2]


@pytest.mark.parametrize("size", [-12, -1, 0, 13])
def test_a_message_before_the_position_has_a_valid_size(size):
    """Otherwise reading would not advance."""
    read = memoryview(bytearray(old(1)) + batch(2))
    struct.pack_into(">i", read, 8, size)
    with pytest.raises(DamagedBatchError, match="bytes"):
        list(record_set_splitter.iter_batches(read, position=2))


def test_a_message_that_decompresses_to_more_than_is_allowed_is_told_with_its_end():
    fits = of_many(1, last=0, value=b"v" * 900)
    assert offsets(record_set_splitter.iter_batches(memoryview(fits), max_bytes=1000)) == [0]
    message = memoryview(of_many(1, last=0, value=b"v" * 1000))
    with pytest.raises(DamagedBatchError, match="more than 1000 bytes") as raised:
        list(record_set_splitter.iter_batches(message, max_bytes=1000))
    assert (raised.value.next_offset, raised.value.too_large) == (1, True)


def test_a_message_of_v0_with_another_offset_than_its_last_one_has_an_end():
    held = [messages.message(at, b"v", magic=0) for at in (3, 7)]
    read = messages.wrapper(9, held, magic=0, codec=1) + batch(10)
    assert offsets(split(read)) == [3, 10]
    assert offsets(record_set_splitter.iter_batches(memoryview(read), position=8)) == [7, 10]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("offsets", [(3, 1), (2, 2), (0, 5, 4), (0, 1 << 31)])
def test_messages_that_do_not_follow_each_other_are_refused(offsets, magic):
    held = [messages.message(at, b"v", magic=magic) for at in offsets]
    wrapped = messages.wrapper(offsets[-1], held, magic=magic, codec=1)
    with pytest.raises(MalformedLegacyMessageError, match="offset"):
        record_set_splitter.convert_legacy_message(memoryview(wrapped))


# Fuzzed


def batch_or_refused(message):
    try:
        batch = memoryview(record_set_splitter.convert_legacy_message(memoryview(message)).batch)
    except MalformedLegacyMessageError:
        return
    header = record_batch.read_batch_header(batch)
    found = record_codec.decode_batch(header, batch)
    assert len(found) == header.record_count >= 1
    assert found[-1].offset == header.last_offset


@settings(deadline=None, max_examples=examples.of(200))
@given(st.binary(max_size=80), st.sampled_from([0, 1, 2, 255]), st.integers(0, 15))
def test_arbitrary_bytes_are_a_message_or_refused(data, magic, attributes):
    whole = bytearray(data.ljust(18, b"\0"))
    whole[16], whole[17] = magic, attributes
    batch_or_refused(messages.rechecked(whole))


@settings(deadline=None, max_examples=examples.of(100))
@given(st.data(), st.sampled_from([0, 1]), st.sampled_from([0, 1, 2, 3, 4]))
def test_changed_messages_are_messages_or_refused(data, magic, codec):
    held = [
        bytearray(messages.message(at, b"v%d" % at, magic=magic, timestamp=NOW_MS, key=b"k"))
        for at in range(3)
    ]
    if codec:
        victim = data.draw(st.sampled_from(held))
        change(data, victim)
        whole = bytearray(
            messages.wrapper(
                12, [bytes(each) for each in held], magic=magic, codec=codec, timestamp=NOW_MS
            )
        )
    else:
        whole = held[0]
        change(data, whole)
    batch_or_refused(messages.rechecked(whole))
    kept = data.draw(st.integers(16, len(whole)))
    batch_or_refused(messages.rechecked(whole[:kept]))


def change(data, message):
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
