from __future__ import annotations

import tracemalloc

import pytest

from mm2.formats import record_batch, record_codec
from mm2.replication import batch_size_limits, outbound_batches, read_committed_batch_filter
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.read_committed_batch_filter import UnreadableBatch
from mm2.replication.send_queue import DroppedBatchPosition, PartitionSendQueue
from tests.fakes import batches, copying, messages, scripts
from tests.fakes.batches import Record, Stamp
from tests.fakes.transforms import Filter

NOW_MS = scripts.NOW_MS
JOINED = "small batches were merged"


def box(*held, position=0, joining=0, old_before_ms=0, **more):
    """`joining` is the most records of a batch that is joined; what is pushed in one fetch."""
    codec = more.get("target_codec")
    found = PartitionSendQueue(
        MemoryBudget(1 << 30), merge_limits=BatchMergeLimits(records=joining), **more
    )
    if held:
        push(found, *held, position=position, old_before_ms=old_before_ms, target_codec=codec)
    return found


def push(found, *held, position=0, old_before_ms=0, target_codec=None):
    joined = memoryview(bytearray(b"".join(held)))
    scanned = read_committed_batch_filter.scan_batches(
        joined, position=position, aborted=(), target_codec=target_codec
    )
    assert scanned.obstacle is None
    found.push_batches(scanned, old_before_ms=old_before_ms)
    found.check_invariants()


def taken(found):
    """All that comes out."""
    outs = []
    while found.stage_next_batch():
        found.check_invariants()
        outs.append(found.pop_staged_batch())
        found._memory_budget.release(outs[-1].held_bytes, decoded=outs[-1].is_decoded)
        found.check_invariants()
    return outs


def values(out):
    header = record_batch.read_batch_header(out.batch)
    opened = record_codec.decode_batch(header, out.batch)
    return [record_codec.decode_record_body(each.body).value for each in opened]


def told(outs):
    return [(each.source, each.next_source, each.records, each.reencode_reason) for each in outs]


def batch(offset, *values, **more):
    return scripts.data(offset, *values or (b"v",), **more)


# Passed through, or opened


def test_ordinary_batches_are_passed_through():
    held = [batch(10, b"a", b"b"), batch(12, b"c", codec=3)]
    outs = taken(box(*held, position=10))
    assert [bytes(each.batch) for each in outs] == held
    assert told(outs) == [(10, 12, 2, ""), (12, 13, 1, "")]


@pytest.mark.parametrize(
    ("held", "position", "why", "came"),
    [
        (
            batch(10, b"a", b"b", deltas=(0, 3)),
            10,
            "compaction left gaps in the batch",
            [b"a", b"b"],
        ),
        (batch(10, b"a", attributes=8), 10, "the source uses LogAppendTime", [b"a"]),
        (batch(10, b"a", b"b"), 11, "replication starts inside the batch", [b"b"]),
    ],
)
@pytest.mark.parametrize("more", [{}, {"target_codec": None}])
def test_what_cannot_be_passed_through_is_opened(held, position, why, came, more):
    (out,) = taken(box(held, position=position, **more))
    assert (out.reencode_reason, values(out)) == (why, came)
    assert (out.source, out.held_bytes, out.is_decoded) == (position, len(out.batch), True)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_what_is_opened_keeps_its_codec_or_gets_the_mirrors(codec):
    gapped = batch(10, b"a" * 50, b"b", deltas=(0, 3), codec=codec)
    (out,) = taken(box(gapped))
    assert out.attributes == codec
    (out,) = taken(box(gapped, target_codec=2))
    assert (out.attributes, values(out)) == (2, [b"a" * 50, b"b"])


def test_a_message_of_an_older_format_goes_out_as_a_batch():
    inner = [messages.message(at, b"m%d" % at, magic=1, timestamp=NOW_MS) for at in (0, 1)]
    wrapped = messages.wrapper(11, inner, magic=1, codec=1, timestamp=NOW_MS)
    (out,) = taken(box(wrapped, position=10))
    assert (told([out]), values(out)) == ([(10, 12, 2, "")], [b"m0", b"m1"])


