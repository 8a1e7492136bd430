from __future__ import annotations

import pytest

from connect_runtime.api import headers, records, schema

SINK = records.SinkRecord(
    topic="orders",
    kafka_partition=3,
    key_schema=schema.STRING_SCHEMA,
    key="k",
    value="v",
    timestamp=17,
    headers=headers.Headers().add_string("h", "1"),
    kafka_offset=42,
    timestamp_type=records.TimestampType.CREATE_TIME,
)
SOURCE = records.SourceRecord(
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
    assert changed.timestamp_type is records.TimestampType.CREATE_TIME
    assert changed.new_record(topic="again").original_topic == "orders"


def test_where_it_was_consumed_is_part_of_equality():
    assert SINK.new_record() == SINK
    there_and_back = SINK.new_record(topic="routed").new_record(topic="orders")
    assert there_and_back == SINK
    elsewhere = records.SinkRecord(topic="orders", kafka_partition=3, kafka_offset=42)
    other = records.SinkRecord(
        topic="orders", kafka_partition=3, kafka_offset=42, original_topic="x"
    )
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
    replaced = SINK.new_record(headers=[headers.Header("x", 1)])
    assert [each.key for each in replaced.headers] == ["x"]


def test_only_what_a_transform_may_change_can_be_changed():
    with pytest.raises(TypeError, match="kafka_offset, nonsense"):
        SINK.new_record(kafka_offset=1, nonsense=2)
    with pytest.raises(TypeError):
        SOURCE.new_record(source_offset={})
