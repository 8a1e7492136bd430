from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import compression
from mm2.replication import read_committed_batch_filter
from tests.fakes import batches, messages, scripts
from tests.support import examples

A, B, C = (1, 0), (2, 0), (3, 0)


def old(offset, magic):
    return messages.message(offset, b"old", magic=magic, timestamp=scripts.NOW_MS)


def scan(*held, position=0, aborted=(), target_codec=None, opposite=None, **limits):
    joined = memoryview(b"".join(held))
    return read_committed_batch_filter.scan_batches(
        joined,
        position=position,
        aborted=aborted,
        target_codec=target_codec,
        reverse_producers=opposite,
        **limits,
    )


def bases(found):
    return [each.header.base_offset for each in found.batches]


def of(base, producer, count=1):
    """A transactional batch."""
    return scripts.data(base, *[b"v"] * count, producer=producer, transactional=True)


def abort(base, producer):
    return scripts.marker(base, producer, commit=False)


def commit(base, producer):
    return scripts.marker(base, producer)


def test_nothing_read_moves_nothing():
    found = scan(position=5)
    assert (found.position, found.leader_epoch, found.batches, found.obstacle) == (5, -1, [], None)


def test_plain_batches_are_copied_whole_and_the_position_is_behind_them():
    first, second = scripts.data(3, b"a", b"b"), scripts.data(5, b"c", leader_epoch=4)
    found = scan(first, second, position=3)
    assert [bytes(each.batch) for each in found.batches] == [first, second]
    assert (found.position, found.leader_epoch) == (6, 4)


def test_batches_before_the_position_are_not_copied_again():
    found = scan(scripts.data(3, b"a", b"b"), scripts.data(5, b"c"), position=5)
    assert bases(found) == [5]


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch():
    found = scan(scripts.data(0, b"a"), scripts.data(1, b"b")[:-1])
    assert (bases(found), found.position, found.obstacle) == ([0], 1, None)


def test_gaps_between_batches_are_no_obstacle():
    found = scan(scripts.data(0, b"a"), scripts.data(9, b"b"))
    assert (bases(found), found.position) == ([0, 9], 10)


# Transactions


def test_markers_are_skipped_and_committed_data_is_copied():
    found = scan(of(0, A), commit(1, A), scripts.data(2, b"x"))
    assert (bases(found), found.position) == ([0, 2], 3)


def test_an_aborted_transaction_ends_at_its_abort_marker():
    found = scan(of(0, A), abort(1, A), of(2, A), commit(3, A), aborted=[(1, 0)])
    assert bases(found) == [2]
    assert found.position == 4


def test_a_producers_batches_before_its_aborted_transaction_are_copied():
    found = scan(of(0, A), commit(1, A), of(2, A), abort(3, A), aborted=[(1, 2)])
    assert bases(found) == [0]


def test_only_the_producer_that_aborted_loses_its_batches():
    found = scan(
        of(0, A), of(1, B), of(2, A), abort(3, A), of(4, B), commit(5, B), aborted=[(1, 0)]
    )
    assert bases(found) == [1, 4]


def test_the_list_of_aborted_transactions_need_not_be_sorted():
    log = [
        of(0, A),
        of(1, B),
        abort(2, A),
        of(3, C),
        abort(4, B),
        of(5, A),
        commit(6, C),
        abort(7, A),
        of(8, B),
        commit(9, B),
    ]
    aborted = [(1, 0), (2, 1), (1, 5)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]):
        assert bases(scan(*log, aborted=[aborted[at] for at in order])) == [3, 8]


def test_one_producer_may_abort_twice_in_a_row():
    found = scan(
        of(0, A), abort(1, A), of(2, A), abort(3, A), of(4, A), commit(5, A),
        aborted=[(1, 0), (1, 2)],
    )  # fmt: skip
    assert bases(found) == [4]


def test_a_fetch_from_inside_an_aborted_transaction_skips_what_is_left_of_it():
    found = scan(of(5, A), abort(6, A), of(7, A), commit(8, A), position=5, aborted=[(1, 0)])
    assert bases(found) == [7]


def test_an_aborted_transaction_whose_marker_lies_behind_the_fetch_is_still_skipped():
    found = scan(of(0, A), of(1, A), aborted=((1, 0),))
    assert (bases(found), found.position) == ([], 2)


