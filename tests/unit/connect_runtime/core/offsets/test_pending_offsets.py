"""OffsetStorageWriterTest, and that nothing is lost whatever fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.core.offsets import pending_offsets
from connect_runtime.core.state import offset_records

KEY = b'["c",{"p":1}]'


@pytest.fixture
def pending():
    return pending_offsets.PendingOffsets("c")


def test_offsets_are_flushed_as_they_are_stored(pending):
    pending.put({"p": 1}, {"o": 1})
    pending.put({"p": 1}, {"o": 2})
    pending.put(None, None)
    flush = pending.begin()
    assert dict(flush.records) == {KEY: b'{"o":2}', b'["c",null]': None}
    assert pending.flushing
    assert pending.succeeded(flush.number)
    assert not pending.flushing
    assert pending.begin() is None


def test_a_partition_goes_on_under_the_key_it_is_known_by(pending):
    known = b'["c",{"b":2,"a":1}]'
    pending.put({"a": 1, "b": 2}, {"o": 1}, key=known)
    assert dict(pending.begin().records) == {known: b'{"o":1}'}


def test_nothing_to_flush_is_no_flush(pending):
    assert pending.begin() is None
    assert not pending.flushing
    assert pending.empty


def test_two_flushes_at_once_are_a_mistake(pending):
    pending.put({"p": 1}, {"o": 1})
    pending.begin()
    pending.put({"p": 1}, {"o": 2})
    with pytest.raises(AssertionError, match="being flushed already"):
        pending.begin()


def test_what_a_failed_flush_took_waits_again_under_what_is_newer(pending):
    pending.put({"p": 1}, {"o": 1})
    pending.put({"p": 2}, {"o": 1})
    first = pending.begin()
    pending.put({"p": 1}, {"o": 2})
    assert pending.failed(first.number)
    assert dict(pending.begin().records) == {KEY: b'{"o":2}', b'["c",{"p":2}]': b'{"o":1}'}


def test_news_of_a_flush_that_was_given_up_changes_nothing(pending):
    pending.put({"p": 1}, {"o": 1})
    first = pending.begin()
    assert pending.failed(first.number)
    assert not pending.succeeded(first.number)
    second = pending.begin()
    assert not pending.succeeded(first.number)
    assert not pending.failed(first.number)
    assert pending.flushing
    assert pending.succeeded(second.number)


def test_what_cannot_be_stored_is_told_at_once_and_holds_up_nothing(pending):
    pending.put({"p": 1}, {"o": 1})
    with pytest.raises(offset_records.BadOffset):
        pending.put({"p": 1}, {"o": []})
    with pytest.raises(offset_records.BadOffset):
        pending.put({"p": {}}, {"o": 1})
    assert dict(pending.begin().records) == {KEY: b'{"o":1}'}


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "begin", "ok", "fail", "late"]), st.integers(0, 2)),
    max_size=40,
)


@settings(max_examples=80)
@given(STEPS)
def test_in_the_end_the_store_has_the_newest_of_everything(steps):
    pending, store, newest, flush, late = pending_offsets.PendingOffsets("c"), {}, {}, None, None

    def succeed():
        store.update(flush.records)
        assert pending.succeeded(flush.number)

    for at, (kind, partition) in enumerate(steps):
        if kind == "put":
            pending.put({"p": partition}, {"o": at})
            newest[partition] = {"o": at}
        elif kind == "begin" and flush is None:
            flush = pending.begin()
        elif kind == "ok" and flush is not None:
            succeed()
            flush = None
        elif kind == "fail" and flush is not None:
            assert pending.failed(flush.number)
            flush, late = None, flush
        elif kind == "late" and late is not None:
            assert not pending.succeeded(late.number)
        pending.check_invariants()
    if flush is not None:
        succeed()
    flush = pending.begin()
    if flush is not None:
        succeed()
    stored = {
        offset_records.decode_key(key).partition["p"]: offset_records.decode_value(value)
        for key, value in store.items()
    }
    assert stored == newest
