"""Where offsets of one cluster are on the other: by both clusters, by one, by none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError, UnreachableError
from mm2 import client
from mm2.client import (
    Basis,
    BeyondEnd,
    Earlier,
    Exact,
    NotReady,
    OffsetTranslator,
    Place,
    TooOld,
    Unknown,
    offset_translator,
    translation_outcomes,
)
from mm2.client.offset_translator import FlowOffsetReader, TranslationClusterPair
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint, OffsetSync
from mm2.kafka.kafka_client_interfaces import TopicRecord
from mm2.kafka.offset_map_reader import MapReadTimeoutError
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.fakes import copied_map
from tests.fakes.client_cluster import FakeCluster
from tests.fakes.logs import FakeLog
from tests.fakes.plugin_contexts import Clock

ORDERS = TopicPartition("orders", 7)
MIRROR = TopicPartition("east.orders", 7)
BACK = TopicPartition("west.store", 0)
LEDGER = TopicPartition("store", 0)
OFFLINE = UnreachableError("asking east: nobody answers")


class World:
    """`orders` of east was copied to west up to 30, each record 5 before; `store` of west to
    east up to 20, each 2 behind."""

    def __init__(self) -> None:
        self.east, self.west = FakeCluster(), FakeCluster()
        self.west.topics.topics["mm2-offset-map.east.internal"] = copied_map.log(
            ORDERS, through=30, delta=-5, start=10
        )
        self.east.topics.topics["mm2-offset-map.west.internal"] = copied_map.log(
            LEDGER, through=20, delta=2
        )
        self.clock = Clock()

    def translator(self, *, there=True, alias="west", **more):
        link = TranslationClusterPair(
            target=self.west,
            source=self.east if there else None,
            source_alias="east",
            target_alias=alias,
            **{"policy": DefaultReplicationPolicy(), **more},
        )
        return offset_translator.OffsetTranslator(link, timeout_s=60.0, clock=self.clock)

    def checkpoint(self, group, partition, upstream, downstream):
        name, topics = "east.checkpoints.internal", self.west.topics.topics
        written = mirrormaker2_records.encode_checkpoint(
            Checkpoint(
                group=group,
                partition=partition,
                upstream=upstream,
                downstream=downstream,
                metadata="note",
            )
        )
        topics[name] = [*topics.get(name, ()), written]


@pytest.fixture
def world():
    return World()


def exact(partition, offset):
    return Exact(partition=partition, offset=offset)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (9, TooOld(partition=MIRROR)),
        (10, exact(MIRROR, 5)),
        (29, exact(MIRROR, 24)),
        (30, exact(MIRROR, 25)),
        (31, NotReady(partition=MIRROR, offset=25, again_max=1)),
        (90, NotReady(partition=MIRROR, offset=25, again_max=60)),
    ],
)
def test_an_offset_is_somewhere_there_or_the_outcome_says_why_not(world, offset, expected):
    assert world.translator().translate("orders", 7, offset) == expected
    assert world.translator(there=False, alias="").translate("orders", 7, offset) == expected


def test_the_way_back(world):
    translator = world.translator()
    assert translator.translate_back("east.orders", 7, 6) == exact(ORDERS, 11)
    behind = translator.translate_back("east.orders", 7, 28)
    assert behind == Earlier(partition=ORDERS, offset=30, again_max=3)


def test_of_what_was_never_mirrored_nothing_is_known(world):
    for found in (
        world.translator().translate("orders", 6, 1),
        world.translator().translate_back("east.orders", 6, 1),
        world.translator().translate_back("local", 0, 1),
    ):
        assert isinstance(found, Unknown)
        assert found.reason == "the offset map has no replicated records of this partition"


def test_what_came_from_there_goes_by_the_map_of_the_flow_back(world):
    translator = world.translator()
    assert translator.translate("west.store", 0, 12) == exact(LEDGER, 10)
    assert translator.translate_back("store", 0, 10) == exact(BACK, 12)
    behind = translator.translate_back("store", 0, 25)
    assert behind == NotReady(partition=BACK, offset=22, again_max=5)


def test_without_the_source_nobody_knows_of_the_flow_back(world):
    for translator in (world.translator(there=False), world.translator(alias="")):
        found = translator.translate_back("store", 0, 10)
        assert isinstance(found, Unknown)
        assert "the source must be reachable" in found.reason
    world.east.fail(OFFLINE)
    translator = world.translator()
    assert isinstance(translator.translate("west.store", 0, 12), Unknown)
    assert translator.source_error == str(OFFLINE)


def test_what_is_copied_meanwhile_counts_with_the_next_question(world):
    translator = world.translator()
    assert isinstance(translator.translate("orders", 7, 40), NotReady)
    topic = world.west.topics.topics["mm2-offset-map.east.internal"]
    topic += copied_map.log(ORDERS, through=45, delta=-5, start=10)
    assert translator.translate("orders", 7, 40) == exact(MIRROR, 35)
    translator.close()
    assert all(tail.closed for tail in world.west.tails)
    assert world.west.closed
    assert world.east.closed


def test_a_map_that_comes_later_is_found(world):
    topics = world.west.topics.topics
    records = topics.pop("mm2-offset-map.east.internal")
    translator = world.translator()
    assert isinstance(translator.translate("orders", 7, 12), Unknown)
    topics["mm2-offset-map.east.internal"] = records
    assert translator.translate("orders", 7, 12) == exact(MIRROR, 7)


def sync(upstream, downstream, partition=ORDERS):
    return mirrormaker2_records.encode_offset_sync(
        OffsetSync(partition=partition, upstream=upstream, downstream=downstream)
    )


@pytest.mark.parametrize("on_source", [True, False])
def test_what_java_has_copied_is_told_by_offset_syncs(world, on_source):
    side, name = (world.east, "west") if on_source else (world.west, "east")
    side.topics.topics[f"mm2-offset-syncs.{name}.internal"] = [sync(3, 1), (b"?", b"?")]
    translator = world.translator(syncs_on_source=on_source)
    assert translator.translate("orders", 7, 3) == exact(MIRROR, 1)
    later = translator.translate("orders", 7, 8)
    assert later == Earlier(partition=MIRROR, offset=2, again_max=4)
    assert translator.translate("orders", 7, 12) == exact(MIRROR, 7)


def test_syncs_of_the_flow_back_are_not_taken_for_ours(world):
    """By default both flows have theirs on their sources, under the other's alias."""
    world.west.topics.topics["mm2-offset-syncs.east.internal"] = [sync(3, 1)]
    assert world.translator().translate("orders", 7, 3) == TooOld(partition=MIRROR)


