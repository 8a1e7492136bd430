from __future__ import annotations

import pytest

from mm2.formats import offset_map_records, record_batch
from mm2.formats.offset_map_records import OffsetRun
from mm2.formats.record_batch import BatchHeader
from mm2.replication import offset_map_writer, partition_retry_delays, replication_latency
from mm2.replication.in_flight_batches import SentBatch
from mm2.replication.outbound_batches import OutboundBatch
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_replicator import PartitionCounters
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.read_committed_batch_filter import SourceBatch
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    ReadRecoveredState,
    ReadTarget,
    RefreshTargetMetadata,
    RequestAcquisition,
)
from mm2.replication.replication_latency import LatencyHistogram, RecordAges
from mm2.topics.flow_config import TargetTopicAccess
from tests.fakes import copying, scripts, taking
from tests.fakes.copying import World

NOW_MS = 1_790_000_000_000


def sent(*, records=1, size=100, newest_ms=NOW_MS, why=""):
    batch = OutboundBatch(
        batch=memoryview(b""),
        attributes=0,
        records=records,
        source=0,
        next_source=records,
        offset_spans=(),
        oldest_timestamp=newest_ms,
        max_timestamp=newest_ms,
        source_epoch=0,
        held_bytes=0,
        reencode_reason=why,
    )
    return SentBatch(batch=batch, target=0, crc=0, size=size)


def test_nothing_was_copied_yet():
    begun = PartitionCounters()
    assert (begun.records, begun.bytes, begun.batches, begun.age_ms) == (0, 0, 0, 0)
    assert begun.newest_ms == -1


def test_batches_add_up():
    copied = PartitionCounters()
    copied.count_acknowledged_batch(sent(records=3, size=100), now_s=70.0, wall_ms=NOW_MS)
    copied.count_acknowledged_batch(sent(records=5, size=70), now_s=70.0, wall_ms=NOW_MS)
    assert (copied.records, copied.bytes, copied.batches) == (8, 170, 2)


@pytest.mark.parametrize(
    ("newest_ms", "age_ms"),
    [(NOW_MS - 250, 250), (NOW_MS, 0), (NOW_MS + 9000, 0)],
    ids=["old", "of now", "of a clock that runs ahead"],
)
def test_the_age_is_that_of_the_newest_record_when_it_was_acknowledged(newest_ms, age_ms):
    copied = PartitionCounters()
    copied.count_acknowledged_batch(sent(newest_ms=newest_ms), now_s=70.0, wall_ms=NOW_MS)
    assert (copied.age_ms, copied.newest_ms) == (age_ms, newest_ms)


def test_records_without_timestamps_leave_the_age_as_it_was():
    copied = PartitionCounters()
    copied.count_acknowledged_batch(sent(newest_ms=NOW_MS - 250), now_s=70.0, wall_ms=NOW_MS)
    copied.count_acknowledged_batch(sent(newest_ms=-1), now_s=70.0, wall_ms=NOW_MS)
    assert (copied.age_ms, copied.newest_ms) == (250, -1)


def test_batches_that_were_made_are_counted_and_the_newest_says_why():
    copied = PartitionCounters()
    found = []
    for why in ("", "small batches were merged", "compaction left gaps in the batch", ""):
        copied.count_acknowledged_batch(sent(why=why), now_s=70.0, wall_ms=NOW_MS)
        found.append((copied.reencoded_batches, copied.reencode_reason))
    assert found == [
        (0, ""),
        (1, "small batches were merged"),
        (2, "compaction left gaps in the batch"),
        (2, ""),
    ]


def fetched(*, newest_ms, records=1):
    header = BatchHeader(*[0] * 13)._replace(
        base_timestamp=newest_ms, max_timestamp=newest_ms, record_count=records
    )
    return SourceBatch(header, memoryview(b""), 0, "")


def test_ages_are_told_once_of_what_came_and_of_what_is_stored():
    copied = PartitionCounters()
    two = [fetched(newest_ms=NOW_MS - 100, records=3), fetched(newest_ms=NOW_MS - 10)]
    copied.record_fetched_ages(two, wall_ms=NOW_MS)
    copied.count_acknowledged_batch(
        sent(records=3, newest_ms=NOW_MS - 100), now_s=70.0, wall_ms=NOW_MS + 50
    )
    assert copied.take_record_ages() == (RecordAges(4, 310, 10, 100), RecordAges(3, 450, 150, 150))
    assert copied.take_record_ages() == (replication_latency.NO_AGES, replication_latency.NO_AGES)
    copied.count_acknowledged_batch(sent(newest_ms=NOW_MS), now_s=70.0, wall_ms=NOW_MS + 60)
    assert copied.take_record_ages() == (replication_latency.NO_AGES, RecordAges(1, 60, 60, 60))


