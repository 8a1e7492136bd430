from __future__ import annotations

import dataclasses
import typing

from connect_runtime.core.herder import events


def test_events_are_frozen_facts_and_every_outcome_comes_in_an_answer():
    for kind in (*typing.get_args(events.Event), *typing.get_args(events.Outcome), events.Seen):
        assert dataclasses.is_dataclass(kind), kind
        assert kind.__dataclass_params__.frozen, kind
        assert kind.__doc__, kind
    assert events.Answered in typing.get_args(events.Event)
    assert not set(typing.get_args(events.Outcome)) & set(typing.get_args(events.Event))


def test_task_configs_are_in_no_representation():
    generated = events.Generated(configs=[{"password": "hunter2"}], config_applied=True)
    assert "hunter2" not in repr(generated)
