"""From what both clusters hold to a plan: half a cluster that answers, topics that are no more, and
names that both write."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import AuthenticationError
from mm2.clusters.cluster_pair_snapshot import PlanBaseline, PositionBasis
from mm2.clusters.fencing_results import FencingSummary
from mm2.failover import plan_output
from mm2.failover.consumer_group_plan import GroupAction
from mm2.failover.failover_request import FailoverKind
from mm2.failover.foreign_record_scan import RecordRange
from mm2.failover.plan_findings import PlanSeverity, PlanVerdict
from mm2.failover.position_translation import OffsetSyncLocations
from mm2.failover.unreplicated_offset_ranges import UnreplicatedTail
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint, OffsetSync
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.topics import replication_policy, topic_filters
from mm2.topics.flow_config import Flow, TargetTopicAccess
from mm2.topics.replication_policy import IdentityReplicationPolicy
from tests.fakes import copied_map, plans
from tests.fakes.two_sides import FakeSides

TOPIC, HERE, THERE = plans.TOPIC, plans.HERE, plans.THERE
COPIED, DELTA = plans.COPIED, plans.DELTA
made, only, codes, scene = plans.made, plans.only, plans.codes, plans.scene
checkpoints = plans.checkpoints
Way, Weight, State = GroupAction, PlanSeverity, GroupState


def test_a_group_goes_where_the_map_says():
    found = made(scene())
    assert (found.verdict, found.findings) == (PlanVerdict.GO, ())
    assert (only(found).mirror, only(found).target_offset) == (THERE, 40 + DELTA)


def test_a_checkpoint_of_a_mirror_before_sets_no_group_forward():
    """It was recreated from offset 60 on, and the checkpoint stayed."""
    sides = scene()
    sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = copied_map.log(
        HERE, start=60, through=COPIED, delta=-59
    )
    checkpoints(sides, "billing", 40)
    found = made(sides)
    assert (only(found).target_offset, only(found).is_before_map) == (0, True)
    assert codes(found) == {"too-old": Weight.COSTS}


def test_one_coordinator_that_is_away_is_one_groups_matter():
    sides = scene()
    sides.source.members.commit("mail", {HERE: 90})
    sides.source.members.failures["positions", "mail"] = RetriableError("away")
    checkpoints(sides, "mail", 80)
    found = made(sides)
    assert codes(found) == {
        "origin-partly-unreachable": Weight.NOTE,
        "group-unreadable": Weight.COSTS,
        "as-of-checkpoint": Weight.COSTS,
    }
    billing, mail = found.groups
    assert (billing.basis, mail.basis) == (PositionBasis.COMMITTED, PositionBasis.CHECKPOINTED)
    assert mail.partitions[0].target_offset == 80 + DELTA


def test_of_a_checkpoint_the_bound_is_what_the_mirror_holds_behind_it():
    """The source is dead, and the group had committed 40 behind its last checkpoint."""
    sides = scene()
    checkpoints(sides, "billing", 30, at_ms=400)
    found = made(sides, lost="it burns")
    place = only(found)
    assert (place.basis, place.checkpoint_ms) == (PositionBasis.CHECKPOINTED, 400)
    assert (place.target_offset, place.max_rereads) == (30 + DELTA, COPIED - 30)
    told = plan_output.plan_to_json(found, (), {})
    assert told["reread_max"] == 70
    assert told["reread"] == (
        "unknown, at most 70 records (1 group at its last checkpoint, 0 s old)"
    )


def test_a_partition_without_a_checkpoint_may_have_been_read_whole():
    sides = scene()
    sides.target.cluster.topics[THERE.topic].partitions = 2
    sides.target.log(THERE.topic, 25, partition=1)
    name = replication_policy.format_offset_map_topic("east")
    sides.target.topics.topics[name] = [
        *sides.target.topics.topics[name],
        *copied_map.log(TopicPartition(TOPIC, 1), through=25, delta=0),
    ]
    checkpoints(sides, "billing", 30)
    (group,) = made(sides, lost="it burns").groups
    assert (group.max_unlisted_rereads, group.max_rereads) == (25, 70 + 25)


@pytest.mark.parametrize(("held", "bound"), [(25, None), (0, 70)])
def test_a_topic_without_any_checkpoint_may_be_read_by_now(held, bound):
    """The group began to read it after its last checkpoint, with auto.offset.reset=earliest."""
    sides = scene(topics=topic_filters.compile_topic_filter(("orders.*",)))
    sides.target.log("east.orders-new", held)
    name = replication_policy.format_offset_map_topic("east")
    sides.target.topics.topics[name] = [
        *sides.target.topics.topics[name],
        *copied_map.log(TopicPartition("orders-new", 0), through=held, delta=0),
    ]
    checkpoints(sides, "billing", 30)
    found = made(sides, lost="it burns")
    (group,) = found.groups
    assert (group.max_known_rereads, group.max_rereads) == (70, bound)
    told = plan_output.plan_to_json(found, (), {})
    assert (told["reread_max"], told["groups"][0]["reread_known_max"]) == (bound, 70)
    words = "unknown, at most 70 records (1 group at its last known offsets)"
    if bound is None:
        words += ", plus all records of any topic that it may have started to read since then"
    assert told["reread"] == words


@pytest.mark.parametrize("error", [RetriableError("away"), FatalError("not authorized")])
def test_of_a_group_that_cannot_be_read_and_has_no_checkpoint_no_bound_is_known(error):
    sides = scene()
    sides.source.members.failures["positions", "billing"] = error
    found = made(sides, accepted=frozenset({"group-unreadable", "group-read-denied"}))
    assert found.groups[0].max_rereads is None
    told = plan_output.plan_to_json(found, (), {})
    assert told["reread_max"] is None
    assert told["reread"] == "unknown (1 group without a checkpoint)"
    assert f"1 group, re-read: {told['reread']}" in plan_output.format_plan(found, (), {})


def test_where_no_group_is_known_of_a_dead_source_no_bound_is():
    found = made(scene(), lost="it burns", accepted=frozenset({"groups-unlisted"}))
    assert found.groups == ()
    told = plan_output.plan_to_json(found, (), {})
    assert (told["reread"], told["reread_max"]) == ("unknown", None)


def test_a_mirror_that_nobody_answers_for_leaves_no_bound():
    sides = scene()
    checkpoints(sides, "billing", 30)
    sides.target.logs.unheard = {THERE}
    found = made(sides, lost="it burns")
    assert only(found).max_rereads is None
    told = plan_output.plan_to_json(found, (), {})
    assert told["reread_max"] is None
    assert told["reread"].startswith("unknown (")


def test_what_was_committed_at_the_start_counts_where_the_source_fell_silent_since():
    sides = scene()
    checkpoints(sides, "billing", 30, at_ms=400)
    began = PlanBaseline(
        positions={"billing": {HERE: OffsetAndMetadata(offset=40)}},
        findings=frozenset({("origin-unreachable", ""), ("as-of-checkpoint", "billing")}),
    )
    place = only(made(sides, lost="it burns", before=began))
    assert (place.basis, place.checkpoint_ms) == (PositionBasis.COMMITTED_AT_START, None)
    assert (place.target_offset, place.max_rereads) == (40 + DELTA, COPIED - 40)


def other_group(sides, name, kind, offsets):
    found = sides.source.members.commit(name, offsets)
    found.type, found.protocol = kind, kind


def test_share_and_streams_groups_are_named_and_forbid_until_they_are_accepted():
    sides = scene()
    other_group(sides, "pool", "share", {HERE: 7})
    other_group(sides, "elsewhere", "share", {TopicPartition("other", 0): 7})
    other_group(sides, "topology", "Streams", {HERE: 9})
    other_group(sides, "new", "share", {})
    found = made(sides)
    assert codes(found) == {"share-group": Weight.FORBIDS, "streams-group": Weight.FORBIDS}
    assert [(each.name, each.type, each.topics) for each in found.unmoved_groups] == [
        ("new", "share", {}),
        ("pool", "share", {TOPIC: THERE.topic}),
        ("topology", "streams", {TOPIC: THERE.topic}),
    ]
    assert [each.group for each in found.groups] == ["billing"]
    accepted = made(sides, accepted=frozenset({"share-group", "streams-group:topology"}))
    assert accepted.verdict is PlanVerdict.GO_AT_A_COST
    said = "\n".join(plan_output.format_plan(found, (), {}))
    assert "groups of east that are not moved:" in said
    assert "topology  streams  orders       east.orders" in said
    assert [
        each["group"] for each in plan_output.plan_to_json(found, (), {})["unmoved_groups"]
    ] == [
        "new",
        "pool",
        "topology",
    ]


@pytest.mark.parametrize(("assignor", "named"), [("stream", True), ("range", False)])
def test_a_streams_application_in_a_classic_group_is_named(assignor, named):
    sides = scene()
    group = sides.source.members.groups["billing"]
    group.state, group.assignor = State.ACTIVE, assignor
    found = made(sides)
    assert ("streams-state" in codes(found)) is named
    assert found.groups[0].is_streams is named
    assert only(found).action is Way.MOVES


STOPPED, AWAY, RANGE = (State.EMPTY, ""), (State.ACTIVE, None), (State.ACTIVE, "range")


@pytest.mark.parametrize(
    ("now", "internal", "before", "named"),
    [
        (STOPPED, "", "", False),
        (STOPPED, "", "billing", True),
        (STOPPED, "orders-repartition", "", False),
        (STOPPED, "billing-x-repartition", "", True),
        (STOPPED, "billing-by-day-changelog", "", True),
        (AWAY, "", "billing", True),
        (AWAY, "billing-by-day-changelog", "", True),
        (RANGE, "billing-by-day-changelog", "billing", False),
    ],
)
def test_a_streams_application_that_is_stopped_is_known_by_its_topics_and_before(
    now, internal, before, named
):
    """Also one that could not be described; of members that are there their assignor counts."""
    sides = scene(topics=topic_filters.compile_topic_filter((".*",)))
    if internal:
        sides.source.log(internal, 5)
    if internal.endswith("-repartition"):
        sides.source.members.commit("billing", {TopicPartition(internal, 0): 3})
    group = sides.source.members.groups["billing"]
    group.state, assignor = now
    if assignor is None:
        sides.source.members.failures["assignors", "billing"] = RetriableError("away")
    else:
        group.assignor = assignor
    earlier = PlanBaseline(positions={}, findings=frozenset(), streams=frozenset({before}))
    found = made(sides, before=earlier)
    assert found.groups[0].is_streams is named
    assert ("streams-state" in codes(found)) is named


@pytest.mark.parametrize(
    ("name", "expected"),
    [("billing", {}), ("pool", {"no-groups": Weight.NOTE, "share-group": Weight.FORBIDS})],
)
def test_of_groups_that_are_named_no_other_is_told(name, expected):
    sides = scene()
    other_group(sides, "pool", "share", {HERE: 7})
    assert codes(made(sides, groups=frozenset({name}))) == expected


def test_a_share_group_that_cannot_be_read_is_named_with_the_reason():
    sides = scene()
    other_group(sides, "pool", "share", {HERE: 7})
    sides.source.members.failures["share_partitions", "pool"] = FatalError("not authorized")
    (found,) = made(sides).findings
    assert (found.code, found.group) == ("share-group", "pool")
    assert "its topics on east are unknown (not authorized)" in found.text


def test_brokers_that_tell_no_types_are_taken_for_what_they_are():
    """Before 3.7: they know of no such groups."""
    sides = scene()
    other_group(sides, "worker", "", {})
    sides.source.members.groups["worker"].protocol = "connect"
    assert (made(sides).findings, made(sides).unmoved_groups) == ((), ())


def test_a_broker_that_does_not_list_its_groups_leaves_those_with_checkpoints():
    sides = scene()

    def refuse(timeout_s: float) -> Any:
        raise RetriableError("node 2 is away")

    sides.source.groups.list_groups = refuse  # type: ignore[method-assign]  # one call alone
    checkpoints(sides, "billing", 30)
    found = made(sides)
    assert codes(found) == {
        "groups-unlisted": Weight.COSTS,
        "origin-partly-unreachable": Weight.NOTE,
    }
    assert "--origin-lost" in found.findings[-1].text
    assert only(found).target_offset == 40 + DELTA


def test_a_group_whose_name_takes_too_long_to_match_is_left_out_alone(caplog):
    groups = topic_filters.compile_group_filter(["(?:(?>.*a.*b)|x)*(?:a+)+", "bill.*"], [])
    sides = scene(groups=groups)
    for name, kind in (("x" * 2_000, ""), ("x" * 2_001, "Share")):
        other_group(sides, name, kind, {})
    found = made(sides)
    assert [each.group for each in found.groups] == ["billing"]
    assert f"group {'x' * 80} is skipped: groups: matching" in caplog.text


OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("away", [True, False])
def test_groups_that_no_broker_lists_are_known_by_their_checkpoints(away):
    """Of a coordinator that is away no other broker says that its groups are gone."""
    sides = scene()
    sides.source.cluster.create(OFFSETS, partitions=2)
    checkpoints(sides, "mail", 80)
    if away:
        sides.source.cluster.topics[OFFSETS].leaders = (1, None)
        sides.source.members.failures["positions", "mail"] = RetriableError("away")
    found = made(sides)
    assert [each.group for each in found.groups] == ["billing", "mail"][: 1 + away]
    if away:
        assert codes(found)["groups-unlisted"] is Weight.COSTS
        assert f"1 of the 2 partitions of {OFFSETS}" in found.findings[0].text
        assert found.groups[1].partitions[0].target_offset == 80 + DELTA
    else:
        assert codes(found) == {}


OTHER = TopicPartition(TOPIC, 1)


@pytest.mark.parametrize("unheard", [True, False])
def test_a_leader_that_is_away_leaves_what_others_lead(unheard):
    sides = scene()
    sides.source.cluster.topics[TOPIC].partitions = 2
    sides.source.cluster.topics[TOPIC].leaders = (1, 2 if unheard else None)
    sides.source.log(TOPIC, 7, partition=1)
    if unheard:
        sides.source.logs.unheard = {OTHER}
    found = made(sides)
    assert {each.partition: each.lag_records for each in found.mirrored} == {HERE: 0, OTHER: None}
    assert (found.origin_error, codes(found)["lag-unknown"]) == ("", Weight.COSTS)
    why = "does not respond" if unheard else "it has no leader"
    assert why in next(each.text for each in found.findings if each.code == "lag-unknown")
    assert found.groups[0].basis is PositionBasis.COMMITTED


def test_where_no_leader_answers_the_cluster_is_silent():
    sides = scene()
    checkpoints(sides, "billing", 30)
    sides.source.logs.unheard = {HERE}
    found = made(sides)
    assert "its broker does not respond; waited for 10 s" in found.origin_error
    assert "--snapshot-timeout" in found.origin_error
    assert only(found).target_offset == 30 + DELTA


def test_a_mirror_whose_leader_is_away_is_not_taken_for_missing():
    sides = scene()
    sides.target.logs.failures[THERE] = RetriableError("it has no leader")
    found = made(sides)
    assert codes(found) == {"mirror-unknown": Weight.FORBIDS}
    assert [each.group for each in found.findings] == ["", "billing"]
    assert (only(found).action, only(found).target_offset) == (Way.MOVES, 40 + DELTA)


def test_a_leader_that_hangs_there_is_not_waited_for_on_behalf_of_the_others():
    sides = scene()
    sides.target.cluster.topics[THERE.topic].partitions = 2
    sides.target.cluster.topics[THERE.topic].leaders = (1, 2)
    sides.target.logs.unheard = {TopicPartition(THERE.topic, 1)}
    sides.source.members.commit("billing", {HERE: 40, OTHER: 5})
    found = made(sides)
    here, other = found.groups[0].partitions
    assert (here.action, here.unanswered_reason) == (Way.MOVES, "")
    assert other.unanswered_reason == "its broker does not respond"


def test_a_topic_that_is_not_described_is_told():
    sides = scene()
    sides.source.log("orders-new", 5)
    sides.source.cluster.failures["describe_topics", "orders-new"] = RetriableError("away")
    topics = topic_filters.compile_topic_filter(("orders.*",))
    sides.flow = dataclasses.replace(sides.flow, topics=topics)
    found = made(sides)
    assert codes(found) == {"lag-unknown": Weight.COSTS, "origin-partly-unreachable": Weight.NOTE}
    assert found.findings[0].text.startswith("orders-new: ")
    assert (found.lag_records, found.unlisted_topics) == (None, ("orders-new",))


@pytest.mark.parametrize("kind", [FailoverKind.EMERGENCY, FailoverKind.PLANNED])
def test_a_map_back_that_cannot_be_read_costs_or_ends_a_planned_move(kind):
    sides = scene()
    sides.source.members.groups.clear()
    sides.source.members.commit("billing", {BACK: 17})
    sides.source.log("west.orders", 20)
    sides.target.log("orders", 30)
    sync = OffsetSync(partition=TopicPartition("orders", 0), upstream=12, downstream=15)
    sides.target.topics.topics["mm2-offset-syncs.east.internal"] = [
        mirrormaker2_records.encode_offset_sync(sync)
    ]
    sides.source.topics.failure = RetriableError("its leader is away")
    if kind is FailoverKind.PLANNED:
        with pytest.raises(RetriableError, match="its leader is away"):
            made(sides, kind=kind, ways=BOTH)
        return
    found = made(sides, kind=kind, ways=BOTH)
    assert codes(found)["reverse-flow-unknown"] is Weight.COSTS
    assert (only(found).target_offset, only(found).max_rereads) == (12, 2)


def test_what_never_left_may_stay_uncounted_in_an_emergency():
    sides = identity()
    sides.source.topics.topics[replication_policy.format_offset_map_topic("west")] = copied_map.log(
        HERE, through=60, delta=20
    )

    def refuse(_: object) -> Any:
        raise RetriableError("its leader is away")

    found = made(sides, find=refuse)
    assert codes(found)["reverse-flow-unknown"] is Weight.COSTS
    assert only(found).target_offset == 60
    with pytest.raises(RetriableError, match="its leader is away"):
        made(sides, find=refuse, kind=FailoverKind.PLANNED)


def test_refused_credentials_are_no_silence():
    sides = scene()
    sides.source.members.failure = AuthenticationError("wrong password")
    with pytest.raises(AuthenticationError):
        made(sides)


def test_a_cluster_that_is_given_up_is_asked_nothing():
    sides = scene()
    checkpoints(sides, "billing", 30)
    found = made(sides, lost="it burns")
    assert sides.source.admin.calls == []
    assert sides.source.groups.calls == []
    assert codes(found) == {"origin-unreachable": Weight.COSTS, "as-of-checkpoint": Weight.COSTS}
    assert "it burns" in found.findings[0].text
    assert only(found).target_offset == 30 + DELTA


def test_checkpoints_of_a_newer_release_are_not_passed_over():
    """What they replace would be taken for the truth."""
    sides = scene()
    checkpoints(sides, "billing", 30)
    log = sides.target.topics.topics["east.checkpoints.internal"]
    ((key, value),) = log
    newer = (key, b"\0\x63" + (value or b"")[2:])
    point = Checkpoint(group="mail", partition=THERE, upstream=20, downstream=20 + DELTA)
    other = mirrormaker2_records.encode_checkpoint(point)
    for records in ([newer, other], [log[0], newer, other]):
        sides.target.topics.topics["east.checkpoints.internal"] = records
        found = made(sides, lost="it burns")
        forbidden = [each for each in found.findings if each.severity is Weight.FORBIDS]
        assert [(each.code, each.group) for each in forbidden] == [
            ("checkpoint-unreadable", "billing")
        ]
        assert "offset" in forbidden[0].text
        assert "newer release" in forbidden[0].text
        accepted = made(
            sides, lost="it burns", accepted=frozenset({"checkpoint-unreadable:billing"})
        )
        assert accepted.verdict is PlanVerdict.GO_AT_A_COST
    for last in ((key, None), log[0]):
        sides.target.topics.topics["east.checkpoints.internal"] = [newer, last, other]
        assert "checkpoint-unreadable" not in codes(made(sides, lost="it burns"))


def test_a_checkpoint_that_cannot_be_read_is_no_matter_while_the_origin_answers():
    sides = scene()
    checkpoints(sides, "billing", 30)
    ((key, value),) = sides.target.topics.topics["east.checkpoints.internal"]
    sides.target.topics.topics["east.checkpoints.internal"] = [
        (key, b"\0\x63" + (value or b"")[2:])
    ]
    assert made(sides).verdict is PlanVerdict.GO


def test_without_checkpoints_nothing_is_known_of_a_silent_clusters_groups():
    """What is known of its partitions is told all the same."""
    sides = scene()
    sides.source.cluster.away = True
    found = made(sides)
    told = codes(found)
    assert told["groups-unlisted"] is Weight.FORBIDS
    assert told["origin-unreachable"] is Weight.COSTS
    assert "west has no topic east.checkpoints.internal" in next(
        each.text for each in found.findings if each.code == "groups-unlisted"
    )
    assert (found.groups, found.newest_replicated_ms) == ((), 1_000)
    assert made(scene()).newest_replicated_ms is None  # the lag says more
    accepted = made(sides, accepted=frozenset({"groups-unlisted"}))
    assert accepted.verdict is PlanVerdict.GO_AT_A_COST


def test_an_empty_checkpoints_topic_is_none():
    """Who went on would stop and fence the flow, and move nobody."""
    sides = scene()
    sides.target.topics.topics["east.checkpoints.internal"] = []
    found = made(sides, lost="it burns")
    assert codes(found)["groups-unlisted"] is Weight.FORBIDS
    assert "no-groups" not in codes(found)


@pytest.mark.parametrize(("partitions", "then"), [(True, "last checkpoint"), (False, "has no")])
def test_a_group_that_may_not_be_read_stands_in_the_way_of_itself_alone(partitions, then):
    sides = scene()
    sides.source.members.commit("mail", {HERE: 90})
    sides.source.members.failures["positions", "mail"] = FatalError("not authorized")
    if partitions:
        checkpoints(sides, "mail", 80)
    found = made(sides)
    refused = next(each for each in found.findings if each.code == "group-read-denied")
    assert (refused.severity, refused.group) == (Weight.FORBIDS, "mail")
    assert "not authorized" in refused.text
    assert "DESCRIBE" in refused.text
    assert then in refused.text
    accepted = made(sides, accepted=frozenset({"group-read-denied:mail"}))
    assert accepted.verdict is PlanVerdict.GO_AT_A_COST
    assert "origin-partly-unreachable" not in codes(accepted)
    assert [each.group for each in accepted.groups] == ["billing", "mail"]


@pytest.mark.parametrize("question", ["states", "positions"])
def test_a_group_that_nobody_can_look_at_there_says_why(question):
    sides = scene()
    sides.target.members.commit("billing", {THERE: 9})
    sides.target.members.failures[question, "billing"] = FatalError("not authorized")
    (found,) = made(sides).findings
    assert (found.code, found.group) == ("group-unknown", "billing")
    assert "(not authorized): try again, or grant mm2 DESCRIBE on the group" in found.text


def test_topics_that_are_gone_or_filtered_now_are_left_out():
    sides = scene()
    other, gone = TopicPartition("other", 0), TopicPartition("orders-gone", 0)
    log = sides.target.topics.topics[replication_policy.format_offset_map_topic("east")]
    sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = [
        *log,
        *copied_map.log(other, through=5, delta=0),
        *copied_map.log(gone, through=5, delta=0),
    ]
    sides.source.log("other", 5)
    found = made(sides)
    assert codes(found) == {"no-longer-replicated": Weight.NOTE}
    assert [each.partition for each in found.mirrored] == [HERE]
    texts = sorted(each.text for each in found.findings)
    assert "no longer exists" in texts[0]
    assert "other was replicated earlier" in texts[1]


def test_heartbeats_are_nobodys_matter():
    sides = scene()
    beat = TopicPartition("heartbeats", 0)
    sides.source.log("heartbeats", 9)
    log = sides.target.topics.topics[replication_policy.format_offset_map_topic("east")]
    sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = [
        *log,
        *copied_map.log(beat, through=5, delta=0),
    ]
    found = made(sides)
    assert (found.findings, [each.partition for each in found.mirrored]) == ((), [HERE])


def test_a_mirror_that_was_made_anew_forbids():
    sides = scene()
    name = replication_policy.format_offset_map_topic("east")
    era, segment = sides.target.topics.topics[name]
    value = (era[1] or b"").replace(bytes(32), bytes(16) + b"another topic id")
    sides.target.topics.topics[name] = [(era[0], value), segment]
    found = made(sides)
    assert codes(found)["halted"] is Weight.FORBIDS
    assert "its mirror was recreated" in found.findings[0].text


@pytest.mark.parametrize(("downstream", "agrees"), [(55, True), (56, False)])
@pytest.mark.parametrize("here", [True, False])
def test_who_has_copied_since_is_seen_by_offset_syncs(downstream, agrees, here):
    sides = scene()
    side, other = (sides.source, "west") if here else (sides.target, "east")
    sync = OffsetSync(partition=HERE, upstream=50, downstream=downstream)
    side.topics.topics[f"mm2-offset-syncs.{other}.internal"] = [
        mirrormaker2_records.encode_offset_sync(sync)
    ]
    found = made(sides, ways=OffsetSyncLocations(syncs_on_source=here))
    assert codes(found) == ({} if agrees else {"halted": Weight.FORBIDS})


def test_syncs_that_cannot_be_read_are_told():
    sides = scene()
    sides.source.topics.failure = RetriableError("their leader is away")
    found = made(sides)
    assert codes(found) == {"offset-syncs-unreadable": Weight.NOTE}
    assert "their leader is away" in found.findings[0].text
    assert found.verdict is PlanVerdict.GO


BACK = TopicPartition("west.orders", 0)


def test_what_came_from_there_goes_back_by_the_other_map():
    sides = scene()
    sides.source.members.groups.clear()
    sides.source.members.commit("billing", {BACK: 17})
    sides.source.log("west.orders", 20)
    sides.target.log("orders", 30)
    sides.source.topics.topics[replication_policy.format_offset_map_topic("west")] = copied_map.log(
        TopicPartition("orders", 0), through=12, delta=3
    )
    found = only(made(sides))
    assert (found.mirror, found.target_offset) == (TopicPartition("orders", 0), 12)
    assert (found.max_rereads or 0) > 0  # what was copied last may not be written down
    tail = UnreplicatedTail(
        partition=TopicPartition("orders", 0),
        map_end=12,
        end=30,
        origin_end=15,
        ranges=(RecordRange(14, 29, 16, 1, 2),),
        counted=16,
    )
    back = made(sides, kind=FailoverKind.BACK, found={tail.partition: tail})
    assert (only(back).target_offset, only(back).max_rereads) == (14, 0)
    assert back.unreplicated_records == 16
    assert codes(back)["unreplicated"] is Weight.COSTS


def identity(**given: Any) -> FakeSides:
    policy = IdentityReplicationPolicy(source_alias="east")
    sides = scene(**{"policy": policy, "target_topics": TargetTopicAccess.SHARED, **given})
    sides.source.members.groups.clear()
    sides.source.members.commit("billing", {HERE: COPIED})
    return sides


def test_under_one_name_both_maps_count():
    sides = identity()
    sides.source.topics.topics[replication_policy.format_offset_map_topic("west")] = copied_map.log(
        HERE, through=60, delta=20
    )
    found = only(made(sides))
    assert (found.mirror, found.target_offset) == (HERE, 60)
    assert (found.max_rereads or 0) >= COPIED + DELTA - 60
    tail = UnreplicatedTail(
        partition=HERE, map_end=60, end=105, origin_end=80, ranges=(), counted=0
    )
    still = FencingSummary(tails={HERE: 0})
    done = only(made(sides, found={HERE: tail}, locked=still))
    assert (done.target_offset, done.action) == (105, Way.MOVES)


BOTH = OffsetSyncLocations(
    reverse_flow=Flow(source="west", target="east"), reverse_syncs_on_destination=True
)


@pytest.mark.parametrize("lost", ["", "it burns"])
def test_under_one_name_without_the_other_map_nobody_can_say(lost):
    sides = identity()
    named(sides, COPIED)
    assert codes(made(sides, lost=lost, ways=BOTH))["shared-names"] is Weight.FORBIDS
    accepted = made(sides, lost=lost, ways=BOTH, accepted=frozenset({"shared-names"}))
    assert codes(accepted)["shared-names"] is Weight.COSTS
    assert only(accepted).target_offset == COPIED + DELTA


@pytest.mark.parametrize("lost", ["", "it burns"])
@pytest.mark.parametrize("shared", [False, True])
def test_where_no_flow_leads_back_it_depends_on_who_may_write_there(lost, shared):
    """A flow that leads back may be in another file than ours."""
    kinds = TargetTopicAccess
    sides = identity(target_topics=kinds.SHARED if shared else kinds.EXCLUSIVE)
    named(sides, COPIED)
    found = made(sides, lost=lost)
    assert codes(found).get("shared-names") is (Weight.FORBIDS if shared else None)
    accepted = made(sides, lost=lost, accepted=frozenset({"shared-names"}))
    assert accepted.verdict is not PlanVerdict.NO_GO
    assert only(accepted).target_offset == COPIED + DELTA


@pytest.mark.parametrize(("downstream", "to"), [(80, 60), (COPIED + 1, None)])
def test_offset_syncs_say_what_had_arrived_on_a_lost_cluster(downstream, to):
    sides = identity()
    named(sides, COPIED)
    sync = OffsetSync(partition=HERE, upstream=60, downstream=downstream)
    sides.target.topics.topics["mm2-offset-syncs.east.internal"] = [
        mirrormaker2_records.encode_offset_sync(sync)
    ]
    found = made(sides, lost="it burns", ways=BOTH)
    assert ("shared-names" in codes(found)) == (to is None)
    if to is not None:
        assert (only(found).target_offset, only(found).max_rereads) == (to, COPIED + DELTA - to)


def test_java_that_leads_back_is_seen_by_its_syncs():
    """Its flow is in another file, and it has no map."""
    sides = identity()
    sync = OffsetSync(partition=HERE, upstream=60, downstream=80)
    sides.target.topics.topics["mm2-offset-syncs.east.internal"] = [
        mirrormaker2_records.encode_offset_sync(sync)
    ]
    found = made(sides, ways=OffsetSyncLocations(reverse_syncs_on_destination=True))
    assert "shared-names" not in codes(found)
    assert (only(found).target_offset, only(found).max_rereads) == (60, COPIED + DELTA - 60)


def named(sides: FakeSides, upstream: int) -> None:
    """A checkpoint under one name."""
    point = Checkpoint(
        group="billing", partition=HERE, upstream=upstream, downstream=upstream, metadata=""
    )
    sides.target.topics.topics["east.checkpoints.internal"] = [
        mirrormaker2_records.encode_checkpoint(point)
    ]


def test_a_group_that_was_named_and_reads_nothing_here_forbids():
    assert codes(made(scene(), groups=frozenset({"typo"})))["no-such-group"] is Weight.FORBIDS


@pytest.mark.parametrize(
    ("kind", "found"),
    [(FailoverKind.EMERGENCY, None), (FailoverKind.PLANNED, Weight.FORBIDS)],
)
def test_a_transaction_that_holds_a_groups_offsets_forbids_a_planned_move(kind, found):
    sides = scene()
    sides.source.members.groups["billing"].unstable = True
    assert codes(made(sides, kind=kind)).get("group-unreadable") is found


def test_a_partition_that_is_not_answered_for_is_told_with_the_reason():
    sides = scene()
    del sides.source.logs.logs[HERE]
    found = made(sides)
    assert codes(found) == {"lag-unknown": Weight.COSTS, "origin-partly-unreachable": Weight.NOTE}
    assert "(there is no orders-0)" in found.findings[0].text
    assert found.lag_records is None


@pytest.mark.parametrize("known", [True, False])
def test_what_had_come_from_there_goes_back_by_syncs_where_the_map_is_lost(known):
    sides = scene()
    born = TopicPartition("orders", 0)
    sides.target.log("orders", 30)
    if known:
        sync = OffsetSync(partition=born, upstream=12, downstream=15)
        sides.target.topics.topics["mm2-offset-syncs.east.internal"] = [
            mirrormaker2_records.encode_offset_sync(sync)
        ]
    point = Checkpoint(group="billing", partition=born, upstream=17, downstream=17, metadata="")
    sides.target.topics.topics["east.checkpoints.internal"] = [
        mirrormaker2_records.encode_checkpoint(point)
    ]
    found = only(made(sides, lost="it burns", ways=BOTH))
    assert (found.partition, found.mirror) == (BACK, born)
    if known:
        assert (found.target_offset, found.max_rereads) == (
            12,
            18,
        )  # up to the end: it may have read on
    else:
        assert (found.target_offset, found.max_rereads) == (17, 13)  # by the checkpoint itself
    assert only(made(sides, lost="it burns")).action is Way.NOT_MIRRORED
