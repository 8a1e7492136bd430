from __future__ import annotations

import pytest

from connect_runtime.api import errors, task
from connect_runtime.builtin.converters import string
from connect_runtime.core.task import connector_config

NEEDED = {"name": "c", "connector.class": "X"}


def load(name):
    if name == "Mine":
        return string.StringConverter
    raise LookupError(name)


def test_a_source():
    found = connector_config.source({**NEEDED, "tasks.max": "3", "transaction.boundary": "POLL"})
    assert (found.name, found.tasks_max, found.connector_class) == ("c", 3, "X")
    assert found.boundary is task.TransactionBoundary.POLL
    assert found.errors == connector_config.Errors()
    assert found.not_offered == {}


def test_a_sink():
    found = connector_config.sink({**NEEDED, "topics": "a, b"})
    assert (found.topics, found.topics_regex) == (("a", "b"), None)
    found = connector_config.sink({**NEEDED, "topics.regex": "a.*"})
    assert found.topics_regex is not None
    assert found.topics_regex.fullmatch("abc")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "Must configure one of"),
        ({"topics": "a", "topics.regex": "b"}, "mutually exclusive"),
        ({"topics": "a", "errors.deadletterqueue.topic.name": "a"}, "DLQ topic 'a'"),
        ({"topics.regex": "a.*", "errors.deadletterqueue.topic.name": "ab"}, "DLQ topic 'ab'"),
    ],
)
def test_topics_at_odds_are_refused(more, told):
    with pytest.raises(errors.ConfigError, match=told):
        connector_config.sink({**NEEDED, **more})


def test_classes_are_found_by_whoever_looks():
    connector_config.source({**NEEDED, "key.converter": "Mine"}, load=load)
    with pytest.raises(errors.ConfigError, match="Theirs"):
        connector_config.source({**NEEDED, "key.converter": "Theirs"}, load=load)


def test_what_is_not_honoured_is_named():
    source = connector_config.source(
        {
            **NEEDED,
            "transforms": "t",
            "errors.tolerance": "all",
            "topic.creation.default.partitions": "1",
            "exactly.once.support": "required",
        }
    )
    assert list(source.not_offered) == [
        "transforms",
        "errors.tolerance",
        "exactly.once.support",
        "topic.creation.default.partitions",
    ]
    sink = connector_config.sink(
        {**NEEDED, "topics": "a", "errors.deadletterqueue.topic.name": "d"}
    )
    assert list(sink.not_offered) == ["errors.deadletterqueue.topic.name"]


def test_secrets_are_not_printed():
    assert "hush" not in repr(connector_config.source({**NEEDED, "password": "hush"}))