def test_what_crosses_is_told_of_all_partitions_together():
    whole = LatencyHistogram()
    one, other = PartitionCounters(latency=whole), PartitionCounters(latency=whole)
    one.record_fetched_ages(
        [fetched(newest_ms=NOW_MS - 3), fetched(newest_ms=NOW_MS + 40)], wall_ms=NOW_MS
    )
    one.count_acknowledged_batch(sent(records=2, newest_ms=NOW_MS - 7), now_s=70.0, wall_ms=NOW_MS)
    other.count_acknowledged_batch(
        sent(records=3, newest_ms=NOW_MS - 60), now_s=70.0, wall_ms=NOW_MS + 1
    )
    told = whole.take_snapshot(caught_up_at_s=replication_latency.NEVER_S)
    assert (told.counts[1], told.counts[4], sum(told.counts)) == (2, 3, 5)
    assert (told.sum_ms, told.ahead_ms, told.replicated_at_s) == (14 + 183, 40, 70.0)


@pytest.mark.parametrize(("code", "spared"), [(46, 3), (47, 3), (90, 3), (45, 0), (6, 0), (10, 0)])
def test_what_is_there_already_or_is_a_newer_owners_was_not_copied_again(code, spared):
    copied = PartitionCounters()
    copied.count_refused_batch(code, sent(records=3))
    assert copied.already_stored == spared


Phase = PartitionPhase
SHARED = TargetTopicAccess.SHARED
batch = copying.batch
LOG = tuple(batch(at) for at in range(8))
OBSTACLE = copying.damaged(8)


def anchor(record):
    """What an anchor that was given out says."""
    item = record.items[-1]
    return offset_map_records.decode_map_value(
        offset_map_records.decode_map_key(item.key), item.value
    )


def header(sent):
    return record_batch.read_batch_header(memoryview(sent))


# Copying


def test_nothing_is_asked_before_the_first_tick():
    copy = World().copy
    assert (copy.state.phase, copy.needs_tick_soon, copy.accepts_fetched_records) == (
        Phase.WAITING,
        True,
        False,
    )
    assert copy.is_all_progress_recorded


def test_batches_go_out_in_order_as_ours_and_at_most_five_at_once():
    world = copying.begun(*LOG)
    world.offer(*LOG)
    assert world.send() == 5
    sent = [header(each) for each in world.in_flight]
    assert [each.producer_id for each in sent] == [7] * 5
    assert [each.base_sequence for each in sent] == [0, 1, 2, 3, 4]
    world.acknowledge()
    assert world.send() == 1


def test_what_is_held_counts_against_the_budget_until_it_is_acknowledged():
    world = copying.begun(*LOG)
    world.offer(*LOG[:2])
    assert world.budget.held_bytes == len(LOG[0]) + len(LOG[1])
    world.send()
    world.acknowledge().acknowledge()
    assert world.budget.held_bytes == 0
    assert (world.copy.counters.records, world.copy.map.through) == (2, 2)


def test_how_old_records_are_is_told_when_they_come_and_when_they_are_stored():
    world = copying.begun(*LOG)
    world.offer(*LOG[:3])
    world.send()
    world.acknowledge()
    arrived, stored = world.copy.counters.take_record_ages()
    assert (arrived.records, stored.records) == (3, 1)
    world.acknowledge().acknowledge()
    arrived, stored = world.copy.counters.take_record_ages()
    assert (arrived.records, stored.records) == (0, 2)


def test_nothing_is_sent_before_the_first_anchor_is_stored():
    world = World(*LOG)
    world.withheld.add(AppendToFlowState)
    world.tick()
    assert world.standing.phase is Phase.ACQUIRING
    world.offer(*LOG)
    assert (world.copy.accepts_fetched_records, world.send()) == (False, 0)


def test_what_is_not_copyable_moves_the_map_once_everything_is_acknowledged():
    world = copying.begun()
    world.offer(batch(0), scripts.marker(1, (1, 0)))
    world.send()
    assert world.copy.map.through == 0
    world.acknowledge()
    assert world.copy.map.through == 2


