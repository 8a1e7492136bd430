"""Opened, joined and divided batches, of `mm2.replication.partition_replicator`."""

from __future__ import annotations

import pytest

from mm2 import suggested_commands
from mm2.formats import offset_map_records, record_batch, record_codec
from mm2.replication import batch_size_limits, partition_retry_delays
from mm2.replication.batch_size_limits import PartitionBatchLimits
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    FindSourceOffset,
    InitProducer,
    ReadSource,
    RequestAcquisition,
    SourceLogOffset,
)
from mm2.topics.flow_config import DeliveryMode
from tests.fakes import batches, copying, scripts
from tests.fakes.batches import Record, Stamp
from tests.fakes.copying import World
from tests.fakes.scripts import Log
from tests.fakes.transforms import Filter

Phase = PartitionPhase
batch = copying.batch
TOO_LARGE, BAD_TIMESTAMP, BAD_RECORD = 10, 32, 87


def header(sent):
    return record_batch.read_batch_header(memoryview(sent))


def values(world):
    """Of all records on the mirror, in order."""
    found: list[bytes | None] = []
    for each in world.mirror:
        if not header(each).is_control:
            opened = record_codec.decode_batch(header(each), memoryview(each))
            found.extend(record_codec.decode_record_body(record.body).value for record in opened)
    return found


def said(world):
    """What the newest anchor that was given out says."""
    item = world.anchors[-1].items[-1]
    return offset_map_records.decode_map_value(
        offset_map_records.decode_map_key(item.key), item.value
    )


def go_on(world, refuses=lambda sent: 0, *, most=60):
    """The source is fetched, sent and acknowledged, but for what the target refuses with a code.

    Until all is copied or the copy stands still; how often something was refused.
    """
    refused = 0
    for _ in range(most):
        if world.standing.phase is not Phase.COPYING:
            return refused
        if world.copy.accepts_fetched_records and world.copy.source.position < world.source.end:
            answer = world.source(ReadSource(offset=world.copy.source.position))
            world.do(world.copy.on_records_fetched(answer, world.now_s))
        world.send()
        if not world.in_flight:
            world.tick(0.1)
            if world.copy.map is not None and world.copy.map.through >= world.source.end:
                return refused
        while world.in_flight:
            code = refuses(world.in_flight[0])
            if code:
                refused += 1
                world.in_flight.pop(0)
                world.do(world.copy.on_produce_error(code, "no", world.now_s))
                while world.in_flight:  # those behind it are refused too
                    world.in_flight.pop(0)
                    world.do(world.copy.on_produce_error(45, "", world.now_s))
            else:
                world.acknowledge()
    raise AssertionError(world.standing)


# Opened


def test_gaps_are_closed_and_the_map_says_where_they_were():
    gapped = batch(0, b"a", b"b", b"c", deltas=(0, 3, 4), last_delta=6)
    world = copying.begun(gapped, batch(7, b"d"))
    go_on(world)
    world.tick(1.0)
    assert values(world) == [b"a", b"b", b"c", b"d"]
    # Our fence's marker is at 0.
    assert said(world).runs == ((0, 1), (3, -1), (7, -3))
    assert (said(world).through, said(world).target_next) == (8, 5)
    assert (world.copy.counters.reencoded_batches, world.copy.counters.batches) == (1, 2)


def test_append_times_become_the_records_own():
    held = [Record(value=b"v", timestamp=copying.FRESH + at) for at in (0, 7)]
    world = copying.begun(batches.data(held, Stamp(attributes=8)))
    go_on(world)
    (_, stored) = world.mirror
    assert header(stored).attributes == 0
    opened = record_codec.decode_batch(header(stored), memoryview(stored))
    assert [each.timestamp for each in opened] == [copying.FRESH + 7] * 2


def test_opened_and_passed_batches_share_producer_and_sequence():
    log = [batch(0), batch(1, b"a", b"b", deltas=(0, 3)), batch(5)]
    world = copying.begun(*log)
    world.offer(*log)
    world.send()
    sent = [header(each) for each in world.in_flight]
    assert [(each.producer_id, each.base_sequence) for each in sent] == [(7, 0), (7, 1), (7, 3)]


