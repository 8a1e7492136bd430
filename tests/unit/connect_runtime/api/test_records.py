from __future__ import annotations

import datetime
from typing import Any

import pytest

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.records import Header, Headers, SinkRecord, SourceRecord, TimestampType
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct

SINK = SinkRecord(
    topic="orders",
    kafka_partition=3,
    key_schema=schema.STRING_SCHEMA,
    key="k",
    value="v",
    timestamp=17,
    headers=Headers().add_string("h", "1"),
    kafka_offset=42,
    timestamp_type=TimestampType.CREATE_TIME,
)
SOURCE = SourceRecord(
    topic="orders",
    value_schema=schema.STRING_SCHEMA,
    value="v",
    source_partition={"filename": "a"},
    source_offset={"position": 5},
)


def test_a_sink_record_remembers_where_it_was_consumed():
    assert SINK.original_topic == "orders"
    changed = SINK.new_record(topic="routed", kafka_partition=9, value="w")
    assert (changed.topic, changed.kafka_partition, changed.value) == ("routed", 9, "w")
    assert changed.original_topic == "orders"
    assert changed.original_kafka_partition == 3
    assert changed.original_kafka_offset == changed.kafka_offset == 42
    assert changed.timestamp_type is TimestampType.CREATE_TIME
    assert changed.new_record(topic="again").original_topic == "orders"


def test_where_it_was_consumed_is_part_of_equality():
    assert SINK.new_record() == SINK
    there_and_back = SINK.new_record(topic="routed").new_record(topic="orders")
    assert there_and_back == SINK
    elsewhere = SinkRecord(topic="orders", kafka_partition=3, kafka_offset=42)
    other = SinkRecord(topic="orders", kafka_partition=3, kafka_offset=42, original_topic="x")
    assert elsewhere != other


def test_a_source_record_keeps_its_place_in_the_source():
    changed = SOURCE.new_record(key="k", key_schema=schema.STRING_SCHEMA)
    assert changed.key == "k"
    assert changed.source_partition == {"filename": "a"}
    assert changed.source_offset == {"position": 5}
    assert changed != SOURCE


def test_a_new_record_has_headers_of_its_own():
    changed = SINK.new_record()
    changed.headers.add_string("more", "2")
    assert len(SINK.headers) == 1
    replaced = SINK.new_record(headers=[Header("x", 1)])
    assert [each.key for each in replaced.headers] == ["x"]


def test_only_what_a_transform_may_change_can_be_changed():
    with pytest.raises(TypeError, match="kafka_offset, nonsense"):
        SINK.new_record(kafka_offset=1, nonsense=2)
    with pytest.raises(TypeError):
        SOURCE.new_record(source_offset={})


def some() -> Headers:
    return (
        Headers()
        .add_string("a", "1")
        .add_string("b", "2")
        .add_string("a", "3")
        .add_bytes("c", b"4")
    )


def keys(of):
    return [(each.key, each.value) for each in of]


def test_names_repeat_and_order_is_kept():
    assert keys(some()) == [("a", "1"), ("b", "2"), ("a", "3"), ("c", b"4")]
    assert len(some()) == 4
    last = some().last_with_name("a")
    assert last is not None
    assert last.value == "3"
    assert some().last_with_name("none") is None
    assert keys(some().all_with_name("a")) == [("a", "1"), ("a", "3")]


def test_removing_and_retaining():
    assert keys(some().remove("a")) == [("b", "2"), ("c", b"4")]
    assert keys(some().retain_latest()) == [("b", "2"), ("a", "3"), ("c", b"4")]
    twice = some().add_string("b", "5")
    assert keys(twice.retain_latest("b")) == [("a", "1"), ("a", "3"), ("c", b"4"), ("b", "5")]
    assert len(some().clear()) == 0


def test_a_change_is_made_in_place_and_none_removes():
    renamed = some().apply(lambda each: each.rename("z"), "a")
    assert keys(renamed) == [("z", "1"), ("b", "2"), ("z", "3"), ("c", b"4")]
    assert keys(some().apply(lambda each: None if each.key == "a" else each)) == [
        ("b", "2"),
        ("c", b"4"),
    ]


def test_a_duplicate_goes_its_own_way():
    original = some()
    copy = original.duplicate()
    assert copy == original
    copy.add_string("d", "5")
    assert copy != original
    assert len(original) == 4


def test_values_must_be_of_their_schemas_class():
    one = Headers()
    one.add("t", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), logical_types.TIMESTAMP_SCHEMA)
    one.add("n", None, schema.OPTIONAL_INT8_SCHEMA)
    one.add("plain", 5)
    for value, described in ((None, schema.STRING_SCHEMA), (5, schema.STRING_SCHEMA)):
        with pytest.raises(DataError):
            one.add("x", value, described)
    assert len(one) == 3
    null: Any = None
    with pytest.raises(DataError, match="Null header keys"):
        Header(null, 1)


def test_null_text_and_bytes_are_optional():
    one = Headers().add_string("a", None).add_bytes("b", None)
    assert [each.schema for each in one] == [
        schema.OPTIONAL_STRING_SCHEMA,
        schema.OPTIONAL_BYTES_SCHEMA,
    ]


def test_a_struct_brings_its_schema():
    described = SchemaBuilder.struct().field("a", schema.INT8_SCHEMA).build()
    assert Header("s", Struct(described)).schema is described
