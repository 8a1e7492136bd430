from __future__ import annotations

import pytest

from mm2.core.copy import instructions, script_runner, stops
from mm2.formats import record_sets
from tests.fakes import taking

ASKED = instructions.AskMayTake()
SLEEP = instructions.Sleep(delay_s=1.0)
DONE = instructions.Done()


def two_questions(heard):
    heard.append((yield ASKED))
    heard.append((yield SLEEP))
    return "result"


class Ends:
    """What a script returned and when; answers with one more question."""

    def __init__(self):
        self.ended = []

    def __call__(self, result, now_s):
        self.ended.append((result, now_s))
        return [instructions.RefreshTarget()]


def test_a_script_is_asked_and_answered_to_its_end():
    heard: list[object] = []
    runner, ends = script_runner.ScriptRunner(taking.where()), Ends()
    assert runner.start(two_questions(heard), ends, now_s=1.0) == [ASKED]
    assert runner.answered(DONE, 2.0) == [SLEEP]
    refused = instructions.Refused(code=5)
    assert runner.running
    assert runner.answered(refused, 3.0) == [instructions.RefreshTarget()]
    assert (runner.running, heard) == (False, [DONE, refused])
    assert ends.ended == [("result", 3.0)]


def test_a_script_without_questions_ends_at_once():
    def silent():
        yield from ()
        return 42

    runner, ends = script_runner.ScriptRunner(taking.where()), Ends()
    assert runner.start(silent(), ends, now_s=1.0) == [instructions.RefreshTarget()]
    assert ends.ended == [(42, 1.0)]
    assert not runner.running


def test_the_end_of_one_script_may_start_the_next():
    runner, ends = script_runner.ScriptRunner(taking.where()), Ends()

    def one():
        yield ASKED

    def follow(_, now_s):
        return runner.start(two_questions([]), ends, now_s=now_s)

    runner.start(one(), follow, now_s=1.0)
    assert runner.answered(DONE, 2.0) == [ASKED]
    assert runner.running
    assert ends.ended == []


def test_only_the_question_that_is_out_is_recognised():
    runner = script_runner.ScriptRunner(taking.where())
    (first,) = runner.start(two_questions([]), Ends(), now_s=1.0)
    assert runner.asks(first)
    assert not runner.asks(instructions.AskMayTake())
    (second,) = runner.answered(DONE, 2.0)
    assert runner.asks(second)
    assert not runner.asks(first)
    runner.answered(DONE, 3.0)
    assert not runner.asks(second)


def test_an_abandoned_script_is_closed_and_its_end_not_told():
    closed, ends, runner = [], Ends(), script_runner.ScriptRunner(taking.where())

    def script():
        try:
            yield ASKED
        finally:
            closed.append(True)

    runner.start(script(), ends, now_s=1.0)
    runner.abandon()
    assert closed == [True]
    assert (runner.running, runner.asks(ASKED), ends.ended) == (False, False, [])


def test_every_start_and_abandonment_has_a_new_token():
    runner, tokens = script_runner.ScriptRunner(taking.where()), []
    for _ in range(2):
        runner.start(two_questions([]), Ends(), now_s=1.0)
        tokens.append(runner.token)
        runner.answered(DONE, 1.0)
        tokens.append(runner.token)
        runner.abandon()
        tokens.append(runner.token)
    assert tokens == [1, 1, 2, 3, 3, 4]


def test_one_script_runs_at_a_time():
    runner = script_runner.ScriptRunner(taking.where())
    for misuse in (lambda: runner.answered(DONE, 1.0), runner.abandon):
        with pytest.raises(AssertionError):
            misuse()
    runner.start(two_questions([]), Ends(), now_s=1.0)
    with pytest.raises(AssertionError):
        runner.start(two_questions([]), Ends(), now_s=1.0)


def test_what_cannot_be_read_on_the_mirror_ends_in_a_stop():
    def script():
        yield ASKED
        raise record_sets.DamagedBatchError(5, "it is none")

    runner, ends = script_runner.ScriptRunner(taking.where()), Ends()
    runner.start(script(), ends, now_s=1.0)
    runner.answered(DONE, 2.0)
    ((stop, now_s),) = ends.ended
    assert (stop.cause, now_s) == (stops.Cause.NOT_PAIRED, 2.0)
    assert "cannot be read at offset 5: it is none" in stop.message
    assert not runner.running


def test_any_other_error_of_a_script_is_a_programmers():
    def script():
        yield ASKED
        raise KeyError("oops")

    runner = script_runner.ScriptRunner(taking.where())
    runner.start(script(), Ends(), now_s=1.0)
    with pytest.raises(KeyError):
        runner.answered(DONE, 2.0)
