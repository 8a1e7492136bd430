from __future__ import annotations

import pytest

from connect_runtime.api.converter import Converter
from connect_runtime.api.errors import ConfigError
from connect_runtime.config import connector_config_keys
from connect_runtime.plugins.header_converter import SimpleHeaderConverter

NEEDED = {"name": "c", "connector.class": "X"}


def test_defaults_are_those_of_java():
    source = connector_config_keys.SOURCE.parse(NEEDED)
    assert source["tasks.max"] == 1
    assert source["errors.retry.delay.max.ms"] == 60_000
    assert source["transaction.boundary"] == "poll"
    assert source["key.converter"] is None
    sink = connector_config_keys.SINK.parse(NEEDED)
    assert sink["errors.deadletterqueue.topic.replication.factor"] == 3
    assert sink["topics"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("name", "a\nb"),
        ("name", "."),
        ("name", ".."),
        ("name", "a\ud800"),
        ("name", "x" * 256),
        ("name", "ä" * 128),
        ("tasks.max", "0"),
        ("tasks.max", "10001"),
        ("transforms", "a,a"),
        ("errors.tolerance", "some"),
        ("config.action.reload", "never"),
        ("transaction.boundary.interval.ms", "-1"),
        ("offsets.storage.topic", ""),
        ("exactly.once.support", "maybe"),
    ],
)
def test_what_cannot_be_meant_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        connector_config_keys.SOURCE.parse({**NEEDED, name: value})


def test_the_longest_name_and_the_most_tasks_are_accepted():
    given = {**NEEDED, "name": "ä" * 127 + "x", "tasks.max": "10000"}
    assert connector_config_keys.SOURCE.parse(given)["tasks.max"] == 10_000


def test_the_error_for_a_long_name_is_short_and_states_the_limit():
    with pytest.raises(ConfigError, match="use at most 255 bytes in UTF-8") as refused:
        connector_config_keys.SOURCE.parse({**NEEDED, "name": "x" * 1_000_000})
    assert len(str(refused.value)) < 1_000


def test_a_regular_expression_must_be_one():
    with pytest.raises(ConfigError, match=r"topics\.regex"):
        connector_config_keys.SINK.parse({**NEEDED, "topics.regex": "("})


def test_all_errors_are_found_at_once():
    found = connector_config_keys.SINK.validate_all({"tasks.max": "0"})
    wrong = {name for name, value in found.items() if value.error_messages}
    assert wrong == {"name", "connector.class", "tasks.max"}


def test_groups_are_numbered_from_one():
    keys = connector_config_keys.CONNECTOR.keys
    assert [keys[each].order_in_group for each in ("name", "connector.class")] == [1, 2]


def test_places_and_widths_are_those_of_java():
    keys = {**connector_config_keys.SOURCE.keys, **connector_config_keys.SINK.keys}
    places = {name: (key.group, key.order_in_group, key.width.value) for name, key in keys.items()}
    assert places["tasks.max"] == ("Common", 4, "SHORT")
    assert places["predicates"] == ("Predicates", 13, "LONG")
    assert places["config.action.reload"] == ("Common", 14, "MEDIUM")
    assert places["exactly.once.support"] == ("Exactly Once Support", 2, "SHORT")
    assert places["topics"] == places["topics.regex"] == ("Common", 4, "LONG")
    assert places["errors.deadletterqueue.topic.name"] == ("Error Handling", 6, "MEDIUM")


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (str, "Class class builtins.str does not implement the Converter interface"),
        (Converter, "abstract"),
        (SimpleHeaderConverter, "does not implement the Converter interface"),
    ],
)
def test_a_converter_is_a_class_that_converts(of, told):
    found = connector_config_keys.SOURCE.validate_all(
        {**NEEDED, "value.converter": of, "header.converter": SimpleHeaderConverter}
    )
    [message] = found["value.converter"].error_messages
    assert told in message
    assert found["header.converter"].error_messages == []


def test_topics_are_named_once():
    with pytest.raises(ConfigError, match="duplicated"):
        connector_config_keys.SINK.parse({**NEEDED, "topics": "a,a"})
