from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.storage import offset_topic
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.offset_topic import (
    InvalidSourceOffset,
    OffsetTopicState,
    SourceOffsetChanged,
    SourceOffsetKey,
    SourcePartition,
)
from tests.support import examples


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
    assert offset_topic.encode_offset_key(connector, partition) == key.encode()


def test_values_are_written_as_java_writes_them():
    assert offset_topic.encode_offset_value({"offset": 41}) == b'{"offset":41}'
    assert offset_topic.encode_offset_value({"position": 2**40}) == b'{"position":1099511627776}'
    assert offset_topic.encode_offset_value(None) is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"a": {}}, "the field 'a' is dict"),
        ({"a": [1]}, "the field 'a' is list"),
        ({1: "a"}, "field name of type int"),
        ([], "is list; it must be a map"),
        ({"a": 2**63}, "does not fit into 64 bits"),
    ],
)
def test_what_is_not_flat_cannot_be_stored(bad, reason):
    with pytest.raises(InvalidSourceOffset, match=f"a partition of 'c'.*{reason}"):
        offset_topic.encode_offset_key("c", bad)
    with pytest.raises(InvalidSourceOffset, match=f"an offset of 'c'.*{reason}"):
        offset_topic.encode_offset_value(bad, connector="c")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "has no key"),
        (b"", "not a pair"),
        (b"\x00", "not JSON"),
        (b"{}", "not a pair"),
        (b"{", "not JSON"),
        (b'"c"', "not a pair"),
        (b"null", "not a pair"),
        (b'["c"]', "not a pair"),
        (b'["c",{},1]', "not a pair"),
        (b"[1,{}]", "the connector in an offset key is a number"),
        (b'["c",[]]', "partition in an offset key of 'c' is an array"),
        (b'["c",{"a":{}}]', "the field 'a' is dict"),
    ],
)
def test_keys_of_another_shape_are_told(key, reason):
    """OffsetUtilsTest.testProcessPartitionKey*"""
    with pytest.raises(InvalidSourceOffset, match=reason):
        offset_topic.decode_offset_key(key)


def test_keys_are_read_back():
    key = SourceOffsetKey("c", {"t": "x", "p": 1})
    assert offset_topic.decode_offset_key(b'["c",{"t":"x","p":1}]') == key
    assert offset_topic.decode_offset_key(b'["c",null]') == SourceOffsetKey("c", None)


def test_values_are_read_back_or_told():
    assert offset_topic.decode_offset_value(b'{"offset":41}') == {"offset": 41}
    assert offset_topic.decode_offset_value(b"null") is None
    assert offset_topic.decode_offset_value(None) is None
    for bad in (b"{", b"[]", b'{"a":[]}'):
        with pytest.raises(InvalidSourceOffset, match="a stored offset of 'c'"):
            offset_topic.decode_offset_value(bad, connector="c")


def test_the_order_of_fields_does_not_matter_to_the_canonical_form():
    one = SourceOffsetKey("c", {"a": 1, "b": 2})
    other = SourceOffsetKey("c", {"b": 2, "a": 1})
    assert offset_topic.build_canonical_key(one) == offset_topic.build_canonical_key(other)
    different: list[SourcePartition | None] = [{"a": 1, "b": "2"}, {"a": 1}, {}, None]
    for each in different:
        key = SourceOffsetKey("c", each)
        assert offset_topic.build_canonical_key(one) != offset_topic.build_canonical_key(key)
    assert offset_topic.build_canonical_key(one) != offset_topic.build_canonical_key(
        SourceOffsetKey("d", {"a": 1, "b": 2})
    )


def put(log, key, value):
    return log.apply_record(key, value, offset=0)


def test_an_offset_is_found_by_connector_and_partition():
    log = OffsetTopicState()
    change = put(log, b'["c",{"t":"x","p":0}]', b'{"offset":1}')
    assert change == SourceOffsetChanged(SourceOffsetKey("c", {"t": "x", "p": 0}))
    assert log.get_offset("c", {"t": "x", "p": 0}) == {"offset": 1}
    assert log.get_offset("d", {"t": "x", "p": 0}) is None
    assert log.get_offset("c", {"t": "x", "p": 1}) is None
    assert log.list_partitions("c") == [{"t": "x", "p": 0}]


def test_a_later_offset_replaces_and_a_tombstone_forgets():
    log = OffsetTopicState()
    for value in (b'{"offset":1}', b'{"offset":2}'):
        put(log, b'["c",{"p":0}]', value)
    assert log.get_offset("c", {"p": 0}) == {"offset": 2}
    put(log, b'["c",{"p":0}]', None)
    put(log, b'["never",{"p":0}]', None)
    assert log.get_offset("c", {"p": 0}) is None
    assert log.list_partitions("c") == []
    assert log.snapshot() == {}
    log.check_invariants()