def test_a_commit_marker_does_not_end_an_aborted_transaction():
    found = scan(of(0, A), commit(1, A), of(2, A), abort(3, A), aborted=[(1, 0)])
    assert bases(found) == []


def test_data_outside_transactions_is_copied_even_of_a_producer_that_aborted():
    found = scan(of(0, A), scripts.data(1, b"x", producer=A), abort(2, A), aborted=[(1, 0)])
    assert bases(found) == [1]


def test_aborted_batches_need_not_be_copyable():
    gap = scripts.data(0, b"v", producer=A, transactional=True, last_delta=4)
    found = scan(gap, abort(5, A), aborted=[(1, 0)])
    assert (bases(found), found.obstacle) == ([], None)


# What holds nothing


def test_an_empty_batch_that_compaction_kept_is_skipped():
    found = scan(scripts.data(0, last_delta=7), scripts.data(8, b"a"))
    assert (bases(found), found.position, found.obstacle) == ([8], 9, None)


# Obstacles


def stopped(found, *, at, saying, copied=()):
    assert found.obstacle is not None
    assert (found.obstacle.offset, found.position) == (at, at)
    assert saying in found.obstacle.reason
    assert bases(found) == list(copied)


BEHIND = scripts.data(100, b"behind")


def test_one_changed_byte_is_found():
    whole = scripts.data(1, b"abc")
    for at in (21, 40, 60, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        found = scan(scripts.data(0, b"x"), damaged, BEHIND)
        stopped(found, at=1, saying="checksum", copied=[0])
        assert found.obstacle.next_offset == 100


def test_a_damaged_last_offset_does_not_make_a_batch_one_of_before():
    damaged = bytearray(scripts.data(1, b"abc"))
    damaged[23] ^= 0x80  # the sign
    found = scan(scripts.data(0, b"x"), damaged, BEHIND)
    stopped(found, at=1, saying="its last offset is", copied=[0])
    assert found.obstacle.next_offset == 100
    found = scan(scripts.data(0, b"x"), batches.rechecked(damaged), BEHIND)
    stopped(found, at=1, saying="its last offset is", copied=[0])


def test_what_is_behind_damage_begins_with_the_next_sound_batch():
    first, second = bytearray(scripts.data(1, b"a")), bytearray(scripts.data(5, b"b"))
    first[-1] ^= 1
    second[-1] ^= 1
    assert scan(first, second, BEHIND).obstacle.next_offset == 100
    assert scan(first, scripts.data(1, b"again"), BEHIND).obstacle.next_offset == 100


@pytest.mark.parametrize("cut", [0, 30, 70])
def test_behind_damage_at_the_end_of_what_was_read_nothing_is_known(cut):
    damaged = bytearray(scripts.data(1, b"a"))
    damaged[-1] ^= 1
    assert scan(damaged, BEHIND[:cut]).obstacle.next_offset == -1
    broken = bytearray(BEHIND)
    struct.pack_into(">i", broken, 8, 4)
    assert scan(damaged, broken).obstacle.next_offset == -1


def test_an_impossible_length_is_damage_where_the_copy_stands():
    damaged = bytearray(scripts.data(1, b"a"))
    struct.pack_into(">i", damaged, 8, 4)
    found = scan(scripts.data(0, b"x"), damaged)
    stopped(found, at=1, saying="has an invalid length of 4 bytes", copied=[0])


def test_a_damaged_batch_is_not_even_skipped():
    damaged = bytearray(of(0, A))
    damaged[-1] ^= 1
    stopped(scan(damaged, aborted=[(1, 0)]), at=0, saying="checksum")


def test_a_damaged_batch_across_the_position_stops_at_the_position():
    damaged = bytearray(scripts.data(3, b"a", b"b", b"c"))
    damaged[-1] ^= 1
    stopped(scan(damaged, position=4), at=4, saying="checksum")


@pytest.mark.parametrize("at", [26, 60])
def test_a_damaged_batch_is_not_believed_to_end_before_the_position(at):
    damaged = bytearray(scripts.data(3, b"a", b"b", b"c"))
    damaged[at] ^= 2  # 26: of its last offset
    found = scan(damaged, scripts.data(6, b"d"), position=5)
    stopped(found, at=5, saying="checksum")
    assert found.obstacle.next_offset == 6


def test_of_a_damaged_batch_before_the_position_nothing_is_left_out():
    damaged = bytearray(scripts.data(3, b"a"))
    damaged[-1] ^= 1
    assert scan(damaged, scripts.data(4, b"b"), position=4).obstacle.next_offset == 4


@pytest.mark.parametrize("magic", [0, 1])
def test_a_damaged_message_of_an_older_format_is_an_obstacle_too(magic):
    damaged = bytearray(messages.message(1, b"old", magic=magic))
    damaged[-1] ^= 1
    stopped(scan(scripts.data(0, b"x"), damaged, BEHIND), at=1, saying="checksum", copied=[0])


def test_offsets_are_not_beyond_the_end_of_the_log():
    """The checksum does not cover a batch's base offset."""
    far = scripts.data(25, b"x", b"y")
    found = scan(scripts.data(19, b"w"), far, scripts.data(22, b"z"), position=19, end=23)
    stopped(found, at=20, saying="offsets 25 to 26, but the last stable offset is 23", copied=[19])
    assert found.obstacle.next_offset == 22
    stopped(scan(scripts.data(21, b"x"), position=20, end=21), at=20, saying="21", copied=[])


@pytest.mark.parametrize("end", [-1, 23])
def test_offsets_that_the_protocol_cannot_hold_are_damage(end):
    found = scan(scripts.data((1 << 63) - 1, b"x"), position=20, end=end)
    stopped(found, at=20, saying=str((1 << 63) - 1), copied=[])


@pytest.mark.parametrize("end", [-1, (1 << 63) - 2, (1 << 63) - 1])
def test_a_batch_at_the_position_does_not_reach_beyond_what_the_protocol_can_hold(end):
    """The next offset to fetch must be an offset, too."""
    position = (1 << 63) - 2
    found = scan(scripts.data(position, b"x", b"y"), position=position, end=end)
    stopped(found, at=position, saying=f"offsets {position} to {position + 1}", copied=[])


@pytest.mark.parametrize("base", [-1, -5, -1 << 63])
def test_offsets_before_the_first_are_damage(base):
    found = scan(scripts.data(base, b"x"), scripts.data(9, b"y"), position=3)
    stopped(found, at=3, saying="offsets begin at 0", copied=[])
    assert found.obstacle.next_offset == 9


def test_without_a_gap_a_batch_may_lie_behind_the_end_of_the_log():
    """Brokers note the end before they read, so both may have grown in between."""
    found = scan(scripts.data(19, b"w"), scripts.data(20, b"x"), position=19, end=19)
    assert (bases(found), found.position, found.obstacle) == ([19, 20], 21, None)


def test_a_gap_before_the_end_of_the_log_is_what_compaction_leaves():
    found = scan(scripts.data(25, b"x"), position=20, end=26)
    assert (bases(found), found.position, found.obstacle) == ([25], 26, None)


def test_an_old_message_that_decompresses_to_too_much_is_told_with_its_end():
    held = [messages.message(at, b"v" * 600, magic=1) for at in range(2)]
    read = (old(3, 1), messages.wrapper(5, held, magic=1, codec=1))
    assert bases(scan(*read, position=3, max_bytes=2000)) == [3, 4]
    found = scan(*read, position=3, max_bytes=1000)
    stopped(found, at=4, saying="1000 bytes, the limit set by buffer.memory", copied=[3])
    assert (found.obstacle.next_offset, found.obstacle.too_large) == (6, True)


def test_raising_buffer_memory_is_not_advised_beyond_what_it_can_allow(monkeypatch):
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 1000)
    held = [messages.message(at, b"v" * 600, magic=1) for at in range(2)]
    wrapper = messages.wrapper(5, held, magic=1, codec=1)
    found = scan(wrapper, position=3, max_bytes=1000)
    assert found.obstacle is not None
    assert "buffer.memory" not in found.obstacle.reason
    assert (found.obstacle.too_large, found.obstacle.has_valid_checksum) == (False, True)


