"""OffsetStorageWriterTest, and that nothing is lost whatever fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.core.offsets import pending_offsets
from tests.support import examples


def put(pending, partition, offset):
    pending.put(b"p%d" % partition, None if offset is None else b"%d" % offset)


@pytest.fixture
def pending():
    return pending_offsets.PendingOffsets("c")


def test_offsets_are_flushed_as_they_are_stored(pending):
    put(pending, 1, 1)
    put(pending, 1, 2)
    put(pending, 2, None)
    flush = pending.begin()
    assert dict(flush.records) == {b"p1": b"2", b"p2": None}
    assert pending.flushing
    assert pending.succeeded(flush.number)
    assert not pending.flushing
    assert pending.begin() is None


def test_nothing_to_flush_is_no_flush(pending):
    assert pending.begin() is None
    assert not pending.flushing
    assert pending.empty


def test_two_flushes_at_once_are_a_mistake(pending):
    put(pending, 1, 1)
    pending.begin()
    put(pending, 1, 2)
    with pytest.raises(AssertionError, match="being flushed already"):
        pending.begin()


def test_what_a_failed_flush_took_waits_again_under_what_is_newer(pending):
    put(pending, 1, 1)
    put(pending, 2, 1)
    first = pending.begin()
    put(pending, 1, 2)
    assert pending.failed(first.number)
    assert dict(pending.begin().records) == {b"p1": b"2", b"p2": b"1"}


def test_news_of_a_flush_that_was_given_up_changes_nothing(pending):
    put(pending, 1, 1)
    first = pending.begin()
    assert pending.failed(first.number)
    assert not pending.succeeded(first.number)
    second = pending.begin()
    assert not pending.succeeded(first.number)
    assert not pending.failed(first.number)
    assert pending.flushing
    assert pending.succeeded(second.number)


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "begin", "ok", "fail", "late"]), st.integers(0, 2)),
    max_size=40,
)


@settings(max_examples=examples.of(80))
@given(STEPS)
def test_in_the_end_the_store_has_the_newest_of_everything(steps):
    pending = pending_offsets.PendingOffsets("c")
    store: dict[bytes, bytes | None] = {}
    newest: dict[bytes, bytes | None] = {}
    flush: pending_offsets.Flush | None = None
    late: pending_offsets.Flush | None = None

    def succeed(done: pending_offsets.Flush) -> None:
        store.update(done.records)
        assert pending.succeeded(done.number)

    for at, (kind, partition) in enumerate(steps):
        if kind == "put":
            put(pending, partition, at)
            newest[b"p%d" % partition] = b"%d" % at
        elif kind == "begin" and flush is None:
            flush = pending.begin()
        elif kind == "ok" and flush is not None:
            succeed(flush)
            flush = None
        elif kind == "fail" and flush is not None:
            assert pending.failed(flush.number)
            flush, late = None, flush
        elif kind == "late" and late is not None:
            assert not pending.succeeded(late.number)
        pending.check_invariants()
    if flush is not None:
        succeed(flush)
    flush = pending.begin()
    if flush is not None:
        succeed(flush)
    assert store == newest