def test_an_offset_that_java_wrote_in_another_order_is_found_and_kept_up_there():
    log = OffsetTopicState()
    java = b'["mm2",{"cluster":"a","partition":0,"topic":"t"}]'
    put(log, java, b'{"offset":7}')
    ours: SourcePartition = {"topic": "t", "partition": 0, "cluster": "a"}
    assert log.get_offset("mm2", ours) == {"offset": 7}
    assert log.get_record_key("mm2", ours) == java


def test_the_order_given_comes_first_and_else_the_one_written_last():
    log = OffsetTopicState()
    put(log, b'["c",{"a":1,"b":2}]', b'{"o":1}')
    put(log, b'["c",{"b":2,"a":1}]', b'{"o":2}')
    assert log.get_offset("c", {"a": 1, "b": 2}) == {"o": 1}
    assert log.get_offset("c", {"b": 2, "a": 1}) == {"o": 2}
    assert len(log.list_partitions("c")) == 1
    assert log.list_record_keys("c", {"a": 1, "b": 2}) == [
        b'["c",{"a":1,"b":2}]',
        b'["c",{"b":2,"a":1}]',
    ]
    put(log, b'["c",{"a":1,"b":2}]', None)
    assert log.get_offset("c", {"a": 1, "b": 2}) == {"o": 2}
    assert log.list_record_keys("c", {"a": 9}) == []


def test_bytes_are_found_as_what_they_are_stored_as():
    log = OffsetTopicState()
    put(log, b'["c",{"b":"AQ==","a":1}]', b'{"o":1}')
    assert log.get_offset("c", {"a": 1, "b": b"\x01"}) == {"o": 1}
    assert log.get_offset("c", {"a": 1, "b": "AQ=="}) == {"o": 1}


def test_numbers_and_strings_are_different_partitions():
    log = OffsetTopicState()
    put(log, b'["c",{"p":0}]', b'{"o":1}')
    assert log.get_offset("c", {"p": "0"}) is None
    assert log.get_offset("c", {"p": 0.0}) is None


@pytest.mark.parametrize("key", [b"{", b'["c"]', b'[1,{}]', b'["c",7]', None])  # fmt: skip
def test_keys_of_another_shape_are_skipped_and_kept(key):
    log = OffsetTopicState()
    assert isinstance(put(log, key, b'{"o":1}'), SkippedRecord)
    assert log.snapshot() == ({} if key is None else {key: b'{"o":1}'})
    log.check_invariants()


def test_an_offset_of_no_partition_is_no_partition():
    log = OffsetTopicState()
    put(log, b'["c",null]', b'{"o":1}')
    assert log.list_partitions("c") == []
    assert log.get_offset("c", None) == {"o": 1}


def test_one_unreadable_offset_leaves_the_others_alone():
    """KAFKA-15800."""
    log = OffsetTopicState()
    put(log, b'["c",{"p":0}]', b"{")
    put(log, b'["c",{"p":1}]', b'{"o":1}')
    with pytest.raises(InvalidSourceOffset, match="'c'"):
        log.get_offset("c", {"p": 0})
    assert log.get_offset("c", {"p": 1}) == {"o": 1}


def test_the_value_under_one_key_is_had_as_it_is():
    log = OffsetTopicState()
    put(log, b"anything", b"at all")
    assert log.get_raw_value(b"anything") == b"at all"
    assert log.get_raw_value(b"nothing") is None


PARTITIONS = st.permutations([("t", "x"), ("p", 0)]).map(dict) | st.just({"p": 1}) | st.none()
WRITES = st.tuples(
    st.sampled_from(["c", "d"]), PARTITIONS, st.none() | st.integers(0, 3).map(lambda o: {"o": o})
)


@settings(max_examples=examples.of(60))
@given(st.lists(WRITES, max_size=20), st.data())
def test_the_fold_is_a_table_and_reading_again_changes_nothing(writes, data):
    records = [
        (offset_topic.encode_offset_key(c, p), offset_topic.encode_offset_value(o))
        for c, p, o in writes
    ]
    log = OffsetTopicState()
    table: dict[bytes, bytes] = {}
    again = data.draw(st.integers(0, len(records)))
    for key, value in records[:again] + records:
        put(log, key, value)
        log.check_invariants()
    for key, value in records:
        table.pop(key, None)
        if value is not None:
            table[key] = value
    assert log.snapshot() == table
    for connector, partition, _ in writes:
        key = offset_topic.encode_offset_key(connector, partition)
        if key in table:
            stored = offset_topic.decode_offset_value(table[key])
            assert log.get_offset(connector, partition) == stored
    for connector in ("c", "d"):
        known = [offset_topic.decode_offset_key(key) for key in table]
        wanted = [e.partition for e in known if e.connector == connector and e.partition]
        found = log.list_partitions(connector)
        assert all(each in wanted for each in found)
        assert all(each in found for each in wanted)
