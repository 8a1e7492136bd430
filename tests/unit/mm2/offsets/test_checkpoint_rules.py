"""A round counts once everything before its end is acknowledged."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records, primitive_types
from mm2.formats.mirrormaker2_records import Checkpoint, OffsetSync
from mm2.formats.primitive_types import MalformedRecordError
from mm2.offsets import checkpoint_rules
from mm2.offsets.checkpoint_rules import (
    AcknowledgedRounds,
    CheckpointRound,
    CheckpointRules,
    CheckpointTable,
    OffsetAndMetadata,
)
from mm2.offsets.offset_syncs import OffsetSyncStore
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, UntranslatedReason
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy

DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_alias="s1")


def at(topic, partition=0):
    return TopicPartition(topic, partition)


def point(upstream, downstream, *, group="g1", partition=None, metadata=""):
    return Checkpoint(
        group=group,
        partition=partition or at("s1.t1"),
        upstream=upstream,
        downstream=downstream,
        metadata=metadata,
    )


def flow(translate, *, policy=DEFAULT, takes_topic=lambda topic: True):
    return CheckpointRules(source="s1", policy=policy, takes_topic=takes_topic, translate=translate)


def table_of(*syncs):
    table = OffsetSyncStore(keep_history=True)
    for partition, upstream, downstream in syncs:
        table.add_sync(OffsetSync(partition=partition, upstream=upstream, downstream=downstream))
    table.mark_ready()
    return table


def committed(offset, metadata=""):
    return OffsetAndMetadata(offset=offset, metadata=metadata)


def made(found):
    return [(each.partition, each.upstream, each.downstream) for each in found]


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        (DEFAULT, "topic3", "s1.topic3"),
        (DEFAULT, "s6.topic7", "s1.s6.topic7"),
        (IDENTITY, "topic3", "topic3"),
        (IDENTITY, "t2.topic3", "t2.topic3"),
        (IDENTITY, "heartbeats", "s1.heartbeats"),
    ],
)
def test_topics_go_by_their_names_on_the_target(policy, topic, expected):
    found = flow(table_of().translate_downstream, policy=policy).map_to_target_partition(
        at(topic, 4)
    )
    assert found == at(expected, 4)


@pytest.mark.parametrize(
    ("topic", "offset", "expected"),
    [
        (at("topic1", 2), 10, (at("s1.topic1", 2), 10, 5)),
        (at("topic5", 6), 12, (at("s1.topic5", 6), 12, 9)),
        (at("topic5", 6), 7, (at("s1.topic5", 6), 7, 8)),
    ],
)
def test_a_position_becomes_a_checkpoint(topic, offset, expected):
    table = table_of((at("topic1", 2), 3, 4), (at("topic5", 6), 7, 8))
    found = flow(table.translate_downstream).find_new_checkpoints(
        "g1", {topic: committed(offset, "note")}, {}
    )
    assert made(found) == [expected]
    assert (found[0].group, found[0].metadata) == ("g1", "note")


def test_what_cannot_be_told_makes_no_checkpoint():
    table = table_of((at("t1"), 5, 5), (at("t3"), 5, -9))
    positions = {
        at("t1"): None,
        at("t1", 1): committed(10),
        at("t1", 0): committed(4),
        at("t3"): committed(5),
    }
    assert flow(table.translate_downstream).find_new_checkpoints("g1", positions, {}) == []
    unread = OffsetSyncStore(keep_history=True)
    assert (
        flow(unread.translate_downstream).find_new_checkpoints("g1", {at("t1"): committed(9)}, {})
        == []
    )


def test_only_topics_of_the_flow_count():
    table = table_of((at("t1"), 5, 5), (at("t2"), 5, 5))
    flow_of_t1 = flow(table.translate_downstream, takes_topic=lambda topic: topic == "t1")
    positions = {at("t1"): committed(5), at("t2"): committed(5)}
    assert made(flow_of_t1.find_new_checkpoints("g1", positions, {})) == [(at("s1.t1"), 5, 5)]


@pytest.mark.parametrize(
    ("upstream", "downstream", "standing", "expected"),
    [
        (10, 5, None, True),
        (10, 5, (10, 5), False),
        (11, 5, (10, 5), False),
        (11, 6, (10, 5), True),
        (11, 4, (10, 5), False),
        (9, 4, (10, 5), True),
        (9, 5, (10, 5), True),
        (10, 6, (10, 5), True),
    ],
)
def test_what_is_news(upstream, downstream, standing, expected):
    before = None if standing is None else point(*standing)
    assert checkpoint_rules.is_newer_checkpoint(point(upstream, downstream), before) is expected


EXACT = ExactOffset(downstream=5)
EARLIER = EarlierOffset(downstream=5, reread_max=2)


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        (EXACT, True),
        (EARLIER, False),
        *((each, each.name == "TOO_OLD") for each in UntranslatedReason),
    ],
)
def test_a_look_is_final_where_waiting_brings_nothing_better(outcome, final):
    look = flow(lambda *_: outcome).find_new_group_checkpoints("g1", {at("t1"): committed(9)}, {})
    assert look.is_final is final
    assert made(look.checkpoints) == (
        [] if isinstance(outcome, UntranslatedReason) else [(at("s1.t1"), 9, 5)]
    )


@pytest.mark.parametrize(
    ("exactly", "expected"),
    [(EXACT, [(9, 5)]), (EARLIER, []), (ExactOffset(downstream=8), [])],
)
def test_what_stands_is_refuted_by_what_is_known_exactly_of_it(exactly, expected):
    standing = {at("s1.t1"): point(8, 8)}
    of_flow = dataclasses.replace(flow(lambda *_: EARLIER), translate_exactly=lambda *_: exactly)
    found = of_flow.find_new_checkpoints("g1", {at("t1"): committed(9)}, standing)
    assert [(each.upstream, each.downstream) for each in found] == expected


def test_only_what_something_else_stands_for_has_changed():
    table = CheckpointTable(group_filter=lambda group: group == "g1")
    one = point(9, 5)
    assert table.apply_record(*mirrormaker2_records.encode_checkpoint(one)) == "g1"
    assert table.changed == {"g1"}
    table.changed.clear()
    assert table.apply_record(*mirrormaker2_records.encode_checkpoint(one)) is None
    assert (
        table.apply_record(*mirrormaker2_records.encode_checkpoint(point(9, 5, group="g2"))) is None
    )
    assert table.changed == set()
    table.store_published_checkpoint(point(10, 6))
    assert table.changed == {"g1"}
    assert table.apply_record(mirrormaker2_records.encode_checkpoint(one)[0], None) == "g1"
    assert table.apply_record(mirrormaker2_records.encode_checkpoint(one)[0], None) is None
    assert table.get_group_checkpoints("g1") == {}


def test_checkpoints_do_not_go_back_when_translations_do():
    table = table_of((at("t1"), 11, 4), (at("t1"), 12, 5))
    of_flow = flow(table.translate_downstream)
    (first,) = of_flow.find_new_checkpoints("g1", {at("t1"): committed(13)}, {})
    assert first.downstream == 6
    standing = {first.partition: first}
    for each in range(13, 18):
        table.add_sync(OffsetSync(partition=at("t1"), upstream=each, downstream=each - 7))
    assert table.translate_downstream(at("t1"), 13) == EarlierOffset(downstream=5, reread_max=1)
    assert of_flow.find_new_checkpoints("g1", {at("t1"): committed(13)}, standing) == []
    rewound = of_flow.find_new_checkpoints("g1", {at("t1"): committed(12)}, standing)
    assert made(rewound) == [(at("s1.t1"), 12, 5)]


def test_a_restart_goes_on_from_what_stands():
    table = table_of(*((at("t1"), each, each) for each in (175, 275, 375, 475)))
    of_flow = flow(table.translate_downstream)
    standing = {at("s1.t1"): point(250, 201)}
    found = {
        offset: made(of_flow.find_new_checkpoints("g1", {at("t1"): committed(offset)}, standing))
        for offset in (250, 370, 400)
    }
    assert found == {250: [], 370: [], 400: [(at("s1.t1"), 400, 376)]}


def test_two_topics_of_one_name_on_the_target_make_one_checkpoint():
    class LowerCase(DefaultReplicationPolicy):
        def format_remote_topic(self, source_alias, topic):
            return f"{source_alias}.{topic.lower()}"

    table = table_of((at("Orders"), 1, 1), (at("orders"), 1, 9))
    positions = {at("orders"): committed(1), at("Orders"): committed(1)}
    found = flow(table.translate_downstream, policy=LowerCase()).find_new_checkpoints(
        "g1", positions, {}
    )
    assert made(found) == [(at("s1.orders"), 1, 1)]


def test_topics_are_renamed_by_the_policy_alone():
    """Topics that came from the target, which have another name there, are none of the flow's."""
    found = flow(table_of().translate_downstream).map_to_target_partition(at("t2.topic3"))
    assert found == at("s1.t2.topic3")


