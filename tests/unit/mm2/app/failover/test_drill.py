"""What the group of a drill may have lost, and what not."""

from __future__ import annotations

import pytest

from mm2.app.failover import drill

SENT = range(20)  # even numbers in one partition, odd ones in the other


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (range(10), range(10, 20), set()),
        (range(10), range(4, 16), set()),  # read again, and the last ones lost
        (range(10), [10, 12, 14, 16], set()),  # nothing of the other partition had arrived
        (range(10), range(14, 20), {10, 11, 12, 13}),
        (range(10), [10, 14, 11, 13], {12}),
        (range(10), [], set()),
    ],
)
def test_only_what_no_later_record_follows_is_lost_with_the_cluster(before, after, found):
    assert drill.skipped(SENT, before, after) == found