def test_a_second_copy_goes_on_where_the_first_one_stood():
    world = copying.begun(*LOG)
    world.copied(*LOG[:3])
    world.do(world.copy.on_fetch_error(1, world.now_s))
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 3)
    assert header(world.mirror[-1]).producer_epoch == 1


# Anchors


def test_an_anchor_is_given_out_every_second_while_there_is_news():
    world = copying.begun(*LOG)
    world.copied(LOG[0]).tick(0.5)
    assert world.anchors == []
    world.tick(0.5)
    assert [anchor(each).through for each in world.anchors] == [1]
    world.tick(5.0)
    assert len(world.anchors) == 1
    world.copied(LOG[1]).tick()
    assert [anchor(each).through for each in world.anchors] == [1, 2]


def test_an_anchor_never_speaks_of_what_is_in_flight():
    world = copying.begun(*LOG)
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge().tick(1.0)
    assert [(anchor(e).through, anchor(e).target_next) for e in world.anchors] == [(1, 2)]
    assert anchor(world.anchors[0]).last_crc == header(world.mirror[-1]).crc


def test_everything_is_recorded_once_the_newest_anchor_is_stored():
    world = copying.begun(*LOG)
    world.copied(LOG[0])
    assert not world.copy.is_all_progress_recorded
    world.tick(1.0)
    assert not world.copy.is_all_progress_recorded
    world.copy.on_segment_stored(world.anchors[-1].token)
    assert world.copy.is_all_progress_recorded


def test_a_copy_whose_anchors_are_not_stored_waits():
    world = copying.begun(*LOG)
    world.copied(LOG[0]).tick(1.0)
    world.now_s += offset_map_writer.UNRECORDED_AGE_MAX_S
    world.offer(LOG[1])
    assert world.send() == 0
    world.copy.on_segment_stored(world.anchors[-1].token)
    assert world.send() == 1


# Draining


@pytest.mark.parametrize(
    ("react", "phase"),
    [
        (lambda copy, now: copy.on_leader_epoch_received(3, now), Phase.ACQUIRING),
        (lambda copy, now: copy.on_fetch_error(1, now), Phase.ACQUIRING),
        (lambda copy, now: copy.on_fetch_error(29, now), Phase.HALTED),
        (lambda copy, now: copy.on_source_diverged(1, now), Phase.HALTED),
    ],
    ids=["leader", "out of range", "not allowed", "diverged"],
)
def test_a_reaction_waits_for_what_is_in_flight_and_sends_nothing_more(react, phase):
    world = copying.begun(*LOG)
    world.withheld.add(RequestAcquisition)
    world.offer(*LOG)
    world.send()
    world.do(react(world.copy, world.now_s))
    for _ in range(5):
        assert world.standing.phase is Phase.COPYING
        assert (
            world.copy.accepts_fetched_records,
            world.send(),
            world.copy.send_queue.queued_batches,
        ) == (
            False,
            0,
            0,
        )
        world.acknowledge()
    assert world.standing.phase is phase
    assert world.budget.held_bytes == 0


@pytest.mark.parametrize(
    ("code", "phase"),
    [(7, Phase.WAITING), (6, Phase.WAITING), (10, Phase.HALTED), (47, Phase.ACQUIRING)],
)
def test_a_refused_batch_drains_and_those_refused_behind_it_change_nothing(code, phase):
    world = copying.begun(*LOG)
    world.withheld.add(ReadRecoveredState)
    world.offer(*LOG[:3])
    world.send()
    world.do(world.copy.on_produce_error(code, "", world.now_s))
    assert world.standing.phase is Phase.COPYING
    world.do(world.copy.on_produce_error(45, "", world.now_s))
    world.do(world.copy.on_produce_response_lost("lost", world.now_s))
    assert world.standing.phase is phase


def test_an_unknown_outcome_backs_off_and_takes_again():
    world = copying.begun(*LOG)
    world.offer(LOG[0])
    world.send()
    world.do(world.copy.on_produce_response_lost("connection lost", world.now_s))
    assert (world.standing.phase, world.standing.reason) == (Phase.WAITING, "connection lost")
    assert world.kinds == [RefreshTargetMetadata]
    world.tick()
    assert world.standing.phase is Phase.WAITING
    world.tick(partition_retry_delays.BACKOFF_INITIAL_S * 2)
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 0)


