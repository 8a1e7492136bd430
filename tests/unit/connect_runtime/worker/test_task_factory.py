from __future__ import annotations

import pytest

from connect_runtime.worker import task_factory
from connect_runtime.worker.task_factory import ReconfigureDecision, ResolvedTaskConfigs

CONNECTOR = {"connector.class": "C", "tasks.max": "2", "value.converter": "V"}
TASK = {"task.class": "T", "share": "a"}
BEFORE = ResolvedTaskConfigs(connector=CONNECTOR, task=TASK)
Verdict = ReconfigureDecision


@pytest.mark.parametrize(
    ("connector", "task", "ordinary", "pipeline"),
    [
        ({}, {}, Verdict.SAME, Verdict.SAME),
        ({"tasks.max": "3"}, {}, Verdict.SAME, Verdict.SAME),
        ({"tasks.max.enforce": "false"}, {}, Verdict.SAME, Verdict.SAME),
        ({"value.converter": "W"}, {}, Verdict.RESTART, Verdict.SAME),
        ({}, {"share": "b"}, Verdict.RESTART, Verdict.OFFER),
        ({"tasks.max": "3"}, {"more": "1"}, Verdict.RESTART, Verdict.OFFER),
        ({"connector.class": "D"}, {}, Verdict.RESTART, Verdict.RESTART),
        ({"connector.plugin.version": "2"}, {"share": "b"}, Verdict.RESTART, Verdict.RESTART),
        ({}, {"task.class": "U"}, Verdict.RESTART, Verdict.RESTART),
    ],
)
def test_what_a_difference_comes_to(connector, task, ordinary, pipeline):
    now = ResolvedTaskConfigs(connector={**CONNECTOR, **connector}, task={**TASK, **task})
    assert task_factory.decide_reconfiguration(BEFORE, now, is_pipeline=False) is ordinary
    assert task_factory.decide_reconfiguration(BEFORE, now, is_pipeline=True) is pipeline
    assert task_factory.decide_reconfiguration(now, BEFORE, is_pipeline=False) is ordinary


def test_what_is_made_of_secrets_shows_none():
    assert "V" not in repr(BEFORE)
