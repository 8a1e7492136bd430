"""Who is handed which partitions, look by look, and which of them came later."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import ids
from mm2.core.topics import assigned, handout


def parts(text: str) -> frozenset[ids.TopicPartition]:
    """`a0 a1 b0`."""
    return frozenset(ids.TopicPartition(each[0], int(each[1:])) for each in text.split())


def looked(copyable: str, *, more: str = "", unsure: str = "") -> handout.Looked:
    found = parts(copyable)
    topics = {each.topic for each in found}.union(more, unsure)
    return handout.Looked(topics=frozenset(topics), copyable=found, unsure=frozenset(unsure))


def before(*shares: str, added: str = "") -> list[handout.Share]:
    late = parts(added)
    return [
        handout.Share(
            partitions=tuple(ids.TopicPartition(each[0], int(each[1:])) for each in text.split()),
            added=late & parts(text),
        )
        for text in shares
    ]


def shown(shares: list[handout.Share]) -> list[str]:
    return [" ".join(f"{p.topic}{p.partition}" for p in each.partitions) for each in shares]


def late(shares: list[handout.Share]) -> set[str]:
    return {f"{p.topic}{p.partition}" for each in shares for p in each.added}


def plan(
    found: handout.Looked, held: list[handout.Share], *, beginning: str = "", tasks_max: int = 2
) -> list[handout.Share]:
    return handout.shares(found, held, beginning=frozenset(beginning), tasks_max=tasks_max)


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
    assert handout.from_the_beginning(found, [], wants()) == set("abcd")
    assert handout.from_the_beginning(found, before(""), wants("a")) == set("abcd")
    held = before("a0")
    assert handout.from_the_beginning(found, held, wants("a", "b")) == set("cd")


def test_where_all_start_at_their_first_record_nothing_comes_late():
    held = before("a0", added="a0")
    found = handout.shares(looked("a0 a1 b0"), held, beginning=None, tasks_max=2)
    assert late(found) == set()


def test_topics_that_would_have_one_mirror_clash():
    def remote(topic: str) -> str:
        return topic.lower()

    assert handout.clashes("aAb", remote) == {"a": {"a", "A"}}
    assert handout.clashes("ab", remote) == {}


def test_partitions_that_are_moved_take_along_that_they_came_later():
    held = before("a0 b0", "a1", added="b0")
    found = handout.rearranged(held, [share.partitions for share in before("a0", "a1 b0")])
    assert (shown(found), late(found)) == (["a0", "a1 b0"], {"b0"})
    assert handout.shares(looked("a0 a1 b0"), found, beginning=frozenset("ab"), tasks_max=2) == (
        found
    )


def test_tasks_notice_other_partitions_and_other_beginnings_and_no_other_order():
    one = before("a0 a1", "b0")
    assert not handout.differ(one, before("a1 a0", "b0"))
    assert handout.differ(one, before("a0 a1"))
    assert handout.differ(one, before("a0", "a1 b0"))
    assert handout.differ(one, before("a0 a1", "b0", added="b0"))


def test_what_was_published_is_read_and_rubbish_counts_as_nothing():
    (share,) = before("a1 a0", added="a0")
    (config,) = assigned.partition_configs({}, [share.partitions], added=share.added)
    found = handout.published([config, {}, {"task.assigned.partitions": "a"}])
    assert found == [share, *before("", "")]
    assert handout.topics(found) == {"a"}


PARTS = st.frozensets(st.builds(ids.TopicPartition, st.sampled_from("abc"), st.integers(0, 5)))


@given(PARTS, PARTS, PARTS, st.integers(1, 4), st.integers(1, 4), st.sets(st.sampled_from("abc")))
def test_nothing_is_lost_or_handed_out_twice(first, second, third, few, many, unsure):
    """Over three looks, with the number of tasks changing."""

    def look(found: frozenset[ids.TopicPartition], doubt: set[str]) -> handout.Looked:
        topics = frozenset(each.topic for each in found) | doubt
        return handout.Looked(topics=topics, copyable=found, unsure=frozenset(doubt))

    beginning = frozenset(each.topic for each in first)
    held: list[handout.Share] = []
    began = False
    for found, doubt, tasks_max in (
        (first, set(), few),
        (second, unsure, many),
        (third, set(), few),
    ):
        had = {each for share in held for each in share.partitions}
        now = handout.shares(look(found, doubt), held, beginning=beginning, tasks_max=tasks_max)
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
