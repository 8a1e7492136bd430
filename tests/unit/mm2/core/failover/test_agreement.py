from __future__ import annotations

import dataclasses

from connect_runtime.base import ids
from mm2.core.failover import agreement, seen
from mm2.core.offsets import log_ends


def mirrored(end, *, copied_to=None, answers=True, pending=0):
    partition = ids.TopicPartition("t", 0)
    return [
        seen.Mirrored(
            partition=partition,
            mirror=partition,
            copied_to=end if copied_to is None else copied_to,
            here=log_ends.Ends(start=0, end=end, pending=pending) if answers else None,
        )
    ]


def test_they_agree_when_the_same_was_seen_for_long_enough():
    found = agreement.Agreement(settle_s=60.0)
    assert not found.look(mirrored(7), 100.0)
    assert not found.look(mirrored(7), 159.0)
    assert found.look(mirrored(7), 160.0)
    assert found.ends == {ids.TopicPartition("t", 0): 7}


def test_an_end_that_moves_begins_it_anew():
    found = agreement.Agreement(settle_s=60.0)
    found.look(mirrored(7), 100.0)
    assert not found.look(mirrored(8), 160.0)
    assert found.look(mirrored(8), 220.0)


def test_lag_begins_it_anew_and_is_told():
    found = agreement.Agreement(settle_s=60.0)
    found.look(mirrored(7), 100.0)
    assert not found.look(mirrored(7, copied_to=5), 130.0)
    assert found.why == "t-0: 2 records to go"
    assert not found.look(mirrored(7), 160.0)
    assert "not for 60 s yet" in found.why


def test_a_transaction_that_is_open_begins_it_anew():
    found = agreement.Agreement(settle_s=0.0)
    assert not found.look(mirrored(7, pending=3), 100.0)
    assert found.why == "t-0: 3 offsets stand behind a transaction that is open"
    assert found.look(mirrored(7), 101.0)


def test_who_does_not_answer_agrees_with_nobody():
    found = agreement.Agreement(settle_s=0.0)
    assert not found.look(mirrored(7, answers=False), 1.0)
    assert "does not answer" in found.why


def test_without_a_time_to_settle_one_look_is_enough():
    assert agreement.Agreement(settle_s=0.0).look(mirrored(7), 1.0)


def test_the_end_that_moved_is_named_as_long_as_they_do_not_settle():
    found = agreement.Agreement(settle_s=60.0)
    found.look(mirrored(7), 100.0)
    assert found.why == "they agree, but not for 60 s yet"
    found.look(mirrored(8), 130.0)
    moved = "t-0 ended at 7 on both, and ends at 8 now: somebody writes there still"
    assert (found.moved, found.why) == (moved, f"they agree, but not for 60 s yet: {moved}")


def test_what_is_not_heard_of_is_passed_over_where_that_is_accepted():
    other = ids.TopicPartition("t", 1)
    away = dataclasses.replace(mirrored(7, answers=False)[0], partition=other)
    found = agreement.Agreement(settle_s=0.0, leaves_unheard=True)
    assert found.look([*mirrored(7), away], 1.0)
    assert found.ends == {ids.TopicPartition("t", 0): 7}
    assert not found.look([away], 2.0)
    assert "does not answer" in found.why
