"""Has anything happened while a move lay still?"""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import ids
from mm2.core.failover import details, fences, going_on, journal, seen, steps
from mm2.core.offsets import log_ends, offset_map
from tests.fakes import copied_map

HERE, OTHER = ids.TopicPartition("orders", 0), ids.TopicPartition("orders", 1)
Step = steps.Step


def fenced(epoch: int) -> dict[str, Any]:
    each = fences.Fenced(partition=HERE, marker=1, order=(1, epoch), tail=0)
    return dict(details.of_fenced(each))


def noted(*, again: int | None = None, end: int | None = None) -> journal.Journal:
    """HERE was fenced with epoch 3, or `again` with a later one; both agreed on `end`."""
    found = journal.Journal()
    found.details[Step.FENCE] = {"partitions": [fenced(3)]}
    found.details[Step.LOOK_AGAIN] = {"fenced_again": [] if again is None else [fenced(again)]}
    if end is not None:
        found.details[Step.AGREE] = {"ends": details.by_partition({HERE: end})}
    return found


def known(epoch: int) -> offset_map.OffsetMap:
    found = offset_map.OffsetMap()
    for key, value in copied_map.log(HERE, through=10, delta=5, epoch=epoch):
        found.apply(key or b"", value)
    return found


def mirrored(end: int | None) -> seen.Mirrored:
    here = None if end is None else log_ends.Ends(start=0, end=end)
    return seen.Mirrored(partition=HERE, mirror=HERE, here=here)


def why(found: journal.Journal, *, epoch: int = 3, **given: Any) -> str:
    return going_on.why_changed(
        found, **{"known": known(epoch), "to_fence": {HERE}, "mirrored": (), **given}
    )


def test_nothing_has_changed():
    assert why(noted(end=100), mirrored=[mirrored(100)]) == ""
    assert why(noted(again=5), epoch=5) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epoch": 4}, "somebody has copied orders-0"),
        ({"to_fence": {HERE, OTHER}}, "somebody has copied orders-1"),
    ],
)
def test_who_copies_is_named(given, said):
    assert why(noted(), **given) == said


@pytest.mark.parametrize(("end", "said"), [(103, "is 103"), (None, "cannot be asked for")])
def test_an_end_that_moved_is_told(end, said):
    found = why(noted(end=100), mirrored=[mirrored(end)])
    assert found == f"the end of orders-0 was 100 when both agreed, and {said}"
