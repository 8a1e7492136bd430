"""The judge of handed-over tasks sees what it is there for."""

from tests.support import task_lives

Said = task_lives.Said


def test_one_after_the_other_is_no_double():
    lives = task_lives.of(
        [
            Said("task-c-0", "RUNNING", "a"),
            Said("task-c-0", "RESTARTING", "b"),
            Said("task-c-0", "RUNNING", "a"),
            Said("task-c-0", "UNASSIGNED", "a"),
            Said("task-c-0", "RUNNING", "b"),
            Said("task-c-0", "FAILED", "b"),
            Said("task-c-0", None, None),
            Said("task-c-0", "RUNNING", "a"),
        ]
    )
    assert lives.doubles == []
    assert lives.owners == {"task-c-0": "a"}
    assert lives.changes == {"task-c-0": 3}


def test_planted_who_begins_beside_another_is_told():
    lives = task_lives.of(
        [
            Said("task-c-0", "RUNNING", "a"),
            Said("task-c-1", "PAUSED", "a"),
            Said("task-c-0", "RUNNING", "b"),
            Said("task-c-0", "UNASSIGNED", "a"),  # too late
            Said("task-c-1", "UNASSIGNED", "a"),
            Said("task-c-1", "PAUSED", "b"),
        ]
    )
    assert lives.doubles == ["task-c-0: b beside a"]


def test_what_a_killed_worker_ran_may_begin_elsewhere():
    lives = task_lives.of([Said("c", "RUNNING", "a")])
    lives.gone("a")
    lives.hear(Said("c", "RUNNING", "b"))
    assert lives.doubles == []
