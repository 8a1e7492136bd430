from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import record_batch
from mm2.replication import outbound_batches, produce_concurrency
from mm2.replication.in_flight_batches import InFlightBatches
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.produce_concurrency import ProduceConcurrency
from mm2.replication.read_committed_batch_filter import SourceBatch
from mm2.replication.recovery_instructions import ProducerIdentity
from tests.fakes import batches, copying
from tests.fakes.batches import Record, Stamp


def answered(seen, elapsed_s, *, times, under_way=1):
    for _ in range(times):
        seen.record_response(elapsed_s, in_flight=under_way)
    return seen.connections


def test_a_broker_begins_with_one_lane_and_one_slow_answer_changes_nothing():
    seen = ProduceConcurrency()
    assert seen.connections == 1
    assert answered(seen, 0.1, times=1) == 1


def test_slow_answers_open_all_lanes_and_fast_ones_close_them():
    seen = ProduceConcurrency()
    assert answered(seen, 0.02, times=50) == produce_concurrency.PRODUCE_CONNECTIONS_MAX
    assert answered(seen, 0.001, times=50) == 1


def test_between_slow_and_fast_it_stays_as_it_is():
    seen = ProduceConcurrency()
    assert answered(seen, 0.006, times=200) == 1
    answered(seen, 0.02, times=50)
    assert answered(seen, 0.006, times=200) == produce_concurrency.PRODUCE_CONNECTIONS_MAX


def test_requests_that_wait_behind_each_other_share_the_time():
    assert answered(ProduceConcurrency(), 0.02, times=200, under_way=5) == 1


NOW_MS = 1_790_000_000_000
PRODUCER = ProducerIdentity(id=4711, epoch=3)


def out(source, *, records=1, attributes=0, count=None):
    """A source batch passed through; `count` makes it claim other than what it holds."""
    data = bytearray(
        batches.data(
            [Record(value=b"v", timestamp=NOW_MS + source + at) for at in range(records)],
            Stamp(
                base_offset=source,
                leader_epoch=6,
                producer_id=99,
                producer_epoch=1,
                base_sequence=5,
                attributes=attributes,
            ),
        )
    )
    header = record_batch.read_batch_header(memoryview(data))
    if count is not None:
        header = header._replace(record_count=count)
    return outbound_batches.create_pass_through_batch(
        SourceBatch(header, memoryview(data), source, "")
    )


class Sending(InFlightBatches):
    """Holds what it sends, as whoever fetched it would have."""

    def set_producer_state_of_batch(self, out, *, transactional):
        self._held.reserve(out.held_bytes)
        return super().set_producer_state_of_batch(out, transactional=transactional)


def begun(*, target=500):
    held = MemoryBudget(limit_bytes=100_000)
    sending = Sending(held)
    sending.begin_epoch(PRODUCER, target=target)
    return sending, held


def send(sending, *found, transactional=False):
    """Their headers as they go out."""
    return [
        record_batch.read_batch_header(
            sending.set_producer_state_of_batch(each, transactional=transactional)
        )
        for each in found
    ]


def test_batches_go_out_in_order_stamped_as_ours():
    sending, _ = begun()
    headers = send(sending, out(10, records=3), out(13, records=2))
    assert [(each.producer_id, each.producer_epoch) for each in headers] == [(4711, 3)] * 2
    assert [each.base_sequence for each in headers] == [0, 3]
    assert [each.base_offset for each in headers] == [0, 0]
    sending.check_invariants()


def test_what_is_sent_says_where_it_is_to_stand():
    sending, _ = begun()
    headers = send(sending, out(10, records=3), out(17, records=2))
    one, two = sending.pop_oldest(), sending.pop_oldest()
    assert (one.batch.source, one.batch.next_source, one.target, one.batch.records) == (
        10,
        13,
        500,
        3,
    )
    assert (two.batch.source, two.batch.next_source, two.target, two.batch.records) == (
        17,
        19,
        503,
        2,
    )
    assert (one.batch.oldest_timestamp, one.batch.max_timestamp) == (NOW_MS + 10, NOW_MS + 12)
    assert (one.size, one.batch.source_epoch) == (headers[0].size, 6)
    assert one.crc == headers[0].crc
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
    sending, _ = begun()
    (header,) = send(sending, out(10, attributes=attributes), transactional=transactional)
    assert header.attributes == kept | (record_batch.TRANSACTIONAL if transactional else 0)


