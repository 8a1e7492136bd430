from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core.copy import budget, instructions, source_batches, window
from mm2.formats import record_batch
from tests.fakes import batches

NOW_MS = 1_790_000_000_000
PRODUCER = instructions.ProducerIdentity(id=4711, epoch=3)


def copyable(source, *, records=1, attributes=0, count=None):
    """`count` makes the header claim other than what is in the batch."""
    data = bytearray(
        batches.data(
            [batches.Record(value=b"v", timestamp=NOW_MS + source + at) for at in range(records)],
            batches.Stamp(
                base_offset=source,
                leader_epoch=6,
                producer_id=99,
                producer_epoch=1,
                base_sequence=5,
                attributes=attributes,
            ),
        )
    )
    header = record_batch.read_header(memoryview(data))
    if count is not None:
        header = header._replace(record_count=count)
    return source_batches.Copyable(header, memoryview(data))


def begun(*found, target=500, limit=100_000):
    held = budget.Budget(limit_bytes=limit)
    sending = window.Window(held)
    sending.begin(PRODUCER, target=target)
    for each in found:
        sending.push(each, old=False)
    return sending, held


def test_batches_go_out_in_order_stamped_as_ours():
    sending, _ = begun(copyable(10, records=3), copyable(13, records=2))
    headers = [record_batch.read_header(sending.send(transactional=False)) for _ in range(2)]
    assert [(each.producer_id, each.producer_epoch) for each in headers] == [(4711, 3)] * 2
    assert [each.base_sequence for each in headers] == [0, 3]
    assert [each.base_offset for each in headers] == [0, 0]
    sending.check_invariants()


def test_what_is_sent_says_where_it_is_to_stand():
    sending, _ = begun(copyable(10, records=3), copyable(17, records=2))
    data = [sending.send(transactional=False) for _ in range(2)]
    one, two = sending.pop(), sending.pop()
    assert (one.source, one.next_source, one.target, one.records) == (10, 13, 500, 3)
    assert (two.source, two.next_source, two.target, two.records) == (17, 19, 503, 2)
    assert (one.base_timestamp, one.max_timestamp) == (NOW_MS + 10, NOW_MS + 12)
    assert (one.size, one.source_epoch) == (len(data[0]), 6)
    assert one.crc == record_batch.read_header(data[0]).crc
    assert sending.next_target == 505


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        (0x00, 0x00),
        (record_batch.TRANSACTIONAL, 0x00),
        (record_batch.DELETE_HORIZON | record_batch.TRANSACTIONAL, 0x00),
        (0x04, 0x04),
        (0x03 | record_batch.TRANSACTIONAL, 0x03),
    ],
    ids=hex,
)
def test_the_sources_transaction_is_not_copied_and_the_codec_is(attributes, kept, transactional):
    sending, _ = begun(copyable(10, attributes=attributes))
    header = record_batch.read_header(sending.send(transactional=transactional))
    assert header.attributes == kept | (record_batch.TRANSACTIONAL if transactional else 0)


def test_sequences_wrap_after_31_bits():
    sending, _ = begun(copyable(0, count=2**31 - 1), copyable(2**31, records=3), copyable(2**32))
    sequences = [
        record_batch.read_header(sending.send(transactional=False)).base_sequence for _ in range(3)
    ]
    assert sequences == [0, 2**31 - 1, 2]


def test_a_new_epoch_begins_with_sequence_zero():
    sending, _ = begun(copyable(10, records=3))
    sending.send(transactional=False)
    sending.pop()
    sending.begin(instructions.ProducerIdentity(id=4711, epoch=4), target=600)
    sending.push(copyable(13), old=False)
    header = record_batch.read_header(sending.send(transactional=False))
    assert (header.producer_epoch, header.base_sequence) == (4, 0)
    assert sending.pop().target == 600


def test_a_new_epoch_needs_an_empty_window():
    sending, _ = begun(copyable(10))
    with pytest.raises(AssertionError):
        sending.begin(PRODUCER, target=600)
    sending.send(transactional=False)
    with pytest.raises(AssertionError):
        sending.begin(PRODUCER, target=600)


def test_no_more_are_in_flight_than_a_broker_remembers():
    sending, _ = begun(*[copyable(at) for at in range(6)])
    found = []
    for _ in range(5):
        found.append(sending.full)
        sending.send(transactional=False)
    assert found == [False] * 5
    assert sending.full
    sending.check_invariants()
    sending.pop()
    assert not sending.full