def test_a_map_that_the_newest_sync_contradicts_counts_for_nothing(world):
    world.east.topics.topics["mm2-offset-syncs.west.internal"] = [sync(20, 3)]
    translator = world.translator()
    found = translator.translate("orders", 7, 25)
    assert found == Earlier(partition=MIRROR, offset=4, again_max=4)
    assert isinstance(translator.translate_back("east.orders", 7, 9), Unknown)


def test_syncs_that_we_may_not_read_are_done_without(world):
    world.east.fail(FatalError("not allowed"))
    assert world.translator().translate("orders", 7, 12) == exact(MIRROR, 7)


def place(partition, offset, outcome, basis=translation_outcomes.Basis.COMMITTED, metadata=""):
    return Place(
        partition=partition, offset=offset, outcome=outcome, basis=basis, metadata=metadata
    )


def test_a_group_goes_on_by_what_it_has_committed(world):
    world.east.group_cluster.commit("g", {BACK: 12, ORDERS: 12, MIRROR: None}, metadata="n")
    found = world.translator().translate_group("g")
    assert found.places == (
        place(ORDERS, 12, exact(MIRROR, 7), metadata="n"),
        place(BACK, 12, exact(LEDGER, 10), metadata="n"),
    )
    assert (found.basis, found.cluster_error) == (Basis.COMMITTED, "")
    assert world.translator().translate_group("nobody").places == ()