# Joined


def test_small_batches_that_are_queued_together_are_joined():
    held = [batch(at, b"%d" % at) for at in range(10, 15)]
    (out,) = taken(box(*held, joining=1))
    assert told([out]) == [(10, 15, 5, JOINED)]
    assert values(out) == [b"10", b"11", b"12", b"13", b"14"]
    assert (out.held_bytes, out.is_decoded) == (len(out.batch), False)


def test_a_single_batch_waits_for_no_other():
    assert told(taken(box(batch(10), joining=16))) == [(10, 11, 1, "")]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"codec": 1}, "codec"),
        ({"leader_epoch": 1}, "epoch"),
        ({"timestamp": NOW_MS - 9000}, "age"),
    ],
)
def test_only_batches_of_one_codec_epoch_and_age_are_joined(other, what):
    held = [batch(10), batch(11), batch(12, **other), batch(13, **other), batch(14)]
    found = box(*held, joining=16, old_before_ms=NOW_MS - 5000)
    assert [(each.source, each.records) for each in taken(found)] == [(10, 2), (12, 2), (14, 1)]


def test_batches_of_different_transactions_and_producers_are_joined():
    held = [
        batch(10, producer=(1, 0)),
        batch(11, producer=(2, 0), transactional=True),
        batch(12, attributes=0x40),
    ]
    (out,) = taken(box(*held, joining=16))
    assert (out.records, out.attributes) == (3, 0)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_compressed_batches_are_opened_to_be_joined(codec):
    held = [batch(at, b"v%d" % at, codec=codec) for at in range(3)]
    (out,) = taken(box(*held, joining=16))
    assert (out.attributes, values(out)) == (codec, [b"v0", b"v1", b"v2"])


def test_batches_with_more_records_than_are_joined_are_passed_between_them():
    held = [batch(0), batch(1), batch(2, b"a", b"b", b"c"), batch(5), batch(6)]
    assert told(taken(box(*held, joining=2))) == [
        (0, 2, 2, JOINED),
        (2, 5, 3, ""),
        (5, 7, 2, JOINED),
    ]


def test_batches_of_more_bytes_than_are_joined_are_too():
    large = batch(2, bytes(batch_size_limits.ALWAYS_MERGED_BYTES))
    held = [batch(0), batch(1), large, batch(3), batch(4)]
    assert [(each.source, each.records) for each in taken(box(*held, joining=16))] == [
        (0, 2),
        (2, 1),
        (3, 2),
    ]


def test_no_more_are_joined_than_fit_into_one_batch():
    held = [batch(at, bytes(9000)) for at in range(200)]
    outs = taken(box(*held, joining=16))
    assert sum(each.records for each in outs) == 200
    assert all(len(each.batch) <= batch_size_limits.ENCODED_BATCH_BYTES_MAX + 61 for each in outs)
    assert len(outs) == 2


def test_no_more_are_joined_than_fit_once_they_are_unpacked():
    """They are chosen by their compressed bytes."""
    found = box(*[batch(at, bytes(900), codec=1) for at in range(40)], joining=16)
    found.limits.reencoded_bytes_max = 10_000
    outs = taken(found)
    assert [(each.records, each.reencode_reason) for each in outs] == [(10, JOINED)] * 4
    assert all(each.held_bytes for each in outs)


def test_batches_that_unpack_to_more_than_one_batch_holds_are_passed_through():
    held = [batch(at, bytes(700_000), codec=4) for at in range(3)]
    assert all(len(each) < batch_size_limits.ALWAYS_MERGED_BYTES for each in held)
    assert told(taken(box(*held, joining=16))) == [(at, at + 1, 1, "") for at in range(3)]


def test_behind_a_batch_that_fills_one_alone_none_is_opened(monkeypatch):
    counted = []
    opens = outbound_batches.decode_source_batch

    def counting(entry, transform, **more):
        counted.append(entry.first)
        return opens(entry, transform, **more)

    monkeypatch.setattr(outbound_batches, "decode_source_batch", counting)
    held = [
        batch(at, bytes(2 * batch_size_limits.ENCODED_BATCH_BYTES_MAX), codec=4) for at in range(3)
    ]
    assert told(taken(box(*held, joining=16))) == [(at, at + 1, 1, "") for at in range(3)]
    assert counted == [0, 1]  # the last one has nothing to be joined with


