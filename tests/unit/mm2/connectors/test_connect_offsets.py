"""Connect source offsets: the maps, and what may be altered (KIP-875, Java's values)."""

from __future__ import annotations

import json

import pytest

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import SourceOffset
from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage import java_hash_map_json
from mm2.connectors import connect_offsets
from mm2.connectors.heartbeat_schedule import HeartbeatSchedule

T0 = TopicPartition("orders", 0)
SOURCE = connect_offsets.build_source_partition("A", T0)
CHECKPOINT = connect_offsets.build_checkpoint_partition("billing", TopicPartition("A.orders", 0))
HEARTBEAT = dict(HeartbeatSchedule(source="A", target="B", interval_s=1).source_partition)
CHECKS = {
    "source": (connect_offsets.check_source_offsets, SOURCE),
    "checkpoint": (connect_offsets.check_checkpoint_offsets, CHECKPOINT),
    "heartbeat": (connect_offsets.check_heartbeat_offsets, HEARTBEAT),
}


def alter(kind, offset, **changed) -> None:
    check, partition = CHECKS[kind]
    check([SourceOffset(partition={**partition, **changed}, offset=offset)])


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_keys_are_written_byte_by_byte_as_by_java():
    """`reference/mirrormaker2.md` 2.4."""
    assert compact(SOURCE) == '{"cluster":"A","partition":0,"topic":"orders"}'
    assert compact(CHECKPOINT) == ('{"partition":0,"topic":"A.orders","group":"billing"}')
    for partition in (SOURCE, CHECKPOINT, HEARTBEAT):
        assert list(partition) == java_hash_map_json.order_keys_by_java_hash_bucket(partition)


@pytest.mark.parametrize("value", ["nan", None, object(), 3.14, -420, "-420", "10", True])
@pytest.mark.parametrize("kind", CHECKS)
def test_offsets_that_are_refused(kind, value):
    with pytest.raises(ConnectError, match="invalid value"):
        alter(kind, {"offset": value})


@pytest.mark.parametrize("value", [0, 10, 2**31])
def test_any_place_of_a_partition_may_be_set_but_only_0_of_the_others(value):
    alter("source", {"offset": value})
    for kind in ("checkpoint", "heartbeat"):
        if value == 0:
            alter(kind, {"offset": value})
        else:
            with pytest.raises(ConnectError, match="the only accepted value is 0"):
                alter(kind, {"offset": value})


@pytest.mark.parametrize("kind", CHECKS)
def test_an_offset_without_its_key_is_refused(kind):
    with pytest.raises(ConnectError, match="is missing the 'offset' key"):
        alter(kind, {"place": 0})


@pytest.mark.parametrize(
    ("kind", "key"),
    [(kind, key) for kind, (_, partition) in CHECKS.items() for key in partition],
)
def test_a_partition_needs_all_its_keys_with_the_right_values(kind, key):
    check, partition = CHECKS[kind]
    less = {name: value for name, value in partition.items() if name != key}
    with pytest.raises(ConnectError, match=f"is missing the '{key}' key"):
        check([SourceOffset(partition=less, offset={"offset": 0})])
    with pytest.raises(ConnectError, match=f"invalid value .* for the '{key}' key"):
        alter(kind, {"offset": 0}, **{key: 3.5})


@pytest.mark.parametrize(("value", "why"), [(-1, "negative"), (2**31, "integer"), ("0", "integer")])
def test_numbers_of_partitions(value, why):
    with pytest.raises(ConnectError, match=why):
        alter("source", {"offset": 0}, partition=value)


@pytest.mark.parametrize("kind", CHECKS)
def test_anything_may_be_removed_and_nothing_else_without_a_partition(kind):
    check, _ = CHECKS[kind]
    check([])
    check([SourceOffset(partition=each, offset=None) for each in (None, {}, {"x": 1})])
    with pytest.raises(ConnectError, match="may not be null"):
        check([SourceOffset(partition=None, offset={"offset": 0})])


def test_the_stored_offset_is_that_of_the_last_mirrored_record():
    assert connect_offsets.read_next_offset({"offset": 4}) == 5
    assert connect_offsets.read_next_offset(connect_offsets.build_source_offset(5)) == 5
    for stored in (None, {}, {"offset": -1}, {"offset": None}, {"offset": "4"}):
        assert connect_offsets.read_next_offset(stored) is None


def test_altered_offsets_are_where_partitions_begin_anew():
    def at(number: object, offset: object, cluster: str = "A") -> SourceOffset:
        place = {"cluster": cluster, "topic": "t", "partition": number}
        return SourceOffset(place, None if offset is None else {"offset": offset})

    given = [
        at(0, 5),
        at(1, None),
        at(2, 5, cluster="B"),
        at("x", None),
        SourceOffset(None, None),
        SourceOffset({"cluster": "A"}, None),
    ]
    found = connect_offsets.find_start_positions(given, cluster="A", start="latest")
    assert found == {
        TopicPartition("t", 0): "offset:6",
        TopicPartition("t", 1): "latest",
    }