def test_a_copy_that_starts_inside_a_batch_copies_the_rest_of_it():
    world = World(batch(0, b"a", b"b", b"c"), start="1700000000000")
    world.answers[FindSourceOffset] = [
        SourceLogOffset(offset=3),
        SourceLogOffset(offset=2),
    ]
    world.tick()
    go_on(world)
    assert values(world) == [b"c"]
    assert world.copy.map.through == 3


# Joined


def test_what_is_queued_is_joined_and_what_comes_later_is_not_waited_for():
    log = [batch(at, b"%d" % at) for at in range(6)]
    world = copying.begun(*log)
    world.joining.records = 16
    world.offer(log[0])
    assert world.send() == 1
    world.offer(*log[1:])
    assert world.send() == 1
    assert [header(each).record_count for each in world.in_flight] == [1, 5]
    world.acknowledge().acknowledge().tick(1.0)
    assert values(world) == [b"%d" % at for at in range(6)]
    assert said(world).runs == ((0, 1),)
    assert world.copy.counters.reencode_reason == "small batches were merged"


def test_a_joined_batch_of_which_nothing_was_heard_is_found_on_the_mirror():
    log = [batch(at, b"%d" % at) for at in range(4)]
    world = copying.begun(*log)
    world.joining.records = 16
    world.offer(*log[:3])
    world.send()
    world.append(world.in_flight.pop(), world.end)
    world.do(world.copy.on_produce_response_lost("lost", world.now_s)).tick(1.0)
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 3)
    go_on(world)
    assert values(world) == [b"0", b"1", b"2", b"3"]


# Divided


def test_what_is_too_large_is_divided_until_it_fits():
    log = [batch(0, *[bytes(400)] * 10), batch(10, b"x")]
    world = copying.begun(*log)
    refused = go_on(world, lambda sent: TOO_LARGE if len(sent) > 1000 else 0)
    assert values(world) == [bytes(400)] * 10 + [b"x"]
    assert refused <= 3
    assert max(len(each) for each in world.mirror) <= 1000
    assert world.standing.halt is None


def test_dividing_takes_the_partition_again_and_does_not_back_off():
    world = copying.begun(batch(0, b"a", b"b"))
    world.offer(batch(0, b"a", b"b"))
    world.send()
    world.in_flight.clear()
    world.do(world.copy.on_produce_error(TOO_LARGE, "", world.now_s))
    assert world.standing.phase is Phase.COPYING
    assert world.kinds.count(InitProducer) == 1
    assert world.copy.source.position == 0


@pytest.mark.parametrize("code", [10, 18])
def test_a_single_record_that_is_too_large_stops_the_partition_for_a_while(code):
    world = copying.begun(batch(0, b"small"), batch(1, bytes(5000)), batch(2, b"more"))
    go_on(world, lambda sent: code if len(sent) > 1000 else 0)
    assert world.standing.halt.cause is HaltCause.REFUSED_BY_TARGET
    assert "orders-4 offset 1 with" in world.standing.halt.message
    assert "max.message.bytes" in world.standing.halt.message
    assert world.copy.send_queue.limits.refused_bytes == batch_size_limits.NO_RECORD_LIMIT
    assert values(world) == [b"small"]
    assert world.tick(30.0).standing.phase is Phase.COPYING
    go_on(world)
    assert values(world) == [b"small", bytes(5000), b"more"]


@pytest.mark.parametrize("code", [BAD_TIMESTAMP, BAD_RECORD])
@pytest.mark.parametrize("bad", [0, 5, 6, 9])
@pytest.mark.parametrize("joined", [0, 16])
def test_the_one_record_that_the_target_does_not_take_is_named(code, bad, joined):
    log = [batch(0, *[b"%d" % at for at in range(6)]), batch(6, b"6"), batch(7, b"7", b"8", b"9")]
    world = copying.begun(*log)
    world.joining.records = joined

    def refuses(sent):
        opened = record_codec.decode_batch(header(sent), memoryview(sent))
        found = [record_codec.decode_record_body(each.body).value for each in opened]
        return code if b"%d" % bad in found else 0

    refused = go_on(world, refuses)
    assert world.standing.halt.cause is HaltCause.REFUSED_BY_TARGET
    assert f"offset {bad} " in world.standing.halt.message
    assert values(world) == [b"%d" % at for at in range(bad)]
    assert refused <= 5
    assert world.tick(30.0).standing.phase is Phase.COPYING
    go_on(world)
    assert values(world) == [b"%d" % at for at in range(10)]


