"""What a task's configuration says; against Java: tests/interop/test_mirror_configs.py.

Who is handed which partitions, look by look, and which of them came later."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import TopicPartition
from mm2.topics import task_assignment, topic_filters
from mm2.topics.flow_config import FlowThrottles, TopicThrottle
from mm2.topics.task_assignment import (
    AssignableTopics,
    AssignmentPlan,
    PartitionAssignment,
    TaskThrottle,
)

TOPICS = st.text(st.sampled_from("ab-._9"), min_size=1, max_size=8)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))


def partition(topic: str, number: int) -> TopicPartition:
    return TopicPartition(topic, number)


def test_each_task_gets_the_connectors_configuration_its_share_and_its_number():
    shares = [[partition("t", 0), partition("a-1", 2)], [partition("t", 1)]]
    assert task_assignment.build_partition_task_configs({"name": "n"}, shares) == [
        {"name": "n", "task.assigned.partitions": "t-0,a-1-2", "task.index": "0"},
        {"name": "n", "task.assigned.partitions": "t-1", "task.index": "1"},
    ]


@given(st.lists(PARTITIONS, min_size=1, max_size=6))
def test_what_is_written_is_read(share):
    (config,) = task_assignment.build_partition_task_configs({}, [share])
    assert task_assignment.parse_partitions(config) == share
    assert task_assignment.parse_task_index(config) == 0


def test_what_only_we_say_is_said_where_there_is_something_to_say():
    t, u = (partition(name, 0) for name in "tu")
    limits = FlowThrottles(
        flow=1000, topics=(TopicThrottle(topic_filters.compile_patterns(["t"]), 90),)
    )
    first, second = task_assignment.build_partition_task_configs(
        {}, [[t], [u]], added={u}, throttles=limits
    )
    assert first == {
        "task.assigned.partitions": "t-0",
        "task.index": "0",
        "mm2.task.throttle": "500",
        "mm2.task.throttle.topics": "t=90",
    }
    assert second.items() >= {"mm2.task.added.partitions": "u-0"}.items()
    assert task_assignment.parse_added_partitions(first) == frozenset()
    assert task_assignment.parse_added_partitions(second) == {u}
    assert task_assignment.parse_throttle(first) == TaskThrottle(flow=500, topics={"t": 90})
    assert task_assignment.parse_throttle(second) == TaskThrottle(flow=500, topics={})
    assert task_assignment.parse_throttle({}) == TaskThrottle(flow=0, topics={})


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
    read = (
        task_assignment.parse_added_partitions
        if key == task_assignment.ADDED_PARTITIONS_KEY
        else task_assignment.parse_throttle
    )
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        read({key: text})


@pytest.mark.parametrize("text", ["t", "t-", "t-x", "t-1,", "t-²", "-"])
def test_what_is_no_partition_is_refused(text):
    with pytest.raises(ConfigError, match=r"task\.assigned\.partitions"):
        task_assignment.parse_partitions({"task.assigned.partitions": text})


def test_what_is_missing_is_refused():
    with pytest.raises(ConfigError, match=r"task\.assigned\.partitions"):
        task_assignment.parse_partitions({})
    with pytest.raises(ConfigError, match=r"task\.assigned\.groups"):
        task_assignment.parse_groups({})
    assert task_assignment.parse_task_index({}) is None
    with pytest.raises(ConfigError, match=r"task\.index"):
        task_assignment.parse_task_index({"task.index": "one"})


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
def test_groups_come_back_unless_their_ids_cannot_be_written(groups):
    safe = [group for group in groups if not task_assignment.is_group_unsafe_for_task_config(group)]
    if safe:
        (config,) = task_assignment.build_group_task_configs({}, [safe])
        assert task_assignment.parse_groups(config) == set(safe)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("a", False),
        ("a b", False),
        ("a$b{c}", False),
        ("a,b", True),
        (" a", True),
        ("", True),
        ("${file:/etc/mm2/secrets:key}", True),
        ("a${env:HOME}", True),
        ("${file:/etc/mm2/secrets", True),  # the next id in the list could complete it
    ],
)
def test_ids_that_no_configuration_can_hold(group, expected):
    assert task_assignment.is_group_unsafe_for_task_config(group) is expected


def parts(text: str) -> frozenset[TopicPartition]:
    """`a0 a1 b0`."""
    return frozenset(TopicPartition(each[0], int(each[1:])) for each in text.split())


def looked(copyable: str, *, more: str = "", unsure: str = "") -> AssignableTopics:
    found = parts(copyable)
    topics = {each.topic for each in found}.union(more, unsure)
    return AssignableTopics(topics=frozenset(topics), assignable=found, uncertain=frozenset(unsure))


def before(*shares: str, added: str = "") -> list[PartitionAssignment]:
    late = parts(added)
    return [
        PartitionAssignment(
            partitions=tuple(TopicPartition(each[0], int(each[1:])) for each in text.split()),
            added=late & parts(text),
        )
        for text in shares
    ]


def shown(shares: list[PartitionAssignment]) -> list[str]:
    return [" ".join(f"{p.topic}{p.partition}" for p in each.partitions) for each in shares]


def late(shares: list[PartitionAssignment]) -> set[str]:
    return {f"{p.topic}{p.partition}" for each in shares for p in each.added}


def plan(
    found: AssignableTopics,
    held: list[PartitionAssignment],
    *,
    beginning: str = "",
    tasks_max: int = 2,
) -> list[PartitionAssignment]:
    return task_assignment.plan_assignments(
        found, held, initial_topics=frozenset(beginning), tasks_max=tasks_max
    ).assignments


def test_the_first_plan_goes_round_and_nothing_in_it_came_later():
    found = plan(looked("a0 a1 b0"), [], beginning="ab")
    assert shown(found) == ["a0 b0", "a1"]
    assert late(found) == set()


def test_a_topic_that_comes_before_the_first_plan_was_published_came_later_all_the_same():
    assert late(plan(looked("a0 b0"), [], beginning="a")) == {"b0"}


def test_later_plans_leave_what_is_where_it_is_and_say_what_came():
    found = plan(looked("a0 a1 a2 b0"), before("a1", "a0"), beginning="a")
    assert shown(found) == ["a1 a2", "a0 b0"]
    assert late(found) == {"a2", "b0"}
    again = plan(looked("a0 a1 a2 b0"), found, beginning="ab")
    assert again == found


def test_what_came_later_stays_so_with_its_task_until_it_goes():
    held = before("a0 b0", added="b0")
    assert late(plan(looked("a0 b0"), held, beginning="ab")) == {"b0"}
    assert late(plan(looked("a0"), held, beginning="ab")) == set()


def test_an_order_that_somebody_else_wrote_is_kept_where_the_share_is():
    found = plan(looked("a0 a1 b0"), before("a1 a0", "b0"), beginning="ab")
    assert shown(found) == ["a1 a0", "b0"]


def test_partitions_that_cannot_be_judged_stay_with_their_task_and_are_given_to_nobody_else():
    """Their mirror is away, or may not be looked at: a copy finds out by itself."""
    found = plan(looked("a0", unsure="b"), before("a0 b0"), tasks_max=1)
    assert shown(found) == ["a0 b0"]
    assert shown(plan(looked("a0", unsure="b"), [], tasks_max=1)) == ["a0"]


def test_what_may_not_be_copied_is_taken_away_and_a_share_that_gets_empty_with_it():
    held = before("a0", "b0", "c0")
    assert shown(plan(looked("a0 c0", more="b"), held, tasks_max=3)) == ["a0", "c0"]
    assert shown(plan(looked("b0 c0"), held, tasks_max=3)) == ["c0", "b0"]
    assert plan(looked(""), held) == []


def test_fewer_tasks_take_over_what_the_last_ones_had():
    found = plan(looked("a0 a1 a2"), before("a0", "a1", "a2"), tasks_max=2)
    assert shown(found) == ["a0 a2", "a1"]
    assert late(found) == set()


def test_topics_are_there_from_the_beginning_unless_an_earlier_look_must_have_seen_them():
    def wants(*topics: str):
        return lambda topic: topic in topics

    found = looked("a0 b0 c0", more="d")
    assert task_assignment.find_initial_topics(found, [], wants()) == set("abcd")
    assert task_assignment.find_initial_topics(found, before(""), wants("a")) == set("abcd")
    held = before("a0")
    assert task_assignment.find_initial_topics(found, held, wants("a", "b")) == set("cd")


def test_where_all_start_at_their_first_record_nothing_comes_late():
    held = before("a0", added="a0")
    found = task_assignment.plan_assignments(
        looked("a0 a1 b0"), held, initial_topics=None, tasks_max=2
    ).assignments
    assert late(found) == set()


def test_topics_that_would_have_one_mirror_clash():
    def remote(topic: str) -> str:
        return topic.lower()

    assert task_assignment.find_mirror_name_conflicts("aAb", remote) == {"a": {"a", "A"}}
    assert task_assignment.find_mirror_name_conflicts("ab", remote) == {}


def test_partitions_that_are_moved_take_along_that_they_came_later():
    held = before("a0 b0", "a1", added="b0")
    found = task_assignment.redistribute_partitions(
        held, [share.partitions for share in before("a0", "a1 b0")]
    )
    assert (shown(found), late(found)) == (["a0", "a1 b0"], {"b0"})
    again = task_assignment.plan_assignments(
        looked("a0 a1 b0"), found, initial_topics=frozenset("ab"), tasks_max=2
    )
    assert again.assignments == found


def test_tasks_notice_other_partitions_and_other_beginnings_and_no_other_order():
    one = before("a0 a1", "b0")
    assert not task_assignment.do_assignments_differ(one, before("a1 a0", "b0"))
    assert task_assignment.do_assignments_differ(one, before("a0 a1"))
    assert task_assignment.do_assignments_differ(one, before("a0", "a1 b0"))
    assert task_assignment.do_assignments_differ(one, before("a0 a1", "b0", added="b0"))


def test_what_was_published_is_read_and_rubbish_counts_as_nothing():
    (share,) = before("a1 a0", added="a0")
    (config,) = task_assignment.build_partition_task_configs(
        {}, [share.partitions], added=share.added
    )
    found = task_assignment.parse_published_assignments(
        [config, {}, {"task.assigned.partitions": "a"}]
    )
    assert found == [share, *before("", "")]
    assert task_assignment.list_assigned_topics(found) == {"a"}


PARTS = st.frozensets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 5)))


@given(PARTS, PARTS, PARTS, st.integers(1, 4), st.integers(1, 4), st.sets(st.sampled_from("abc")))
def test_nothing_is_lost_or_handed_out_twice(first, second, third, few, many, unsure):
    """Over three looks, with the number of tasks changing."""

    def look(found: frozenset[TopicPartition], doubt: set[str]) -> AssignableTopics:
        topics = frozenset(each.topic for each in found) | doubt
        return AssignableTopics(topics=topics, assignable=found, uncertain=frozenset(doubt))

    beginning = frozenset(each.topic for each in first)
    held: list[PartitionAssignment] = []
    began = False
    for found, doubt, tasks_max in (
        (first, set(), few),
        (second, unsure, many),
        (third, set(), few),
    ):
        had = {each for share in held for each in share.partitions}
        now = task_assignment.plan_assignments(
            look(found, doubt), held, initial_topics=beginning, tasks_max=tasks_max
        ).assignments
        counted = Counter(each for share in now for each in share.partitions)
        assert set(counted) == found | {each for each in had if each.topic in doubt}
        assert set(counted.values()) <= {1}
        assert all(share.partitions for share in now)
        assert len(now) <= tasks_max
        if began:
            new = set(counted) - had
            marked = {each for share in now for each in share.added}
            known = {each.topic for each in had}
            assert {each for each in new if each.topic in known} <= marked
        assert all(share.added <= set(share.partitions) for share in now)
        held, began = now, bool(now)


SMALL_CONFIG_BYTES = len("a-0,b-0,c-0,c-1,")


def planned(found: AssignableTopics, held: list[PartitionAssignment], **more) -> AssignmentPlan:
    given = {"initial_topics": None, "tasks_max": 1, "bytes_max": SMALL_CONFIG_BYTES} | more
    return task_assignment.plan_assignments(found, held, **given)


def test_a_topic_that_has_no_room_is_left_out_as_a_whole_and_others_are_assigned():
    found = planned(looked("a0 c0 c1 c2 b0"), [])
    assert shown(found.assignments) == ["a0 b0"]
    assert {each.topic for each in found.beyond_capacity} == {"c"}
    assert len(found.beyond_capacity) == 3


def test_what_is_assigned_stays_and_a_small_topic_that_comes_later_has_room():
    first = planned(looked("a0 c0 c1 c2 c3 c4"), [])
    assert shown(first.assignments) == ["a0"]
    later = planned(looked("a0 b0 c0 c1 c2 c3 c4"), first.assignments)
    assert shown(later.assignments) == ["a0 b0"]
    assert not task_assignment.do_assignments_differ(
        later.assignments, planned(looked("a0 b0 c0 c1 c2 c3 c4"), later.assignments).assignments
    )
    full = planned(looked("a0 b0 c0 c1"), later.assignments)
    assert (shown(full.assignments), full.beyond_capacity) == (["a0 b0 c0 c1"], frozenset())
    over = planned(looked("A0 a0 b0 c0 c1"), full.assignments)
    assert shown(over.assignments) == ["a0 b0 c0 c1"]
    assert [each.topic for each in over.beyond_capacity] == ["A"]


def test_more_tasks_have_more_room():
    found = planned(looked("a0 b0 c0 c1 c2 c3"), [], tasks_max=2)
    assert found.beyond_capacity == frozenset()


def test_partitions_that_came_later_and_throttles_take_more_room():
    came_later = planned(looked("a0 b0 c0"), before("a0"), initial_topics=frozenset("a"))
    assert shown(came_later.assignments) == ["a0 b0"]
    throttles = FlowThrottles(
        topics=(
            TopicThrottle(
                pattern=topic_filters.compile_patterns([".*"], key="topics"), bytes_per_s=9
            ),
        )
    )
    assert planned(looked("a0"), [], throttles=throttles).beyond_capacity


@pytest.mark.parametrize("tasks_max", [1, 4])
def test_the_largest_plan_fits_the_record_of_a_task(tasks_max):
    long = "x" * 244
    topics = {f"{long}{each}": 2_300 for each in range(4)} | {"orders": 10}
    partitions = frozenset(
        TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)
    )
    props = {"topics": ".*", "name": "MirrorSourceConnector"}
    bytes_max = task_assignment.compute_assignment_bytes_max(props)
    held: list[PartitionAssignment] = []
    for _ in range(2):
        found = task_assignment.plan_assignments(
            AssignableTopics(topics=frozenset(topics), assignable=partitions),
            held,
            initial_topics=frozenset({"orders"}),
            tasks_max=tasks_max,
            bytes_max=bytes_max,
        )
        held = found.assignments
        configs = task_assignment.build_partition_task_configs(
            props,
            [share.partitions for share in held],
            added=frozenset().union(*(share.added for share in held)),
        )
        assert all(len(json.dumps(each)) < 1_040_000 for each in configs)
        assert {each.topic for share in held for each in share.partitions} >= {"orders"}
        assert found.beyond_capacity
