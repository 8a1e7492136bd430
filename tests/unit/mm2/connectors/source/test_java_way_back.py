"""Whether Java led, or leads, back what a flow that keeps names mirrors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect_runtime.base import ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.connectors.source import java_way_back
from mm2.connectors.topics import partition_setups
from mm2.core import flows, loops, naming
from mm2.core.copy import from_java
from mm2.formats import map_record, offset_sync
from tests.fakes import admin, checkpoint_clients, plugin_contexts, taking

SYNCS, SYNCS_THERE = "mm2-offset-syncs.east.internal", "mm2-offset-syncs.west.internal"
OFFSETS, MAP = "mm2-offsets.west.internal", "mm2-offset-map.west.internal"
IDENTITY = naming.IdentityReplicationPolicy(source_alias="east")


class Source:
    """The source of a flow east->west, with what a flow that leads back keeps there."""

    def __init__(self, *, syncs: loops.SyncsPlace | None = None, **flow: Any) -> None:
        self.cluster, self.target = admin.FakeCluster(), admin.FakeCluster()
        self.tails: list[checkpoint_clients.FakeTail] = []
        self.refuses: list[Any] = []
        self.flow = flows.Flow(source="east", target="west", **({"policy": IDENTITY} | flow))
        self.back = java_way_back.JavaWayBack(
            self.flow,
            source=self._looked_at(self.cluster),
            target=self._looked_at(self.target),
            syncs=syncs,
            clock=plugin_contexts.Clock(),
        )

    def _looked_at(self, on: admin.FakeCluster) -> java_way_back.Cluster:
        def tail(topic: str, partitions: int) -> checkpoint_clients.FakeTail:
            assert partitions == on.topics[topic].partitions
            log: list[checkpoint_clients.Record] = [*on.topics[topic].log]
            self.tails.append(checkpoint_clients.FakeTail(topic, log, self.refuses))
            return self.tails[-1]

        return java_way_back.Cluster(asked=admin.FakeAdmin(on), connect_tail=tail)

    def sync(self, topic: str, *, on_source: bool = False) -> None:
        on, name = (self.cluster, SYNCS_THERE) if on_source else (self.target, SYNCS)
        if name not in on.topics:
            on.create(name, partitions=1)
        partition = ids.TopicPartition(topic, 0)
        made = offset_sync.OffsetSync(partition=partition, upstream=1, downstream=1)
        on.topics[name].log.append(offset_sync.encode(made))

    def _log(self, topic: str, partitions: int = 1) -> list[tuple[bytes, bytes | None]]:
        if topic not in self.cluster.topics:
            self.cluster.create(topic, partitions=partitions)
        return self.cluster.topics[topic].log

    def progress(self, topic: str, *, cluster: str = "west", deleted: bool = False) -> None:
        where = {"cluster": cluster, "partition": 0, "topic": topic}
        key = json.dumps(["MirrorSourceConnector", where]).encode()
        self._log(OFFSETS, 25).append((key, None if deleted else b'{"offset":7}'))

    def era(self, topic: str, reason: str = "first start", number: int = 1) -> None:
        key = map_record.EraKey(topic=topic, partition=0, era=number, ordinal=number, epoch=0)
        value = map_record.encode_value(taking.era(reason=reason))
        self._log(MAP).append((map_record.encode_key(key), value))

    def topics(self) -> set[str]:
        found = set(self.back.topics(5.0))
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
    own = loops.SyncsPlace(on_source=on_source, topic=SYNCS_THERE if on_source else SYNCS)
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
    source.target.failures["describe_topics", SYNCS] = kafka_errors.NotAuthorizedError("no")
    assert source.topics() == {"u"}


def test_what_was_taken_over_was_javas_before(source):
    source.progress("t")
    source.era("t", from_java.REASON)
    source.era("t", "does not pair", number=2)
    assert source.topics() == {"t"}


def test_progress_of_other_clusters_and_what_was_deleted_do_not_count(source):
    source.progress("t", cluster="north")
    source.progress("u")
    source.progress("u", deleted=True)
    assert source.topics() == set()


def test_what_others_store_there_is_passed_over(source):
    source.progress("t")
    for key in (b"", b"no json", b'["heartbeats",{"sourceClusterAlias":"west"}]', b"17", b"[1,2]"):
        source.cluster.topics[OFFSETS].log.append((key, b"{}"))
    source.era("u")
    source.cluster.topics[MAP].log.append((b"\x63strange", b"v"))
    assert source.topics() == {"t"}


def test_a_policy_that_renames_asks_nobody():
    source = Source(policy=naming.DefaultReplicationPolicy())
    source.progress("t")
    assert (source.topics(), source.tails) == (set(), [])


@pytest.mark.parametrize("where", [OFFSETS, MAP])
def test_who_may_not_look_cannot_know(source, where):
    source.progress("t")
    source.era("t")
    source.cluster.failures["describe_topics", where] = kafka_errors.NotAuthorizedError("no")
    assert source.topics() == set()
    source.cluster.failures.clear()
    source.refuses.append(kafka_errors.NotAuthorizedError("no right to read"))
    assert source.topics() == set()


def test_a_source_that_does_not_answer_is_asked_again_by_whoever_asked(source):
    source.progress("t")
    source.refuses.append(kafka_errors.UnreachableError("away"))
    with pytest.raises(kafka_errors.UnreachableError):
        source.back.topics(5.0)
    assert source.topics() == {"t"}


def plan() -> partition_setups.SourcePlan:
    setups = tuple(taking.where(topic=each, partition=0) for each in ("t", "u"))
    return partition_setups.SourcePlan(partitions=setups, findings=())


def test_what_would_be_copied_back_is_a_finding(source):
    source.progress("t")
    found = source.back.sift(plan(), 5.0)
    assert [each.topic for each in found.partitions] == ["u"]
    (finding,) = found.findings
    assert (finding.partition, finding.cause) == (ids.TopicPartition("t", 0), loops.CAUSE)
    assert finding.spoils
    assert finding.message.startswith("east->west t: MirrorMaker 2 of Java mirrored west->east")


def test_who_begins_at_the_latest_record_never_meets_it():
    source = Source(start=flows.StartPosition(flows.StartAt.LATEST))
    source.progress("t")
    assert source.back.sift(plan(), 5.0) == plan()