def test_what_is_joined_is_never_unpacked_all_at_once():
    large = batch(0, bytes(4 << 20), codec=4)
    held = [batches.rechecked(at.to_bytes(8) + large[8:]) for at in range(20)]
    found = box(*held, joining=16)
    tracemalloc.start()
    try:
        assert len(taken(found)) == 20
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * (4 << 20)


def test_a_filtered_batch_is_joined_by_what_is_left_of_it():
    held = [batch(at, bytes(700_000), b"a", codec=4) for at in range(0, 6, 2)]
    (out,) = taken(box(*held, joining=16, transform=Filter(bytes(700_000))))
    assert (out.records, out.held_bytes) == (3, len(out.batch))


def test_a_gapped_batch_may_begin_and_end_what_is_joined():
    held = [
        batch(0, b"a", deltas=(2,), last_delta=4),
        batch(5, b"b"),
        batch(6, b"c", deltas=(0,), last_delta=9),
    ]
    (out,) = taken(box(*held, joining=16))
    assert told([out]) == [(2, 16, 3, "compaction left gaps in the batch")]
    assert out.offset_spans == ((2, 0), (5, 1))


# Divided


def test_what_the_target_found_too_large_goes_in_smaller_batches():
    whole = batch(0, *[bytes(1000)] * 10)
    found = box(whole)
    found.limits.halve_size_limit(size=len(whole), count=10)
    outs = taken(found)
    assert [each.reencode_reason for each in outs] == [
        "the batch is larger than the target accepts"
    ] * 3
    assert [each.records for each in outs] == [4, 4, 2]
    assert [each.held_bytes for each in outs] == [len(each.batch) for each in outs]


def test_smaller_batches_than_what_was_refused_are_still_passed_through():
    small, large = batch(0, bytes(100)), batch(1, bytes(500), bytes(500))
    found = box(small, large)
    found.limits.halve_size_limit(size=len(large), count=2)
    assert [each.reencode_reason for each in taken(found)] == [
        "",
        *["the batch is larger than the target accepts"] * 2,
    ]


def test_a_bad_record_is_looked_for_until_behind_what_was_refused():
    found = box(batch(0, *[b"v"] * 8), batch(8, *[b"v"] * 8), batch(16, *[b"v"] * 8))
    found.limits.halve_record_limit(count=8, until=16)
    outs = taken(found)
    assert [(each.source, each.records) for each in outs] == [
        (0, 4),
        (4, 4),
        (8, 4),
        (12, 4),
        (16, 8),
    ]
    assert {each.reencode_reason for each in outs[:4]} == {
        "the target rejected a record in the batch"
    }


def test_while_a_bad_record_is_looked_for_nothing_is_joined():
    found = box(*[batch(at) for at in range(6)], joining=16)
    found.limits.halve_record_limit(count=6, until=4)
    assert [each.records for each in taken(found)] == [1, 1, 1, 1, 2]


# Transforms


def test_a_transform_opens_every_batch():
    found = box(batch(0, b"a"), batch(1, b"b"), transform=Filter(change=b"new "))
    outs = taken(found)
    assert [values(each) for each in outs] == [[b"new a"], [b"new b"]]
    assert {each.reencode_reason for each in outs} == {"transform filter"}


def test_what_a_transform_leaves_out_leaves_gaps():
    held = batch(0, b"a", b"x", b"b", b"x", b"x", b"c")
    (out,) = taken(box(held, transform=Filter(b"x")))
    assert (out.source, out.next_source, out.offset_spans) == (0, 6, ((0, 0), (2, 1), (5, 2)))


def test_batches_that_a_transform_empties_are_passed_over_and_released():
    held = [batch(0, b"x"), batch(1, b"x", b"x"), batch(3, b"a"), batch(4, b"x")]
    found = box(*held, transform=Filter(b"x"))
    outs = taken(found)
    assert told(outs) == [(3, 4, 1, "transform filter")]
    assert (found.queued_batches, found.queued_bytes, found._memory_budget.held_bytes) == (0, 0, 0)


