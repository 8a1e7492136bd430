"""What a move is done with: how it waits, and how it reads the flow's map."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.errors import RetriableError
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_planner import FailoverPlanner
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.topics.flow_config import Flow
from tests.fakes import copied_map, moves
from tests.fakes.moves import Clock
from tests.fakes.two_sides import FakeSides


class Growing:
    """A map topic of which more is there at each read; what was read does not come again."""

    def __init__(self, *parts: list[Any]) -> None:
        self.left = list(parts)
        self.closed = 0

    def read_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        for key, value in self.left.pop(0) if self.left else ():
            take(TopicRecord(topic="map", offset=0, key=key, value=value))

    def close(self) -> None:
        self.closed += 1


def about(tail: Growing | None = None, told: list[str] | None = None) -> FailoverContext:
    both, clock = FakeSides(Flow(source="east", target="west")), Clock()
    unused: Any = None
    return FailoverContext(
        clusters=both,
        map_reader=OffsetMapReader(lambda: tail or Growing(), where="west"),
        planner=FailoverPlanner(
            clusters=both, find_unreplicated=lambda _: {}, clock=clock, timeout_s=10.0
        ),
        stop_connectors=unused,
        list_running_tasks=unused,
        fence_partitions=unused,
        export_records=unused,
        clock=clock,
        sleep=clock.pause,
        print_line=(lambda _: None) if told is None else told.append,
        wait_s=10.0,
    )


def test_the_map_is_brought_up_to_date_and_not_read_anew():
    here, other = moves.HERE, moves.OTHER
    tail = Growing(
        copied_map.log(here, through=9, delta=1), copied_map.log(other, through=4, delta=1)
    )
    made = about(tail)
    assert made.read_offset_map().get_partition(here).next_source_offset == 9
    known = made.read_offset_map()
    assert (
        known.get_partition(here).next_source_offset,
        known.get_partition(other).next_source_offset,
    ) == (
        9,
        4,
    )
    made.close()
    assert tail.closed == 1


def test_what_fails_and_may_heal_is_waited_for():
    made, tries = about(), [RetriableError("away"), False, True]

    def done() -> bool:
        found = tries.pop(0)
        if isinstance(found, RetriableError):
            raise found
        return bool(found)

    made.wait_for_condition(done, lambda: "never")
    assert tries == []


@pytest.mark.parametrize(
    ("most_s", "said"), [(None, "timed out after 10 s: not yet"), (3.0, "timed out after 3 s: not")]
)
def test_what_never_comes_is_told(most_s: float | None, said: str):
    with pytest.raises(RetriableError, match=said):
        about().wait_for_condition(lambda: False, lambda: "not yet", max_wait_s=most_s)


def test_what_is_waited_for_and_how_long_still_is_told_now_and_then():
    told: list[str] = []
    with pytest.raises(RetriableError):
        about(told=told).wait_for_condition(lambda: False, lambda: "not yet")
    assert told == ["waiting, up to 5 s more: not yet"]


def test_what_failed_last_is_told():
    def done() -> bool:
        raise RetriableError("its coordinator is away")

    with pytest.raises(RetriableError, match="after 10 s: its coordinator is away"):
        about().wait_for_condition(done, lambda: "not yet")
