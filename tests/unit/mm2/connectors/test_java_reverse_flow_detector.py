"""Whether Java led, or leads, back what a flow that keeps names mirrors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError, UnreachableError
from mm2.connectors.java_reverse_flow_detector import (
    JavaReverseFlowDetector,
    ReverseFlowClusterClients,
)
from mm2.connectors.partition_setup_builder import PartitionSetupPlan
from mm2.formats import mirrormaker2_records, offset_map_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import EraKey
from mm2.replication import takeover_from_java
from mm2.topics import replication_loops
from mm2.topics.flow_config import Flow, StartPosition, StartPositionKind
from mm2.topics.replication_loops import OffsetSyncsLocation
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.fakes import taking
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.checkpoint_clients import FakeTail, Record
from tests.fakes.plugin_contexts import Clock

SYNCS, SYNCS_THERE = "mm2-offset-syncs.east.internal", "mm2-offset-syncs.west.internal"
OFFSETS, MAP = "mm2-offsets.west.internal", "mm2-offset-map.west.internal"
IDENTITY = IdentityReplicationPolicy(source_alias="east")


class Source:
    """The source of a flow east->west, with what a flow that leads back keeps there."""

    def __init__(self, *, syncs: OffsetSyncsLocation | None = None, **flow: Any) -> None:
        self.cluster, self.target = FakeCluster(), FakeCluster()
        self.tails: list[FakeTail] = []
        self.refuses: list[Any] = []
        self.flow = Flow(source="east", target="west", **({"policy": IDENTITY} | flow))
        self.back = JavaReverseFlowDetector(
            self.flow,
            source=self._looked_at(self.cluster),
            target=self._looked_at(self.target),
            syncs=syncs,
            clock=Clock(),
        )

    def _looked_at(self, on: FakeCluster) -> ReverseFlowClusterClients:
        def tail(topic: str, partitions: int) -> FakeTail:
            assert partitions == on.topics[topic].partitions
            log: list[Record] = [*on.topics[topic].log]
            self.tails.append(FakeTail(topic, log, self.refuses))
            return self.tails[-1]

        return ReverseFlowClusterClients(admin=FakeAdmin(on), connect_tail=tail)

    def sync(self, topic: str, *, on_source: bool = False) -> None:
        on, name = (self.cluster, SYNCS_THERE) if on_source else (self.target, SYNCS)
        if name not in on.topics:
            on.create(name, partitions=1)
        partition = TopicPartition(topic, 0)
        made = OffsetSync(partition=partition, upstream=1, downstream=1)
        on.topics[name].log.append(mirrormaker2_records.encode_offset_sync(made))

    def _log(self, topic: str, partitions: int = 1) -> list[tuple[bytes, bytes | None]]:
        if topic not in self.cluster.topics:
            self.cluster.create(topic, partitions=partitions)
        return self.cluster.topics[topic].log

    def progress(self, topic: str, *, cluster: str = "west", deleted: bool = False) -> None:
        where = {"cluster": cluster, "partition": 0, "topic": topic}
        key = json.dumps(["MirrorSourceConnector", where]).encode()
        self._log(OFFSETS, 25).append((key, None if deleted else b'{"offset":7}'))

    def era(self, topic: str, reason: str = "first start", number: int = 1) -> None:
        key = EraKey(topic=topic, partition=0, era=number, ordinal=number, epoch=0)
        value = offset_map_records.encode_map_value(taking.era(reason=reason))
        self._log(MAP).append((offset_map_records.encode_map_key(key), value))

    def topics(self) -> set[str]:
        found = set(self.back.find_topics(5.0))
        assert all(each.closed for each in self.tails)
        return found


@pytest.fixture
def source() -> Source:
    return Source()


def test_where_nothing_leads_back_nothing_is_javas(source):
    assert source.topics() == set()


def test_progress_without_an_era_of_ours_is_javas(source):
    source.progress("t")
    source.progress("u")
    source.era("u")
    assert source.topics() == {"t"}


@pytest.mark.parametrize("on_source", [False, True])
def test_offset_syncs_tell_of_a_flow_back_whichever_workers_run_it(source, on_source):
    source.sync("t", on_source=on_source)
    source.sync("u", on_source=on_source)
    source.era("u")
    assert source.topics() == {"t"}


@pytest.mark.parametrize("on_source", [False, True])
def test_our_own_offset_syncs_are_nobody_elses(on_source):
    own = OffsetSyncsLocation(on_source=on_source, topic=SYNCS_THERE if on_source else SYNCS)
    source = Source(syncs=own)
    source.sync("t", on_source=on_source)
    assert source.topics() == set()
    source.sync("u", on_source=not on_source)
    assert source.topics() == {"u"}


def test_what_is_no_sync_is_passed_over(source):
    source.sync("t")
    source.target.topics[SYNCS].log.append((b"\x00", b"v"))
    assert source.topics() == {"t"}


def test_who_may_not_read_syncs_finds_by_progress(source):
    source.sync("t")
    source.progress("u")
    source.target.failures["describe_topics", SYNCS] = NotAuthorizedError("no")
    assert source.topics() == {"u"}


def test_what_was_taken_over_was_javas_before(source):
    source.progress("t")
    source.era("t", takeover_from_java.TAKEOVER_REASON)
    source.era("t", "does not pair", number=2)
    assert source.topics() == {"t"}


def test_progress_of_other_clusters_and_what_was_deleted_do_not_count(source):
    source.progress("t", cluster="north")
    source.progress("u")
    source.progress("u", deleted=True)
    assert source.topics() == set()


def test_what_others_store_there_is_passed_over(source):
    source.progress("t")
    nested = b"[" * 5_000
    strange = (b"", b"no json", b'["heartbeats",{"sourceClusterAlias":"west"}]', b"17", b"[1,2]")
    for key in (*strange, nested):
        source.cluster.topics[OFFSETS].log.append((key, b"{}"))
    source.era("u")
    source.cluster.topics[MAP].log.append((b"\x63strange", b"v"))
    assert source.topics() == {"t"}


def test_a_policy_that_renames_asks_nobody():
    source = Source(policy=DefaultReplicationPolicy())
    source.progress("t")
    assert (source.topics(), source.tails) == (set(), [])


@pytest.mark.parametrize("where", [OFFSETS, MAP])
def test_who_may_not_look_cannot_know(source, where):
    source.progress("t")
    source.era("t")
    source.cluster.failures["describe_topics", where] = NotAuthorizedError("no")
    assert source.topics() == set()
    source.cluster.failures.clear()
    source.refuses.append(NotAuthorizedError("no right to read"))
    assert source.topics() == set()


def test_a_source_that_does_not_answer_is_asked_again_by_whoever_asked(source):
    source.progress("t")
    source.refuses.append(UnreachableError("away"))
    with pytest.raises(UnreachableError):
        source.back.find_topics(5.0)
    assert source.topics() == {"t"}


def plan() -> PartitionSetupPlan:
    setups = tuple(taking.where(topic=each, partition=0) for each in ("t", "u"))
    return PartitionSetupPlan(partitions=setups, findings=())


def test_what_would_be_copied_back_is_a_finding(source):
    source.progress("t")
    found = source.back.exclude_looping_partitions(plan(), 5.0)
    assert [each.topic for each in found.partitions] == ["u"]
    (finding,) = found.findings
    assert (finding.partition, finding.cause) == (
        TopicPartition("t", 0),
        replication_loops.JAVA_LOOP_CAUSE,
    )
    assert finding.is_harmful
    assert finding.message.startswith("east->west t: Java MirrorMaker 2 mirrored west->east")


def test_who_begins_at_the_latest_record_never_meets_it():
    source = Source(start=StartPosition(StartPositionKind.LATEST))
    source.progress("t")
    assert source.back.exclude_looping_partitions(plan(), 5.0) == plan()