def test_where_the_source_is_silent_by_its_checkpoints(world):
    world.checkpoint("g", MIRROR, 12, 6)
    world.checkpoint("g", TopicPartition("east.other", 0), 40, 35)
    world.checkpoint("h", MIRROR, 12, 6)
    world.east.fail(OFFLINE)
    found = world.translator().translate_group("g")
    other = TopicPartition("east.other", 0)
    by_checkpoint = Basis.CHECKPOINT
    unsure = Earlier(partition=other, offset=35, again_max=None)
    by_map = Earlier(partition=MIRROR, offset=7, again_max=None)  # it may have read on
    assert found.places == (
        place(ORDERS, 12, by_map, by_checkpoint, "note"),
        place(TopicPartition("other", 0), 40, unsure, by_checkpoint, "note"),
    )
    assert (found.basis, found.cluster_error) == (by_checkpoint, str(OFFLINE))
    unasked = world.translator(there=False).translate_group("g")
    assert (unasked.places, unasked.cluster_error) == (found.places, "")


def test_a_checkpoint_tells_when_it_was_written(world):
    world.checkpoint("g", MIRROR, 12, 6)
    world.west.topics.time_ms = 77
    (found,) = world.translator(there=False).translate_group("g").places
    assert (found.basis, found.written_ms) == (Basis.CHECKPOINT, 77)


def test_an_offset_beyond_the_log_end_is_nowhere_there(world):
    world.east.logs.logs[ORDERS] = FakeLog(times_ms=[1] * 35)
    translator = world.translator()
    assert isinstance(translator.translate("orders", 7, 35), NotReady)
    beyond = BeyondEnd(partition=MIRROR, end=35)
    assert translator.translate("orders", 7, 36) == beyond
    world.east.group_cluster.commit("g", {ORDERS: 36})
    assert [each.outcome for each in translator.translate_group("g").places] == [beyond]
    world.east.fail(OFFLINE)
    assert isinstance(world.translator().translate("orders", 7, 36), NotReady)


def test_an_offset_beyond_the_log_end_is_nowhere_on_the_source(world):
    world.west.logs.logs[MIRROR] = FakeLog(times_ms=[1] * 25)
    world.west.group_cluster.commit("g", {MIRROR: 26})
    translator = world.translator()
    assert translator.translate_back("east.orders", 7, 25) == exact(ORDERS, 30)
    beyond = BeyondEnd(partition=ORDERS, end=25)
    assert translator.translate_back("east.orders", 7, 26) == beyond
    assert [each.outcome for each in translator.translate_group_back("g").places] == [beyond]


def test_a_source_that_is_silent_is_left_alone_for_a_while(world):
    world.checkpoint("g", MIRROR, 12, 6)
    world.east.fail(OFFLINE)
    translator = world.translator()
    for _ in range(3):
        translator.translate_group("g")
    assert world.east.groups.calls == ["positions"]
    world.clock.now += offset_translator.SOURCE_RETRY_DELAY_S
    world.east.fail(None)
    assert translator.translate_group("g").basis is Basis.COMMITTED
    assert translator.source_error == ""


def test_what_waiting_does_not_heal_is_told(world):
    world.east.fail(FatalError("who are you?"))
    with pytest.raises(FatalError, match="who are you"):
        world.translator().translate_group("g")
    world.east.fail(OFFLINE)
    with pytest.raises(TopicMissingError, match=r"topic east\.checkpoints"):
        world.translator().translate_group("g")


def test_a_group_goes_back_by_what_it_has_committed(world):
    world.west.group_cluster.commit("g", {MIRROR: 6, LEDGER: 10})
    found = world.translator().translate_group_back("g")
    assert found.places == (place(MIRROR, 6, exact(ORDERS, 11)), place(LEDGER, 10, exact(BACK, 12)))


TIMES = FakeLog(times_ms=[1000 + 10 * each for each in range(20)], start=10)


