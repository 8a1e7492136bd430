"""Where an offset is on the other cluster, by the maps of both ways and without them."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import ids
from mm2.core import filters, flows, naming
from mm2.core.configs import connector_keys
from mm2.core.failover import places, seen, tails, whose
from mm2.core.offsets import checkpoints, log_ends, offset_map, translation
from mm2.formats import offset_sync
from tests.fakes import copied_map

HERE, MIRROR = ids.TopicPartition("orders", 0), ids.TopicPartition("east.orders", 0)
BROUGHT = ids.TopicPartition("west.orders", 0)
COPIED, DELTA = 100, 5
SHARED = flows.TargetTopics.SHARED
Exact, Earlier, Untranslated = translation.Exact, translation.Earlier, translation.Untranslated


def known(partition: ids.TopicPartition, *, through: int, delta: int) -> offset_map.OffsetMap:
    found = offset_map.OffsetMap()
    for key, value in copied_map.log(partition, through=through, delta=delta):
        found.apply(key or b"", value)
    return found


def flow(**given: Any) -> flows.Flow:
    topics = filters.topic_filter(("orders",))
    return flows.Flow(**{"source": "east", "target": "west", "topics": topics, **given})


def identity(**given: Any) -> flows.Flow:
    policy = naming.IdentityReplicationPolicy(source_alias="east")
    return flow(**{"policy": policy, "target_topics": SHARED, **given})


def made(about: flows.Flow, back: places.Back, **given: Any) -> places.Places:
    mirror = places.there(about, HERE)
    mirrored = seen.Mirrored(
        partition=HERE,
        mirror=mirror,
        copied_to=COPIED,
        here=log_ends.Ends(start=0, end=COPIED),
        there=log_ends.Ends(start=0, end=COPIED + DELTA),
    )
    return places.Places(
        **{
            "flow": about,
            "known": known(HERE, through=COPIED, delta=DELTA),
            "mirrored": {HERE: mirrored},
            "back": back,
            **given,
        }
    )


def outcome(found: seen.Place | None) -> Any:
    assert found is not None
    return found.outcome


def synced(upstream: int, downstream: int) -> dict[ids.TopicPartition, Any]:
    sync = offset_sync.OffsetSync(partition=HERE, upstream=upstream, downstream=downstream)
    return {HERE: (sync,)}


NOTHING = places.Back(known=None)


def test_what_is_mirrored_goes_by_the_flows_map():
    found = made(flow(), NOTHING).translate(HERE, 40)
    assert found == seen.Place(partition=MIRROR, outcome=Exact(downstream=40 + DELTA))


def test_what_is_older_than_the_map_is_before_what_it_knows_first():
    anew = offset_map.OffsetMap()
    for key, value in copied_map.log(HERE, start=60, through=COPIED, delta=-59):
        anew.apply(key or b"", value)
    old = Untranslated.TOO_OLD
    found = made(flow(), NOTHING, known=anew).translate(HERE, 40)
    assert found == seen.Place(partition=MIRROR, outcome=old, known_from=1)
    alone = identity(target_topics=flows.TargetTopics.EXCLUSIVE)
    found = made(alone, NOTHING, known=anew).translate(HERE, 40)
    assert found == seen.Place(partition=HERE, outcome=old, known_from=1)
    both = places.Back(known=known(HERE, through=60, delta=20))
    found = made(identity(), both, known=anew).translate(HERE, 40)
    assert found == seen.Place(partition=HERE, outcome=old)  # what was born there is unread, too


def test_what_no_flow_leads_there_has_no_place():
    where = made(flow(), NOTHING)
    assert where.translate(ids.TopicPartition("other", 0), 4) is None
    assert where.translate(BROUGHT, 4) is None


def test_what_was_brought_goes_back_by_the_opposite_map():
    back = places.Back(known=known(HERE, through=12, delta=3))
    found = made(flow(), back).translate(BROUGHT, 9)
    assert found == seen.Place(partition=HERE, outcome=Exact(downstream=6))


def test_who_has_read_all_that_was_brought_goes_on_at_what_never_left():
    stretch = whose.Stretch(14, 29, 16, 1, 2)
    tail = tails.Tail(
        partition=HERE, through=12, end=30, behind=15, stretches=(stretch,), counted=16
    )
    where = made(flow(), places.Back(known=known(HERE, through=12, delta=3)), left={HERE: tail})
    assert outcome(where.translate(BROUGHT, 15)) == Exact(downstream=14)
    assert outcome(where.translate(BROUGHT, 9)) == Exact(downstream=6)


@pytest.mark.parametrize("about", [flow(), identity()])
def test_of_a_topic_that_was_made_anew_the_opposite_map_says_nothing(about):
    """Neither do its tail and its syncs."""
    tail = tails.Tail(partition=HERE, through=12, end=30, behind=15, stretches=(), counted=0)
    way = places.Back(known=known(HERE, through=12, delta=3), stopped={HERE: "it was made anew"})
    where = made(about, way, left={HERE: tail}, still=True)
    asked = BROUGHT if about.policy.renames_topics else HERE
    assert where.translate(asked, 15) == seen.Place(
        partition=HERE, outcome=Untranslated.TOO_OLD, stopped="it was made anew"
    )


@pytest.mark.parametrize(
    ("syncs", "found"),
    [({}, Untranslated.UNKNOWN), (synced(12, 15), Earlier(downstream=12, again_max=2))],
)
def test_without_the_opposite_map_its_syncs_count(syncs, found):
    back = places.Back(known=None, exists=True, syncs=syncs)
    assert outcome(made(flow(), back).translate(BROUGHT, 17)) == found


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (1_017, Earlier(downstream=5, again_max=12)),
        (1_003, Earlier(downstream=5, again_max=998)),
        (999, None),
    ],
)
def test_a_sync_of_before_counts_no_further_than_where_a_later_one_begins(offset, found):
    """The topic was made anew, or copied once more from there on."""
    told = (
        offset_sync.OffsetSync(partition=HERE, upstream=1_000, downstream=1_000),
        offset_sync.OffsetSync(partition=HERE, upstream=5, downstream=1_005),
    )
    back = places.Back(known=None, exists=True, syncs={HERE: told})
    assert back.arrived(HERE, offset) == found


@pytest.mark.parametrize(
    ("exists", "topics", "unsure"),
    [
        (False, flows.TargetTopics.EXCLUSIVE, False),
        (True, flows.TargetTopics.EXCLUSIVE, True),
        (False, SHARED, True),
    ],
)
@pytest.mark.parametrize("readable", [True, False])
def test_under_one_name_it_depends_on_who_may_write_there(exists, topics, unsure, readable):
    back = places.Back(known=offset_map.OffsetMap() if readable else None, exists=exists)
    found = made(identity(target_topics=topics), back).translate(HERE, 40)
    assert found is not None
    assert (found.partition, found.outcome) == (HERE, Exact(downstream=45))
    assert bool(found.unsure) is unsure


@pytest.mark.parametrize("readable", [True, False])
def test_under_one_name_what_had_arrived_is_not_read_again(readable):
    """Also where MirrorMaker 2 leads back, which has no map."""
    known = offset_map.OffsetMap() if readable else None
    back = places.Back(known=known, exists=True, syncs=synced(20, 30))
    found = made(identity(), back).translate(HERE, 40)
    assert found is not None
    assert (found.unsure, found.outcome.downstream) == ("", 20)
    later = made(identity(), back).translate(HERE, 25)
    assert later is not None
    assert later.unsure


def test_under_one_name_both_maps_count():
    back = places.Back(known=known(HERE, through=60, delta=20))
    where = made(identity(), back)
    assert outcome(where.translate(HERE, COPIED)).downstream == 60
    tail = tails.Tail(partition=HERE, through=60, end=105, behind=80, stretches=(), counted=0)
    done = made(identity(), back, left={HERE: tail}, still=True)
    assert outcome(done.translate(HERE, COPIED)) == Exact(downstream=105)


@pytest.mark.parametrize(
    ("topics", "asks"), [((), False), (("orders",), False), (("orders", "west.a"), True)]
)
def test_the_way_back_is_asked_for_where_it_counts(topics, asks):
    assert places.asks_back(flow(), topics) is asks
    assert places.asks_back(identity(), topics)


def test_where_groups_go():
    group = seen.Group(
        name="billing",
        origin=seen.Origin.COMMITTED,
        positions={
            HERE: checkpoints.OffsetAndMetadata(offset=40),
            ids.TopicPartition("orders", 1): None,
            ids.TopicPartition("other", 0): checkpoints.OffsetAndMetadata(offset=4),
        },
    )
    assert made(flow(), NOTHING).of_groups([group]) == {MIRROR}


def test_names_of_both_ways():
    assert places.there(flow(), HERE) == MIRROR
    assert places.back(flow(), HERE) == BROUGHT
    assert places.back(identity(), HERE) == HERE


BOTH = (flow(source="west", target="east"), flow())
LOCATION = connector_keys.SYNCS_TOPIC_LOCATION


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
    ways = places.ways(props, flow(), of_file)
    assert (ways.both, ways.syncs_there, ways.syncs_here) == found
