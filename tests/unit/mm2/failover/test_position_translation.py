"""Where an offset is on the other cluster, by the maps of both ways and without them.

Where a group goes on in a topic that both clusters write, against a model that knows each
record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    GroupSnapshot,
    MirroredPartition,
    PositionBasis,
    TranslatedPosition,
)
from mm2.config import mirror_connector_config_keys
from mm2.failover import position_translation
from mm2.failover.foreign_record_scan import RecordRange
from mm2.failover.position_translation import (
    LocallyProducedRecords,
    PositionTranslator,
    ReverseFlowMap,
)
from mm2.failover.unreplicated_offset_ranges import UnreplicatedTail
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.offsets import offset_translation
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset
from mm2.topics import topic_filters
from mm2.topics.flow_config import Flow, TargetTopicAccess
from mm2.topics.replication_policy import IdentityReplicationPolicy
from tests.fakes import copied_map

HERE, MIRROR = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
BROUGHT = TopicPartition("west.orders", 0)
COPIED, DELTA = 100, 5
SHARED = TargetTopicAccess.SHARED
Exact, Earlier, UntranslatedReason = (
    ExactOffset,
    EarlierOffset,
    offset_translation.UntranslatedReason,
)


def known(partition: TopicPartition, *, through: int, delta: int) -> OffsetMap:
    found = OffsetMap()
    for key, value in copied_map.log(partition, through=through, delta=delta):
        found.apply_record(key or b"", value)
    return found


def flow(**given: Any) -> Flow:
    topics = topic_filters.compile_topic_filter(("orders",))
    return Flow(**{"source": "east", "target": "west", "topics": topics, **given})


def identity(**given: Any) -> Flow:
    policy = IdentityReplicationPolicy(source_alias="east")
    return flow(**{"policy": policy, "target_topics": SHARED, **given})


def made(about: Flow, back: ReverseFlowMap, **given: Any) -> PositionTranslator:
    mirror = position_translation.map_to_target_partition(about, HERE)
    mirrored = MirroredPartition(
        partition=HERE,
        mirror=mirror,
        copied_to=COPIED,
        source_bounds=LogBounds(start=0, end=COPIED),
        mirror_bounds=LogBounds(start=0, end=COPIED + DELTA),
    )
    return PositionTranslator(
        **{
            "flow": about,
            "offset_map": known(HERE, through=COPIED, delta=DELTA),
            "mirrored": {HERE: mirrored},
            "reverse": back,
            **given,
        }
    )


def outcome(found: TranslatedPosition | None) -> Any:
    assert found is not None
    return found.outcome


def synced(upstream: int, downstream: int) -> dict[TopicPartition, Any]:
    sync = OffsetSync(partition=HERE, upstream=upstream, downstream=downstream)
    return {HERE: (sync,)}


NOTHING = ReverseFlowMap(offset_map=None)


def test_what_is_mirrored_goes_by_the_flows_map():
    found = made(flow(), NOTHING).translate_position(HERE, 40)
    assert found == TranslatedPosition(partition=MIRROR, outcome=Exact(downstream=40 + DELTA))


def test_what_is_older_than_the_map_is_before_what_it_knows_first():
    recent_map = OffsetMap()
    for key, value in copied_map.log(HERE, start=60, through=COPIED, delta=-59):
        recent_map.apply_record(key or b"", value)
    old = UntranslatedReason.TOO_OLD
    found = made(flow(), NOTHING, offset_map=recent_map).translate_position(HERE, 40)
    assert found == TranslatedPosition(partition=MIRROR, outcome=old, known_from=1)
    alone = identity(target_topics=TargetTopicAccess.EXCLUSIVE)
    found = made(alone, NOTHING, offset_map=recent_map).translate_position(HERE, 40)
    assert found == TranslatedPosition(partition=HERE, outcome=old, known_from=1)
    both = ReverseFlowMap(offset_map=known(HERE, through=60, delta=20))
    found = made(identity(), both, offset_map=recent_map).translate_position(HERE, 40)
    assert found == TranslatedPosition(
        partition=HERE, outcome=old
    )  # what was born there is unread, too


def test_what_no_flow_leads_there_has_no_place():
    where = made(flow(), NOTHING)
    assert where.translate_position(TopicPartition("other", 0), 4) is None
    assert where.translate_position(BROUGHT, 4) is None


def test_what_was_brought_goes_back_by_the_opposite_map():
    back = ReverseFlowMap(offset_map=known(HERE, through=12, delta=3))
    found = made(flow(), back).translate_position(BROUGHT, 9)
    assert found == TranslatedPosition(partition=HERE, outcome=Exact(downstream=6))


def test_who_has_read_all_that_was_brought_goes_on_at_what_never_left():
    stretch = RecordRange(14, 29, 16, 1, 2)
    tail = UnreplicatedTail(
        partition=HERE, map_end=12, end=30, origin_end=15, ranges=(stretch,), counted=16
    )
    where = made(
        flow(),
        ReverseFlowMap(offset_map=known(HERE, through=12, delta=3)),
        unreplicated={HERE: tail},
    )
    assert outcome(where.translate_position(BROUGHT, 15)) == Exact(downstream=14)
    assert outcome(where.translate_position(BROUGHT, 9)) == Exact(downstream=6)


@pytest.mark.parametrize("about", [flow(), identity()])
def test_of_a_topic_that_was_made_anew_the_opposite_map_says_nothing(about):
    """Neither do its tail and its syncs."""
    tail = UnreplicatedTail(partition=HERE, map_end=12, end=30, origin_end=15, ranges=(), counted=0)
    way = ReverseFlowMap(
        offset_map=known(HERE, through=12, delta=3), outdated={HERE: "it was recreated"}
    )
    where = made(about, way, unreplicated={HERE: tail}, is_stopped=True)
    asked = BROUGHT if about.policy.renames_topics else HERE
    assert where.translate_position(asked, 15) == TranslatedPosition(
        partition=HERE, outcome=UntranslatedReason.TOO_OLD, outdated_reason="it was recreated"
    )


@pytest.mark.parametrize(
    ("syncs", "found"),
    [({}, UntranslatedReason.UNKNOWN), (synced(12, 15), Earlier(downstream=12, reread_max=2))],
)
def test_without_the_opposite_map_its_syncs_count(syncs, found):
    back = ReverseFlowMap(offset_map=None, exists=True, syncs=syncs)
    assert outcome(made(flow(), back).translate_position(BROUGHT, 17)) == found


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (1_017, Earlier(downstream=5, reread_max=12)),
        (1_003, Earlier(downstream=5, reread_max=998)),
        (999, None),
    ],
)
def test_a_sync_of_before_counts_no_further_than_where_a_later_one_begins(offset, found):
    """The topic was recreated, or copied once more from there on."""
    told = (
        OffsetSync(partition=HERE, upstream=1_000, downstream=1_000),
        OffsetSync(partition=HERE, upstream=5, downstream=1_005),
    )
    back = ReverseFlowMap(offset_map=None, exists=True, syncs={HERE: told})
    assert back.translate_offset_by_syncs(HERE, offset) == found


@pytest.mark.parametrize(
    ("exists", "topics", "unsure"),
    [
        (False, TargetTopicAccess.EXCLUSIVE, False),
        (True, TargetTopicAccess.EXCLUSIVE, True),
        (False, SHARED, True),
    ],
)
@pytest.mark.parametrize("readable", [True, False])
def test_under_one_name_it_depends_on_who_may_write_there(exists, topics, unsure, readable):
    back = ReverseFlowMap(offset_map=OffsetMap() if readable else None, exists=exists)
    found = made(identity(target_topics=topics), back).translate_position(HERE, 40)
    assert found is not None
    assert (found.partition, found.outcome) == (HERE, Exact(downstream=45))
    assert bool(found.local_records_reason) is unsure


@pytest.mark.parametrize("readable", [True, False])
def test_under_one_name_what_had_arrived_is_not_read_again(readable):
    """Also where MirrorMaker 2 leads back, which has no map."""
    known = OffsetMap() if readable else None
    back = ReverseFlowMap(offset_map=known, exists=True, syncs=synced(20, 30))
    found = made(identity(), back).translate_position(HERE, 40)
    assert found is not None
    assert (found.local_records_reason, found.outcome.downstream) == ("", 20)
    later = made(identity(), back).translate_position(HERE, 25)
    assert later is not None
    assert later.local_records_reason


def test_under_one_name_both_maps_count():
    back = ReverseFlowMap(offset_map=known(HERE, through=60, delta=20))
    where = made(identity(), back)
    assert outcome(where.translate_position(HERE, COPIED)).downstream == 60
    tail = UnreplicatedTail(
        partition=HERE, map_end=60, end=105, origin_end=80, ranges=(), counted=0
    )
    done = made(identity(), back, unreplicated={HERE: tail}, is_stopped=True)
    assert outcome(done.translate_position(HERE, COPIED)) == Exact(downstream=105)


@pytest.mark.parametrize(
    ("topics", "asks"), [((), False), (("orders",), False), (("orders", "west.a"), True)]
)
def test_the_way_back_is_asked_for_where_it_counts(topics, asks):
    assert position_translation.needs_reverse_map(flow(), topics) is asks
    assert position_translation.needs_reverse_map(identity(), topics)


def test_where_groups_go():
    group = GroupSnapshot(
        name="billing",
        basis=PositionBasis.COMMITTED,
        positions={
            HERE: OffsetAndMetadata(offset=40),
            TopicPartition("orders", 1): None,
            TopicPartition("other", 0): OffsetAndMetadata(offset=4),
        },
    )
    assert made(flow(), NOTHING).list_target_partitions([group]) == {MIRROR}


def test_names_of_both_ways():
    assert position_translation.map_to_target_partition(flow(), HERE) == MIRROR
    assert position_translation.map_to_source_partition(flow(), HERE) == BROUGHT
    assert position_translation.map_to_source_partition(identity(), HERE) == HERE


BOTH = (flow(source="west", target="east"), flow())
LOCATION = mirror_connector_config_keys.SYNCS_TOPIC_LOCATION


@pytest.mark.parametrize(
    ("props", "of_file", "found"),
    [
        ({}, (), (False, True, True)),
        ({}, BOTH, (True, True, True)),
        ({LOCATION: "target"}, BOTH, (True, False, False)),
        ({f"west->east.{LOCATION}": "target"}, BOTH, (True, False, True)),
        ({LOCATION: "target", f"east->west.{LOCATION}": "source"}, (), (False, False, True)),
    ],
)
def test_the_file_says_where_syncs_are(props, of_file, found):
    ways = position_translation.find_offset_sync_locations(props, flow(), of_file)
    assert (ways.has_reverse_flow, ways.reverse_syncs_on_destination, ways.syncs_on_source) == found


def local(through, end, *stretches):
    made = [RecordRange(at, at, 1, 0, 0) for at in stretches]
    return LocallyProducedRecords(through=through, end=end, ranges=made)


def place(forward, back, known, *, read_all=False, past_all=False):
    return position_translation.combine_shared_topic_translations(
        forward, back, known, read_all_copied=read_all, past_all_back=past_all
    )


def test_the_earlier_of_both_counts_and_the_rest_may_be_read_again():
    assert place(Exact(downstream=50), Exact(downstream=40), local(90, 100)) == Earlier(
        downstream=40, reread_max=10
    )
    assert place(Exact(downstream=40), Exact(downstream=50), local(90, 100)) == Earlier(
        downstream=40, reread_max=10
    )
    assert place(Exact(downstream=40), Exact(downstream=40), local(90, 100)) == Exact(downstream=40)


def test_who_has_read_all_goes_on_at_what_never_left():
    found = place(
        Exact(downstream=60),
        Exact(downstream=0),
        local(70, 100, 80, 81),
        read_all=True,
        past_all=True,
    )
    assert found == Exact(downstream=80)
    nothing_left = place(
        Exact(downstream=60), Exact(downstream=0), local(70, 100), read_all=True, past_all=True
    )
    assert nothing_left == Exact(downstream=100)


def test_copies_behind_what_never_left_are_read_again():
    found = place(
        Exact(downstream=95),
        Exact(downstream=0),
        local(70, 100, 70, 71),
        read_all=True,
        past_all=True,
    )
    assert found == Earlier(downstream=70, reread_max=23)


def test_what_nobody_counted_is_taken_for_unread():
    unknown = LocallyProducedRecords(through=70, end=70, ranges=None)
    found = place(Exact(downstream=95), Exact(downstream=0), unknown, read_all=True, past_all=True)
    assert found == Earlier(downstream=70, reread_max=25)


def test_copies_behind_the_place_by_the_map_count_on_top():
    """Their places are among records of both clusters."""
    forward = Earlier(downstream=50, reread_max=5)
    assert place(forward, Exact(downstream=60), local(90, 100)) == Earlier(
        downstream=50, reread_max=15
    )


def test_without_a_place_on_either_way_there_is_none():
    assert (
        place(UntranslatedReason.UNKNOWN, Exact(downstream=1), local(1, 2))
        is UntranslatedReason.UNKNOWN
    )
    assert (
        place(Exact(downstream=1), UntranslatedReason.TOO_OLD, local(1, 2))
        is UntranslatedReason.TOO_OLD
    )


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["here", "there", "copy-here", "copy-there"]), max_size=40),
    st.data(),
)
def test_nothing_unread_stands_before_it(events, data):
    """Two logs of one name: records are born on either and copied to the other, in order."""
    here, there = _logs(events)
    committed = data.draw(st.integers(0, len(here)))
    read = set(here[:committed])
    forward, copied_to = _forward(here, there, committed)
    back, through, behind = _back(here, there, committed)
    stretches = [
        RecordRange(at, at, 1, 0, 0)
        for at, name in enumerate(there)
        if at >= through and name.startswith("there")
    ]
    found = position_translation.combine_shared_topic_translations(
        forward,
        back,
        LocallyProducedRecords(through=through, end=len(there), ranges=stretches),
        read_all_copied=committed >= copied_to,
        past_all_back=committed >= behind,
    )
    assert not isinstance(found, UntranslatedReason)
    assert set(there[: found.downstream]) <= read
    again = sum(name in read for name in there[found.downstream :])
    assert again <= (found.reread_max if isinstance(found, Earlier) else 0)


def _logs(events):
    here: list[str] = []
    there: list[str] = []
    for number, event in enumerate(events):
        if event in {"here", "there"}:
            (here if event == "here" else there).append(f"{event} {number}")
            continue
        source, target = (there, here) if event == "copy-here" else (here, there)
        home = "there" if event == "copy-here" else "here"
        waiting = [name for name in source if name.startswith(home) and name not in target]
        target += waiting[:1]
    return here, there


def _forward(here, there, committed):
    """Exact for each offset: at the first copy of what was born here and is not read."""
    copies = [at for at, name in enumerate(there) if name.startswith("here")]
    born = [at for at, name in enumerate(here) if name.startswith("here") and name in there]
    copied_to = born[-1] + 1 if born else 0
    target_next = copies[-1] + 1 if copies else 0
    unread = [there.index(here[at]) for at in born if at >= committed]
    return Exact(downstream=min(unread, default=target_next)), copied_to


def _back(here, there, committed):
    born = [at for at, name in enumerate(there) if name.startswith("there") and name in here]
    through = born[-1] + 1 if born else 0
    copies = [at for at, name in enumerate(here) if name.startswith("there")]
    behind = copies[-1] + 1 if copies else 0
    unread = [there.index(here[at]) for at in copies if at >= committed]
    return Exact(downstream=min(unread, default=through)), through, behind