def test_a_table_skips_the_topics_that_its_filter_rejects():
    table = CheckpointTable(
        group_filter=lambda group: True, topic_filter=lambda topic: topic != "payments"
    )
    rejected, accepted = point(1, 1, partition=at("payments")), point(2, 2)
    for each in (rejected, accepted):
        table.apply_record(*mirrormaker2_records.encode_checkpoint(each))
    assert list(table.get_group_checkpoints("g1").values()) == [accepted]


def test_a_note_that_no_checkpoint_holds_is_left_out():
    table = table_of((at("t1"), 1, 1), (at("t3"), 1, 1))
    longest = "ü" * (primitive_types.STRING_BYTES_MAX // 2)
    positions = {at("t1"): committed(1, longest), at("t3"): committed(1, f"{longest}ü")}
    found = flow(table.translate_downstream).find_new_checkpoints("g1", positions, {})
    assert [each.metadata for each in found] == [longest, ""]
    assert all(mirrormaker2_records.encode_checkpoint(each) for each in found)


def fold(*records, groups=("g1",)):
    table = CheckpointTable(group_filter=lambda group: group in groups)
    for each in records:
        table.apply_record(*each)
    return table


def test_the_last_checkpoint_of_our_groups_counts():
    table = fold(
        mirrormaker2_records.encode_checkpoint(point(0, 0)),
        mirrormaker2_records.encode_checkpoint(point(0, 0, group="g2")),
        mirrormaker2_records.encode_checkpoint(point(1, 1)),
        mirrormaker2_records.encode_checkpoint(point(7, 7, partition=at("s1.t1", 1))),
    )
    assert table.list_groups() == ["g1"]
    assert dict(table.get_group_checkpoints("g1")) == {
        at("s1.t1"): point(1, 1),
        at("s1.t1", 1): point(7, 7, partition=at("s1.t1", 1)),
    }
    assert table.get_group_checkpoints("g2") == {}


def test_a_tombstone_takes_a_checkpoint_away():
    key, value = mirrormaker2_records.encode_checkpoint(point(5, 5))
    table = fold(
        (key, value),
        (key, None),
        (mirrormaker2_records.encode_checkpoint(point(1, 1, group="g2"))[0], None),
    )
    assert table.list_groups() == []
    assert table.get_group_checkpoints("g1") == {}
    assert fold((key, None)).list_groups() == []


def test_bytes_that_are_no_checkpoint_change_nothing():
    key, value = mirrormaker2_records.encode_checkpoint(point(5, 5))
    table = fold((key, value))
    for bad in ((b"", b""), (key, value[:-1]), (key, b"\0\1" + value[2:]), (key[:-1], None)):
        with pytest.raises(MalformedRecordError):
            table.apply_record(*bad)
    assert dict(table.get_group_checkpoints("g1")) == {at("s1.t1"): point(5, 5)}


def test_what_is_published_stands():
    table = fold()
    table.store_published_checkpoint(point(5, 5))
    assert dict(table.get_group_checkpoints("g1")) == {at("s1.t1"): point(5, 5)}


FIRST, SECOND, THIRD = (CheckpointRound(ended_at_s=each, groups=2) for each in (1, 2, 3))


@pytest.fixture
def rounds():
    made = AcknowledgedRounds()
    yield made
    made.check_invariants()


def test_a_round_without_news_counts_at_once(rounds):
    assert rounds.take_acknowledged_round() is None
    rounds.end_round(FIRST)
    assert rounds.take_acknowledged_round() is FIRST
    assert rounds.take_acknowledged_round() is None


def test_a_round_waits_for_its_own_records(rounds):
    rounds.count_sent_checkpoints(2)
    rounds.end_round(FIRST)
    rounds.count_acknowledged_records(1)
    assert rounds.take_acknowledged_round() is None
    rounds.count_acknowledged_records(1)
    assert rounds.take_acknowledged_round() is FIRST


def test_a_round_without_news_waits_for_those_before(rounds):
    rounds.count_sent_checkpoints(1)
    rounds.end_round(FIRST)
    rounds.end_round(SECOND)
    assert rounds.take_acknowledged_round() is None
    rounds.count_acknowledged_records(1)
    assert rounds.take_acknowledged_round() is SECOND, "nothing new came in between"


def test_acknowledgements_that_always_come_late_make_rounds_count_all_the_same(rounds):
    rounds.count_sent_checkpoints(1)
    for found in (FIRST, SECOND):
        rounds.end_round(found)
        rounds.count_sent_checkpoints(1)
        rounds.count_acknowledged_records(1)
        assert rounds.take_acknowledged_round() is found
    rounds.end_round(THIRD)
    assert rounds.take_acknowledged_round() is None
    rounds.count_acknowledged_records(1)
    assert rounds.take_acknowledged_round() is THIRD


def test_while_nothing_is_acknowledged_no_more_is_kept_than_there_are_records(rounds):
    for at_ms in range(100):
        rounds.end_round(CheckpointRound(ended_at_s=at_ms, groups=0))
    rounds.count_sent_checkpoints(1)
    for at_ms in range(100):
        rounds.end_round(CheckpointRound(ended_at_s=at_ms, groups=0))
    assert len(rounds._waiting) == 2
