from __future__ import annotations

import pytest

from connect_runtime.core.state import offset_records


@pytest.mark.parametrize(
    ("connector", "partition", "key"),
    [
        ("mm2-source", {"cluster": "a", "partition": 0, "topic": "t"},
         '["mm2-source",{"cluster":"a","partition":0,"topic":"t"}]'),
        ("f", {"filename": "/tmp/ü"}, '["f",{"filename":"/tmp/ü"}]'),
        ("😀", {}, '["\\uD83D\\uDE00",{}]'),
        ("f", {}, '["f",{}]'),
        ("f", None, '["f",null]'),
        ("f", {"b": b"\x01", "x": 1.0, "n": None, "t": True},
         '["f",{"b":"AQ==","x":1.0,"n":null,"t":true}]'),
    ],
)  # fmt: skip
def test_keys_are_written_as_java_writes_them(connector, partition, key):
    assert offset_records.encode_key(connector, partition) == key.encode()


def test_values_are_written_as_java_writes_them():
    assert offset_records.encode_value({"offset": 41}) == b'{"offset":41}'
    assert offset_records.encode_value({"position": 2**40}) == b'{"position":1099511627776}'
    assert offset_records.encode_value(None) is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"a": {}}, "the field 'a' is dict"),
        ({"a": [1]}, "the field 'a' is list"),
        ({1: "a"}, "whose name is int"),
        ([], "is list; it must be a map"),
        ({"a": 2**63}, "does not fit into 64 bits"),
    ],
)
def test_what_is_not_flat_cannot_be_stored(bad, reason):
    with pytest.raises(offset_records.BadOffset, match=f"a partition of 'c'.*{reason}"):
        offset_records.encode_key("c", bad)
    with pytest.raises(offset_records.BadOffset, match=f"an offset of 'c'.*{reason}"):
        offset_records.encode_value(bad, connector="c")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "without key"),
        (b"", "no pair"),
        (b"\x00", "no JSON"),
        (b"{}", "no pair"),
        (b"{", "no JSON"),
        (b'"c"', "no pair"),
        (b"null", "no pair"),
        (b'["c"]', "no pair"),
        (b'["c",{},1]', "no pair"),
        (b"[1,{}]", "whose connector is a number"),
        (b'["c",[]]', "whose partition is an array"),
        (b'["c",{"a":{}}]', "the field 'a' is dict"),
    ],
)
def test_keys_of_another_shape_are_told(key, reason):
    """OffsetUtilsTest.testProcessPartitionKey*"""
    with pytest.raises(offset_records.BadOffset, match=reason):
        offset_records.decode_key(key)


def test_keys_are_read_back():
    key = offset_records.OffsetKey("c", {"t": "x", "p": 1})
    assert offset_records.decode_key(b'["c",{"t":"x","p":1}]') == key
    assert offset_records.decode_key(b'["c",null]') == offset_records.OffsetKey("c", None)


def test_values_are_read_back_or_told():
    assert offset_records.decode_value(b'{"offset":41}') == {"offset": 41}
    assert offset_records.decode_value(b"null") is None
    assert offset_records.decode_value(None) is None
    for bad in (b"{", b"[]", b'{"a":[]}'):
        with pytest.raises(offset_records.BadOffset, match="a stored offset of 'c'"):
            offset_records.decode_value(bad, connector="c")


def test_the_order_of_fields_does_not_matter_to_the_canonical_form():
    one = offset_records.OffsetKey("c", {"a": 1, "b": 2})
    other = offset_records.OffsetKey("c", {"b": 2, "a": 1})
    assert offset_records.canonical(one) == offset_records.canonical(other)
    different: list[offset_records.Partition | None] = [{"a": 1, "b": "2"}, {"a": 1}, {}, None]
    for each in different:
        key = offset_records.OffsetKey("c", each)
        assert offset_records.canonical(one) != offset_records.canonical(key)
    assert offset_records.canonical(one) != offset_records.canonical(
        offset_records.OffsetKey("d", {"a": 1, "b": 2})
    )
