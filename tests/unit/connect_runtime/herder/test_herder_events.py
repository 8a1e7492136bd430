from __future__ import annotations

import dataclasses
import typing

from connect_runtime.herder.herder_events import (
    ActionCompleted,
    ActionOutcome,
    HerderEvent,
    StoreSnapshot,
    TaskConfigsGenerated,
)


def test_events_are_frozen_facts_and_every_outcome_comes_in_an_answer():
    for kind in (*typing.get_args(HerderEvent), *typing.get_args(ActionOutcome), StoreSnapshot):
        assert dataclasses.is_dataclass(kind), kind
        assert kind.__dataclass_params__.frozen, kind
        assert kind.__doc__, kind
    assert ActionCompleted in typing.get_args(HerderEvent)
    assert not set(typing.get_args(ActionOutcome)) & set(typing.get_args(HerderEvent))


def test_task_configs_are_in_no_representation():
    generated = TaskConfigsGenerated(configs=[{"password": "hunter2"}], config_applied=True)
    assert "hunter2" not in repr(generated)
