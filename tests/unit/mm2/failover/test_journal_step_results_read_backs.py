"""How each step was read back, by what it noted."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.failover import journal_step_results
from mm2.failover.failover_steps import FailoverStep

Step = FailoverStep


def fenced(*, tail: int | None = 0, unfenced: str = "") -> dict[str, Any]:
    return {"tail": tail, "unfenced": unfenced}


def stand(at: int | None, *, before: bool = False) -> dict[str, Any]:
    return {"written_offset": 45, "current_offset": at, "is_below_written_offset": before}


TABLE: list[tuple[FailoverStep, dict[str, Any], str]] = [
    (
        Step.RECORD,
        {"plan": {"partitions": [1, 2], "groups": [1]}},
        "stored on disk: 2 partitions, 1 group",
    ),
    (
        Step.EXPORT,
        {"records": 1, "file": "/tail"},
        "1 record in /tail, as counted",
    ),
    (Step.STOP_CONSUMERS, {"by": "operator"}, "idle waits until no group has members"),
    (Step.STOP_PRODUCERS, {"by": "operator"}, "agree waits until producers have stopped"),
    (Step.START_CONSUMERS, {"by": "operator"}, "report lists the groups with members"),
    (Step.START_PRODUCERS, {"by": "operator"}, "not checked"),
    (Step.START_CONSUMERS, {"output": ""}, "the command exited with 0"),
    (Step.STOP_PRODUCERS, {"output": "a\nok"}, "the command exited with 0: ok"),
    (Step.STOP_PRODUCERS, {"output": "a" * 999}, f"the command exited with 0: {'a' * 200}"),
    (Step.IDLE, {"groups": ["a", "b"]}, "2 groups without members"),
    (Step.AGREE, {"ends": [1]}, "equal end offsets on both clusters in two checks: 1 partition"),
    (
        Step.STOP_FLOW,
        {"connectors": ["A", "B"], "still_running": []},
        "connectors recorded as stopped: A, B; no task is running",
    ),
    (
        Step.STOP_FLOW,
        {"connectors": ["A"], "still_running": ["A-0 on x"]},
        "connectors recorded as stopped: A; still reported as running: A-0 on x",
    ),
    (
        Step.STOP_FLOW,
        {"connectors": [], "still_running": []},
        "no connectors to stop, as the operator accepted",
    ),
    (
        Step.FENCE,
        {"partitions": [fenced(), fenced()]},
        "2 fencing markers read back, and no partition was acquired after fencing",
    ),
    (
        Step.FENCE,
        {"partitions": [fenced(tail=3), fenced(tail=None), fenced(unfenced="no right")]},
        "2 fencing markers read back, and no partition was acquired after fencing; "
        "3 records replicated "
        "after the end of the offset map; 1 not fenced",
    ),
    (
        Step.FINAL_POSITIONS,
        {"fenced_again": [], "groups": [1]},
        "all fences hold; final positions of 1 group",
    ),
    (
        Step.FINAL_POSITIONS,
        {"fenced_again": [1], "groups": [1, 2]},
        "1 partition fenced again; final positions of 2 groups",
    ),
    (
        Step.MOVE_GROUPS,
        {"groups": ["a"], "skipped": []},
        "offsets of 1 group committed; verified by step verify",
    ),
    (
        Step.MOVE_GROUPS,
        {"groups": ["a"], "skipped": ["b", "c"]},
        "offsets of 1 group committed; verified by step verify; not moved, as accepted: b, c",
    ),
    (Step.VERIFY, {"positions": [stand(45), stand(45)]}, "2 positions: 2 as written"),
    (
        Step.VERIFY,
        {"positions": [stand(45), stand(50), stand(None, before=True)]},
        "3 positions: 1 as written, 1 further on, 1 before, as accepted",
    ),
    (Step.REPORT, {}, "all steps are in the journal"),
]


@pytest.mark.parametrize(("step", "detail", "words"), TABLE, ids=str)
def test_what_is_said(step, detail, words):
    assert journal_step_results.describe_step_verification(step, detail) == words


def test_every_step_has_its_words():
    assert {step for step, _, _ in TABLE} == set(Step)


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        ({"output": "ok"}, "VERIFIED start-producers: the command exited with 0: ok"),
        ({"by": "operator"}, "LEFT TO YOU start-producers: not checked"),
    ],
    ids=str,
)
def test_nothing_is_called_verified_that_was_not_looked_at(detail, line):
    assert journal_step_results.format_step_verification(Step.START_PRODUCERS, detail) == line