# Unreadable batches


def test_a_batch_that_cannot_be_opened_is_an_obstacle_behind_all_before_it():
    found = box(batch(0), batch(1), copying.unreadable(2), batch(6))
    outs = taken(found)
    assert [each.source for each in outs] == [0, 1]
    assert found.unreadable is not None
    assert found.unreadable.offset == 2
    assert "gzip data is damaged" in found.unreadable.reason
    assert (found.stage_next_batch(), found.queued_batches) == (False, 2)


def test_what_is_joined_ends_before_a_batch_that_cannot_be_opened():
    broken = copying.unreadable(2, codec=0)
    found = box(batch(0), batch(1), broken, joining=16)
    assert told(taken(found)) == [(0, 2, 2, JOINED)]
    assert found.unreadable.offset == 2


def test_a_batch_that_need_not_be_opened_is_passed_through_though_it_cannot_be():
    """An unknown codec, or what only this decoder refuses: without joining it goes through."""
    odd = batch(1, b"x", attributes=6)
    assert told(taken(box(batch(0), odd, batch(2)))) == [
        (0, 1, 1, ""),
        (1, 2, 1, ""),
        (2, 3, 1, ""),
    ]
    found = box(odd, batch(2, b"y", attributes=6), joining=16)
    assert [each.source for each in taken(found)] == [1, 2]


def test_a_start_inside_an_unreadable_batch_is_told_by_where_it_starts():
    found = box(copying.unreadable(2), position=4)
    assert not found.stage_next_batch()
    assert found.unreadable.offset == 4


# What is queued


def test_only_a_staged_batch_says_how_old_it_is():
    found = box()
    assert (found.staged_batch_needs_transaction, found.oldest_timestamp, found.queued_batches) == (
        None,
        None,
        0,
    )
    push(found, batch(0, timestamp=NOW_MS - 9), batch(1), old_before_ms=NOW_MS - 5)
    assert (found.staged_batch_needs_transaction, found.oldest_timestamp, found.queued_batches) == (
        None,
        NOW_MS - 9,
        2,
    )
    found.stage_next_batch()
    assert (found.staged_batch_needs_transaction, found.oldest_timestamp, found.queued_batches) == (
        True,
        NOW_MS - 9,
        2,
    )
    assert found.staged_batch_size == len(batch(0))
    found.pop_staged_batch()
    assert (found.staged_batch_needs_transaction, found.oldest_timestamp, found.queued_batches) == (
        None,
        NOW_MS,
        1,
    )
    found.stage_next_batch()
    assert found.staged_batch_needs_transaction is False


@pytest.mark.parametrize("staged", [False, True])
def test_a_delete_horizon_is_no_records_timestamp(staged):
    """It stands in place of the first one's, and lies ahead."""
    held = [Record(value=b"v", timestamp=NOW_MS + at) for at in (0, 5)]
    stamp = Stamp(attributes=record_batch.DELETE_HORIZON)
    found = box(batches.data(held, stamp, base_timestamp=NOW_MS + 86_400_000))
    assert not staged or found.stage_next_batch()
    assert found.oldest_timestamp == NOW_MS + 5


def test_staging_again_changes_nothing():
    found = box(batch(0), batch(1))
    assert found.stage_next_batch()
    assert found.stage_next_batch()
    assert (
        found.queued_batches,
        found.pop_staged_batch().source,
        found.stage_next_batch(),
        found.pop_staged_batch().source,
    ) == (
        2,
        0,
        True,
        1,
    )
    assert not found.stage_next_batch()


def test_bytes_are_held_from_the_push_until_they_are_taken():
    held = [batch(0), batch(1, b"a", b"b", deltas=(0, 5))]
    found = box(*held)
    size = sum(len(each) for each in held)
    assert (found.queued_bytes, found._memory_budget.held_bytes) == (size, size)
    found.stage_next_batch()
    out = found.pop_staged_batch()
    assert (found.queued_bytes, found._memory_budget.held_bytes) == (size - out.held_bytes, size)