def test_what_was_learned_of_the_target_is_forgotten_where_it_stops_the_copy():
    """By the time that it is tried again, somebody may have changed what the target takes."""
    log = [batch(0, bytes(900), bytes(900)), batch(2, bytes(900), bytes(900))]
    world = copying.begun(*log)
    go_on(world, lambda sent: TOO_LARGE)
    assert world.copy.send_queue.limits == PartitionBatchLimits(merge_limits=world.joining)
    assert world.tick(30.0).standing.phase is Phase.COPYING
    go_on(world)
    data = [header(each) for each in world.mirror if not header(each).is_control]
    assert [each.record_count for each in data] == [2, 2]


def test_what_was_learned_of_the_target_is_forgotten_after_a_while():
    """Somebody may have raised its limit since."""
    log = [batch(at, bytes(900), bytes(900)) for at in range(0, 8, 2)]
    world = copying.begun(*log[:1])

    def counts(held):
        """Of the batches that it came in."""
        world.tick(1.0)
        world.copy.on_segment_stored(world.anchors[-1].token)
        before = len(world.mirror)
        world.copied(held)
        return [header(each).record_count for each in world.mirror[before:]]

    go_on(world, lambda sent: TOO_LARGE if len(sent) > 1000 else 0)
    assert world.copy.map.through == 2
    assert counts(log[1]) == [1, 1]
    world.tick(batch_size_limits.LEARNED_LIMIT_TTL_S - 10.0)
    assert counts(log[2]) == [1, 1]
    world.tick(20.0)
    assert counts(log[3]) == [2]


@pytest.mark.parametrize("code", [-1, 2, 76, 9999])
def test_what_is_refused_again_and_again_is_a_stop_that_tells_what_to_do(code):
    world = copying.begun(batch(0, b"a"))
    waits = 0
    while world.standing.phase is not Phase.HALTED:
        go_on(world, lambda sent: code)
        waits += world.standing.phase is Phase.WAITING
        assert waits < 9
        world.tick(20.0)
    assert waits == partition_retry_delays.TRANSIENT_RETRIES
    assert "the batch of orders-4 offset 0 with" in world.standing.halt.message
    assert suggested_commands.extract_remedy_from_message(world.standing.halt.message)
    go_on(world.tick(600.0))
    assert (values(world), world.standing.halt) == ([b"a"], None)


def test_what_was_refused_behind_a_refused_batch_says_nothing_about_itself():
    log = [batch(0, b"a", b"b"), batch(2, b"c", b"d")]
    world = copying.begun(*log)
    world.withheld.add(RequestAcquisition)
    world.offer(*log)
    world.send()
    world.in_flight.clear()
    world.do(world.copy.on_produce_error(6, "", world.now_s))
    world.do(world.copy.on_produce_error(TOO_LARGE, "", world.now_s))
    allowed = world.copy.send_queue.limits
    assert allowed.refused_bytes > 1 << 30
    assert world.standing.phase is Phase.WAITING


def test_a_batch_that_is_half_sent_goes_on_in_its_middle_after_a_new_take():
    world = copying.begun(batch(0, *[b"%d" % at for at in range(8)]))
    world.copy.send_queue.limits.halve_record_limit(count=4, until=8)
    world.offer(*[held for _, held in world.source.held])
    assert world.send() == 4
    world.acknowledge().acknowledge()
    world.do(world.copy.on_leader_epoch_received(3, world.now_s))
    world.leader_epoch = 3
    while world.in_flight:
        world.acknowledge()
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 8)
    go_on(world)
    assert values(world) == [b"%d" % at for at in range(8)]


@pytest.mark.parametrize("heard", [0, 1, 2, 3])
def test_pieces_that_were_stored_without_an_answer_are_not_sent_again(heard):
    world = copying.begun(batch(0, *[b"%d" % at for at in range(8)], deltas=range(0, 16, 2)))
    world.copy.send_queue.limits.halve_record_limit(count=4, until=16)
    world.offer(*[held for _, held in world.source.held])
    assert world.send() == 4
    for _ in range(heard):
        world.acknowledge()
    world.append(world.in_flight.pop(0), world.end)
    left = len(world.in_flight) + 1
    world.in_flight.clear()
    for _ in range(left):
        world.do(world.copy.on_produce_response_lost("lost", world.now_s))
    world.tick(1.0)
    assert world.standing.phase is Phase.COPYING
    go_on(world)
    assert values(world) == [b"%d" % at for at in range(8)]


