from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import grouping


@pytest.mark.parametrize(
    ("items", "groups", "expected"),
    [
        ([1, 2, 3, 4, 5], 1, [[1, 2, 3, 4, 5]]),
        ([1, 2, 3, 4, 5], 2, [[1, 2, 3], [4, 5]]),
        ([1, 2, 3, 4, 5], 3, [[1, 2], [3, 4], [5]]),
        ([1, 2, 3, 4, 5], 5, [[1], [2], [3], [4], [5]]),
        ([1, 2, 3, 4, 5], 7, [[1], [2], [3], [4], [5], [], []]),
        ([], 2, [[], []]),
    ],
)
def test_neighbours_stay_together(items, groups, expected):
    assert grouping.group_partitions(items, groups) == expected


@pytest.mark.parametrize("groups", [0, -1])
def test_there_is_at_least_one_group(groups):
    with pytest.raises(ValueError, match="one is the least"):
        grouping.group_partitions([1], groups)


@given(items=st.lists(st.integers()), groups=st.integers(1, 50))
def test_nothing_is_lost_and_sizes_differ_by_one_at_most(items, groups):
    shared = grouping.group_partitions(items, groups)
    assert [each for group in shared for each in group] == items
    sizes = [len(group) for group in shared]
    assert len(sizes) == groups
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
