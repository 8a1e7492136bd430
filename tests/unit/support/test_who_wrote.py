"""A double is laid at the door of who wrote the second record."""

from __future__ import annotations

from tests.support.who_wrote import Batch, Doubled, judge

OURS, OTHERS, NO_ID = 7, 8, -1
BATCHES = [
    Batch(first=0, last=1, producer=NO_ID),
    Batch(first=2, last=4, producer=OURS),
    Batch(first=6, last=9, producer=OTHERS),
]


def test_the_second_one_counts_for_its_writer():
    assert judge([(0, "a"), (1, "b"), (2, "c")], BATCHES, {OURS}) == Doubled(0, 0)
    assert judge([(0, "a"), (2, "a"), (3, "b")], BATCHES, {OURS}) == Doubled(1, 0)
    assert judge([(2, "a"), (6, "a"), (9, "a")], BATCHES, {OURS}) == Doubled(0, 2)
    assert judge([(0, "a"), (1, "a")], BATCHES, {OURS}) == Doubled(0, 1)


def test_one_of_ours_hides_behind_none_of_javas():
    records = [(0, "a"), (1, "b"), (2, "a"), (6, "b"), (7, "c")]
    assert judge(records, BATCHES, {OURS}) == Doubled(1, 1)
    assert judge(records, BATCHES, {OURS, OTHERS}) == Doubled(2, 0)
