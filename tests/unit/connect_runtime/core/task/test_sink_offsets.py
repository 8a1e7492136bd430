from __future__ import annotations

from connect_runtime.base import ids
from connect_runtime.core.task import sink_offsets

A, B = ids.TopicPartition("t", 0), ids.TopicPartition("t", 1)


def begun():
    offsets = sink_offsets.SinkOffsets()
    offsets.assign({A: 5, B: 0})
    return offsets


def test_what_was_delivered_may_be_committed_once():
    offsets = begun()
    offsets.deliver(A, 8)
    assert offsets.current() == {A: 8, B: 0}
    wanted, wrong = offsets.to_commit(offsets.current(), offsets.current())
    assert (wanted, wrong) == ({A: 8, B: 0}, [])
    offsets.committed(wanted)
    assert offsets.to_commit(offsets.current(), offsets.current()) == ({}, [])
    offsets.check_invariants()


def test_a_task_may_commit_less_and_never_more():
    offsets = begun()
    offsets.deliver(A, 8)
    asked = offsets.current()
    assert offsets.to_commit({A: 6}, asked) == ({A: 6, B: 0}, [])
    assert offsets.to_commit({A: 6}, {A: 8}) == ({A: 6}, [])
    wanted, wrong = offsets.to_commit(
        {A: 9, ids.TopicPartition("u", 0): 1, "t-0": 3, B: True}, asked
    )
    assert wanted == {}
    assert len(wrong) == 4
    assert "beyond 8" in wrong[0]


def test_after_a_failed_commit_it_goes_on_where_the_last_one_was():
    offsets = begun()
    offsets.deliver(A, 8)
    assert offsets.back_to_committed() == {A: 5, B: 0}
    assert offsets.current() == {A: 5, B: 0}


def test_what_is_rewound_counts_as_committed():
    offsets = begun()
    offsets.rewind({A: 2, ids.TopicPartition("u", 0): 7})
    assert offsets.current() == {A: 2, B: 0}
    assert offsets.to_commit({A: 2}, offsets.current()) == ({}, [])


def test_of_what_is_revoked_nothing_more_is_known():
    offsets = begun()
    offsets.revoke([A])
    offsets.deliver(A, 9)
    offsets.committed({A: 9})
    assert offsets.assigned == {B}
    offsets.check_invariants()
