from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import schema_fields

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(texts, st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_what_was_written_is_read(text, small, large):
    data = schema_fields.int64(large) + schema_fields.string(text) + schema_fields.int32(small)
    reader = schema_fields.Reader(data)
    assert (reader.int64(), reader.string(), reader.int32()) == (large, text, small)


def test_golden_bytes():
    assert schema_fields.string("orders") == b"\0\x06orders"
    assert schema_fields.string("ü") == b"\0\x02\xc3\xbc"
    assert schema_fields.int16(-2) == b"\xff\xfe"
    assert schema_fields.int32(7) == b"\0\0\0\x07"


def test_the_longest_text_has_32767_bytes():
    assert len(schema_fields.string("x" * 32_767)) == 32_769
    with pytest.raises(schema_fields.TooLongError, match="32768 bytes"):
        schema_fields.string("x" * 32_768)
    with pytest.raises(schema_fields.TooLongError):
        schema_fields.string("ü" * 16_384)


def test_what_is_no_text_is_replaced_as_in_java():
    assert schema_fields.string("a\ud800b") == b"\0\x03a?b"
    assert schema_fields.Reader(b"\0\x03a\xffb").string() == "a\ufffdb"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01", b"\0\x05abcd", b"\xff\xff", b"\x80\x00a"])
def test_texts_that_are_cut_short_or_of_no_length_are_malformed(data):
    with pytest.raises(schema_fields.MalformedRecordError):
        schema_fields.Reader(data).string()


@pytest.mark.parametrize(("field", "size"), [("int16", 2), ("int32", 4), ("int64", 8)])
def test_numbers_that_are_cut_short_are_malformed(field, size):
    assert getattr(schema_fields.Reader(bytes(size)), field)() == 0
    for less in range(size):
        with pytest.raises(schema_fields.MalformedRecordError, match=f"where {less} are left"):
            getattr(schema_fields.Reader(bytes(less)), field)()


def test_an_unknown_version_is_refused():
    schema_fields.Reader(b"\0\0").version(0)
    with pytest.raises(schema_fields.UnknownVersionError, match="version 1, where 0 is known"):
        schema_fields.Reader(b"\0\1").version(0)
    with pytest.raises(schema_fields.MalformedRecordError):
        schema_fields.Reader(b"\0").version(0)
