from __future__ import annotations

from mm2.sandbox.compared_records import CondensedLog, RawRecord, RecordChunk

Log = CondensedLog


def raw(key: bytes | None, value: bytes | None, stamp: int = 5) -> RawRecord:
    return (key, value, None, (1, stamp))


def log(*records: tuple[int, RawRecord]) -> CondensedLog:
    return Log.from_chunks(RecordChunk([offset], [content], 10) for offset, content in records)


def test_keys_contents_and_tombstones_are_told_apart():
    found = log(
        (3, raw(b"a", b"1")), (7, raw(b"a", b"2")), (8, raw(None, b"1")), (9, raw(b"b", None))
    )
    assert list(found.offsets) == [3, 7, 8, 9]
    assert found.get_key_hash(0) == found.get_key_hash(1) != found.get_key_hash(3)
    assert found.get_key_hash(2) == b""
    assert len({found.get_content_hash(index) for index in range(4)}) == 4
    assert [found.is_tombstone(index) for index in range(4)] == [False, False, False, True]
    assert found.find_last_index_per_key() == {found.get_key_hash(0): 1, found.get_key_hash(3): 3}
    assert found.size == 40


def test_a_timestamp_is_content_and_an_empty_value_is_no_tombstone():
    one, other, empty = (
        log((0, raw(b"a", b"1"))),
        log((0, raw(b"a", b"1", 6))),
        log((0, raw(b"a", b""))),
    )
    assert one.get_content_hash(0) != other.get_content_hash(0)
    assert not empty.is_tombstone(0)


def test_offsets_are_found_or_not():
    found = log((3, raw(b"a", b"1")), (7, raw(b"a", b"2")))
    assert [found.find_index(offset) for offset in (2, 3, 5, 7, 8)] == [None, 0, None, 1, None]


def test_joining_keeps_the_order_and_takes_nothing_twice():
    before = log((0, raw(b"a", b"1")), (1, raw(b"b", b"1")), (2, raw(b"a", b"2")))
    now = log((1, raw(b"b", b"1")), (2, raw(b"a", b"2")), (5, raw(b"c", b"1")))
    both = before.merge(now)
    assert list(both.offsets) == [0, 1, 2, 5]
    assert [both.get_content_hash(index) for index in range(4)] == [
        before.get_content_hash(0),
        before.get_content_hash(1),
        before.get_content_hash(2),
        now.get_content_hash(2),
    ]


def test_ranges_are_left_out():
    found = log(*((offset, raw(b"k", b"%d" % offset)) for offset in range(10)))
    assert list(found.exclude_ranges([(2, 4), (8, 20)]).offsets) == [0, 1, 4, 5, 6, 7]


def test_walked_along_it_has_an_item_for_each_record():
    count = 10_000
    found = log(*((offset, raw(b"k", b"%d" % offset)) for offset in range(count)))
    chunks = list(found.iterate_record_chunks())
    assert [offset for chunk in chunks for offset in chunk.offsets] == list(range(count))
    contents = [content for chunk in chunks for content in chunk.contents]
    assert len({value for _, value, *_ in contents}) == count
    assert len({key for key, *_ in contents}) == 1
