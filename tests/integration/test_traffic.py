"""Traffic of real clients, and the judge on real logs: each kind of fault planted, each named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import partition_reader, replication_proof
from mm2.sandbox.log_comparison import DifferenceKind, PartitionComparison
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.replication_proof import NothingToCompareError
from mm2.sandbox.sandbox_clients import SandboxClients
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.traffic import traffic_mix
from mm2.sandbox.traffic.latency_probe import LatencyProbe, TrickleProducer
from mm2.sandbox.traffic.payloads import OutgoingRecord
from mm2.sandbox.traffic.producers import AcknowledgedProducer, JavaPerfProducer
from mm2.sandbox.traffic.traffic_mix import TrafficMix
from tests.support import eventually, kafka
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

KIND = DifferenceKind
CODEC_BITS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_CODEC_BYTE = 22
"""Of a record batch: the low byte of its attributes."""


@pytest.fixture(scope="module")
def sent(east):
    """Every kind of traffic once, with topic names that begin with `mix-`."""
    with TrafficMix(east.client_properties(), prefix="mix-", records=300) as traffic:
        traffic.create_topics()
        traffic.send_backlog()
        yield traffic


def copied(source, target, topic, remote, *, alter=lambda records: records, isolation=None):
    """A mirror made record by record with an ordinary client; `alter` plants faults."""
    found = kafka.read_topic(
        source.client_properties(), topic, isolation=isolation or partition_reader.READ_COMMITTED
    )
    outgoing = [
        Outgoing(
            value=record.value,
            key=record.key,
            headers=record.headers,
            partition=partition,
            timestamp=record.timestamp,
        )
        for partition, records in found.items()
        for record in alter(records)
    ]
    mirrored(target, remote, outgoing, partitions=len(found))


def mirrored(target, remote, outgoing, *, partitions):
    kafka.create_topic(
        target.client_properties(),
        remote,
        partitions=partitions,
        config={"max.message.bytes": str(traffic_mix.LARGE_TOPIC_MESSAGE_BYTES)},
    )
    kafka.produce(
        target.client_properties(),
        remote,
        outgoing,
        message_max_bytes=traffic_mix.LARGE_TOPIC_MESSAGE_BYTES,
        enable_idempotence=True,
    )


def outgoing_of(reader, partition):
    for chunk in reader.iterate_record_chunks(partition):
        for key, value, headers, (_, timestamp) in chunk.contents:
            yield Outgoing(
                value=value,
                key=key,
                headers=tuple(headers or ()),
                partition=partition.partition,
                timestamp=timestamp,
            )


def compared(source, target, topic, remote, **options):
    return replication_proof.compare_topics(
        source.client_properties(), target.client_properties(), {topic: remote}, **options
    )


def test_every_kind_is_in_the_log(east, sent):
    properties = east.client_properties()
    with ConsumerLogReader(properties, alias="east") as reader:
        for name in sent.topic_names:
            for number in range(reader.count_partitions(name)):
                some = next(reader.iterate_record_chunks(TopicPartition(name, number)), None)
                assert (some is None) == (name == "mix-empty"), name
    sizes = [
        len(each.value or b"")
        for records in kafka.read_topic(properties, "mix-sizes").values()
        for each in records
    ]
    assert (min(sizes), max(sizes)) == (1, 5_000_000)
    stamps = {each.timestamp for each in kafka.read_partition(properties, "mix-timeless")}
    assert {-1, 1} < stamps
    java = kafka.read_topic(properties, "mix-java-perf")
    assert sum(len(each) for each in java.values()) == 1_000
    assert all(each for each in java.values())


def test_transactions_are_committed_and_aborted_and_interleaved(east, sent):
    visible, everything = (
        sum(
            len(each)
            for each in kafka.read_topic(
                east.client_properties(), "mix-transactions", isolation=isolation
            ).values()
        )
        for isolation in (partition_reader.READ_COMMITTED, partition_reader.READ_UNCOMMITTED)
    )
    assert visible == sent.transactions.committed > 0
    assert everything - visible == sent.transactions.aborted > 0
    _, end = kafka.offsets(east.client_properties(), "mix-transactions")
    _, stable = kafka.offsets(
        east.client_properties(), "mix-transactions", isolation=partition_reader.READ_COMMITTED
    )
    assert stable == end


@pytest.mark.parametrize("codec", CODEC_BITS)
def test_batches_have_the_codec_of_their_topic(east, sent, codec):
    segment = Path(east.brokers[1].folder, "data", f"mix-codec-{codec}-0", "0" * 20 + ".log")
    assert segment.read_bytes()[_CODEC_BYTE] & 7 == CODEC_BITS[codec]


def test_a_faithful_copy_of_every_kind_is_equal(east, west, sent):
    with ConsumerLogReader(east.client_properties(), alias="east") as reader:
        for name in sent.topic_names:
            partitions = reader.count_partitions(name)
            outgoing = [
                record
                for number in range(partitions)
                for record in outgoing_of(reader, TopicPartition(name, number))
            ]
            mirrored(west, f"east.{name}", outgoing, partitions=partitions)
    seen: list[PartitionComparison] = []
    result = replication_proof.compare_topics(
        east.client_properties(),
        west.client_properties(),
        {name: f"east.{name}" for name in sent.topic_names},
        report=seen.append,
    )
    assert result.is_equal, str(result)
    assert tuple(seen) == result.partitions
    assert len(seen) == sum(each.partitions for each in traffic_mix.MIX_TOPICS)
    assert result.records > 3_000
    assert result.size > 12_000_000


def _without(place):
    return lambda records: records[:place] + records[place + 1 :]


def _with(place, **changes):
    return lambda records: [
        dataclasses.replace(each, **changes) if index == place else each
        for index, each in enumerate(records)
    ]


FAULTS = [
    ("one dropped", _without(20), KIND.MISSING, ()),
    ("the last one dropped", lambda records: records[:-1], KIND.MISSING, ()),
    ("one doubled", lambda records: records[:21] + records[20:], KIND.DUPLICATED, ()),
    ("a batch again", lambda records: records[:90] + records[10:], KIND.DUPLICATED, ()),
    (
        "two swapped",
        lambda records: [*records[:20], records[21], records[20], *records[22:]],
        KIND.REORDERED,
        (),
    ),
    ("a value altered", _with(20, value=b"other"), KIND.ALTERED, ("value",)),
    ("a value gone null", _with(20, value=None), KIND.ALTERED, ("value",)),
    ("a key altered", _with(20, key=b""), KIND.ALTERED, ("key",)),
    ("a header more", _with(20, headers=(("h", b"1"),)), KIND.ALTERED, ("headers",)),
    ("a timestamp altered", _with(20, timestamp=1), KIND.ALTERED, ("timestamp",)),
    (
        "one too many at the end",
        lambda records: [*records, dataclasses.replace(records[0], value=b"other", timestamp=1)],
        KIND.EXTRA,
        (),
    ),
]


@pytest.mark.parametrize(
    ("alter", "kind", "fields"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_planted_fault_is_named(east, west, sent, topic, alter, kind, fields):
    name, remote = "mix-codec-lz4", topic()
    copied(east, west, name, remote, alter=alter)
    result = compared(east, west, name, remote)
    assert not result.is_equal
    assert (
        result.count_differences(kind) == sum(result.count_differences(each) for each in KIND) > 0
    ), str(result)
    assert {
        difference.fields for part in result.differing_partitions for difference in part.differences
    } == {fields}


def test_a_header_that_turned_from_null_to_empty_is_altered(east, west, sent, topic):
    def empty_for_null(records):
        return [
            dataclasses.replace(
                each, headers=tuple((name, value or b"") for name, value in each.headers)
            )
            for each in records
        ]

    remote = topic()
    copied(east, west, "mix-shapes", remote, alter=empty_for_null)
    result = compared(east, west, "mix-shapes", remote)
    altered = [each for part in result.partitions for each in part.differences]
    assert {(each.kind, each.fields) for each in altered} == {(KIND.ALTERED, ("headers",))}


def test_aborted_records_that_show_are_extra(east, west, sent, topic):
    remote = topic()
    copied(east, west, "mix-transactions", remote, isolation=partition_reader.READ_UNCOMMITTED)
    result = compared(east, west, "mix-transactions", remote)
    assert result.count_differences(KIND.EXTRA) == sent.transactions.aborted
    assert result.count_differences(KIND.MISSING) == result.count_differences(KIND.ALTERED) == 0


def test_the_isolation_level_at_the_target_decides_what_is_seen_there(east, west, topic):
    name, remote = topic("source"), topic("remote")
    records = [Outgoing(value=b"%d" % number, timestamp=number + 1) for number in range(50)]
    kafka.create_topic(east.client_properties(), name)
    kafka.produce(east.client_properties(), name, records)
    kafka.create_topic(west.client_properties(), remote)
    for commit in (False, True):
        kafka.produce_transaction(
            west.client_properties(), remote, records, transactional_id=remote, commit=commit
        )
    assert compared(east, west, name, remote).is_equal
    uncommitted = compared(east, west, name, remote, isolation=partition_reader.READ_UNCOMMITTED)
    assert uncommitted.count_differences(KIND.DUPLICATED) == 50, str(uncommitted)


def test_a_topic_that_the_target_lacks_is_missing_as_a_whole(east, west, sent):
    result = compared(east, west, "mix-timeless", "nowhere")
    assert result.count_differences(KIND.MISSING) == result.records > 0


def test_partitions_that_the_target_lacks_are_missing(east, west, topic):
    name, remote = topic("source"), topic("remote")
    kafka.create_topic(east.client_properties(), name, partitions=2)
    kafka.create_topic(west.client_properties(), remote)
    kafka.produce(east.client_properties(), name, [Outgoing(value=b"v", partition=1, timestamp=1)])
    (wrong,) = compared(east, west, name, remote).differing_partitions
    assert wrong.source == TopicPartition(name, 1)


def test_nothing_is_not_equal_to_nothing(east, west):
    with pytest.raises(NothingToCompareError, match="the source topic does not exist"):
        compared(east, west, "never-made", "never-made")
    with pytest.raises(NothingToCompareError, match="no topics"):
        replication_proof.compare_topics(east.client_properties(), west.client_properties(), {})


class HurryingClock(SystemClock):
    """Runs ahead by `step_s` whenever it is asked."""

    ahead_s = 0.0
    step_s = 0.0

    def now_s(self) -> float:
        self.ahead_s += self.step_s
        return super().now_s() + self.ahead_s


def test_a_silent_cluster_ends_the_comparison_with_its_address(own_cluster, topic):
    running, name, hurrying = own_cluster("silent"), topic(), HurryingClock()
    kafka.create_topic(running.client_properties(), name)
    kafka.produce(running.client_properties(), name, [Outgoing(value=b"v" * 1_000)] * 5_000)
    properties = running.client_properties()
    with ConsumerLogReader(properties, alias="silent", now=hurrying) as reader:
        assert reader.count_partitions(name) == 1
        chunks = reader.iterate_record_chunks(TopicPartition(name, 0))
        next(chunks)
        running.freeze()
        hurrying.step_s = 10.0
        with pytest.raises(ConnectError, match=rf"{name}-0 .*silent.*{running.bootstrap}"):
            list(chunks)
        running.unfreeze()


def test_live_traffic_goes_on_until_it_is_stopped(east, topic):
    properties = east.client_properties()
    with TrafficMix(properties, prefix=f"{topic()}-", records=10) as traffic:
        traffic.create_topics()
        traffic.start()
        name = next(each for each in traffic.topic_names if each.endswith("transactions"))
        java = next(each for each in traffic.topic_names if each.endswith("java-perf"))
        eventually.eventually(
            lambda: traffic.transactions.committed > 60 and kafka.offsets(properties, java)[1] > 0,
            60,
            "live traffic of several rounds",
        )
        traffic.stop()
        ends = [kafka.offsets(properties, name, number) for number in range(4)]
        stable = [
            kafka.offsets(properties, name, number, isolation=partition_reader.READ_COMMITTED)
            for number in range(4)
        ]
        assert stable == ends


@pytest.mark.full
def test_live_traffic_that_fails_says_so(own_cluster):
    with TrafficMix(own_cluster("poor").client_properties(), records=10) as traffic:
        traffic.start()
        eventually.eventually(lambda: not traffic.running, 60)
        with pytest.raises(SandboxError, match=r"traffic ended: sending to codec-none"):
            traffic.stop()


def test_a_java_producer_that_fails_says_why(east):
    with pytest.raises(SandboxError, match=r"Java producer for topic .*status 1"):
        JavaPerfProducer(
            east.client_properties() | {"acks": "17"}, "any", records=1, codec="nonsense"
        ).await_completion()


def test_a_trickle_is_measured_by_who_reads_it(east, topic):
    name, properties = topic(), east.client_properties()
    kafka.create_topic(properties, name, partitions=2)
    probe = LatencyProbe(properties, name, partitions=2)
    steady = TrickleProducer(properties, name, partitions=2, per_second=200)
    probe.start()
    steady.start()
    eventually.eventually(lambda: probe.sample_count > 50, 60, "a trickle that arrives")
    probe.restart_measurement()
    eventually.eventually(lambda: probe.sample_count > 50, 60, "a trickle that arrives")
    steady.stop()
    probe.stop()
    records = sum(len(each) for each in kafka.read_topic(properties, name).values())
    assert steady.sent == records > 100
    found = probe.latencies
    assert 0 < found.p50_ms <= found.p99_ms <= found.max_ms < 60_000


def test_a_trickle_that_is_refused_says_why(east, topic):
    steady = TrickleProducer(east.client_properties(), topic("never-made"))
    steady.start()
    eventually.eventually(lambda: not steady.running, 60)
    with pytest.raises(SandboxError, match="never-made"):
        steady.stop()


def test_a_sender_gives_up_in_the_end(own_cluster, topic):
    running, name = own_cluster("gone"), topic()
    kafka.create_topic(running.client_properties(), name)
    ends = AcknowledgedProducer(
        SandboxClients(running.client_properties(), alias="gone"),
        "test",
        now=SystemClock(),
        settings={},
    )
    running.kill()
    ends.send(name, [OutgoingRecord(value=b"v")])
    with pytest.raises(ConnectError, match=rf"1 record not acknowledged.*{running.bootstrap}"):
        ends.flush(timeout_s=1.0)
    ends.close(timeout_s=0.1)