@pytest.mark.parametrize("staged", [False, True])
def test_dropping_all_tells_where_to_fetch_again(staged):
    found = box(batch(7, leader_epoch=3), batch(8, leader_epoch=4))
    if staged:
        found.stage_next_batch()
    assert found.drop_all_batches() == DroppedBatchPosition(7, 3)
    assert (found.queued_batches, found.queued_bytes, found._memory_budget.held_bytes) == (0, 0, 0)
    assert found.drop_all_batches() is None


def test_dropping_a_batch_that_is_half_sent_goes_back_to_its_first_record_unsent():
    found = box(batch(0, *[b"v"] * 4, deltas=(0, 2, 4, 6), leader_epoch=3), batch(7))
    found.limits.halve_record_limit(count=4, until=7)
    found.stage_next_batch()
    out = found.pop_staged_batch()
    assert (out.records, found.queued_batches) == (2, 2)
    assert found.drop_all_batches() == DroppedBatchPosition(4, 3)
    found._memory_budget.release(out.held_bytes, decoded=out.is_decoded)
    assert found._memory_budget.held_bytes == 0


def test_dropping_forgets_what_was_unreadable():
    found = box(copying.unreadable(2, last_delta=5))
    found.stage_next_batch()
    assert found.drop_all_batches() == DroppedBatchPosition(2, 0)
    assert found.unreadable is None


def test_a_start_inside_a_batch_is_where_it_goes_back_to():
    assert box(batch(0, *[b"v"] * 4), position=2).drop_all_batches() == DroppedBatchPosition(2, 0)


# Opened in parts, within the budget

SIX = [b"a", b"b", b"c", b"d", b"e", b"f"]


@pytest.fixture
def two_at_once(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)


def staged(found):
    """What one call brings, and takes out."""
    found.stage_next_batch()
    found.check_invariants()
    return [found.pop_staged_batch() for _ in range(len(found._staged))]


@pytest.mark.usefixtures("two_at_once")
def test_a_batch_of_many_records_is_read_in_parts_that_count_against_the_budget():
    whole = batch(0, *SIX, deltas=(0, 1, 2, 3, 4, 9), last_delta=11)
    found = box(whole, batch(12, b"next"))
    fetched = found.queued_bytes
    outs = []
    while found.queued_batches > 1:
        (out,) = staged(found)
        outs.append(out)
        inside = len(out.batch) if found._decoder is None else len(out.batch) + found._decoder.size
        assert found._memory_budget.decoded_bytes == inside
        found._memory_budget.release(out.held_bytes, decoded=out.is_decoded)
    assert [values(each) for each in outs] == [SIX[:2], SIX[2:4], SIX[4:]]
    assert [(each.source, each.next_source) for each in outs] == [(0, 2), (2, 4), (4, 12)]
    assert [each.reencode_reason for each in outs] == ["compaction left gaps in the batch"] * 3
    assert (found.queued_bytes, found._memory_budget.held_bytes) == (fetched - len(whole),) * 2
    assert told(taken(found)) == [(12, 13, 1, "")]


@pytest.mark.usefixtures("two_at_once")
def test_dropping_a_batch_of_which_parts_are_left_goes_back_to_the_next_part():
    found = box(batch(0, *SIX, attributes=8, leader_epoch=3), batch(6))
    (out,) = staged(found)
    assert found.drop_all_batches() == DroppedBatchPosition(2, 3)
    found._memory_budget.release(out.held_bytes, decoded=out.is_decoded)
    assert (
        found.queued_bytes,
        found._memory_budget.held_bytes,
        found._memory_budget.decoded_bytes,
    ) == (0, 0, 0)
    assert not found.holds_decoded_bytes


@pytest.mark.usefixtures("two_at_once")
def test_dropping_a_batch_of_which_only_parts_before_the_start_were_read_goes_back_to_the_start():
    found = box(batch(0, *SIX, attributes=8, leader_epoch=3), position=3)
    assert not found.stage_next_batch()
    assert found.holds_decoded_bytes
    assert found.drop_all_batches() == DroppedBatchPosition(3, 3)


