from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import writers

from connect_runtime.protocol import varints


def kio_varint(value: int) -> bytes:
    buffer = io.BytesIO()
    writers.write_unsigned_varint(buffer, value)  # type: ignore[arg-type]
    return buffer.getvalue()


@given(st.integers(0, 2**32 - 1))
def test_varints_are_kios_and_come_back(value):
    assert varints.encode_varint(value) == kio_varint(value)
    assert varints.read_varint(b"x" + varints.encode_varint(value) + b"y", 1) == (
        value,
        1 + len(varints.encode_varint(value)),
    )


@given(st.text(max_size=300))
def test_compact_strings_come_back(text):
    assert varints.read_compact_string(varints.encode_compact_string(text) + b"?", 0)[0] == text


def test_zero_is_the_null_string():
    assert varints.read_compact_string(b"\x00", 0) == (None, 1)


def test_a_varint_of_more_than_32_bits_is_refused():
    with pytest.raises(ValueError, match="varint at 0 is longer than 5 bytes"):
        varints.read_varint(b"\xff" * 6, 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x05ab"])
def test_the_end_of_the_buffer_is_an_index_error(data):
    with pytest.raises(IndexError):
        varints.read_compact_string(data, 0)


def test_tags_come_raw_by_number():
    tags = b"\x02" + b"\x00\x02ab" + b"\x05\x00" + b"rest"
    assert varints.read_tagged_fields(tags, 0) == ({0: b"ab", 5: b""}, 7)
    assert varints.skip_tagged_fields(tags, 0) == 7
    assert varints.skip_tagged_fields(b"\x01\x00", 1) == 2
    with pytest.raises(IndexError, match="9 bytes expected"):
        varints.read_tagged_fields(b"\x01\x00\x09ab", 0)


@pytest.mark.parametrize("read", [varints.read_tagged_fields, varints.skip_tagged_fields])
def test_more_tagged_fields_than_a_section_may_have_are_refused_before_the_first_is_read(read):
    most = varints.MAX_TAGGED_FIELDS
    section = varints.encode_varint(most) + b"\x64\x00" * most
    read(section, 0)
    with pytest.raises(ValueError, match=f"{most + 1} tagged fields at 0"):
        read(varints.encode_varint(most + 1), 0)


def test_skipping_a_tagged_field_ends_at_the_end_of_the_buffer():
    with pytest.raises(IndexError, match="9 bytes expected"):
        varints.skip_tagged_fields(b"\x01\x00\x09ab", 0)


ID = bytes(range(16))


def answer(topic: bytes, *partitions: int) -> bytes:
    """One topic, of whose partitions each is a byte; tags behind both."""
    rows = bytes(partitions)
    return (
        varints.encode_varint(2) + topic + varints.encode_varint(len(rows) + 1) + rows + b"\x00\xff"
    )


def partition(body: memoryview, position: int, topic: str, topic_id: bytes):
    return (topic, topic_id, body[position]), position + 1


@pytest.mark.parametrize(
    ("version", "topic", "name", "number"),
    [
        (
            varints.FIRST_VERSION_BY_TOPIC_ID - 1,
            varints.encode_compact_string("orders"),
            "orders",
            varints.NO_TOPIC_ID,
        ),
        (varints.FIRST_VERSION_BY_TOPIC_ID, ID, "", ID),
    ],
)
def test_partitions_have_their_topics_name_or_id(version, topic, name, number):
    body = memoryview(b"head" + answer(topic, 3, 7))
    found, position = varints.decode_topic_partitions(body, 4, partition, version=version)
    assert found == [(name, number, 3), (name, number, 7)]
    assert body[position] == 0xFF, "what follows is for others"


def test_an_answer_may_hold_nothing():
    assert varints.decode_topic_partitions(memoryview(b"\x01"), 0, partition, version=12) == ([], 1)