# Which must be opened


def why(*held, **more):
    """Of each copyable batch."""
    found = scan(*held, **more)
    assert found.obstacle is None
    return [each.reencode_reason for each in found.batches]


@pytest.mark.parametrize("flags", [0, 0x10, 0x40, 0x50])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_an_ordinary_batch_of_any_codec_is_passed_through(flags, codec):
    held = scripts.data(3, b"a", b"b", attributes=flags, codec=codec)
    assert why(held, position=3) == [""]


def test_the_timestamps_of_an_append_time_are_not_the_records_own():
    assert why(scripts.data(0, b"a", attributes=0x08)) == ["the source uses LogAppendTime"]
    both = scripts.data(0, b"a", attributes=0x18, codec=2)
    assert why(both) == ["the source uses LogAppendTime"]


@pytest.mark.parametrize(
    ("values", "deltas", "last"),
    [
        ((b"a", b"b"), (0, 2), 2),
        ((b"a", b"b"), (0, 1), 4),
        ((b"a",), (3,), 3),
        ((b"a",), (0,), 9),
        ((b"a", b"b"), (2, 3), 3),
    ],
    ids=["inside", "behind", "before", "all behind", "two before"],
)
def test_gaps_that_compaction_left_are_a_reason(values, deltas, last):
    held = scripts.data(10, *values, deltas=deltas, last_delta=last)
    found = scan(held, BEHIND, position=10)
    assert [each.reencode_reason for each in found.batches] == [
        "compaction left gaps in the batch",
        "",
    ]
    assert [each.first for each in found.batches] == [10, 100]
    assert found.position == 101