def test_a_sixth_batch_in_flight_breaks_the_invariant():
    sending, _ = begun(*[copyable(at) for at in range(6)])
    for _ in range(6):
        sending.send(transactional=False)
    with pytest.raises(AssertionError):
        sending.check_invariants()


def test_offsets_that_somebody_else_took_move_what_is_in_flight():
    sending, _ = begun(copyable(10, records=3), copyable(13), copyable(14))
    for _ in range(2):
        sending.send(transactional=False)
    sending.shift(7)
    sending.send(transactional=False)
    sending.check_invariants()
    assert [sending.pop().target for _ in range(3)] == [507, 510, 511]
    assert sending.next_target == 512


def test_dropping_the_queue_tells_where_to_fetch_again():
    sending, held = begun(copyable(10), copyable(11), copyable(12))
    in_flight = len(sending.send(transactional=False))
    first = sending.drop_queue()
    assert first.base_offset == 11
    assert (sending.queued, sending.queued_bytes, sending.in_flight) == (0, 0, 1)
    assert held.held_bytes == in_flight
    assert sending.drop_queue() is None


def test_the_head_of_the_queue_says_its_size_and_age():
    sending, _ = begun()
    large, small = copyable(10, records=9), copyable(19)
    sending.push(large, old=True)
    sending.push(small, old=False)
    assert (sending.head_is_old, sending.next_size) == (True, large.header.size)
    sending.send(transactional=True)
    assert (sending.head_is_old, sending.next_size) == (False, small.header.size)


def test_the_next_batchs_age_is_unknown_when_there_is_none():
    sending, _ = begun()
    ages = [sending.next_is_old]
    for old in (True, False):
        sending.push(copyable(10), old=old)
        ages.append(sending.next_is_old)
        sending.drop_queue()
    assert ages == [None, True, False]


def test_a_batch_that_landed_where_it_should_stands_there():
    sending, _ = begun(copyable(10), copyable(11))
    sending.send(transactional=False)
    assert sending.landed(sending.pop(), 500, alone=True) == 500
    assert sending.next_target == 501


@pytest.mark.parametrize("alone", [True, False])
def test_a_log_that_went_back_is_believed_by_nobody(alone):
    sending, _ = begun(copyable(10))
    sending.send(transactional=False)
    assert sending.landed(sending.pop(), 499, alone=alone) is None


def test_only_where_others_write_may_a_batch_land_further_on():
    sending, _ = begun(copyable(10), copyable(11), copyable(12))
    for _ in range(3):
        sending.send(transactional=False)
    assert sending.landed(sending.pop(), 504, alone=True) is None
    assert sending.landed(sending.pop(), 505, alone=False) == 505
    assert sending.pop().target == 506
    assert sending.next_target == 507


def test_the_oldest_is_in_flight_before_it_is_in_the_queue():
    sending, _ = begun()
    assert (sending.oldest_timestamp, sending.oldest_source) == (None, None)
    sending.push(copyable(10), old=False)
    sending.push(copyable(11), old=False)
    assert (sending.oldest_timestamp, sending.oldest_source) == (NOW_MS + 10, None)
    sending.send(transactional=False)
    assert (sending.oldest_timestamp, sending.oldest_source) == (NOW_MS + 10, 10)
    sending.pop()
    assert (sending.oldest_timestamp, sending.oldest_source) == (NOW_MS + 11, None)


@given(st.lists(st.sampled_from(["push", "send", "pop", "drop", "shift"]), max_size=60))
def test_held_bytes_are_those_queued_or_in_flight_whatever_happens(steps):
    sending, held = begun()
    queued, in_flight, source = [], [], 0
    for step in steps:
        if step == "push":
            found = copyable(source, records=1 + source % 3)
            sending.push(found, old=False)
            queued.append(found.header.size)
            source += found.header.record_count
        elif step == "send" and queued and not sending.full:
            sending.send(transactional=False)
            in_flight.append(queued.pop(0))
        elif step == "pop" and in_flight:
            assert sending.pop().size == in_flight.pop(0)
        elif step == "drop":
            sending.drop_queue()
            queued.clear()
        elif step == "shift":
            sending.shift(2)
        sending.check_invariants()
        assert (sending.queued, sending.in_flight) == (len(queued), len(in_flight))
        assert sending.queued_bytes == sum(queued)
        assert held.held_bytes == sum(queued) + sum(in_flight)
