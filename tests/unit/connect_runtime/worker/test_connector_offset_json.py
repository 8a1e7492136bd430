"""A source's offsets become what its tasks would read.

A sink's offsets as users give them: numbers or text; what is wrong is told in Java's words."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import DataError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.worker import connector_offset_json
from connect_runtime.worker.connector_offset_json import InvalidSinkOffsetError


def test_they_are_what_a_store_gives_back():
    given = [
        ({"a": 1, "b": None}, {"n": 1.5, "raw": b"\x00", "far": float("inf"), "yes": True}),
        ({}, None),
        (None, {"n": 2**63 - 1}),
    ]
    assert connector_offset_json.normalize_source_offsets(given) == [
        ({"a": 1, "b": None}, {"n": 1.5, "raw": "AA==", "far": "Infinity", "yes": True}),
        ({}, None),
        (None, {"n": 2**63 - 1}),
    ]


def test_fields_are_in_the_order_of_javas_maps():
    [(partition, _)] = connector_offset_json.normalize_source_offsets(
        [({"topic": "t", "partition": 0, "cluster": "a"}, None)]
    )
    assert partition is not None
    assert list(partition) == ["cluster", "partition", "topic"]


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "called"),
    [
        ([1], "ARRAY"),
        ({"a": 1}, "MAP"),
        (2**63, "class java.math.BigInteger"),
        (-(2**63) - 1, "class java.math.BigInteger"),
        (Odd(), "class Odd"),
    ],
)
def test_what_is_not_flat_is_refused(value, called):
    told = f"Offsets may only contain primitive types as values, but field f contains {called}"
    for pair in (({"f": value}, {"n": 1}), ({"n": 1}, {"ok": 1, "f": value})):
        with pytest.raises(DataError) as raised:
            connector_offset_json.normalize_source_offsets([pair])
        assert str(raised.value) == told


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def place(partition, topic="t"):
    return {"kafka_topic": topic, "kafka_partition": partition}


def at(offset):
    return {"kafka_offset": offset}


def test_numbers_may_come_as_text_and_the_last_of_a_partition_counts():
    given = [(place(0), at(5)), (place("+1"), at("0007")), (place("0"), at(6)), (place(2), None)]
    assert connector_offset_json.parse_sink_offsets(given) == {
        T0: 6,
        T1: 7,
        TopicPartition("t", 2): None,
    }
    assert connector_offset_json.parse_sink_offsets([(place(0, 5), at(1))]) == {
        TopicPartition("5", 0): 1
    }
    assert connector_offset_json.parse_sink_offsets([]) == {}


def test_limits_are_those_of_javas_numbers():
    given = [(place(2**31 - 1), at(2**63 - 1)), (place("-2147483648"), at(-(2**63)))]
    assert list(connector_offset_json.parse_sink_offsets(given).values()) == [2**63 - 1, -(2**63)]


PARTITION = "Partition values for sink connectors need to be integers."
OFFSET = "Offset values for sink connectors need to be integers."


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ((None, at(1)), "The partition for a sink connector offset cannot be null or missing"),
        (
            ({"kafka_topic": "t"}, at(1)),
            "must contain the keys 'kafka_topic' and 'kafka_partition'",
        ),
        (({"kafka_partition": 1}, at(1)), "must contain the keys 'kafka_topic' and"),
        ((place(0, None), at(1)), "Kafka topic names must be valid strings and may not be null"),
        ((place(None), at(1)), "Kafka partitions must be valid numbers and may not be null"),
        ((place("x"), at(1)), f"provided offsets: 'x'. {PARTITION}"),
        ((place(2**31), at(1)), f"provided offsets: '2147483648'. {PARTITION}"),
        ((place(" 1"), at(1)), f"provided offsets: ' 1'. {PARTITION}"),
        ((place("9" * 5_000), at(1)), PARTITION),
        ((place(True), at(1)), f"provided offsets: 'true'. {PARTITION}"),
        ((place(0), {}), "should either be null or contain the key 'kafka_offset'"),
        ((place(0), at(None)), f"provided offsets: 'null'. {OFFSET}"),
        ((place(0), at(1.0)), f"provided offsets: '1.0'. {OFFSET}"),
        ((place(0), at(float("inf"))), f"provided offsets: 'Infinity'. {OFFSET}"),
        ((place(0), at(2**63)), f"provided offsets: '9223372036854775808'. {OFFSET}"),
        ((place(0), at([1, {"a": None}])), f"provided offsets: '[1, {{a=null}}]'. {OFFSET}"),
    ],
)
def test_what_is_wrong_is_told(pair, told):
    with pytest.raises(InvalidSinkOffsetError) as raised:
        connector_offset_json.parse_sink_offsets([(place(1), at(1)), pair])
    assert told in str(raised.value)


def test_what_is_below_nought_is_found():
    assert connector_offset_json.find_negative_offset({T0: 0, T1: None}) is None
    assert connector_offset_json.find_negative_offset({T0: 1, T1: -1}) == T1


def test_a_groups_offsets_are_shown_in_order():
    assert connector_offset_json.format_sink_offsets({T1: 3, T0: 9}) == [
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 9}),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": 3}),
    ]
