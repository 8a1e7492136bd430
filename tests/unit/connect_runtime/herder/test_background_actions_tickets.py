"""Every asker is answered once, whatever else happens to the ticket or the future."""

from __future__ import annotations

from concurrent import futures

import pytest

from connect_runtime.herder import background_actions
from connect_runtime.herder.background_actions import PendingReplies
from connect_runtime.herder.herder_requests import RequestRefused, RequestSucceeded

YES = RequestSucceeded()
NO = RequestRefused(409, "no")


@pytest.fixture
def asked():
    return PendingReplies()


def test_the_first_answer_counts(asked):
    ticket, future = asked.create_reply_future()
    asked.complete_reply(ticket, YES)
    asked.complete_reply(ticket, NO)
    asked.fail_reply(ticket, KeyError("late"))
    assert future.result(0) == YES


def test_tickets_differ_and_unknown_ones_are_nobodys(asked):
    (one, first), (two, second) = asked.create_reply_future(), asked.create_reply_future()
    asked.complete_reply(-1, NO)
    asked.complete_reply(two, NO)
    assert one != two
    assert not first.done()
    assert second.result(0) == NO


def test_settled_with_what_comes_of_a_call(asked):
    outcomes: list[futures.Future[object]] = [futures.Future(), futures.Future()]
    answers = []
    for each in outcomes:
        ticket, future = asked.create_reply_future()
        asked.complete_reply_from_future(ticket, each)
        answers.append(future)
    assert not any(each.done() for each in answers)
    outcomes[0].set_result(YES)
    outcomes[1].set_exception(KeyError("k"))
    assert answers[0].result(0) == YES
    assert isinstance(answers[1].exception(0), KeyError)


def test_fails_with_a_call_and_else_waits_on(asked):
    (one, well), (two, badly) = asked.create_reply_future(), asked.create_reply_future()
    done: futures.Future[object] = futures.Future()
    broken: futures.Future[object] = futures.Future()
    asked.propagate_failure(one, done)
    asked.propagate_failure(two, broken)
    done.set_result(None)
    broken.set_exception(KeyError("k"))
    assert not well.done()
    assert isinstance(badly.exception(0), KeyError)


def test_at_the_end_nobody_waits(asked):
    ticket, future = asked.create_reply_future()
    asked.refuse_all_requests(background_actions.SHUTTING_DOWN_REPLY)
    asked.complete_reply(ticket, YES)
    assert future.result(0) == RequestRefused(500, "Worker is shutting down")


def test_who_gives_up_waiting_does_not_get_in_the_way_of_answers(asked):
    ticket, future = asked.create_reply_future()
    assert not future.cancel()
    asked.complete_reply(ticket, YES)
    assert future.result(0) == YES
