"""SubmittedRecordsTest, and a table that says the same in the plainest words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.storage.offset_topic import OffsetPrimitive
from connect_runtime.worker import submitted_offsets
from connect_runtime.worker.submitted_offsets import (
    CommittableOffsets,
    SubmittedRecord,
    SubmittedRecords,
)
from tests.support import examples

P1, P2, P3 = {"p": 1}, {"p": 2}, {"p": 3}


def shape(taken):
    """(committable, waiting, partitions, most in one)"""
    return (
        taken.committable_records,
        taken.waiting_records,
        taken.waiting_partitions,
        taken.stuck_records,
    )


def test_nothing_submitted_nothing_committable():
    taken = SubmittedRecords().take_committable_offsets()
    assert taken == submitted_offsets.NOTHING_COMMITTABLE
    assert taken.is_empty


def test_without_acknowledgements_nothing_is_committable():
    offsets = SubmittedRecords()
    for number in range(3):
        for partition in (P1, P2, P3):
            offsets.submit(partition, {"o": number})
    taken = offsets.take_committable_offsets()
    assert taken.offsets == ()
    assert shape(taken) == (0, 9, 3, 3)
    assert not taken.is_empty
    assert offsets.unacked == 9


def test_what_comes_later_waits_for_what_came_before_in_its_own_partition():
    offsets = SubmittedRecords()
    first1, second1 = offsets.submit(P1, {"o": 1}), offsets.submit(P1, {"o": 2})
    first2, second2 = offsets.submit(P2, {"o": 1}), offsets.submit(P2, {"o": 2})
    offsets.ack(second1)
    assert offsets.take_committable_offsets().offsets == ()
    offsets.ack(first2)
    taken = offsets.take_committable_offsets()
    assert taken.offsets == ((P2, {"o": 1}),)
    assert shape(taken) == (1, 3, 2, 2)
    assert taken.stuck_partition == P1
    offsets.ack(first1)
    offsets.ack(second2)
    taken = offsets.take_committable_offsets()
    [(_, newest), _] = taken.offsets
    assert newest is not None
    assert dict(newest) == {"o": 2}
    assert taken.offsets == ((P1, {"o": 2}), (P2, {"o": 2}))
    assert shape(taken) == (3, 0, 0, 0)
    assert offsets.take_committable_offsets() == submitted_offsets.NOTHING_COMMITTABLE


def test_a_record_is_dropped_once():
    offsets = SubmittedRecords()
    first, second = offsets.submit(P1, {"o": 1}), offsets.submit(P1, {"o": 2})
    offsets.ack(first)
    assert offsets.drop(second) is True
    assert offsets.drop(second) is False
    offsets.check_invariants()
    assert offsets.unacked == 0
    assert offsets.take_committable_offsets().offsets == ((P1, {"o": 1}),)
    assert offsets.drop(first) is False


def test_a_dropped_record_holds_nobody_up_and_is_not_committed():
    offsets = SubmittedRecords()
    first, second = offsets.submit(P1, {"o": 1}), offsets.submit(P1, {"o": 2})
    assert offsets.drop(first)
    offsets.ack(first)  # comes too late to mean anything
    assert offsets.unacked == 1
    offsets.ack(second)
    offsets.ack(second)
    assert offsets.unacked == 0
    assert offsets.take_committable_offsets().offsets == ((P1, {"o": 2}),)


def test_partition_and_offset_may_be_nothing():
    offsets = SubmittedRecords()
    offsets.ack(offsets.submit(None, None))
    taken = offsets.take_committable_offsets()
    assert taken.offsets == ((None, None),)
    assert not taken.is_empty


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": []}, {"a": []}, True),
        ({}, None, False),
    ],
)
def test_which_partitions_are_the_same(one, other, same):
    offsets = SubmittedRecords()
    offsets.submit(one, {"o": 1})
    offsets.submit(other, {"o": 2})
    assert offsets.take_committable_offsets().waiting_partitions == (1 if same else 2)


def test_newer_offsets_win_over_those_that_were_taken_and_not_committed():
    offsets = SubmittedRecords()
    tickets = [offsets.submit(P1, {"o": 1}), offsets.submit(P2, {"o": 1})]
    for each in tickets:
        offsets.ack(each)
    older = offsets.take_committable_offsets()
    offsets.ack(offsets.submit(P1, {"o": 2}))
    offsets.submit(P3, {"o": 1})
    merged = older.merge_newer_offsets(offsets.take_committable_offsets())
    assert merged.offsets == ((P1, {"o": 2}), (P2, {"o": 1}))
    assert shape(merged) == (3, 1, 1, 1)
    assert submitted_offsets.NOTHING_COMMITTABLE.merge_newer_offsets(merged) == merged


STEPS = st.lists(
    st.tuples(st.sampled_from("sadc"), st.integers(0, 2), st.integers(0, 30)), max_size=60
)


def numbers(
    taken: CommittableOffsets,
) -> dict[OffsetPrimitive, OffsetPrimitive]:
    """Of each partition, the offset."""
    found = {}
    for partition, offset in taken.offsets:
        assert partition is not None
        assert offset is not None
        found[partition["p"]] = offset["o"]
    return found


@settings(max_examples=examples.of(100))
@given(STEPS)
def test_only_what_has_no_hole_before_it_is_committed(steps):
    offsets = SubmittedRecords()
    tickets: list[tuple[int, SubmittedRecord]] = []
    log: dict[int, list[list[Any]]] = {}
    for kind, partition, pick in steps:
        if kind == "s":
            tickets.append((partition, offsets.submit({"p": partition}, {"o": len(tickets)})))
            log.setdefault(partition, []).append([len(tickets) - 1, "waits"])
        elif kind in "ad" and tickets:
            number = pick % len(tickets)
            partition, ticket = tickets[number]
            entry = next((each for each in log[partition] if each[0] == number), None)
            if kind == "a":
                offsets.ack(ticket)
                if entry is not None:
                    entry[1] = "stored"
            else:
                assert offsets.drop(ticket) is (entry is not None)
                if entry is not None:
                    log[partition].remove(entry)
        elif kind == "c":
            wanted = {}
            for each, entries in log.items():
                while entries and entries[0][1] == "stored":
                    wanted[each] = entries.pop(0)[0]
            assert numbers(offsets.take_committable_offsets()) == wanted
        offsets.check_invariants()
        assert offsets.unacked == sum(e[1] == "waits" for each in log.values() for e in each)
