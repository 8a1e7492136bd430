from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.core.task import connector_keys

NEEDED = {"name": "c", "connector.class": "X"}


def test_defaults_are_those_of_java():
    source = connector_keys.SOURCE.parse(NEEDED)
    assert source["tasks.max"] == 1
    assert source["errors.retry.delay.max.ms"] == 60_000
    assert source["transaction.boundary"] == "poll"
    assert source["key.converter"] is None
    sink = connector_keys.SINK.parse(NEEDED)
    assert sink["errors.deadletterqueue.topic.replication.factor"] == 3
    assert sink["topics"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("name", "a\nb"),
        ("tasks.max", "0"),
        ("transforms", "a,a"),
        ("errors.tolerance", "some"),
        ("config.action.reload", "never"),
        ("transaction.boundary.interval.ms", "-1"),
        ("offsets.storage.topic", ""),
        ("exactly.once.support", "maybe"),
    ],
)
def test_what_cannot_be_meant_is_refused(name, value):
    with pytest.raises(errors.ConfigError, match=name):
        connector_keys.SOURCE.parse({**NEEDED, name: value})


def test_a_regular_expression_must_be_one():
    with pytest.raises(errors.ConfigError, match=r"topics\.regex"):
        connector_keys.SINK.parse({**NEEDED, "topics.regex": "("})


def test_all_errors_are_found_at_once():
    found = connector_keys.SINK.validate_all({"tasks.max": "0"})
    wrong = {name for name, value in found.items() if value.error_messages}
    assert wrong == {"name", "connector.class", "tasks.max"}


def test_groups_are_numbered_from_one():
    keys = connector_keys.CONNECTOR.keys
    assert [keys[each].order_in_group for each in ("name", "connector.class")] == [1, 2]
