from __future__ import annotations

import math

from connect_runtime.network.client_requests import CallDeadlines, ClientCall
from connect_runtime.protocol.request_builders import AnyNodeTarget


def call(deadline_s, *, waiting=True):
    return ClientCall(
        api_key=3,
        to=AnyNodeTarget(),
        lane="control",
        queued_s=0.0,
        deadline_s=deadline_s,
        waiting=waiting,
    )


def added(*found, waiting_max=10):
    due = CallDeadlines(waiting_max)
    for each in found:
        assert due.add_call(each)
    return due


def test_nothing_is_due_without_calls():
    due = added()
    assert (due.earliest_deadline_s, list(due.pop_expired_calls(1e9)), len(due)) == (
        math.inf,
        [],
        0,
    )


def test_calls_are_late_in_the_order_of_their_deadlines_and_once():
    third, first, second = call(3.0), call(1.0), call(2.0)
    due = added(third, first, second)
    assert due.earliest_deadline_s == 1.0
    assert list(due.pop_expired_calls(0.9)) == []
    assert list(due.pop_expired_calls(2.0)) == [first, second]
    assert (due.earliest_deadline_s, len(due)) == (3.0, 1)


def test_equal_deadlines_are_late_as_they_came():
    found = [call(1.0) for _ in range(4)]
    assert list(added(*found).pop_expired_calls(1.0)) == found


def test_what_was_sent_meanwhile_is_not_late():
    sent, other = call(1.0, waiting=False), call(1.0)
    assert list(added(sent, other).pop_expired_calls(1.0)) == [other]


def test_what_is_asked_while_others_fail_is_counted():
    due, again = added(call(1.0)), call(0.5)
    late = due.pop_expired_calls(1.0)
    next(late)
    due.add_call(again)
    assert list(late) == [again]


def test_only_so_many_may_wait_and_those_that_do_not_any_more_make_room():
    sent = call(1.0)
    due = added(sent, call(2.0), waiting_max=2)
    assert not due.add_call(call(3.0))
    sent.waiting = False
    assert due.add_call(call(3.0))
    assert (len(due), due.earliest_deadline_s) == (2, 2.0)