# Unreadable


def test_a_batch_that_cannot_be_opened_stops_behind_all_that_precedes_it():
    log = [batch(at, b"%d" % at) for at in range(7)]
    world = copying.begun(*log, copying.unreadable(7), batch(11))
    go_on(world)
    assert world.standing.halt.cause is HaltCause.CORRUPT_BATCH
    assert "source offset 7: the gzip data is damaged" in world.standing.halt.message
    assert values(world) == [b"%d" % at for at in range(7)]
    assert said(world).through == 7
    assert world.budget.held_bytes == 0


def test_an_unreadable_batch_with_nothing_before_it_stops_at_once():
    world = copying.begun(copying.unreadable(0))
    go_on(world)
    assert world.standing.halt.cause is HaltCause.CORRUPT_BATCH


def test_an_unreadable_batch_stops_behind_the_commit_of_what_precedes_it():
    world = copying.begun(
        batch(0, b"a", timestamp=copying.OLD),
        copying.unreadable(1),
        delivery=DeliveryMode.TRANSACTIONAL,
    )
    go_on(world)
    assert world.standing.halt.cause is HaltCause.CORRUPT_BATCH
    assert header(world.mirror[-1]).is_control
    assert (values(world), said(world).through) == ([b"a"], 1)


def test_a_batch_that_must_be_opened_and_unpacks_to_more_than_the_budget_stops_its_partition():
    log = [batch(0, b"a"), batch(1, bytes(2 << 20), codec=4), batch(2, b"c")]
    world = copying.begun(*log, target_codec=0)
    go_on(world)
    assert world.standing.halt.cause is HaltCause.BATCH_TOO_LARGE
    assert world.standing.halt.retry_after_s is None
    assert "source offset 1: the batch must be decoded" in world.standing.halt.message
    assert "more than 1048576 bytes" in world.standing.halt.message
    assert (values(world), said(world).through) == ([b"a"], 1)
    assert (world.budget.held_bytes, world.budget.decoded_bytes) == (0, 0)