def test_a_start_inside_a_batch_is_a_reason_and_says_where():
    found = scan(scripts.data(0, b"a", b"b", b"c"), scripts.data(3, b"d"), position=1)
    assert [each.reencode_reason for each in found.batches] == [
        "replication starts inside the batch",
        "",
    ]
    assert [each.first for each in found.batches] == [1, 3]
    assert found.position == 4


def test_a_start_at_a_batchs_first_or_behind_its_last_offset_is_none():
    held = scripts.data(3, b"a", b"b")
    assert why(held, position=3) == [""]
    assert why(held, position=0) == [""]
    assert why(held, position=5) == []


def test_a_start_inside_a_batch_without_records_of_interest_is_none():
    found = scan(scripts.data(0, last_delta=4), of(5, A), abort(6, A), position=2, aborted=[(1, 5)])
    assert (found.position, found.batches, found.obstacle) == (7, [], None)


def test_another_codec_than_the_mirrors_own_is_a_reason():
    plain, zstd = scripts.data(0, b"a"), scripts.data(1, b"b", codec=4)
    assert why(plain, zstd) == ["", ""]
    assert why(plain, zstd, target_codec=0) == ["", "the mirror topic enforces none"]
    assert why(plain, zstd, target_codec=4) == ["the mirror topic enforces zstd", ""]
    transactional = of(0, A)
    assert why(transactional, target_codec=0) == [""]
    assert why(transactional, target_codec=1) == ["the mirror topic enforces gzip"]


def test_an_unknown_codec_is_no_reason_by_itself():
    """What cannot be opened may still be passed through."""
    unknown = scripts.data(0, b"a", attributes=7)
    assert why(unknown) == [""]
    assert why(unknown, target_codec=1) == ["the mirror topic enforces gzip"]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_older_formats_are_copied_like_batches(magic):
    single = messages.message(5, b"a", magic=magic, timestamp=scripts.NOW_MS)
    inner = (6, 7) if magic == 0 else (0, 1)
    held = [messages.message(at, b"b", magic=magic, timestamp=scripts.NOW_MS) for at in inner]
    pair = messages.wrapper(7, held, magic=magic, codec=1, timestamp=scripts.NOW_MS)
    found = scan(single, pair, scripts.data(8, b"c"), position=5)
    assert [each.header.record_count for each in found.batches] == [1, 2, 1]
    assert [each.reencode_reason for each in found.batches] == ["", "", ""]
    assert (bases(found), found.position) == ([5, 6, 8], 9)
    behind = scan(pair, position=7)
    assert [each.reencode_reason for each in behind.batches] == [""]
    assert (bases(behind), behind.position) == ([7], 8)


def test_the_bytes_of_all_that_is_copied_are_counted():
    held = [scripts.data(0, b"a" * 100), scripts.data(1, last_delta=0), scripts.data(2, b"b")]
    found = scan(*held)
    assert found.size == len(held[0]) + len(held[2]) == sum(e.header.size for e in found.batches)


# Any bytes