def test_what_was_read_of_an_opened_batch_is_given_back_to_the_budget_part_by_part(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 1)
    whole = batch(0, *[bytes(1000)] * 8, deltas=(*range(7), 8), last_delta=8)
    found, held = box(whole), []
    while found.queued_batches:
        (out,) = staged(found)
        found._memory_budget.release(out.held_bytes, decoded=out.is_decoded)
        held.append(found._memory_budget.decoded_bytes)
    assert held == sorted(held, reverse=True)
    assert [8 * each // held[0] for each in held] == [8, 8, 8, 8, 3, 3, 1, 0]


@pytest.mark.usefixtures("two_at_once")
def test_parts_of_which_nothing_is_left_give_way_to_the_copy_loop_each_time():
    found = box(batch(0, *[b"x"] * 4, b"e", b"f"), transform=Filter(b"x"))
    assert [found.stage_next_batch(), found.stage_next_batch(), found.stage_next_batch()] == [
        False,
        False,
        True,
    ]
    assert (values(found.pop_staged_batch()), found.queued_batches) == ([b"e", b"f"], 0)


@pytest.mark.usefixtures("two_at_once")
def test_a_part_that_cannot_be_read_stands_in_the_way_behind_those_that_could():
    parts = batches.encoded([Record(value=each, timestamp=NOW_MS) for each in SIX], NOW_MS)
    stamp = Stamp(base_offset=0, attributes=8)
    broken = batches.assemble(parts[:-3], stamp, count=6, last=6, timestamps=(NOW_MS, NOW_MS))
    found = box(broken)
    assert [values(each) for _ in range(2) for each in staged(found)] == [SIX[:2], SIX[2:4]]
    assert not found.stage_next_batch()
    assert found.unreadable is not None
    assert (found.unreadable.offset, found.unreadable.next_offset) == (4, 7)
    assert found.drop_all_batches() == DroppedBatchPosition(4, 0)


def small(*held, limit, **more):
    found = PartitionSendQueue(
        MemoryBudget(limit), merge_limits=BatchMergeLimits(records=16), **more
    )
    push(found, *held, target_codec=more.get("target_codec"))
    return found


def test_what_must_be_opened_and_unpacks_to_more_than_the_budget_stands_in_the_way():
    bomb = batch(0, bytes(3 << 20), codec=4)
    found = small(bomb, limit=2 << 20, target_codec=0)
    assert not found.stage_next_batch()
    assert found.unreadable == UnreadableBatch(
        offset=0,
        reason="the batch must be decoded (the mirror topic enforces none), but the data "
        "decompresses to more than 2097152 bytes, the limit set by buffer.memory",
        next_offset=1,
        has_valid_checksum=True,
        too_large=True,
    )
    assert found._memory_budget.decoded_bytes == 0
    assert told(taken(small(bomb, limit=2 << 20))) == [(0, 1, 1, "")]


def test_a_batch_waits_to_be_opened_while_others_hold_half_of_the_budget():
    found = small(batch(0, codec=1), batch(1), limit=1000, target_codec=0)
    found._memory_budget.reserve(501, decoded=True)
    assert (found.stage_next_batch(), found.unreadable, found.queued_batches) == (False, None, 2)
    found._memory_budget.release(1, decoded=True)
    assert found.stage_next_batch()


def test_a_batch_of_more_records_than_fit_into_one_is_not_opened_to_be_joined(monkeypatch):
    def unexpected(*_, **__):
        raise AssertionError("it is opened")

    monkeypatch.setattr(outbound_batches, "decode_source_batch", unexpected)
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 29)
    joining = BatchMergeLimits()
    joining.record_idle_time(1.0, 1.0, slow_acks=True)
    found = PartitionSendQueue(MemoryBudget(1 << 30), merge_limits=joining)
    push(found, *[batch(at, *[b""] * 30, codec=4) for at in (0, 30)])
    assert told(taken(found)) == [(0, 30, 30, ""), (30, 60, 30, "")]
