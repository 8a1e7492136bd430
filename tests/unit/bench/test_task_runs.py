"""Planted: what a group must not do is told, what it may do is not."""

from __future__ import annotations

import pytest

from tests.bench import task_runs
from tests.bench.task_runs import Change, Said

ONE, TWO, THREE = "w:1", "w:2", "w:3"
Item = task_runs.Item
TASKS = tuple(Item("c", number) for number in range(4))
BEFORE = {TASKS[0]: ONE, TASKS[1]: ONE, TASKS[2]: TWO, TASKS[3]: TWO, Item("c"): ONE}
ADDED = Change(notice_ms=1000, generation=5, joined={THREE})
KILLED = Change(notice_ms=1000, generation=5, gone={TWO: 1000})
BOUNCED = Change(notice_ms=1000, generation=5, gone={TWO: 1200}, joined={TWO})


def said(item, state, worker, at_ms, generation=6):
    return Said(item=item, state=state, worker=worker, generation=generation, at_ms=at_ms)


def moved(item, source, target, *, stopped_ms, started_ms):
    return [
        said(item, "UNASSIGNED", source, stopped_ms),
        said(item, "RUNNING", target, started_ms, generation=7),
    ]


def follow(records, change, before=BEFORE):
    return task_runs.follow(before, records, change, expected=BEFORE.keys())


def test_nothing_happened():
    outcome = follow([], ADDED)
    assert (outcome.all_run_ms, outcome.downtime_ms, outcome.rounds) == (0, 0, 0)
    assert (outcome.stopped, outcome.unneeded, outcome.fault()) == ((), (), "")
    assert outcome.runs == BEFORE


def test_a_task_moves_to_the_worker_that_came():
    records = moved(TASKS[1], ONE, THREE, stopped_ms=1300, started_ms=1700)
    outcome = follow(records, ADDED)
    assert (outcome.all_run_ms, outcome.downtime_ms, outcome.rounds) == (700, 400, 2)
    assert (outcome.stopped, outcome.unneeded, outcome.fault()) == ((TASKS[1],), (), "")
    assert outcome.loads([ONE, TWO, THREE]) == {ONE: 1, TWO: 2, THREE: 1}


def test_a_task_that_came_back_to_its_worker_need_not_have_stopped():
    records = moved(TASKS[1], ONE, ONE, stopped_ms=1300, started_ms=1400)
    outcome = follow(records, ADDED)
    assert (outcome.unneeded, outcome.downtime_ms) == ((TASKS[1],), 100)


def test_nor_one_that_went_to_another_that_stayed():
    records = moved(TASKS[1], ONE, TWO, stopped_ms=1300, started_ms=1400)
    assert follow(records, ADDED).unneeded == (TASKS[1],)


def test_nor_one_that_the_worker_that_came_had_for_a_while():
    records = moved(TASKS[1], ONE, THREE, stopped_ms=1300, started_ms=1400)
    records += moved(TASKS[1], THREE, ONE, stopped_ms=1500, started_ms=1600)
    outcome = follow(records, ADDED)
    assert (outcome.unneeded, outcome.downtime_ms) == ((TASKS[1],), 200)


def test_one_that_started_again_without_a_word_was_stopped():
    outcome = follow([said(TASKS[1], "RUNNING", ONE, 1300)], ADDED)
    assert (outcome.unneeded, outcome.fault()) == ((TASKS[1],), "")


def test_the_tasks_of_a_killed_worker_are_down_from_the_notice_on():
    records = [said(each, "RUNNING", ONE, 1500) for each in TASKS[2:]]
    outcome = follow(records, KILLED)
    assert (outcome.all_run_ms, outcome.downtime_ms) == (500, 1000)
    assert (outcome.stopped, outcome.unneeded, outcome.fault()) == (TASKS[2:], (), "")


def test_those_of_others_should_have_stayed():
    records = [said(each, "RUNNING", ONE, 1500) for each in TASKS[2:]]
    records += moved(TASKS[0], ONE, ONE, stopped_ms=1100, started_ms=1800)
    outcome = follow(records, KILLED)
    assert outcome.unneeded == (TASKS[0],)
    assert (outcome.all_run_ms, outcome.downtime_ms) == (800, 1700)


def test_a_task_that_nobody_took_is_missing():
    outcome = follow([said(TASKS[2], "RUNNING", ONE, 1500)], KILLED)
    assert outcome.missing == (TASKS[3],)
    assert outcome.fault() == "1 do not run: c-3"


@pytest.mark.parametrize("state", ["UNASSIGNED", "PAUSED", None])
def test_so_is_one_that_stopped_for_good(state):
    outcome = follow([said(TASKS[0], state, ONE, 1500)], ADDED)
    assert outcome.missing == (TASKS[0],)


def test_so_is_one_that_failed():
    outcome = follow([said(TASKS[0], "FAILED", ONE, 1500)], ADDED)
    assert outcome.fault() == "1 do not run: c-0; 1 failed: c-0"


def test_so_is_a_connector_but_it_is_no_task():
    outcome = follow([said(Item("c"), "UNASSIGNED", ONE, 1500)], ADDED)
    assert (outcome.missing, outcome.stopped) == ((Item("c"),), ())


def test_so_is_one_that_was_never_heard_of():
    outcome = follow([], ADDED, before={})
    assert len(outcome.missing) == len(BEFORE)
    assert outcome.fault() == "5 do not run: c, c-0, c-1, …"


def test_one_that_ran_on_two_workers_is_told():
    records = [said(TASKS[0], "RUNNING", THREE, 1500), said(TASKS[0], "UNASSIGNED", ONE, 1600)]
    outcome = follow(records, ADDED)
    assert outcome.fault() == "1 ran twice: c-0"
    assert outcome.runs[TASKS[0]] == THREE, "the first has lost it: what it says late is nothing"


def test_a_bounced_worker_has_its_tasks_again():
    records = moved(TASKS[2], TWO, TWO, stopped_ms=900, started_ms=4000)
    records += moved(TASKS[3], TWO, ONE, stopped_ms=950, started_ms=1500)
    records += moved(TASKS[3], ONE, TWO, stopped_ms=3000, started_ms=4500)
    outcome = follow(records, BOUNCED)
    assert (outcome.unneeded, outcome.fault()) == ((), "")
    assert outcome.all_run_ms == 3500
    assert outcome.downtime_ms == 3100 + 550 + 1500


def test_one_that_says_nothing_at_its_end_either():
    records = [said(each, "RUNNING", TWO, 4000) for each in TASKS[2:]]
    outcome = follow(records, BOUNCED)
    assert (outcome.stopped, outcome.unneeded, outcome.fault()) == (TASKS[2:], (), "")
    assert outcome.downtime_ms == 2 * (4000 - 1200)


def test_a_start_is_no_downtime():
    records = [said(each, "RUNNING", ONE, 1500) for each in BEFORE]
    outcome = follow(records, ADDED, before={})
    assert (outcome.downtime_ms, outcome.stopped, outcome.fault()) == (0, (), "")