def test_a_batch_that_was_stored_without_an_answer_is_not_sent_again():
    world = copying.begun(*LOG)
    world.offer(LOG[0])
    world.send()
    world.append(world.in_flight.pop(), world.end)
    world.do(world.copy.on_produce_response_lost("connection lost", world.now_s)).tick(1.0)
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 1)


def test_batches_stored_elsewhere_than_expected_take_an_exclusive_mirror_again():
    world = copying.begun(*LOG)
    world.withheld.add(RequestAcquisition)
    world.offer(LOG[0])
    world.send()
    world.acknowledge(skip=3)
    assert world.standing.phase is Phase.ACQUIRING
    assert world.copy.map.through == 0


def test_rewritten_timestamps_stop_the_partition_for_good():
    world = copying.begun(*LOG)
    world.offer(LOG[0])
    world.send()
    world.acknowledge(append_time=copying.FRESH)
    assert world.standing.halt.cause is HaltCause.TIMESTAMPS_REWRITTEN
    assert not world.copy.needs_tick_soon
    assert world.tick(1e9).standing.phase is Phase.HALTED


def test_what_stops_for_a_while_is_taken_again_when_that_is_over():
    world = copying.begun(*LOG)
    world.do(world.copy.on_fetch_error(29, world.now_s))
    assert (world.standing.phase, world.copy.needs_tick_soon) == (Phase.HALTED, True)
    assert world.tick(29.0).standing.phase is Phase.HALTED
    assert world.tick(1.0).standing.phase is Phase.COPYING
    assert world.standing.halt is None


def test_a_target_that_refuses_again_and_again_is_asked_more_and_more_rarely():
    world = copying.begun(*LOG)
    waits = []
    for _ in range(3):
        world.offer(LOG[0])
        world.send()
        world.in_flight.clear()
        world.do(world.copy.on_produce_error(10, "", world.now_s))
        waits.append(world.standing.wake_at_s - world.now_s)
        world.tick(waits[-1])
    assert waits == [30.0, 60.0, 120.0]
    world.copied(LOG[0])
    assert not world.standing.has_errors


def test_a_topic_that_the_source_misses_for_a_moment_is_no_stop():
    world = copying.begun(*LOG)
    world.do(world.copy.on_fetch_error(3, world.now_s))
    assert (world.standing.phase, world.standing.halt) == (Phase.WAITING, None)
    assert world.tick(1.0).standing.phase is Phase.COPYING


@pytest.mark.parametrize("code", [5, 6, 9, 74, 75, 78])
def test_a_source_leader_that_moves_is_no_reason_to_do_anything(code):
    world = copying.begun(*LOG)
    assert world.copy.on_fetch_error(code, world.now_s) == []
    assert world.standing.phase is Phase.COPYING


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (16, 3, "unsupported record format v3"),
        (11, 4, "the batch has an invalid length of 4 bytes"),
    ],
)
def test_a_mirror_that_cannot_be_read_stops_this_partition_alone(at, value, why):
    world = World(*LOG)
    held = bytearray(scripts.data(0, b"x"))
    held[8:12] = held[8:12] if at == 16 else bytes(4)
    held[at] = value
    world.answers[ReadTarget] = [scripts.records(bytes(held), end=1)]
    world.tick()
    assert (world.standing.phase, world.copy.needs_tick_soon) == (Phase.HALTED, False)
    assert world.standing.halt.cause is HaltCause.TAIL_MISMATCH
    assert "at offset 0: " in world.standing.reason
    assert why in world.standing.reason
    assert "mm2 topic reset" in world.standing.reason


# Leaders


def test_the_leader_epoch_of_our_marker_or_an_older_one_is_no_news():
    world = copying.begun(*LOG)
    for epoch in (2, 1, -1):
        assert world.copy.on_leader_epoch_received(epoch, world.now_s) == []


def test_a_leader_epoch_seen_while_taking_is_followed_right_after():
    world = World()
    world.withheld.add(AppendToFlowState)
    world.tick()
    assert world.copy.on_leader_epoch_received(3, world.now_s) == []
    world.withheld, world.leader_epoch = set(), 3
    world.forget()
    world.do([world.open])
    assert world.kinds.count(RequestAcquisition) == 1
    assert (world.standing.phase, world.copy.map.leader_epoch) == (Phase.COPYING, 3)


# Fenced


def fenced(world):
    world.offer(LOG[0])
    world.send()
    return world.do(world.copy.on_produce_error(47, "", world.now_s))


def test_fenced_without_another_owner_in_sight_takes_again():
    world = fenced(copying.begun(*LOG))
    assert world.standing.phase is Phase.WAITING
    assert world.tick(1.0).standing.phase is Phase.COPYING


