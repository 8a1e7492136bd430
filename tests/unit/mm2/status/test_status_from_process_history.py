from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowState
from mm2.status import status_from_process
from mm2.status.status_document import FlowProblem
from mm2.status.status_from_process import StatusHistory
from tests.support import statuses

FLOW = "east->west"
PLACE = TopicPartition("orders", 0)
State = FlowState
TaskState = status_registry.TaskState


def observed(*looks):
    found = StatusHistory()
    for at_ms, status in enumerate(looks, start=1):
        found.observe([status], now_s=at_ms / 1000, wall_ms=at_ms)
        found.check_invariants()
    return found


def test_since_when_it_is_as_it_is():
    copying = statuses.flow(statuses.partition())
    further = statuses.flow(statuses.partition(records=5))
    stopped = statuses.flow(statuses.partition(phase="halted", reason="why"))
    assert observed(copying, further).get_state_since_ms(FLOW, PLACE) == 1
    found = observed(copying, further, stopped, statuses.flow(statuses.partition(phase="halted")))
    assert (found.get_state_since_ms(FLOW, PLACE), found.get_state_since_ms(FLOW)) == (3, 1)


@pytest.mark.parametrize("step_h", [6, -6, -12])
def test_a_step_of_the_wall_clock_leaves_it_as_long_ago_as_it_was(step_h):
    status, found = statuses.flow(statuses.partition()), StatusHistory()
    found.observe([status], now_s=50.0, wall_ms=1_700_000_000_000)
    stepped_ms = 1_700_000_000_000 + (100 + step_h * 3_600) * 1000
    found.observe([status], now_s=150.0, wall_ms=stepped_ms)
    assert stepped_ms - found.get_state_since_ms(FLOW, PLACE) == 100_000


def test_clocks_that_drift_apart_do_not_make_it_jitter():
    status, found = statuses.flow(statuses.partition()), StatusHistory()
    shown = []
    for turn in range(5_000):
        now_s = float(turn) + (turn % 2) / 1000  # both clocks are never read at once
        found.observe([status], now_s=now_s, wall_ms=1_700_000_000_000 + turn * 1_001)
        shown.append(found.get_state_since_ms(FLOW, PLACE))
    assert len(set(shown)) == 5


def test_a_pause_is_a_state_of_its_own():
    going = statuses.flow(statuses.partition())
    paused = statuses.flow(statuses.partition(), holds=OperatorOverrides(paused=True))
    found = observed(going, paused)
    assert (found.get_state_since_ms(FLOW), found.get_state_since_ms(FLOW, PLACE)) == (2, 2)


def test_what_is_no_longer_shown_is_forgotten():
    found = observed(statuses.flow(statuses.partition()), statuses.flow())
    assert found.get_state_since_ms(FLOW, PLACE) is None
    assert found.get_state_since_ms("west->east") is None
    assert found.list_problems("west->east") == ()


def test_a_failed_task_is_a_trouble():
    tasks = [statuses.task(), statuses.task(1, TaskState.FAILED, reason="no right")]
    (trouble,) = observed(statuses.flow(tasks=tasks)).list_problems(FLOW)
    assert trouble.text == "task 1: no right"


def test_what_went_wrong_is_remembered_once_while_it_lasts_newest_first():
    failing = statuses.flow(
        tasks=[statuses.task(state=TaskState.RESTARTING, reason="its copy ended")]
    )
    stopped = statuses.flow(statuses.partition(phase="halted", reason="orders-0: damaged"))
    failed = statuses.flow(state=State.FAILED, reason="refused")
    found = observed(failing, failing, stopped, statuses.flow(), failing, failed)
    assert [(each.at_ms, each.text, each.resolved_ms) for each in found.list_problems(FLOW)] == [
        (6, "refused", None),
        (5, "task 0: its copy ended", 6),
        (3, "orders: damaged", 4),
        (1, "task 0: its copy ended", 3),
    ]


def test_only_so_much_is_remembered():
    looks = [
        statuses.flow(state=State.FAILED, reason=f"for the {number}. time")
        for number in range(status_from_process.REMEMBERED_PROBLEMS_MAX + 5)
    ]
    found = observed(*looks).list_problems(FLOW)
    assert len(found) == status_from_process.REMEMBERED_PROBLEMS_MAX
    assert isinstance(found[0], FlowProblem)
    assert found[0].at_ms == len(looks)


def test_an_unchanged_look_costs_nothing():
    same = statuses.flow(statuses.partition())
    found = observed(same, same)
    assert found.get_state_since_ms(FLOW) == 1