def check(data, *, position, aborted=()):
    found = read_committed_batch_filter.scan_batches(
        memoryview(bytes(data)), position=position, aborted=aborted
    )
    assert found.position >= position
    assert found.size == sum(len(each.batch) for each in found.batches)
    at = position
    for each in found.batches:
        assert at <= each.first <= each.header.last_offset
        at = each.header.last_offset + 1
    assert at <= found.position
    if found.obstacle is not None:
        assert found.obstacle.offset >= position
        assert found.obstacle.reason


@settings(max_examples=examples.of(150))
@given(st.binary(max_size=200), st.integers(0, 1 << 60))
def test_arbitrary_bytes_crash_nothing(data, position):
    check(data, position=position)


@settings(max_examples=examples.of(200), deadline=None)
@given(st.data())
def test_changed_bytes_crash_nothing(data):
    """Half of the time with checksums that fit what was changed."""
    kinds = [
        scripts.data(0, b"a", b"b"),
        of(2, A),
        abort(3, A),
        commit(4, A),
        scripts.data(5, b"c", b"d", deltas=(0, 3)),
        messages.message(9, b"old", magic=1, timestamp=scripts.NOW_MS),
    ]
    held = [bytearray(each) for each in kinds]
    victim = data.draw(st.integers(0, len(held) - 1))
    changed = held[victim]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(21, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        fixed = messages.rechecked if victim == 5 else batches.rechecked
        held[victim] = bytearray(fixed(changed))
    whole = b"".join(bytes(each) for each in held)
    kept = data.draw(st.integers(0, len(whole)))
    aborted = data.draw(st.sampled_from([(), ((1, 2),), ((1, 0), (2, 5))]))
    check(whole[:kept], position=data.draw(st.integers(0, 6)), aborted=aborted)


# The opposite flow


LOCAL, THEIRS, STRANGER = (50, 0), (60, 0), (70, 0)
KNOWN = {-1: False, LOCAL[0]: False, THEIRS[0]: True}


def written(base, producer, *values):
    return scripts.data(base, *values or (b"v",), producer=producer)


def test_what_the_opposite_flow_wrote_is_not_copied_back():
    found = scan(
        written(0, LOCAL),
        written(1, THEIRS),
        scripts.data(2, b"x"),
        written(3, THEIRS),
        opposite=KNOWN,
    )
    assert (bases(found), found.position, found.unresolved_producers) == ([0, 2], 4, ())
    assert found.size == sum(len(each.batch) for each in found.batches)


def test_where_no_flow_leads_back_nobody_is_a_stranger():
    found = scan(written(0, STRANGER), written(1, THEIRS))
    assert (bases(found), found.unresolved_producers) == ([0, 1], ())


def test_a_stranger_ends_it_and_those_that_follow_are_named_once():
    found = scan(
        written(0, LOCAL),
        written(1, STRANGER),
        written(2, THEIRS),
        written(3, (71, 0)),
        written(4, STRANGER),
        opposite=KNOWN,
    )
    assert (bases(found), found.position, found.unresolved_producers) == ([0], 1, (70, 71))
    assert found.obstacle is None


def test_a_stranger_behind_the_position_alone_counts():
    found = scan(written(0, STRANGER), written(1, LOCAL), position=1, opposite=KNOWN)
    assert (bases(found), found.unresolved_producers) == ([1], ())


def test_damage_behind_a_stranger_is_found_when_its_turn_comes():
    cut = bytearray(written(2, LOCAL))
    cut[16] = 9  # of a format that nobody knows
    found = scan(written(1, STRANGER), bytes(cut), position=1, opposite=KNOWN)
    assert (found.unresolved_producers, found.obstacle) == ((70,), None)


def test_of_their_transactions_markers_are_read_too():
    """An id of theirs that ended a transaction by aborting it may go on behind that."""
    theirs = scripts.data(0, b"v", producer=THEIRS, transactional=True)
    found = scan(
        theirs, abort(1, THEIRS), of(2, LOCAL), commit(3, LOCAL), aborted=[(60, 0)], opposite=KNOWN
    )
    assert (bases(found), found.position) == ([2], 4)


def test_a_marker_is_read_over_without_asking_whose_it_is():
    """The opposite flow takes a partition with a marker, and only then stores its id."""
    found = scan(commit(0, STRANGER), written(1, LOCAL), opposite=KNOWN)
    assert (bases(found), found.unresolved_producers) == ([1], ())
    found = scan(written(0, STRANGER), commit(1, (71, 0)), written(2, (72, 0)), opposite=KNOWN)
    assert found.unresolved_producers == (70, 72)
