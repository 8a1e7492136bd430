"""What becomes of keys that act on nothing, or not as in Java."""

from __future__ import annotations

import pytest

from mm2.core.configs import answers, java_classes
from mm2.core.configs import connector_keys as keys


def test_every_key_of_java_has_an_answer():
    given = dict.fromkeys(keys.EVERY, "x")
    assert "is not a known key" not in str(list(answers.told(given)))


@pytest.mark.parametrize("key", ["topics.blacklist", "groups.blacklist"])
def test_old_names_are_refused_since_java_would_mirror_what_they_exclude(key):
    found = answers.refusals({key: "x"})
    assert found == {key: f"{key} was removed in Kafka 4.0: write {key[:-9]}exclude"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("forwarding.admin.class", "com.acme.Admin"),
        ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ],
)
def test_what_would_change_the_data_or_who_makes_topics_is_refused(key, value):
    assert key in answers.refusals({key: value})


@pytest.mark.parametrize(
    "value", ["org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter", " "]
)
def test_the_converter_that_converts_nothing_is_taken(value):
    assert answers.refusals({"value.converter": value}) == {}


def test_keys_without_effect_and_unknown_ones_are_told():
    props = {
        "topics": "x",
        "topcis.exclude": "secret.*",
        "errors.tolerance": "all",
        "metric.reporters": "com.acme.Reporter",
        "source.consumer.x": "1",
        "transforms.t.type": "X",
        "start": "latest",
    }
    found = dict(answers.told(props))
    assert set(found) == {"topcis.exclude", "errors.tolerance", "metric.reporters"}
    assert found["topcis.exclude"] == "has no effect: is not a known key"


def test_beside_a_class_of_the_users_no_key_is_unknown():
    assert list(answers.told({"mine": "x", "topic.filter.class": "com.acme:Filter"})) == []
    assert list(answers.told({"metric.reporters": java_classes.JMX_REPORTER})) == []
