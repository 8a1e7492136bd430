from __future__ import annotations

from connect_runtime.base import ids
from mm2.core import catch_up

A = ids.TopicPartition("orders", 0)
B = ids.TopicPartition("orders", 1)
COPYING, CAUGHT_UP, IN_ERROR = catch_up.Verdict


def test_nothing_to_copy_is_caught_up():
    assert catch_up.CatchUp([]).progress().verdict is CAUGHT_UP


def test_a_partition_without_a_word_is_still_being_copied():
    flow = catch_up.CatchUp([A])
    assert flow.progress().verdict is COPYING
    flow.report(A, copied_to=-1, end=-1, stopped=False)
    assert flow.progress().verdict is COPYING
    assert not flow.is_done(A)


def test_the_end_is_the_first_one_seen():
    flow = catch_up.CatchUp([A])
    flow.report(A, copied_to=0, end=10, stopped=False)
    flow.report(A, copied_to=10, end=50, stopped=False)
    assert flow.is_done(A)
    progress = flow.progress()
    assert (progress.verdict, progress.total, progress.copied) == (CAUGHT_UP, 10, 10)


def test_what_was_there_before_is_not_counted():
    flow = catch_up.CatchUp([A, B])
    flow.report(A, copied_to=90, end=100, stopped=False)
    flow.report(B, copied_to=5, end=5, stopped=False)
    flow.report(A, copied_to=94, end=120, stopped=False)
    progress = flow.progress()
    assert (progress.total, progress.copied, progress.done, progress.partitions) == (10, 4, 1, 2)


def test_an_error_is_the_verdict_only_when_all_others_are_done():
    flow = catch_up.CatchUp([A, B])
    flow.report(A, copied_to=0, end=5, stopped=True)
    flow.report(B, copied_to=0, end=5, stopped=False)
    assert flow.progress().verdict is COPYING
    flow.report(B, copied_to=5, end=5, stopped=False)
    assert flow.progress().verdict is IN_ERROR


def test_an_error_may_pass():
    flow = catch_up.CatchUp([A])
    flow.report(A, copied_to=0, end=5, stopped=True)
    assert flow.progress().verdict is IN_ERROR
    flow.report(A, copied_to=1, end=5, stopped=False)
    assert flow.progress().verdict is COPYING


def test_a_partition_that_stops_behind_the_end_is_done():
    flow = catch_up.CatchUp([A])
    flow.report(A, copied_to=5, end=5, stopped=True)
    assert flow.progress().verdict is CAUGHT_UP
