"""What a copy may connect to ahead of its settings arrives as it was sent."""

from __future__ import annotations

import dataclasses
import json
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.copier import control_channel_messages, progress_reports
from mm2.copier.control_channel_messages import ClusterAccess, CopyConfiguration, CopyEndpoints
from mm2.copier.progress_reports import ClockShift, PartitionProgressReport
from mm2.formats.offset_map_records import Era, MapSegment, MapSegmentKey, NewEraRequest, OffsetRun
from mm2.offsets.offset_map import ResumePoint
from mm2.replication import partition_halt_messages, partition_lag, replication_latency
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.read_committed_batch_filter import UnreadableBatch
from mm2.replication.recovery_instructions import (
    CommitTransaction,
    FlowStateRecord,
    InstructionRefused,
    JavaMirrorProgress,
    NoResponse,
    RecoveredState,
    ReverseFlowProducers,
    UnreadableStateRecord,
)
from mm2.replication.replication_latency import LatencySnapshot, RecordAges
from mm2.topics.flow_config import DeliveryMode, SourceGapAction, TargetTopicAccess
from tests.fakes import copying
from tests.fakes.copying import World
from tests.support import examples


def test_what_is_told_is_what_is_read():
    source, target = (
        ClusterAccess(
            alias=alias,
            bootstrap=(f"{alias}:1", f"{alias}:2"),
            security={"protocol": "SSL", "ca": None},
            client_id=f"{alias}-client",
            properties={"x": "1"},
        )
        for alias in ("a", "b")
    )
    wanted = CopyEndpoints(
        source=source, target=target, topics=("t", "u"), remote_topics=("a.t", "a.u")
    )
    told = control_channel_messages.encode_endpoints(wanted)
    assert told["type"] == "endpoints"
    assert control_channel_messages.decode_endpoints(json.loads(json.dumps(told))) == wanted


NUMBERS = st.integers(-1, 1 << 62)
I16, I32 = st.integers(0, (1 << 15) - 1), st.integers(0, (1 << 31) - 1)
TEXTS = st.text(max_size=20)
TOPIC_IDS = st.binary(min_size=16, max_size=16)

