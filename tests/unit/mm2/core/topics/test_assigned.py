"""What a task's configuration says; against Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import errors
from connect_runtime.base import ids
from mm2.core import filters, flows
from mm2.core.topics import assigned, split

TOPICS = st.text(st.sampled_from("ab-._9"), min_size=1, max_size=8)
PARTITIONS = st.builds(ids.TopicPartition, TOPICS, st.integers(0, 2**31 - 1))


def partition(topic: str, number: int) -> ids.TopicPartition:
    return ids.TopicPartition(topic, number)


def test_each_task_gets_the_connectors_configuration_its_share_and_its_number():
    shares = [[partition("t", 0), partition("a-1", 2)], [partition("t", 1)]]
    assert assigned.partition_configs({"name": "n"}, shares) == [
        {"name": "n", "task.assigned.partitions": "t-0,a-1-2", "task.index": "0"},
        {"name": "n", "task.assigned.partitions": "t-1", "task.index": "1"},
    ]


@given(st.lists(PARTITIONS, min_size=1, max_size=6))
def test_what_is_written_is_read(share):
    (config,) = assigned.partition_configs({}, [share])
    assert assigned.partitions(config) == share
    assert assigned.index(config) == 0


def test_what_only_we_say_is_said_where_there_is_something_to_say():
    t, u = (partition(name, 0) for name in "tu")
    limits = flows.Budgets(
        flow=1000, topics=(flows.TopicBudget(filters.compile_patterns(["t"]), 90),)
    )
    first, second = assigned.partition_configs({}, [[t], [u]], added={u}, budgets=limits)
    assert first == {
        "task.assigned.partitions": "t-0",
        "task.index": "0",
        "mm2.task.throttle": "500",
        "mm2.task.throttle.topics": "t=90",
    }
    assert second.items() >= {"mm2.task.added.partitions": "u-0"}.items()
    assert assigned.added(first) == frozenset()
    assert assigned.added(second) == {u}
    assert assigned.budget(first) == split.TaskBudget(flow=500, topics={"t": 90})
    assert assigned.budget(second) == split.TaskBudget(flow=500, topics={})
    assert assigned.budget({}) == split.TaskBudget(flow=0, topics={})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("mm2.task.added.partitions", "t"),
        ("mm2.task.throttle", "0"),
        ("mm2.task.throttle", "1kB"),
        ("mm2.task.throttle.topics", "t"),
        ("mm2.task.throttle.topics", "t=0"),
    ],
)
def test_what_only_we_say_is_refused_where_it_cannot_be_read(key, text):
    read = assigned.added if key == assigned.ADDED else assigned.budget
    with pytest.raises(errors.ConfigError, match=key.replace(".", r"\.")):
        read({key: text})


@pytest.mark.parametrize("text", ["t", "t-", "t-x", "t-1,", "t-²", "-"])
def test_what_is_no_partition_is_refused(text):
    with pytest.raises(errors.ConfigError, match=r"task\.assigned\.partitions"):
        assigned.partitions({"task.assigned.partitions": text})


def test_what_is_missing_is_refused():
    with pytest.raises(errors.ConfigError, match=r"task\.assigned\.partitions"):
        assigned.partitions({})
    with pytest.raises(errors.ConfigError, match=r"task\.assigned\.groups"):
        assigned.groups({})
    assert assigned.index({}) is None
    with pytest.raises(errors.ConfigError, match=r"task\.index"):
        assigned.index({"task.index": "one"})


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
def test_groups_come_back_unless_their_ids_cannot_be_written(groups):
    safe = [group for group in groups if not assigned.unwritable(group)]
    if safe:
        (config,) = assigned.group_configs({}, [safe])
        assert assigned.groups(config) == set(safe)


@pytest.mark.parametrize(
    ("group", "expected"), [("a", False), ("a b", False), ("a,b", True), (" a", True), ("", True)]
)
def test_ids_that_no_configuration_can_hold(group, expected):
    assert assigned.unwritable(group) is expected