def test_a_batch_that_is_copied_in_parts_is_copied_whole(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    held = [b"%d" % at for at in range(9)]
    world = copying.begun(batch(0, *held, codec=4), batch(9, b"next"), target_codec=3)
    go_on(world)
    assert (values(world), world.copy.map.through) == ([*held, b"next"], 10)
    assert (world.budget.held_bytes, world.budget.decoded_bytes) == (0, 0)


def test_a_paused_partition_keeps_no_opened_bytes_from_others(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    held = [b"%d" % at for at in range(9)]
    world = copying.begun(batch(0, *held, codec=4), target_codec=3)
    world.offer(batch(0, *held, codec=4))
    world.send()
    assert world.budget.decoded_bytes > 0
    world.copy.paused = True
    while world.in_flight:
        world.acknowledge()
    world.tick(0.1)
    assert (world.budget.held_bytes, world.budget.decoded_bytes) == (0, 0)
    world.copy.paused = False
    go_on(world)
    assert (values(world), world.copy.map.through) == (held, 9)


def again_in(world, *values, first, codec=4):
    """The copy of `world` was left at source offset `first`, inside the batch of these values."""
    world.answers[FindSourceOffset] = [
        SourceLogOffset(offset=len(values)),
        SourceLogOffset(offset=first),
    ]
    world.tick()
    assert world.copy.map.through == first
    return world


def test_a_pause_amid_the_parts_before_the_place_does_not_go_back(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    held = [b"%d" % at for at in range(9)]
    world = World(batch(0, *held, codec=4), start=str(copying.OLD))
    again_in(world, *held, first=5)
    world.offer(batch(0, *held, codec=4))
    assert world.budget.decoded_bytes > 0
    world.copy.paused = True
    world.tick(0.02)
    assert (world.copy.source.position, world.copy.map.through) == (5, 5)
    assert world.budget.decoded_bytes == 0
    world.copy.paused = False
    go_on(world)
    assert (values(world), world.copy.map.through) == (held[5:], 9)


@pytest.mark.parametrize("delivery", list(DeliveryMode))
@pytest.mark.parametrize("last", [b"x", b"kept"])
def test_whole_parts_that_are_left_out_open_no_transaction_for_nothing(monkeypatch, delivery, last):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    big = batch(0, *[b"x"] * 6, last, timestamp=copying.OLD, codec=4)
    world = copying.begun(big, transform=Filter(b"x"), delivery=delivery)
    world.offer(big)
    assert AddToTransaction not in world.kinds
    for _ in range(20):
        world.tick(0.1)
        world.send()
        while world.in_flight:
            world.acknowledge()
        assert (
            world.copy.transaction_mode.is_open is False
            or world.copy.send_queue.staged_batch_needs_transaction is not None
        )
    assert (world.copy.transaction_mode.is_open, world.copy.map.through) == (False, 7)
    kept = [] if last == b"x" else [last]
    assert values(world) == kept
    fenced = delivery is not DeliveryMode.AT_LEAST_ONCE
    assert world.kinds.count(AddToTransaction) == (len(kept) if fenced else 0)
    world.copy.on_segment_stored(world.anchors[-1].token)
    more = batch(7, b"more", timestamp=copying.OLD)
    world.source = Log(big, more)
    go_on(world.tick(60.0))
    assert values(world) == [*kept, b"more"]


def test_between_parts_what_was_sent_is_committed_while_whole_parts_are_left_out(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    held = [b"a", b"b", *[b"x"] * 40, b"c"]
    big = batch(0, *held, timestamp=copying.OLD, codec=4)
    world = copying.begun(big, transform=Filter(b"x"))
    world.offer(big)
    for _ in range(5):
        world.send()
        while world.in_flight:
            world.acknowledge()
        world.tick(0.02)
    assert (world.copy.transaction_mode.is_open, world.copy.send_queue.queued_batches > 0) == (
        False,
        True,
    )
    assert said(world).through == 2
    go_on(world)
    for _ in range(40):
        go_on(world.tick(0.1))
    assert (values(world), world.copy.map.through) == ([b"a", b"b", b"c"], 43)


def test_a_transform_that_fails_behind_parts_that_are_left_out_stops_the_partition(monkeypatch):
    class Fails(Filter):
        def __call__(self, fields, timestamp_ms):
            if fields.value == b"boom":
                raise ValueError("boom")
            return super().__call__(fields, timestamp_ms)

    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    big = batch(0, *[b"x"] * 5, b"boom", timestamp=copying.OLD, codec=4)
    world = copying.begun(big, transform=Fails(b"x"))
    world.offer(big)
    for _ in range(10):
        world.tick(0.1)
    assert world.standing.halt.cause is HaltCause.TRANSFORM_FAILED
    assert (world.budget.held_bytes, world.budget.decoded_bytes) == (0, 0)


@pytest.mark.parametrize("delivery", list(DeliveryMode))
def test_no_transaction_is_opened_for_a_batch_that_waits_for_room(delivery):
    log = batch(0, b"a", b"b", deltas=(0, 3), timestamp=copying.OLD)
    world = copying.begun(log, delivery=delivery)
    others = world.budget.limit_bytes
    world.budget.reserve(others, decoded=True)
    world.offer(log)
    world.tick(1.0).tick(60.0)
    assert (world.copy.transaction_mode.is_open, world.kinds) == (False, [])
    world.budget.release(others, decoded=True)
    for _ in range(5):
        world.tick(0.1)
        world.send()
        while world.in_flight:
            world.acknowledge()
    assert values(world) == [b"a", b"b"]


def test_no_transaction_is_opened_while_an_anchor_is_waited_for():
    log = [batch(at, timestamp=copying.OLD) for at in range(2)]
    world = copying.begun(*log, delivery=DeliveryMode.TRANSACTIONAL)
    world.copied(log[0])
    for _ in range(3):
        world.tick(40.0)
    assert world.copy.map.must_pause_sending(world.now_s)
    world.forget()
    world.offer(log[1])
    for _ in range(3):
        world.tick(40.0)
    assert (world.copy.transaction_mode.is_open, world.kinds) == (False, [])
    world.copy.on_segment_stored(1 << 60)
    for _ in range(3):
        world.tick(1.0)
        world.send()
        while world.in_flight:
            world.acknowledge()
    assert values(world) == [b"v", b"v"]


# Transforms


def test_what_a_transform_leaves_out_moves_the_map_all_the_same():
    log = [batch(0, b"a", b"x"), batch(2, b"x"), batch(3, b"b"), batch(4, b"x", b"x")]
    world = copying.begun(*log, transform=Filter(b"x"))
    go_on(world)
    world.tick(1.0)
    assert values(world) == [b"a", b"b"]
    assert (said(world).through, said(world).runs) == (6, ((0, 1), (3, -1)))
    assert world.budget.held_bytes == 0


@pytest.mark.parametrize("delivery", list(DeliveryMode))
def test_a_log_of_which_nothing_is_left_is_passed_over(delivery):
    log = [batch(at, b"x", timestamp=copying.OLD) for at in range(4)]
    world = copying.begun(*log, transform=Filter(b"x"), delivery=delivery)
    go_on(world)
    world.tick(1.0).tick(1.0)
    assert (values(world), world.copy.map.through) == ([], 4)
    assert not world.copy.transaction_mode.is_open


def test_a_new_owner_pairs_what_the_transform_made():
    filtering = Filter(b"x", change=b"new ")
    log = [batch(0, b"a", b"x"), batch(2, b"b"), batch(3, b"c")]
    world = copying.begun(*log, transform=filtering)
    world.copied(*log[:2])
    world.do(world.copy.on_fetch_error(1, world.now_s))
    assert (world.standing.phase, world.copy.source.position) == (Phase.COPYING, 3)
    go_on(world)
    assert values(world) == [b"new a", b"new b", b"new c"]


# Ages


def mixed(*ages, offset=0):
    held = [Record(value=b"%d" % at, timestamp=ms) for at, ms in enumerate(ages)]
    return batches.data(held, Stamp(base_offset=offset))


def plain_and_old(world):
    """Batches of old records alone that went outside transactions: a broker forgets a producer by
    the timestamps of its newest batch."""
    found = [header(each) for each in world.mirror]
    return [
        each.base_offset
        for each in found
        if not each.is_control and each.max_timestamp == copying.OLD and not each.is_transactional
    ]


@pytest.mark.parametrize("before", [0, 1])
def test_old_records_of_a_fresh_batch_that_is_divided_go_in_a_transaction(before):
    """`before`: so many fresh batches are in flight when it is divided."""
    log = [batch(at) for at in range(before)]
    odd = mixed(copying.OLD, copying.OLD, copying.FRESH, copying.FRESH, offset=before)
    world = copying.begun(*log, odd)
    world.copy.send_queue.limits.halve_record_limit(count=4, until=before + 4)
    go_on(world)
    assert values(world)[before:] == [b"0", b"1", b"2", b"3"]
    assert plain_and_old(world) == []


@pytest.mark.parametrize("before", [0, 1])
def test_what_is_old_behind_a_fresh_batch_that_is_left_out_goes_in_a_transaction(before):
    log = [
        *[batch(at) for at in range(before)],
        batch(before, b"x"),
        batch(before + 1, b"old", timestamp=copying.OLD),
    ]
    world = copying.begun(*log, transform=Filter(b"x"))
    go_on(world)
    assert values(world)[before:] == [b"old"]
    assert plain_and_old(world) == []


def test_a_batch_is_as_old_as_its_newest_record():
    world = copying.begun(mixed(copying.OLD, copying.FRESH))
    go_on(world)
    assert [header(each).is_transactional for each in world.mirror[1:]] == [False]


def test_old_and_fresh_batches_are_not_joined():
    log = [batch(at, timestamp=copying.OLD if at < 2 else copying.FRESH) for at in range(4)]
    world = copying.begun(*log)
    world.joining.records = 16
    go_on(world)
    world.tick(3.0)
    data = [header(each) for each in world.mirror if not header(each).is_control]
    assert [each.record_count for each in data] == [2, 2]
    assert data[0].is_transactional


def test_what_the_mirror_holds_reads_like_the_source():
    """All of it together: gaps, codecs, append times, markers, in transactions or not."""
    log = [
        scripts.data(0, b"a", timestamp=copying.OLD, codec=1),
        scripts.marker(1, (5, 0)),
        scripts.data(2, b"b", b"c", deltas=(0, 3), codec=4),
        scripts.data(6, b"d", attributes=8, codec=3),
        scripts.data(7, last_delta=2),
        scripts.data(10, b"e", b"f", timestamp=copying.OLD, codec=2),
    ]
    for delivery in DeliveryMode:
        for joined in (0, 16):
            world = copying.begun(*log, delivery=delivery)
            world.joining.records = joined
            go_on(world)
            assert values(world) == [b"a", b"b", b"c", b"d", b"e", b"f"]