setups = st.builds(
    PartitionSetup,
    flow=TEXTS,
    topic=TEXTS,
    remote_topic=TEXTS,
    partition=I32,
    transactional_id=TEXTS,
    source_topic_id=TOPIC_IDS,
    target_topic_id=TOPIC_IDS,
    source_cluster=TEXTS,
    target_cluster=TEXTS,
    start=TEXTS,
    target_topics=st.sampled_from(TargetTopicAccess),
    delivery=st.sampled_from(DeliveryMode),
    on_source_gap=st.sampled_from(SourceGapAction),
    old_after_ms=NUMBERS,
    renew_after_s=st.floats(0, 1e9),
    target_codec=st.none() | st.integers(0, 4),
    opposite_map=TEXTS,
)
accesses = st.builds(
    ClusterAccess,
    alias=TEXTS,
    bootstrap=st.lists(TEXTS, max_size=3).map(tuple),
    security=st.dictionaries(TEXTS, TEXTS | st.none() | st.booleans(), max_size=3),
    client_id=TEXTS,
    properties=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
configurations = st.builds(
    CopyConfiguration,
    flow=TEXTS,
    task=I32,
    owner=st.binary(min_size=8, max_size=8),
    source=accesses,
    target=accesses,
    partitions=st.lists(setups, max_size=3).map(tuple),
    budget_bytes=NUMBERS,
    throttle_bytes_s=NUMBERS,
    topic_throttles=st.dictionaries(TEXTS, NUMBERS, max_size=2),
    granted=st.booleans(),
    unreachable_after_s=st.integers(5, 3600),
)
eras = st.builds(
    Era,
    source_cluster=TEXTS,
    target_cluster=TEXTS,
    source_topic_id=TOPIC_IDS,
    target_topic_id=TOPIC_IDS,
    first_source=NUMBERS,
    first_target=NUMBERS,
    filter_hash=st.integers(0, (1 << 64) - 1),
    request=TEXTS,
    reason=TEXTS,
)
anchors = st.builds(
    ResumePoint,
    key=st.builds(
        MapSegmentKey,
        topic=TEXTS,
        partition=I32,
        era=I32,
        ordinal=I32,
        epoch=I16,
        first_source=st.just(0),
    ),
    segment=st.builds(
        MapSegment,
        leader_epoch=I32,
        source_epoch=I32,
        owner=st.binary(min_size=8, max_size=8),
        acquired_from=NUMBERS,
        through=NUMBERS,
        target_next=NUMBERS,
        last_crc=st.none() | st.integers(0, (1 << 32) - 1),
        runs=st.lists(st.builds(OffsetRun, I32, NUMBERS), max_size=3).map(tuple),
    ),
)
known = st.builds(
    RecoveredState,
    era_number=I32,
    era=st.none() | eras,
    resume_point=st.none() | anchors,
    is_era_empty=st.booleans(),
    era_ordinal=I32,
    producers=st.dictionaries(NUMBERS, I32, max_size=3),
    request=st.none() | st.builds(NewEraRequest, request=TEXTS, position=TEXTS),
    source_position=st.none() | NUMBERS,
    target_position=st.none() | NUMBERS,
    unreadable=st.none() | st.builds(UnreadableStateRecord, offset=NUMBERS, why=TEXTS),
    java=st.none()
    | st.builds(
        JavaMirrorProgress,
        next_offset=NUMBERS,
        sync=st.none() | st.tuples(NUMBERS, NUMBERS),
    ),
)
items = st.builds(
    FlowStateRecord,
    key=st.binary(max_size=30),
    value=st.none() | st.binary(max_size=30),
    incident=st.booleans(),
)
gauges = st.builds(
    PartitionProgressReport,
    index=I32,
    phase=st.sampled_from([each.value for each in PartitionPhase]),
    records=NUMBERS,
    bytes=NUMBERS,
    copied_to=NUMBERS,
    source_end=NUMBERS,
    log_start=NUMBERS,
    age_ms=NUMBERS,
    oldest_uncopied_ms=NUMBERS,
    transactional=st.booleans(),
    arrival_ages=st.builds(RecordAges, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    reason=TEXTS,
    cause=TEXTS,
    unrecorded_since_s=st.sampled_from([None, math.inf, 0.0, 4.5]),
)
WHERE = PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)


def over_the_channel(message):
    return json.loads(json.dumps(message))


@settings(max_examples=examples.of(50))
@given(configurations)
def test_a_configuration_survives_json(sent):
    message = over_the_channel(control_channel_messages.encode_copy_configuration(sent))
    assert message["type"] == "configure"
    assert control_channel_messages.decode_copy_configuration(message) == sent


def test_security_settings_are_not_printed():
    access = ClusterAccess(
        alias="a", bootstrap=("h:9092",), security={"password": "hunter2"}, client_id="c"
    )
    assert "hunter2" not in repr(access)


@settings(max_examples=examples.of(50))
@given(known, I32)
def test_facts_survive_json(sent, number):
    message = over_the_channel(control_channel_messages.encode_recovered_state(number, sent))
    assert (message["type"], message["id"]) == ("recovered_state", number)
    assert control_channel_messages.decode_recovered_state(message) == sent


def test_a_map_that_could_not_be_read_is_an_answer_that_did_not_come():
    message = over_the_channel(
        control_channel_messages.encode_recovered_state(3, None, failure="target is away")
    )
    assert control_channel_messages.decode_recovered_state(message) == NoResponse(
        reason="target is away"
    )


@pytest.mark.parametrize("target", [None, 0, 500])
def test_facts_are_asked_for_by_number_and_partition(target):
    message = over_the_channel(
        control_channel_messages.encode_recovered_state_request(9, WHERE, target=target)
    )
    assert message == {
        "type": "recovered_state_request",
        "id": 9,
        "topic": "orders",
        "partition": 7,
        "target": target,
    }


@given(st.lists(items, max_size=5), NUMBERS)
def test_the_ordered_stream_survives_json(sent, first):
    message = over_the_channel(control_channel_messages.encode_flow_state_records(first, sent))
    assert (message["type"], message["first"]) == ("record", first)
    assert control_channel_messages.decode_flow_state_records(message) == sent


PULSE = LatencySnapshot(
    counts=tuple(range(replication_latency.BUCKET_COUNT)),
    sum_ms=3,
    ahead_ms=4,
    replicated_at_s=5.0,
    caught_up_at_s=6.0,
)


@settings(max_examples=examples.of(50))
@given(st.lists(gauges, max_size=5))
def test_gauges_survive_json(sent):
    message = over_the_channel(
        progress_reports.encode_progress_reports(
            sent, connection_errors={}, latency=PULSE, now_s=9.0
        )
    )
    assert message["type"] == "progress"
    assert progress_reports.decode_progress_reports(message, 0.0) == sent
    assert progress_reports.decode_latency_snapshot(message, 0.0) == PULSE


def test_moments_are_moved_to_the_clock_of_who_reads_them():
    """Each process, and each machine, has a monotonic clock of its own."""
    gauge = dataclasses.replace(gauge_of(copy_of(WHERE)), unrecorded_since_s=7.0)
    message = over_the_channel(
        progress_reports.encode_progress_reports(
            [gauge], connection_errors={}, latency=PULSE, now_s=9.0
        )
    )
    (found,) = progress_reports.decode_progress_reports(message, 991.0)
    assert found.unrecorded_since_s == 998.0
    pulse = progress_reports.decode_latency_snapshot(message, 991.0)
    assert (pulse.replicated_at_s, pulse.caught_up_at_s) == (996.0, 997.0)
    empty = progress_reports.encode_progress_reports(
        [], connection_errors={}, latency=LatencySnapshot(), now_s=9.0
    )
    assert (
        progress_reports.decode_latency_snapshot(over_the_channel(empty), 991.0)
        == LatencySnapshot()
    )


def test_a_message_that_is_read_late_makes_no_moment_younger():
    shift = ClockShift()

    def read(*, sent_s: float, read_s: float) -> float:
        message = over_the_channel(
            progress_reports.encode_progress_reports(
                [],
                connection_errors={},
                latency=LatencySnapshot(replicated_at_s=100.0),
                now_s=sent_s,
            )
        )
        return progress_reports.decode_latency_snapshot(
            message, shift.record_send_time(message, read_s)
        ).replicated_at_s

    assert read(sent_s=100.0, read_s=1_000.0) == 1_000.0
    assert read(sent_s=101.0, read_s=1_300.0) == 1_000.0, "the reader stood still for 299 s"
    assert read(sent_s=400.0, read_s=1_299.0) == 999.0, "the first one was late, too"
    # The sender's clock is the slower one: what was seen long ago counts no more.
    assert read(sent_s=1_000.0, read_s=1_901.0) == 999.0
    assert read(sent_s=1_700.0, read_s=2_601.0) == 1_001.0


def test_the_ages_of_many_old_records_add_up_to_more_than_64_bits():
    """Six million records whose timestamps are 0 do."""
    age_ms = 1_790_000_000_000
    ages = RecordAges(records=6_000_000, sum_ms=6_000_000 * age_ms, min_ms=age_ms, max_ms=age_ms)
    assert ages.sum_ms > 2**63
    gauge = dataclasses.replace(gauge_of(copy_of(WHERE)), arrival_ages=ages)
    pulse = PULSE._replace(sum_ms=ages.sum_ms)
    message = over_the_channel(
        progress_reports.encode_progress_reports(
            [gauge], connection_errors={}, latency=pulse, now_s=9.0
        )
    )
    assert progress_reports.decode_progress_reports(message, 0.0) == [gauge]
    assert progress_reports.decode_latency_snapshot(message, 0.0) == pulse


def test_a_gauge_of_another_length_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        progress_reports.decode_progress_reports(
            {"now_s": 1.0, "partitions": [[0, "copying"]]}, 1.0
        )


def copy_of(where):
    return PartitionReplicator(
        where,
        owner=b"12345678",
        memory_budget=MemoryBudget(limit_bytes=1000),
        merge_limits=BatchMergeLimits(),
        random=Random(1),
        wall_ms=lambda: 0,
    )


def gauge_of(copy, index=0):
    return progress_reports.build_progress_report(index, copy)


def test_the_gauge_of_a_copy_that_has_not_begun():
    found = gauge_of(copy_of(WHERE), 4)
    assert (found.index, found.phase, found.reason) == (4, "waiting", "not started")
    assert (found.copied_to, found.source_end, found.log_start) == (-1, -1, -1)
    assert (found.records, found.bytes, found.cause) == (0, 0, "")
    assert (found.batches, found.reencoded_batches, found.already_stored_records) == (0, 0, 0)
    assert (found.newest_copied_ms, found.unrecorded_since_s) == (-1, None)
    assert not found.transactional


def test_ages_are_told_by_one_gauge_alone():
    copy = copy_of(WHERE)
    some = RecordAges(records=2, sum_ms=30, min_ms=10, max_ms=20)
    copy.counters.fetched_ages = copy.counters.acknowledged_ages = some
    told = gauge_of(copy)
    assert (told.arrival_ages, told.acknowledged_ages) == (some, some)
    after = gauge_of(copy)
    assert (after.arrival_ages, after.acknowledged_ages) == (
        replication_latency.NO_AGES,
        replication_latency.NO_AGES,
    )


def test_the_gauge_of_a_copy_names_why_it_stopped():
    copy = copy_of(WHERE)
    copy.state.halt = partition_halt_messages.build_unreadable_batch_halt(
        WHERE, UnreadableBatch(offset=5, reason="damaged")
    )
    assert gauge_of(copy).cause == "corrupt-batch"


@given(producers=st.lists(NUMBERS, max_size=5))
def test_whose_producers_they_are_is_asked_and_answered(producers):
    asked = json.loads(
        json.dumps(control_channel_messages.encode_reverse_flow_producers_request(4, producers))
    )
    assert asked == {"type": "reverse_producers_request", "id": 4, "producers": producers}
    told = json.loads(
        json.dumps(control_channel_messages.encode_reverse_flow_producers(4, set(producers)))
    )
    assert (told["type"], told["id"]) == ("reverse_producers", 4)
    assert control_channel_messages.decode_reverse_flow_producers(told) == ReverseFlowProducers(
        producers=frozenset(producers)
    )


def test_an_opposite_map_that_cannot_be_read_is_no_answer():
    told = json.loads(
        json.dumps(control_channel_messages.encode_reverse_flow_producers(4, None, failure="gone"))
    )
    assert control_channel_messages.decode_reverse_flow_producers(told) == NoResponse(reason="gone")
    told = json.loads(
        json.dumps(
            control_channel_messages.encode_reverse_flow_producers(
                4, None, failure="no", denied=True
            )
        )
    )
    assert control_channel_messages.decode_reverse_flow_producers(told) == InstructionRefused(
        code=29, message="no"
    )


batch = copying.batch
LOG = tuple(batch(at) for at in range(8))


def test_nothing_is_known_of_a_copy_that_has_not_begun():
    copy = World(*LOG).copy
    assert (
        partition_lag.compute_replicated_end_offset(copy),
        partition_lag.compute_oldest_unreplicated_ms(copy),
    ) == (-1, -1)


def test_what_is_acknowledged_outside_transactions_is_copied():
    world = copying.begun(*LOG)
    world.offer(*LOG[:2])
    world.send()
    assert partition_lag.compute_replicated_end_offset(world.copy) == 0
    world.acknowledge()
    assert partition_lag.compute_replicated_end_offset(world.copy) == 1


def test_what_a_transaction_holds_counts_as_copied_once_it_is_committed():
    world = copying.begun(*LOG, delivery=DeliveryMode.TRANSACTIONAL)
    assert partition_lag.compute_replicated_end_offset(world.copy) == 0
    world.offer(*LOG[:2])
    world.tick()
    world.send()
    world.acknowledge()
    world.withheld = {CommitTransaction}
    world.acknowledge()
    world.tick(after_s=1.0)
    assert partition_lag.compute_replicated_end_offset(world.copy) == 0
    world.withheld = set()
    assert world.open is not None
    world.do([world.open])
    assert partition_lag.compute_replicated_end_offset(world.copy) == 2


def test_the_oldest_record_not_copied_is_queued_or_the_newest_copied_one_or_none():
    world = copying.begun(*LOG)
    assert partition_lag.compute_oldest_unreplicated_ms(world.copy) == -1
    world.offer(batch(0, timestamp=copying.FRESH - 9))
    assert partition_lag.compute_oldest_unreplicated_ms(world.copy) == copying.FRESH - 9
    world.send()
    assert partition_lag.compute_oldest_unreplicated_ms(world.copy) == copying.FRESH - 9
    world.acknowledge()
    assert partition_lag.compute_oldest_unreplicated_ms(world.copy) == -1
    world.copy.source.end = 5
    assert partition_lag.compute_oldest_unreplicated_ms(world.copy) == copying.FRESH - 9


def test_what_no_anchor_tells_of_is_dated_until_it_is_stored():
    world = copying.begun(*LOG)

    assert partition_lag.compute_oldest_unrecorded_time_s(World(*LOG).copy) is None
    assert partition_lag.compute_oldest_unrecorded_time_s(world.copy) == math.inf
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge()
    assert partition_lag.compute_oldest_unrecorded_time_s(world.copy) == world.now_s
