"""Where groups stand after a move, and the way on where they do not."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.failover import group_offset_writes
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.group_offset_writes import VerifiedPosition
from mm2.failover.journal_step_results import FinalPositions
from mm2.offsets.checkpoint_rules import OffsetAndMetadata

HERE, OTHER = TopicPartition("east.orders", 0), TopicPartition("east.orders", 1)


def final(**places: int) -> FinalPositions:
    positions = {
        place: OffsetAndMetadata(offset=to)
        for place, to in zip((HERE, OTHER), places.values(), strict=False)
    }
    return FinalPositions(positions=positions, set_back=frozenset())


def at(offset: int | None) -> OffsetAndMetadata | None:
    return None if offset is None else OffsetAndMetadata(offset=offset)


def compared(stands: dict[TopicPartition, int | None]) -> list[VerifiedPosition]:
    positions = {place: at(offset) for place, offset in stands.items()}
    return group_offset_writes.compare_committed_offsets(
        {"billing": final(a=45, b=50)}, {"billing": positions}
    )


@pytest.mark.parametrize(
    ("stands", "before"),
    [
        ({HERE: 45, OTHER: 50}, []),
        ({HERE: 60, OTHER: 50}, []),
        ({HERE: 44, OTHER: 50}, [HERE]),
        ({HERE: 45}, [OTHER]),
        ({HERE: None, OTHER: 49}, [HERE, OTHER]),
    ],
)
def test_further_is_right_and_before_is_not(stands, before):
    assert [each.partition for each in compared(stands) if each.is_below_written_offset] == before
    assert [
        each.partition
        for each in group_offset_writes.select_unaccepted_positions(compared(stands), ())
    ] == before


@pytest.mark.parametrize(
    ("code", "left"),
    [("lower-position", 0), ("lower-position:billing", 0), ("lower-position:mail", 1), ("lag", 1)],
)
def test_what_is_accepted_is_not_wrong(code, left):
    found = compared({HERE: 44, OTHER: 50})
    assert len(group_offset_writes.select_unaccepted_positions(found, {code})) == left


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (FailoverKind.EMERGENCY, "mm2 failover --from east --to west"),
        (FailoverKind.PLANNED, "mm2 failover --from east --to west --planned"),
        (FailoverKind.BACK, "mm2 failback --from east --to west"),
    ],
)
def test_the_way_on_names_what_differs_and_what_to_type(kind, command):
    wanted = FailoverRequest(origin="east", destination="west", kind=kind)
    wrong = group_offset_writes.select_unaccepted_positions(compared({HERE: 44}), ())
    said = group_offset_writes.explain_unaccepted_positions(wrong, wanted, journal="a move.jsonl")
    assert "group billing, east.orders-0: committed offset 44 instead of 45" in said
    assert "group billing, east.orders-1: no committed offset instead of 50" in said
    assert f"{command} --group billing --execute" in said
    resume = "--resume --journal 'a move.jsonl' --accept lower-position:billing"
    assert said.endswith(f"{command} {resume}")


def test_programs_read_where_each_stands():
    told = [group_offset_writes.position_to_json(each) for each in compared({HERE: 44, OTHER: 51})]
    assert told == [
        {
            "group": "billing",
            "topic": "east.orders",
            "partition": number,
            "written_offset": to,
            "current_offset": stands,
            "is_below_written_offset": before,
        }
        for number, to, stands, before in ((0, 45, 44, True), (1, 50, 51, False))
    ]