def test_fenced_by_another_owner_is_the_end():
    world = copying.begun(*LOG)
    newer = taking.anchor(0, 1, order=(1, 9), owner=b"other___")
    world.map.apply_record(
        offset_map_records.encode_map_key(newer.key),
        offset_map_records.encode_map_value(newer.segment),
    )
    fenced(world)
    assert (world.standing.phase, world.standing.halt.cause) == (Phase.FENCED, HaltCause.FENCED)
    assert "another mm2 process acquired this partition of flow a->b" in world.standing.reason
    assert world.tick(1e6).standing.phase is Phase.FENCED
    assert not world.copy.needs_tick_soon


# Obstacles


def test_an_obstacle_is_met_only_when_all_before_it_is_acknowledged():
    world = copying.begun()
    world.offer(*LOG, OBSTACLE)
    assert not world.copy.accepts_fetched_records
    world.send()
    for _ in LOG:
        assert world.standing.phase is Phase.COPYING
        world.acknowledge()
        world.send()
    assert world.standing.phase is Phase.WAITING
    assert "offset 8" in world.standing.reason
    assert world.anchors
    assert anchor(world.anchors[-1]).through == 8


def test_a_damaged_batch_is_met_at_once_when_nothing_precedes_it():
    world = copying.begun()
    world.offer(copying.damaged(0))
    assert (world.standing.phase, world.standing.halt) == (Phase.WAITING, None)
    assert "source offset 0: the checksum" in world.standing.reason


def test_damage_that_passes_is_read_past():
    world = copying.begun()
    for _ in range(partition_retry_delays.TRANSIENT_RETRIES):
        world.offer(copying.damaged(0))
        world.tick(20.0)
    world.copied(LOG[0])
    assert (world.standing.phase, world.copy.map.through) == (Phase.COPYING, 1)


def test_damage_that_stays_is_a_stop_and_looked_at_again_all_the_same():
    world = copying.begun()
    for _ in range(partition_retry_delays.TRANSIENT_RETRIES):
        world.offer(copying.damaged(0))
        assert world.standing.phase is Phase.WAITING
        world.tick(20.0)
    world.offer(copying.damaged(0))
    assert world.standing.halt.cause is HaltCause.CORRUPT_BATCH
    assert "The next attempt is in 30 s" in world.standing.reason
    world.tick(31.0).copied(LOG[0])
    assert (world.standing.phase, world.copy.map.through) == (Phase.COPYING, 1)


def test_an_obstacle_behind_a_dropped_queue_is_met_again():
    world = copying.begun(*LOG)
    world.offer(*LOG, OBSTACLE)
    world.send()
    world.do(world.copy.on_leader_epoch_received(3, world.now_s))
    world.leader_epoch = 3
    while world.in_flight:
        world.acknowledge()
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 5)
    assert world.copy.accepts_fetched_records


# Paused


def test_a_paused_partition_wants_and_sends_nothing_but_hears_of_what_it_sent():
    world = copying.begun(*LOG)
    world.offer(*LOG)
    world.send()
    world.copy.paused = True
    while world.in_flight:
        world.acknowledge()
    assert (world.copy.accepts_fetched_records, world.send(), world.copy.map.through) == (
        False,
        0,
        5,
    )
    world.copy.paused = False
    assert world.send() == 3


def test_a_partition_paused_before_it_was_taken_is_not_taken():
    world = World()
    world.copy.paused = True
    assert world.tick().standing.phase is Phase.WAITING
    world.copy.paused = False
    assert world.tick().standing.phase is Phase.COPYING


# Shared mirrors


def test_others_writes_shift_what_is_in_flight_in_a_shared_mirror():
    world = copying.begun(*LOG, target_topics=SHARED)
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge(skip=4).acknowledge().tick(1.0)
    assert world.standing.phase is Phase.COPYING
    said = anchor(world.anchors[-1])
    assert (said.through, said.target_next) == (2, 7)
    assert said.runs == (OffsetRun(0, 5),)


def test_a_shared_mirror_that_goes_back_is_taken_again():
    world = copying.begun(*LOG, target_topics=SHARED)
    world.withheld.add(RequestAcquisition)
    world.offer(LOG[0])
    world.send()
    world.do(world.copy.on_produce_acknowledged(0, -1, world.now_s))
    assert world.standing.phase is Phase.ACQUIRING