def test_a_time_is_where_it_begins_on_the_source(world):
    world.east.logs.logs[ORDERS] = TIMES
    found = world.translator().translate_timestamp("orders", 7, 1045)
    assert found == place(ORDERS, 15, exact(MIRROR, 10), Basis.TIME)
    after = world.translator().translate_timestamp("orders", 7, 9999)
    assert after == place(ORDERS, 30, exact(MIRROR, 25), Basis.TIME)


def test_without_the_source_a_time_is_where_it_begins_on_the_mirror(world):
    world.east.fail(OFFLINE)
    world.west.logs.logs[MIRROR] = FakeLog(times_ms=[1000 + 10 * each for each in range(20)])
    found = world.translator().translate_timestamp("orders", 7, 1045)
    unsure = Earlier(partition=MIRROR, offset=5, again_max=None)
    assert found == place(ORDERS, None, unsure, Basis.TIME_ON_DESTINATION)
    nowhere = world.translator().translate_timestamp("none", 0, 1045)
    assert isinstance(nowhere.outcome, Unknown)


def test_a_time_of_the_mirror_goes_back(world):
    world.west.logs.logs[MIRROR] = FakeLog(times_ms=[1000 + 10 * each for each in range(20)])
    found = world.translator().translate_timestamp_back("east.orders", 7, 1055)
    assert found == place(MIRROR, 6, exact(ORDERS, 11), Basis.TIME)
    with pytest.raises(TopicMissingError):
        world.translator().translate_timestamp_back("east.none", 0, 1055)


def test_where_names_are_kept(world):
    policy = IdentityReplicationPolicy(source_alias="east")
    translator = world.translator(policy=policy)
    assert translator.translate("orders", 7, 12) == exact(ORDERS, 7)
    assert translator.translate_back("orders", 7, 7) == exact(ORDERS, 12)


def test_where_to_go_on_if_anywhere():
    assert client.get_destination_offset(exact(MIRROR, 4)) == 4
    assert client.get_destination_offset(Earlier(partition=MIRROR, offset=3, again_max=None)) == 3
    assert client.get_destination_offset(NotReady(partition=MIRROR, offset=2, again_max=1)) == 2
    assert client.get_destination_offset(TooOld(partition=MIRROR)) is None
    assert client.get_destination_offset(Unknown(partition=MIRROR, reason="")) is None


def test_a_map_ends_at_the_timeout_and_a_silent_cluster_earlier():
    topic = "mm2-offset-map.east.internal"
    clock, waits = Clock(), []
    records = copied_map.log(ORDERS, through=30, delta=-5, start=10)

    class SlowTail:
        def read_to_end(self, timeout_s, take):
            waits.append(timeout_s)
            for offset, (key, value) in enumerate(records):
                clock.now += 40.0
                take(TopicRecord(topic=topic, offset=offset, key=key, value=value, time_ms=0))

    cluster: Any = SimpleNamespace(
        open_new_record_reader=lambda _: SlowTail(),
        topics=SimpleNamespace(list_topics=lambda _: {topic}),
    )
    reader = FlowOffsetReader(cluster, source_alias="east", clock=clock, response_timeout_s=10.0)
    with pytest.raises(MapReadTimeoutError):
        reader.read_offset_map(len(records) * 40.0 - 20.0)
    reader.read_offset_map(len(records) * 40.0 + 20.0)
    assert waits == [10.0, 10.0]


def test_properties_make_a_translator_that_asks_of_nobody_yet():
    with OffsetTranslator.connect(
        {"bootstrap.servers": "west:9092"},
        "east",
        source_properties={"bootstrap.servers": "east:9092"},
        alias="west",
    ) as translator:
        assert translator.source_error == ""
    with pytest.raises(FatalError, match=r"offset-syncs\.topic\.location"):
        OffsetTranslator.connect(
            {"bootstrap.servers": "west:9092", "offset-syncs.topic.location": "moon"}, "east"
        )
