"""What one process compares: both logs in full, up to where it was told, or an answer why not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from connect_runtime.base import ids
from mm2.core.copy import match_messages
from mm2.pipeline import match_process
from tests.fakes import batches, plugin_contexts

PLACE = ids.TopicPartition("orders", 3)
WHERE = cast(Any, SimpleNamespace(remote_topic="east.orders", partition=3))

BUILT = SimpleNamespace(
    ListOffsetsTopic=SimpleNamespace,
    ListOffsetsPartition=SimpleNamespace,
    ListOffsetsRequest=SimpleNamespace,
)


class Questions:
    """A log from offset 0 on, of which all before `stable` can be read."""

    def __init__(self, *values: bytes, stable: int) -> None:
        records = [batches.Record(value=each, timestamp=5) for each in values]
        self.held = batches.data(records, batches.Stamp(base_offset=0))
        self.stable = stable

    def leader(self, topic, partition):
        return 1

    def ask(self, to, message):
        request = message.build(11, BUILT)
        latest = request.topics[0].partitions[0].timestamp == -1
        offset = self.stable if latest else 0
        found = SimpleNamespace(error_code=0, offset=offset)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])

    def fetch(self, topic, offset, **more):
        return SimpleNamespace(records=self.held, aborted=())


def compared(
    source: Questions, target: Questions, *, target_to: int, memory_bytes: int = 10_000
) -> match_messages.Compared:
    made = match_process.MatchProcess("unix:/nowhere", b"token")
    clock = plugin_contexts.Clock()
    made._clock = cast(Any, clock)

    def turn(wait_s: float) -> None:
        clock.now += wait_s

    cast(Any, made)._turn = turn
    bounds = match_messages.Bounds(partition=PLACE, target_to=target_to)
    sides = cast(Any, (source, target))
    asked = match_messages.Asked(bounds=(bounds,), memory_bytes=memory_bytes)
    return made._compared(bounds, WHERE, None, sides=sides, asked=asked)


def test_both_are_read_up_to_where_it_was_told():
    source = Questions(b"a", b"b", b"c", stable=3)
    found = compared(source, Questions(b"a", b"b", b"c", stable=3), target_to=2)
    assert (found.why, found.source, found.target) == ("", 3, 2)
    assert found.matched is not None
    assert found.matched.through == 2


def test_a_mirror_that_can_be_read_in_part_only_is_not_compared():
    source, target = Questions(b"a", b"b", stable=2), Questions(b"a", b"b", stable=1)
    found = compared(source, target, target_to=2)
    assert found.matched is None
    assert "up to offset 1 only, not 2" in found.why


def test_what_would_take_more_memory_than_it_may_is_left():
    source, target = Questions(b"a", b"b", stable=2), Questions(b"a", b"b", stable=2)
    assert compared(source, target, target_to=2, memory_bytes=860).why == ""
    found = compared(source, target, target_to=2, memory_bytes=859)
    assert found.matched is None
    assert "more than 1 records" in found.why