def test_which_way_a_batch_went_changes_neither_sequence_nor_place():
    sending, _ = begun()
    made = copying.outgoing_of(13, 17, 21)
    headers = send(sending, out(10, records=3), made, out(22))
    assert [each.base_sequence for each in headers] == [0, 3, 6]
    assert [each.record_count for each in headers] == [3, 3, 1]
    assert [sending.pop_oldest().target for _ in range(3)] == [500, 503, 506]
    sending.check_invariants()


def test_sequences_wrap_after_31_bits():
    sending, _ = begun()
    headers = send(sending, out(0, count=2**31 - 1), out(2**31, records=3), out(2**32))
    assert [each.base_sequence for each in headers] == [0, 2**31 - 1, 2]


def test_a_new_epoch_begins_with_sequence_zero():
    sending, _ = begun()
    send(sending, out(10, records=3))
    sending.pop_oldest()
    sending.begin_epoch(ProducerIdentity(id=4711, epoch=4), target=600)
    (header,) = send(sending, out(13))
    assert (header.producer_epoch, header.base_sequence) == (4, 0)
    assert sending.pop_oldest().target == 600


def test_a_new_epoch_needs_an_empty_window():
    sending, _ = begun()
    send(sending, out(10))
    with pytest.raises(AssertionError):
        sending.begin_epoch(PRODUCER, target=600)


def test_no_more_are_in_flight_than_a_broker_remembers():
    sending, _ = begun()
    found = []
    for at in range(5):
        found.append(sending.is_full)
        send(sending, out(at))
    assert found == [False] * 5
    assert sending.is_full
    sending.check_invariants()
    sending.pop_oldest()
    assert not sending.is_full


def test_a_sixth_batch_in_flight_breaks_the_invariant():
    sending, _ = begun()
    send(sending, *[out(at) for at in range(6)])
    with pytest.raises(AssertionError):
        sending.check_invariants()


def test_a_batch_that_goes_back_in_the_source_breaks_the_invariant():
    sending, _ = begun()
    send(sending, out(10, records=3), out(12))
    with pytest.raises(AssertionError):
        sending.check_invariants()


def test_offsets_that_somebody_else_took_move_what_is_in_flight():
    sending, _ = begun()
    send(sending, out(10, records=3), out(13))
    sending.shift_target_offsets(7)
    send(sending, out(14))
    sending.check_invariants()
    assert [sending.pop_oldest().target for _ in range(3)] == [507, 510, 511]
    assert sending.next_target == 512


def test_a_batch_that_landed_where_it_should_stands_there():
    sending, _ = begun()
    send(sending, out(10))
    assert sending.check_stored_offset(sending.pop_oldest(), 500, is_only_writer=True) == 500
    assert sending.next_target == 501


@pytest.mark.parametrize("alone", [True, False])
def test_a_log_that_went_back_is_believed_by_nobody(alone):
    sending, _ = begun()
    send(sending, out(10))
    assert sending.check_stored_offset(sending.pop_oldest(), 499, is_only_writer=alone) is None


def test_only_where_others_write_may_a_batch_land_further_on():
    sending, _ = begun()
    send(sending, out(10), out(11), out(12))
    assert sending.check_stored_offset(sending.pop_oldest(), 504, is_only_writer=True) is None
    assert sending.check_stored_offset(sending.pop_oldest(), 505, is_only_writer=False) == 505
    assert sending.pop_oldest().target == 506
    assert sending.next_target == 507


def test_the_oldest_in_flight_says_where_and_when():
    sending, _ = begun()
    assert (sending.oldest_timestamp, sending.oldest_source_offset) == (None, None)
    send(sending, out(10), out(11))
    assert (sending.oldest_timestamp, sending.oldest_source_offset) == (NOW_MS + 10, 10)
    sending.pop_oldest()
    assert (sending.oldest_timestamp, sending.oldest_source_offset) == (NOW_MS + 11, 11)


@given(st.lists(st.sampled_from(["send", "pop", "shift"]), max_size=60))
def test_what_is_popped_releases_what_it_held_whatever_happens(steps):
    sending, held = begun()
    in_flight, source = [], 0
    for step in steps:
        if step == "send" and not sending.is_full:
            found = out(source, records=1 + source % 3)
            send(sending, found)
            in_flight.append(found.held_bytes)
            source = found.next_source
        elif step == "pop" and in_flight:
            assert sending.pop_oldest().batch.held_bytes == in_flight.pop(0)
        elif step == "shift":
            sending.shift_target_offsets(2)
        sending.check_invariants()
        assert sending.batch_count == len(in_flight)
        assert held.held_bytes == sum(in_flight)
