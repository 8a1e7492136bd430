"""When things are done again."""

from __future__ import annotations

import pytest

from mm2.core.configs import connector_configs
from mm2.core.topics import rounds as topic_rounds

PROPS = {"name": "n", "source.cluster.alias": "A", "target.cluster.alias": "B"}
SECONDS = {
    "refresh.topics.interval.seconds": "30",
    "sync.topic.configs.interval.seconds": "5",
    "sync.topic.acls.interval.seconds": "70",
}
OFF = {
    "refresh.topics.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
}


def rounds(**more: str) -> topic_rounds.Rounds:
    props = {**PROPS, **SECONDS, **{name.replace("_", "."): each for name, each in more.items()}}
    return topic_rounds.of(connector_configs.source(props), now_s=100.0)


def test_looks_and_acls_are_due_at_once_and_settings_after_they_followed_with_the_look():
    made = rounds()
    assert [each.due_s for each in (made.looks, made.settings, made.acls)] == [100.0, 105.0, 100.0]
    assert made.pause_s(90.0) == 10.0
    assert made.pause_s(120.0) == 0.0


def test_loads_are_looked_at_where_there_may_be_several_tasks():
    assert rounds().loads.due_s is None
    made = rounds(tasks_max="2")
    assert made.loads.due_s == 100.0 + topic_rounds.LOADS_S
    for each in (made.looks, made.settings, made.acls):
        each.due_s = None
    assert made.pause_s(100.0) == topic_rounds.LOADS_S


def test_what_was_done_is_done_again_after_its_interval_and_what_failed_sooner():
    made = rounds()
    for each in (made.looks, made.settings, made.acls):
        each.done(200.0)
    assert [each.due_s for each in (made.looks, made.settings, made.acls)] == [230.0, 205.0, 270.0]
    assert not made.looks.is_due(229.9)
    assert made.looks.is_due(230.0)
    for each in (made.looks, made.settings, made.acls):
        each.failed(300.0)
    assert [each.due_s for each in (made.looks, made.settings, made.acls)] == [310.0, 305.0, 310.0]


@pytest.mark.parametrize("off", [{}, SECONDS])
def test_what_is_off_is_done_once_or_never(off):
    made = topic_rounds.of(connector_configs.source({**PROPS, **off, **OFF}), now_s=100.0)
    assert [each.due_s for each in (made.looks, made.settings, made.acls)] == [100.0, None, None]
    made.looks.failed(100.0)
    assert made.pause_s(100.0) == topic_rounds.AGAIN_S
    made.looks.done(110.0)
    assert made.pause_s(110.0) is None
