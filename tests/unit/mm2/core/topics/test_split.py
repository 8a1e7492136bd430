from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import ids
from mm2.core.topics import split

PARTITIONS = st.sets(
    st.builds(ids.TopicPartition, st.sampled_from(["a", "b", "c-1"]), st.integers(0, 30))
)


def test_partitions_go_round_in_order_of_name_and_number():
    seen = [ids.TopicPartition("b", 0), ids.TopicPartition("a", 10), ids.TopicPartition("a", 2)]
    tasks = split.round_robin(seen, 2)
    assert [[str(p) for p in task] for task in tasks] == [["a-2", "b-0"], ["a-10"]]


def test_no_partitions_no_tasks():
    assert split.round_robin([], 4) == []


def test_no_more_tasks_than_partitions():
    assert len(split.round_robin([ids.TopicPartition("a", 0)], 4)) == 1


def test_at_least_one_task_must_be_allowed():
    with pytest.raises(AssertionError):
        split.round_robin([], 0)


@given(PARTITIONS, st.integers(1, 10))
def test_every_partition_has_one_task_and_shares_are_even(partitions, tasks_max):
    tasks = split.round_robin(partitions, tasks_max)
    assert Counter(p for task in tasks for p in task) == Counter(partitions)
    sizes = [len(task) for task in tasks]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert all(task == sorted(task) for task in tasks)
    assert tasks == split.round_robin(sorted(partitions, reverse=True), tasks_max)
